//! Finalizer, Cluster, pause, owners and labels (rows 1 to 11).

use rstest::rstest;
use seaworthy_api::cluster::v1beta2::{Cluster, MachinePool};
use seaworthy_plan::machinepool::Stop;
use serde_json::{Value, json};

use super::world::{GenericBootstrapConfig, GenericInfrastructureMachinePool, Lookup, World};

const OURS: &str = "machinepool.cluster.x-k8s.io";

/// Rows 1 and 2.
#[rstest]
#[case::row_1_none(json!([]), json!([OURS]))]
#[case::row_2_of_others(json!(["some-other-finalizer"]), json!(["some-other-finalizer", OURS]))]
fn finalizer_is_added_alone_and_after_others(#[case] before: Value, #[case] after: Value) {
    let mut world = World::bare(1);
    world.edit(json!({"metadata": {"finalizers": before}}));
    let report = world.step();
    assert_eq!((report.stop, &world.pool()["metadata"]["finalizers"]), (Some(Stop::FinalizerAdded), &after));
    assert_eq!(world.pool().get("status"), None);
    assert_eq!(world.json::<GenericBootstrapConfig>("bc").unwrap()["metadata"].get("labels"), None);
}

#[test]
fn row_3_pool_without_its_cluster_is_left_as_it_is() {
    let mut world = World::bare(1);
    world.delete::<Cluster>("c");
    let decided = world.decide();
    assert!(decided.is_empty());
    assert_eq!(decided.management.report.stop, Some(Stop::ClusterMissing));
    assert_eq!(
        world.problems(),
        ["MachinePool pool: Cluster c does not exist; expected one in the same namespace; create it"]
    );
}

#[test]
fn row_4_cluster_is_the_owner_and_not_the_controller() {
    let mut world = World::new(1);
    world.settle();
    let uid = world.json::<Cluster>("c").unwrap()["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": uid});
    assert_eq!(world.pool()["metadata"]["ownerReferences"], json!([owner]));
}

/// §2.3, corrected in section 10.
#[test]
fn owner_is_refreshed_and_keeps_what_others_have_set() {
    let mut world = World::new(1);
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "other"});
    let old = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "c", "uid": "old", "controller": true,
    });
    world.edit(json!({"metadata": {"ownerReferences": [old, other, old]}}));
    world.settle();
    let uid = world.json::<Cluster>("c").unwrap()["metadata"]["uid"].clone();
    let new = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": uid, "controller": true,
    });
    assert_eq!(world.pool()["metadata"]["ownerReferences"], json!([new, other]));
}

#[test]
fn row_5_label_follows_the_spec() {
    let mut world = World::new(1);
    world.edit(json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "another", "mine": "x"}}}));
    world.settle();
    assert_eq!(world.pool()["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "c", "mine": "x"}));
}

/// §2.3: association by label.
#[test]
fn pool_without_a_cluster_name_belongs_to_the_cluster_of_its_label() {
    let mut world = World::new(1);
    world.edit(json!({"spec": {"clusterName": ""}}));
    world.settle();
    assert_eq!(world.pool()["metadata"]["ownerReferences"][0]["name"], "c");
    world.edit(json!({"metadata": {"labels": null}}));
    let report = world.decide().management.report;
    assert_eq!(report.stop, Some(Stop::ClusterMissing));
    assert!(report.problems[0].to_string().contains("spec.clusterName is empty"));
}

#[test]
fn row_6_pool_is_marked_as_not_paused_once_and_alone() {
    let mut world = World::bare(1);
    world.step();
    assert_eq!(world.step().stop, Some(Stop::PauseWritten));
    assert_eq!((world.condition("Paused"), world.message("Paused")), ("False NotPaused".to_owned(), String::new()));
    assert_eq!(world.status().as_object().unwrap().keys().collect::<Vec<_>>(), ["conditions"]);
    assert_eq!(world.step().stop, None);
    assert_eq!(world.phase(), "Pending");
}

#[rstest]
#[case::cluster(true, false, "spec.paused of its Cluster is true")]
#[case::pool(false, true, "it has the annotation cluster.x-k8s.io/paused")]
#[case::both(true, true, "spec.paused of its Cluster is true, it has the annotation cluster.x-k8s.io/paused")]
fn row_7_paused_pool_is_left_alone(#[case] of_cluster: bool, #[case] of_pool: bool, #[case] message: &str) {
    let mut world = World::bare(1);
    world.step();
    world.patch::<Cluster>("c", json!({"spec": {"paused": of_cluster}}));
    if of_pool {
        world.edit(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "false"}}}));
    }
    world.step();
    assert_eq!((world.condition("Paused"), world.message("Paused")), ("True Paused".to_owned(), message.to_owned()));
    world.bootstrap_ready("data");
    let decided = world.decide();
    assert!(decided.is_empty());
    assert_eq!(decided.management.report.stop, Some(Stop::Paused));
    assert_eq!(decided.management.report.waiting[0].to_string(), format!("paused: {message}"));
    // A new generation is observed, and nothing else.
    world.edit(json!({"spec": {"replicas": 3}}));
    assert_eq!(world.step().stop, Some(Stop::PauseWritten));
    assert_eq!(world.status()["conditions"][0]["observedGeneration"], 2);
    assert!(world.decide().is_empty());
    assert_eq!(world.status().as_object().unwrap().keys().collect::<Vec<_>>(), ["conditions"]);
}

