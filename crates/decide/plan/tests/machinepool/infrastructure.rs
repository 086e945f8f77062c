//! The provider's pool (rows 38 to 48, 65 to 68).

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use seaworthy_api::vocabulary::cluster::Contract;
use serde_json::{Value, json};

use super::world::{GenericInfrastructureMachinePool, World, id, node};

#[test]
fn row_38_list_is_copied_when_the_provider_is_ready() {
    let mut world = World::new(1);
    world.listed(&["test://id-1"], 1);
    world.settle();
    assert_eq!(world.status()["initialization"]["infrastructureProvisioned"], true);
    assert_eq!(world.list(), ["test://id-1"]);
}

#[test]
fn rows_39_and_66_pool_that_is_scaled_to_zero_gives_up_its_nodes() {
    let mut world = World::running(1);
    world.edit(json!({"spec": {"replicas": 0}}));
    world.listed(&[], 0);
    world.settle();
    assert_eq!((world.phase().as_str(), world.nodes().len(), world.refs().len()), ("Running", 0, 0));
    assert_eq!(world.pool()["spec"].get("providerIDList"), None);
    for key in ["readyReplicas", "availableReplicas", "unavailableReplicas"] {
        assert_eq!(world.old_number(key), 0, "{key}");
    }
    assert_eq!(world.status()["deprecated"]["v1beta1"].get("failureReason"), None);
}

#[test]
fn row_40_list_is_kept_while_the_provider_reports_machines_and_lists_none() {
    let mut world = World::running(2);
    let before = world.pool();
    world.infrastructure(json!({"spec": {"providerIDList": []}}));
    let report = world.settle();
    assert_eq!(world.pool(), before);
    assert_eq!((report.problems.len(), world.nodes().len()), (0, 2));
    assert_eq!(
        report.waiting[0].to_string(),
        "GenericInfrastructureMachinePool ns/imp reports 2 replicas and lists no provider ID; the former list is kept"
    );
}

#[test]
fn row_41_counters_follow_a_longer_list() {
    let mut world = World::running(1);
    world.edit(json!({"spec": {"replicas": 2}}));
    world.machines(2);
    world.settle();
    assert_eq!(world.list(), [id(1), id(2)]);
    let counters = ["readyReplicas", "availableReplicas", "unavailableReplicas"].map(|key| world.old_number(key));
    assert_eq!(counters, [1, 1, 1]);
}

#[rstest]
#[case::row_42_never_ready(false)]
#[case::row_43_was_ready(true)]
fn missing_object_is_a_condition_and_a_failure_if_it_was_ready(#[case] was_ready: bool) {
    let mut world = if was_ready { World::running(1) } else { World::new(1) };
    world.delete::<GenericInfrastructureMachinePool>("imp");
    let report = world.settle();
    assert!(report.problems[0].to_string().contains("GenericInfrastructureMachinePool ns/imp, to which spec.template"));
    assert_eq!(world.old("InfrastructureReady"), "False IncorrectExternalRef Error");
    assert_eq!(world.condition("InfrastructureReady"), "False ObjectDoesNotExist");
    let old = &world.status()["deprecated"]["v1beta1"];
    assert_eq!(old.get("failureReason"), was_ready.then_some(&json!("InvalidConfiguration")));
    if was_ready {
        let message = "GenericInfrastructureMachinePool ns/imp was deleted after it had been ready";
        assert_eq!(old["failureMessage"], message);
        assert_eq!((world.phase().as_str(), world.nodes().len(), world.refs().len()), ("Running", 1, 1));
    }
}

/// Row 44.
#[test]
fn row_44_kind_that_is_not_installed_is_no_wrong_reference() {
    let mut world = World::running(1);
    world.infrastructure = super::world::Lookup::NotInstalled;
    world.settle();
    assert_eq!(world.old("InfrastructureReady"), "False ProviderNotInstalled Warning");
    assert_eq!(world.status()["deprecated"]["v1beta1"].get("failureReason"), None);
    assert_eq!((world.phase().as_str(), world.nodes().len()), ("Running", 1));
}

