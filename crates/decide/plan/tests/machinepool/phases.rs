//! Phases and conditions (rows 12 to 20, 71 to 75).

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{GenericBootstrapConfig, World};

#[test]
fn row_12_new_pool_is_pending() {
    let mut world = World::new(1);
    world.settle();
    assert_eq!(world.phase(), "Pending");
    assert_eq!(world.status()["upToDateReplicas"], 1);
    assert_eq!(world.status().get("replicas"), None);
}

#[test]
fn row_13_pool_with_bootstrap_data_is_provisioning() {
    let mut world = World::new(1);
    world.bootstrap_ready("data");
    world.settle();
    assert_eq!(world.phase(), "Provisioning");
    assert_eq!(world.pool()["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"], "data");
}

#[rstest]
#[case::row_14(1, 1, "Running", "Running")]
#[case::rows_16_and_18(5, 1, "ScalingUp", "Scaling")]
#[case::rows_17_and_18(1, 4, "ScalingDown", "Scaling")]
fn phase_compares_ready_nodes_with_replicas(
    #[case] desired: i32,
    #[case] ready: i32,
    #[case] phase: &str,
    #[case] autoscaled: &str,
    #[values("", "karpenter")] manager: &str,
) {
    let mut world = World::running(ready);
    world.edit(json!({"spec": {"replicas": desired}}));
    world.settle();
    assert_eq!(world.phase(), phase);
    world.edit(json!({"metadata": {"annotations": {"cluster.x-k8s.io/replicas-managed-by": manager}}}));
    world.settle();
    assert_eq!(world.phase(), autoscaled);
    // Row 19.
    world.edit(json!({"metadata": {"annotations": {"cluster.x-k8s.io/replicas-managed-by": "false"}}}));
    world.settle();
    assert_eq!(world.phase(), phase);
    assert_eq!(world.pool()["spec"]["replicas"], desired);
}

#[test]
fn rows_15_and_46_pool_whose_provider_is_not_ready_keeps_what_it_has() {
    let mut world = World::running(1);
    let before = world.status();
    world.infrastructure(json!({"status": {"ready": false, "replicas": 0}, "spec": {"providerIDList": []}}));
    world.settle();
    assert_eq!(world.phase(), "Provisioned");
    assert_eq!(world.status()["initialization"]["infrastructureProvisioned"], false);
    assert_eq!(world.list(), [super::world::id(1)]);
    for key in ["nodeRefs", "replicas", "readyReplicas", "versions"] {
        assert_eq!(world.status()[key], before[key], "{key}");
    }
    // Row 46: without Nodes it is provisioning again.
    world.delete::<k8s_openapi::api::core::v1::Node>("node-1");
    world.settle();
    assert_eq!((world.phase().as_str(), world.refs().len()), ("Provisioning", 0));
}

#[test]
fn row_20_pool_that_is_being_deleted_says_so() {
    let mut world = World::running(1);
    world.delete_pool();
    world.step();
    assert_eq!(world.phase(), "Deleting");
    assert_eq!(world.condition("Deleting"), "True Deleting");
}

/// §2.10: upstream leaves the phase of such a pool as it is.
#[test]
fn pool_without_replicas_has_one() {
    let mut world = World::running(1);
    world.edit(json!({"spec": {"replicas": null}}));
    world.settle();
    assert_eq!(world.phase(), "Running");
}

#[test]
fn row_71_all_old_conditions_hold_when_all_is_ready() {
    let world = World::running(2);
    for type_ in ["Ready", "BootstrapReady", "InfrastructureReady", "ReplicasReady"] {
        assert_eq!(world.old(type_), "True", "{type_}");
    }
    let types: Vec<Value> = world.status()["deprecated"]["v1beta1"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].clone())
        .collect();
    assert_eq!(types, ["Ready", "BootstrapReady", "InfrastructureReady", "ReplicasReady"]);
    for (type_, expected) in [
        ("Available", "True Available"),
        ("BootstrapConfigReady", "True Ready"),
        ("InfrastructureReady", "True Ready"),
        ("ScalingUp", "False NotScalingUp"),
        ("ScalingDown", "False NotScalingDown"),
        ("Deleting", "False NotDeleting"),
    ] {
        assert_eq!(world.condition(type_), expected, "{type_}");
    }
}

fn ready(status: &str, severity: Value) -> Value {
    let mut condition = json!({
        "type": "Ready", "status": status, "reason": "Quota", "message": "no quota",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    });
    if !severity.is_null() {
        condition["severity"] = severity;
    }
    json!([condition])
}

#[test]
fn rows_72_and_73_bootstrap_condition_mirrors_the_objects() {
    let mut world = World::new(1);
    let conditions = ready("False", json!("Warning"));
    world.patch::<GenericBootstrapConfig>("bc", json!({"status": {"conditions": conditions}}));
    world.settle();
    assert_eq!(
        (world.old("BootstrapReady").as_str(), world.old("Ready").as_str()),
        ("False Quota Warning", "False Quota Warning")
    );
    assert_eq!(
        (world.condition("BootstrapConfigReady").as_str(), world.message("BootstrapConfigReady").as_str()),
        ("False Quota", "no quota")
    );
    let conditions = &world.status()["deprecated"]["v1beta1"]["conditions"];
    assert_eq!(conditions[1]["lastTransitionTime"], "2024-01-01T00:00:00Z");
    world.patch::<GenericBootstrapConfig>("bc", json!({"status": {"conditions": null}}));
    world.settle();
    assert_eq!(world.old("BootstrapReady"), "False WaitingForDataSecret Info");
    assert_eq!(world.old("Ready"), "False WaitingForDataSecret Info");
}

#[test]
fn row_74_infrastructure_condition_mirrors_the_objects() {
    let mut world = World::new(1);
    world.bootstrap_ready("data");
    world.settle();
    assert_eq!(world.old("InfrastructureReady"), "False WaitingForInfrastructure Info");
    assert_eq!(world.old("Ready"), "False WaitingForInfrastructure Info");
    world.infrastructure(json!({"status": {"conditions": ready("False", json!("Error"))}}));
    world.settle();
    assert_eq!(world.old("InfrastructureReady"), "False Quota Error");
    assert_eq!(world.old("Ready"), "False Quota Error");
}

#[test]
fn row_75_condition_without_a_severity_counts_in_the_summary() {
    let mut world = World::running(1);
    world.patch::<GenericBootstrapConfig>("bc", json!({"status": {"conditions": ready("False", Value::Null)}}));
    world.settle();
    assert_eq!(
        (world.old("BootstrapReady").as_str(), world.old("Ready").as_str()),
        ("False Quota", "False Quota Info")
    );
}

#[rstest]
#[case::no_list(json!({"Ready": "True"}))]
#[case::no_objects(json!(["Ready"]))]
#[case::no_status(json!([{"type": "Ready", "reason": 5}]))]
fn malformed_conditions_of_a_provider_are_taken_for_absent(#[case] conditions: Value) {
    let mut world = World::running(1);
    world.infrastructure(json!({"status": {"conditions": conditions}}));
    let report = world.settle();
    assert_eq!((world.old("InfrastructureReady").as_str(), report.problems.len()), ("True", 0));
}

#[test]
fn reason_that_the_api_would_refuse_is_replaced() {
    let mut world = World::running(1);
    let mut conditions = ready("False", json!("Error"));
    conditions[0]["reason"] = json!("no quota!");
    world.infrastructure(json!({"status": {"conditions": conditions}}));
    world.settle();
    assert_eq!(world.condition("InfrastructureReady"), "False NotReady");
}