#[test]
fn row_8_new_generation_of_a_pool_that_goes_on_needs_no_pass_of_its_own() {
    let mut world = World::running(1);
    world.edit(json!({"spec": {"replicas": 2}}));
    assert_eq!(world.step().stop, None);
    let generation = world.pool()["metadata"]["generation"].clone();
    assert_eq!(world.status()["conditions"][0]["observedGeneration"], generation);
    assert_eq!((world.phase().as_str(), &world.status()["observedGeneration"]), ("ScalingUp", &generation));
}

#[test]
fn row_9_paused_pool_is_not_deleted() {
    let mut world = World::running(1);
    world.edit(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}));
    world.delete_pool();
    world.settle();
    assert_eq!(world.pool()["metadata"]["finalizers"], json!([OURS]));
    assert_eq!(world.nodes(), ["node-1"]);
    assert!(world.json::<GenericInfrastructureMachinePool>("imp").is_some());
}

#[test]
fn row_10_pool_controls_the_objects_that_it_refers_to() {
    let mut world = World::new(1);
    let decided = world.decide();
    assert_eq!(decided.management.recheck, None);
    world.perform(&decided);
    let uid = world.pool()["metadata"]["uid"].clone();
    let owner = json!([{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "pool", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let bootstrap = world.json::<GenericBootstrapConfig>("bc").unwrap();
    let infrastructure = world.json::<GenericInfrastructureMachinePool>("imp").unwrap();
    for object in [bootstrap, infrastructure] {
        assert_eq!(object["metadata"]["ownerReferences"], owner);
        assert_eq!(object["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "c"}));
    }
}

#[test]
fn row_11_object_of_another_controller_is_not_taken() {
    let mut world = World::new(1);
    world.bootstrap_ready("data");
    world.machines(1);
    let other = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u", "controller": true}]);
    world.infrastructure(json!({"metadata": {"ownerReferences": other}}));
    let before = world.json::<GenericInfrastructureMachinePool>("imp");
    world.settle();
    assert_eq!(world.json::<GenericInfrastructureMachinePool>("imp"), before);
    assert_eq!(
        world.problems(),
        [
            "GenericInfrastructureMachinePool ns/imp: it is controlled by ConfigMap other; expected no controller, or MachinePool \
          pool; refer to an object that no other one controls"
        ]
    );
    assert_eq!(world.status()["initialization"], json!({"bootstrapDataSecretCreated": true}));
    assert_eq!(world.condition("InfrastructureReady"), "False ControlledByAnother");
    assert_eq!((world.phase().as_str(), world.list().len()), ("Provisioning", 0));
    // It is left alone when the pool is deleted, too.
    world.delete_pool();
    world.settle();
    assert!(!world.exists());
    assert_eq!(world.json::<GenericInfrastructureMachinePool>("imp"), before);
    assert_eq!(world.json::<GenericBootstrapConfig>("bc"), None);
}

#[test]
fn objects_are_written_at_the_revision_that_was_decided_on() {
    let world = World::running(1);
    let mut edited = world.clone();
    edited.edit(json!({"metadata": {"labels": null}, "spec": {"replicas": 2, "providerIDList": null}}));
    let decided = edited.decide();
    let about_pool = decided.management.changes().filter(|change| change.object.resource.kind == "MachinePool");
    let bound: Vec<_> = about_pool.map(|change| change.object.resource_version).collect();
    let found = edited.json::<MachinePool>("pool").unwrap()["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    assert!(found.is_some());
    assert_eq!(bound, [found.clone(), found]);
}

#[test]
fn conditions_of_other_writers_are_kept() {
    let mut world = World::running(1);
    let time = "2024-01-01T00:00:00Z";
    let mut conditions = world.status()["conditions"].clone();
    let foreign =
        json!({"type": "Foreign", "status": "True", "reason": "R", "message": "", "lastTransitionTime": time});
    conditions.as_array_mut().unwrap().insert(0, foreign.clone());
    let mut old = world.status()["deprecated"]["v1beta1"]["conditions"].clone();
    let old_foreign = json!({"type": "Foreign", "status": "True", "lastTransitionTime": time});
    old.as_array_mut().unwrap().push(old_foreign.clone());
    world.edit(json!({"status": {"conditions": conditions, "deprecated": {"v1beta1": {"conditions": old}}}}));
    world.node_ready(1, false, None);
    world.settle();
    assert_eq!(world.phase(), "ScalingUp");
    let holds = |list: &Value, condition: &Value| list.as_array().unwrap().contains(condition);
    assert!(holds(&world.status()["conditions"], &foreign));
    assert!(holds(&world.status()["deprecated"]["v1beta1"]["conditions"], &old_foreign));
}

/// A provider that is not installed is a condition with a reason; nothing repeats.
#[test]
fn provider_that_is_not_installed_is_waited_for() {
    let mut world = World::new(1);
    world.bootstrap = Lookup::NotInstalled;
    world.infrastructure = Lookup::NotInstalled;
    let report = world.settle();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(world.condition("BootstrapConfigReady"), "False ProviderNotInstalled");
    assert_eq!(world.condition("InfrastructureReady"), "False ProviderNotInstalled");
    let message = "there is no CustomResourceDefinition generics.example.com";
    assert!(world.message("InfrastructureReady").ends_with(message));
    assert!(world.message("Available").contains(message));
    world.bootstrap = Lookup::AsFound;
    world.infrastructure = Lookup::AsFound;
    world.bootstrap_ready("data");
    world.machines(1);
    world.node(1);
    world.settle();
    assert_eq!((world.phase().as_str(), world.condition("Available").as_str()), ("Running", "True Available"));
}

#[test]
fn objects_that_cannot_be_read_are_a_problem_and_nothing_is_lost() {
    let mut world = World::running(2);
    let before = world.status();
    world.bootstrap = Lookup::Unreadable;
    world.infrastructure = Lookup::Unreadable;
    let report = world.settle();
    assert_eq!(report.problems.len(), 2);
    assert!(report.problems[0].to_string().contains("GenericBootstrapConfig ns/bc: it could not be read: forbidden"));
    for key in ["initialization", "nodeRefs", "replicas", "upToDateReplicas", "phase", "versions"] {
        assert_eq!(world.status()[key], before[key], "{key}");
    }
    assert_eq!(world.condition("InfrastructureReady"), "Unknown ReadFailed");
    assert_eq!(world.decide().management.report.phase.as_str(), "Running");
    assert!(world.json::<MachinePool>("pool").is_some());
}