#[test]
fn row_45_failure_of_a_provider_is_recorded_beside_what_is_there() {
    let mut world = World::running(1);
    let before = world.status()["deprecated"]["v1beta1"].clone();
    world.infrastructure(json!({"status": {"failureReason": "X", "failureMessage": "m"}}));
    world.settle();
    let mut after = world.status()["deprecated"]["v1beta1"].clone();
    assert_eq!(
        (after["failureReason"].take(), after["failureMessage"].take()),
        (
            json!("X"),
            json!(
                "Failure detected from referenced resource infrastructure.cluster.x-k8s.io/v1beta2, \
                 Kind=GenericInfrastructureMachinePool with name \"imp\": m"
            )
        )
    );
    assert_eq!((&after["conditions"], &after["readyReplicas"]), (&before["conditions"], &before["readyReplicas"]));
    assert_eq!(world.phase(), "Running");
    // What is recorded is never cleared.
    world.infrastructure(json!({"status": {"failureReason": null, "failureMessage": ""}}));
    world.settle();
    assert_eq!(world.status()["deprecated"]["v1beta1"]["failureReason"], "X");
}

#[rstest]
fn long_failure_message_is_cut_to_what_the_api_accepts(#[values("m", "é")] letter: &str) {
    let mut world = World::running(1);
    world.infrastructure(json!({"status": {"failureMessage": letter.repeat(20_000)}}));
    world.settle();
    let status = world.status();
    let message = status["deprecated"]["v1beta1"]["failureMessage"].as_str().unwrap();
    assert!(message.chars().count() <= 10_240, "{}", message.chars().count());
}

#[test]
fn row_47_provider_that_reports_no_count_has_what_it_lists() {
    let mut world = World::new(2);
    world.bootstrap_ready("data");
    world.infrastructure(json!({"spec": {"providerIDList": [id(1), id(2)]}, "status": {"ready": true}}));
    world.node(1);
    world.node(2);
    world.settle();
    assert_eq!(
        (world.refs().len(), world.status()["replicas"].clone(), world.phase().as_str()),
        (2, json!(2), "Running")
    );
}

#[test]
fn row_48_readiness_is_read_where_the_contract_documents_it() {
    let mut world = World::new(1);
    world.infrastructure(json!({"status": {"initialization": {"provisioned": true}}}));
    world.settle();
    assert_eq!(world.status()["initialization"]["infrastructureProvisioned"], true);
    world.contract = Some(Contract::V1Beta1);
    world.settle();
    assert_eq!(world.status()["initialization"]["infrastructureProvisioned"], false);
}

#[test]
fn row_65_node_stays_while_its_machine_is_listed() {
    let mut world = World::running(1);
    world.edit(json!({"spec": {"replicas": 0}}));
    world.settle();
    assert_eq!((world.phase().as_str(), world.nodes().len()), ("ScalingDown", 1));
    assert_eq!(world.condition("ScalingDown"), "True ScalingDown");
}

#[rstest]
#[case::row_67(0, "Running")]
#[case::row_68(1, "ScalingUp")]
fn pool_without_machines(#[case] replicas: i32, #[case] phase: &str) {
    let mut world = World::new(replicas);
    world.bootstrap_ready("data");
    world.listed(&[], 0);
    world.settle();
    assert_eq!(world.phase(), phase);
}

