//! MachinePool Machines (rows 78 to 83).

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use seaworthy_api::cluster::v1beta2::Machine;
use seaworthy_plan::machinepool::pool_name::label_value;
use serde_json::{Value, json};

use super::world::{GenericInfrastructureMachine, World, id};

/// A pool whose provider asks for Machines.
fn world(replicas: i32) -> World {
    let mut world = World::new(replicas);
    world.bootstrap_ready("data");
    world.machines(replicas);
    world.infrastructure(json!({"status": {"infrastructureMachineKind": "GenericInfrastructureMachine"}}));
    for number in 1..=replicas {
        infra_machine(&mut world, number);
        world.node(number);
    }
    world
}

fn infra_machine(world: &mut World, number: i32) {
    world.create::<GenericInfrastructureMachine>(json!({
        "metadata": {
            "name": format!("im-{number}"),
            "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "pool"},
        },
        "spec": {"providerID": id(number)},
    }));
}

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<String> =
        world.management.of::<Machine>().iter().map(|machine| machine.metadata.name.clone().unwrap()).collect();
    names.sort();
    names
}

fn machine(world: &World, name: &str) -> Value {
    world.json::<Machine>(name).unwrap()
}

#[test]
fn row_78_versions_are_those_of_the_machines() {
    let mut world = world(3);
    world.patch::<Node>("node-2", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.32.0"}}}));
    world.settle();
    let expected = json!([{"version": "v1.31.1", "replicas": 2}, {"version": "v1.32.0", "replicas": 1}]);
    assert_eq!(world.status()["versions"], expected);
}

#[rstest]
#[case::row_79_and_82_absent(Value::Null, 0)]
#[case::row_79_empty(json!(""), 0)]
#[case::row_79_named(json!("GenericInfrastructureMachine"), 2)]
fn machines_are_made_where_the_provider_names_their_kind(#[case] kind: Value, #[case] machines: usize) {
    let mut world = world(2);
    world.infrastructure(json!({"status": {"infrastructureMachineKind": kind}}));
    let report = world.settle();
    assert_eq!((names(&world).len(), report.problems.len()), (machines, 0));
    // Section 10, 1: an empty kind is none, and the pool runs.
    assert_eq!((world.phase().as_str(), world.status()["replicas"].clone()), ("Running", json!(2)));
}

#[test]
fn row_79_counters_of_a_pool_whose_provider_was_never_read_are_left_alone() {
    let mut world = world(2);
    world.infrastructure = super::world::Lookup::NotInstalled;
    world.settle();
    assert_eq!(world.status().get("replicas"), None);
    assert_eq!(world.status().get("upToDateReplicas"), None);
}

#[test]
fn row_80_machines_that_are_there_are_kept() {
    let mut world = world(2);
    for number in 1..=2 {
        world.create::<Machine>(json!({
            "metadata": {
                "name": format!("other-name-{number}"),
                "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "pool"},
            },
            "spec": {
                "clusterName": "c", "bootstrap": {},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "GenericInfrastructureMachine",
                    "name": format!("im-{number}"),
                },
            },
        }));
    }
    world.settle();
    assert_eq!(names(&world), ["other-name-1", "other-name-2"]);
    assert_eq!(machine(&world, "other-name-1")["metadata"]["ownerReferences"][0]["name"], "pool");
    assert_eq!(world.refs(), ["node-1", "node-2"]);
}