/// Section 10, 8, and the same for other wrong types.
#[rstest]
#[case::count(json!({"status": {"replicas": "1"}}), "status.replicas is the string \"1\"")]
#[case::negative(json!({"status": {"replicas": -1}}), "status.replicas is the number -1")]
#[case::ready(json!({"status": {"ready": 1}}), "status.ready is the number 1")]
#[case::list(json!({"spec": {"providerIDList": "id"}}), "spec.providerIDList is the string \"id\"")]
#[case::item(json!({"spec": {"providerIDList": [id(1), 7]}}), "spec.providerIDList.1 is the number 7")]
#[case::kind(json!({"status": {"infrastructureMachineKind": {}}}), "status.infrastructureMachineKind is an object")]
fn wrong_type_is_a_condition_and_nothing_is_overwritten(#[case] patch: Value, #[case] found: &str) {
    let mut world = World::running(2);
    let before = world.status();
    world.infrastructure(patch);
    let report = world.settle();
    assert!(report.problems[0].to_string().contains(found), "{:?}", report.problems);
    assert_eq!(world.condition("InfrastructureReady"), "False InvalidProviderObject");
    assert!(world.message("InfrastructureReady").contains(found));
    assert_eq!((world.list().len(), world.nodes().len()), (2, 2));
    for key in ["initialization", "nodeRefs", "replicas", "readyReplicas", "upToDateReplicas", "phase", "versions"] {
        assert_eq!(world.status()[key], before[key], "{key}");
    }
    // It recovers by itself.
    world.infrastructure(json!({"status": {"infrastructureMachineKind": null}}));
    world.machines(2);
    world.settle();
    assert_eq!((world.condition("InfrastructureReady").as_str(), world.phase().as_str()), ("True Ready", "Running"));
}

#[rstest]
#[case::spec(json!({"spec": null}))]
#[case::both(json!({"spec": null, "status": null}))]
#[case::texts(json!({"spec": "", "status": ""}))]
#[case::lists(json!({"spec": [], "status": [1]}))]
fn object_without_the_expected_shape_is_not_ready(#[case] patch: Value) {
    let mut world = World::new(1);
    world.infrastructure(patch);
    world.settle();
    assert_eq!(world.phase(), "Pending");
}

/// Section 9, 17 to 19.
#[test]
fn order_repetition_and_empty_ids_are_no_change() {
    let mut world = World::running(3);
    let before = world.pool();
    world.listed(&[&id(3), "", &id(1), &id(3), &id(2)], 3);
    world.settle();
    assert_eq!(world.pool(), before);
    // A new machine: the provider's order, each ID once.
    world.listed(&[&id(3), "", &id(1), &id(3), &id(2), &id(9)], 4);
    world.settle();
    assert_eq!(world.list(), [id(3), id(1), id(2), id(9)]);
    assert_eq!(world.old_number("readyReplicas"), 3);
}

#[test]
fn list_that_the_api_would_refuse_is_a_problem() {
    let mut world = World::running(1);
    let many: Vec<String> = (0..10_001).map(id).collect();
    world.infrastructure(json!({"spec": {"providerIDList": many}}));
    let report = world.settle();
    assert_eq!(
        report.problems[0].to_string(),
        "GenericInfrastructureMachinePool ns/imp: spec.providerIDList has 10001 different IDs; expected at most 10000; its provider \
         has to correct it"
    );
    assert_eq!((world.list().len(), world.nodes().len()), (1, 1));
    world.listed(&[&"é".repeat(513)], 1);
    assert!(world.problems()[0].contains("has an ID of 513 characters; expected at most 512 characters each"));
    world.listed(&[&"é".repeat(512)], 1);
    assert!(world.problems().is_empty());
}

#[test]
fn ten_thousand_ids_are_decided_about_at_once() {
    let mut world = World::new(10_000);
    world.bootstrap_ready("data");
    world.machines(10_000);
    let report = world.settle();
    assert_eq!((report.members.len(), world.list().len()), (10_000, 10_000));
    let message = world.message("Available");
    assert!(message.contains("cloud:////id-1 has no Node") && message.ends_with("and 9990 more"), "{message}");
}

/// Section 10, 7: whichever comes first, count or list.
#[rstest]
fn unavailable_machines_are_never_below_zero(#[values(true, false)] is_count_first: bool) {
    let mut world = World::running(3);
    world.edit(json!({"spec": {"replicas": 1}}));
    let count = json!({"status": {"replicas": 1}});
    let list = json!({"spec": {"providerIDList": [id(2)]}});
    let steps = if is_count_first { [count, list] } else { [list, count] };
    for step in steps {
        world.infrastructure(step);
        world.settle();
        assert!(world.old_number("unavailableReplicas") >= 0);
    }
    assert_eq!((world.phase().as_str(), world.old_number("unavailableReplicas")), ("Running", 0));
    assert_eq!((world.nodes(), world.refs()), (vec!["node-2".to_owned()], vec!["node-2".to_owned()]));
}

/// Section 10, 2.
#[test]
fn status_is_kept_while_the_providers_object_is_being_deleted() {
    let mut world = World::running(2);
    let before = world.status();
    world.infrastructure(json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "status": {"replicas": 0}}));
    world.settle();
    assert_eq!(world.status(), before);
}

/// Section 9, 10: a list with some of the machines only.
#[test]
fn node_is_not_deleted_by_an_incomplete_list() {
    let mut world = World::running(3);
    world.listed(&[&id(1)], 3);
    let report = world.settle();
    assert_eq!((world.nodes().len(), report.retiring.len(), world.refs().len()), (3, 2, 3));
    assert_eq!(world.old_number("readyReplicas"), 1);
    world.machines(3);
    world.settle();
    assert_eq!((world.nodes().len(), world.phase().as_str()), (3, "Running"));
}

/// Section 9, 8, and row 12 of section 7: what does not depend on Nodes goes on.
#[test]
fn unreachable_cluster_stops_only_what_depends_on_nodes() {
    let mut world = World::running(1);
    world.unreachable();
    world.edit(json!({"spec": {"replicas": 2}}));
    world.machines(2);
    world.node(2);
    let decided = world.decide();
    let events: Vec<_> =
        decided.management.changes().filter_map(|change| change.event().map(|event| event.reason)).collect();
    assert_eq!(events, ["FailedSetNodeRef"]);
    let report = world.settle();
    assert_eq!((world.list().len(), world.status()["replicas"].clone()), (2, json!(2)));
    assert_eq!((world.refs(), world.old_number("readyReplicas")), (vec!["node-1".to_owned()], 1));
    assert_eq!(world.status()["versions"], json!([{"version": "v1.31.1", "replicas": 1}]));
    assert_eq!(
        (world.old("ReplicasReady").as_str(), world.old("Ready").as_str()),
        ("False ConnectionDown Warning", "False ConnectionDown Warning")
    );
    let message = "Cluster c cannot be reached since 2027-01-15T08:00:00Z: connection refused";
    assert_eq!((world.condition("Available").as_str(), report.problems.len()), ("Unknown ConnectionDown", 0));
    assert!(world.message("Available").contains(message), "{}", world.message("Available"));
    world.connection = super::world::Connection::Up;
    world.settle();
    assert_eq!((world.phase().as_str(), world.condition("Available").as_str()), ("Running", "True Available"));
}

/// Section 10, 6.
#[test]
fn pool_of_a_cluster_that_was_never_reached_is_not_ready() {
    let mut world = World::new(1);
    world.unreachable();
    world.bootstrap_ready("data");
    world.machines(1);
    world.settle();
    assert_eq!((world.old("Ready").as_str(), world.phase().as_str()), ("False ConnectionDown Warning", "ScalingUp"));
    assert_eq!(world.list(), [id(1)]);
}

#[test]
fn pool_of_a_cluster_without_a_control_plane_waits_for_it() {
    let mut world = World::new(1);
    world.patch::<seaworthy_api::cluster::v1beta2::Cluster>("c", json!({"status": null}));
    world.bootstrap_ready("data");
    world.machines(1);
    world.create::<Node>(node("node-1", &id(1)));
    let report = world.settle();
    assert_eq!(report.waiting[0].to_string(), "the control plane of Cluster c is not initialized");
    assert_eq!((world.refs().len(), world.old("ReplicasReady").as_str()), (0, "False WaitingForReplicasReady Info"));
}