#[test]
fn row_81_machines_are_named_like_those_of_the_provider() {
    let mut world = world(2);
    world.edit(json!({"spec": {"template": {
        "metadata": {
            "labels": {"team": "blue", "cluster.x-k8s.io/pool-name": "wrong"}, "annotations": {"note": "x"},
        },
        "spec": {"minReadySeconds": 5},
    }}}));
    world.settle();
    assert_eq!(names(&world), ["im-1", "im-2"]);
    let found = machine(&world, "im-1");
    let uid = world.pool()["metadata"]["uid"].clone();
    let owner = json!([{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "pool", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(found["metadata"]["ownerReferences"], owner);
    let labels = json!({
        "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "pool", "team": "blue",
    });
    assert_eq!((&found["metadata"]["labels"], &found["metadata"]["annotations"]), (&labels, &json!({"note": "x"})));
    let spec = json!({
        "clusterName": "c", "bootstrap": {"dataSecretName": ""}, "version": "v1.31.1", "minReadySeconds": 5,
        "deletion": {"nodeDeletionTimeoutSeconds": 10},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "GenericInfrastructureMachine", "name": "im-1",
        },
    });
    assert_eq!(found["spec"], spec);
    let condition = &found["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("UpToDate"), &json!("True")));
    // Without the condition Ready of the Machines none counts as ready, but the Nodes do.
    let counters = ["readyReplicas", "availableReplicas", "upToDateReplicas"].map(|key| world.status()[key].clone());
    assert_eq!((counters, world.old_number("readyReplicas")), ([json!(0), json!(0), json!(2)], 2));
    assert_eq!(world.phase(), "Running");
}

#[test]
fn row_83_pool_is_found_by_the_value_of_its_label() {
    let long = "a".repeat(70);
    assert_eq!((label_value("pool").as_str(), label_value(&long).len()), ("pool", 13));
    assert_ne!(label_value(&long), label_value("unknown"));
}

#[rstest]
#[case::no_owner(json!({}), "no pool")]
#[case::another_controller(
    json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true}]}),
    "ConfigMap x"
)]
#[case::former_pool_of_that_name(
    json!({"ownerReferences": [{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "pool", "uid": "old", "controller": true,
    }]}),
    "MachinePool pool"
)]
fn machine_of_another_is_not_taken_over(#[case] metadata: Value, #[case] owner: &str) {
    let mut world = world(1);
    let mut metadata = metadata;
    metadata["name"] = json!("im-1");
    world.create::<Machine>(json!({
        "metadata": metadata,
        "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"}},
    }));
    let before = machine(&world, "im-1");
    world.settle();
    assert_eq!(machine(&world, "im-1"), before);
    let problem = format!("Machine im-1: it exists and belongs to {owner}; expected none, or one with the labels");
    assert!(world.problems()[0].starts_with(&problem), "{:?}", world.problems());
}

/// Section 9, 11.
#[test]
fn version_is_kept_while_the_node_is_not_known() {
    let mut world = world(1);
    world.settle();
    world.unreachable();
    world.settle();
    assert_eq!(machine(&world, "im-1")["spec"]["version"], "v1.31.1");
    world.connection = super::world::Connection::Up;
    world.delete::<Node>("node-1");
    world.settle();
    assert_eq!(machine(&world, "im-1")["spec"]["version"], "v1.31.1");
}

/// Section 9, 8: Machines do not depend on the workload cluster.
#[test]
fn machines_are_made_while_the_cluster_cannot_be_reached() {
    let mut world = world(1);
    world.unreachable();
    world.settle();
    assert_eq!(names(&world), ["im-1"]);
    assert_eq!(machine(&world, "im-1")["spec"].get("version"), None);
}

/// Section 9, 13.
#[test]
fn machine_follows_the_life_of_the_providers_machine() {
    let mut world = world(2);
    let gone = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
    world.patch::<GenericInfrastructureMachine>("im-2", gone);
    world.settle();
    assert_eq!(names(&world), ["im-1"]);
    world.delete::<GenericInfrastructureMachine>("im-1");
    world.settle();
    assert_eq!(names(&world), Vec::<String>::new());
}

#[test]
fn machine_that_is_being_deleted_is_not_up_to_date() {
    let mut world = world(1);
    world.settle();
    world.patch::<Machine>(
        "im-1",
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["drain"], "labels": {"team": null}}}),
    );
    world.settle();
    assert_eq!(machine(&world, "im-1")["status"]["conditions"][0]["status"], "False");
    assert_eq!(world.status()["upToDateReplicas"], 0);
}

#[test]
fn label_that_left_the_template_leaves_the_machine() {
    let mut world = world(1);
    world.settle();
    let fields = json!({"f:metadata": {"f:labels": {"f:team": {}, "f:cluster.x-k8s.io/pool-name": {}}}});
    let entry = |manager: &str| json!([{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let applied =
        |world: &World| world.decide().management.changes().any(|change| change.object.resource.kind == "Machine");
    world
        .patch::<Machine>("im-1", json!({"metadata": {"managedFields": entry("someone"), "labels": {"team": "blue"}}}));
    assert!(!applied(&world));
    world.patch::<Machine>("im-1", json!({"metadata": {"managedFields": entry("machinepool-controller")}}));
    assert!(applied(&world));
}

#[test]
fn creation_has_only_what_never_changes() {
    let mut world = world(1);
    world.edit(json!({"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}}));
    let changes: Vec<Value> = world
        .decide()
        .management
        .changes()
        .filter(|change| change.object.resource.kind == "Machine")
        .map(|change| serde_json::to_value(change).unwrap())
        .collect();
    assert_eq!(changes.len(), 2, "{changes:#?}");
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "pool"});
    assert_eq!(changes[0]["create"]["metadata"]["labels"], labels);
    assert_eq!(changes[0]["create"]["spec"].as_object().unwrap().len(), 3);
    assert_eq!(changes[1]["apply"]["metadata"]["labels"]["team"], "blue");
}
