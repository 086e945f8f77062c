//! Deletion (rows 84 to 90).

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use seaworthy_api::cluster::v1beta2::{Cluster, MachinePool};
use seaworthy_plan::machinepool::deletion::has_timed_out;
use seaworthy_plan::machinepool::{NodeDeletion, Stop};
use serde_json::{Value, json};

use super::world::{GenericBootstrapConfig, GenericInfrastructureMachinePool, Lookup, START, World, id, pool};

fn timeout(world: &mut World, seconds: Value) {
    world.edit(json!({"spec": {"template": {"spec": {"deletion": {"nodeDeletionTimeoutSeconds": seconds}}}}}));
}

/// A pool that is being deleted, whose providers' objects are gone.
fn without_external(replicas: i32) -> World {
    let mut world = World::running(replicas);
    world.delete_pool();
    world.step();
    assert!(world.exists());
    world
}

fn deleted(world: &World) -> Vec<String> {
    let mut names: Vec<String> = world.decide().workload.changes().map(|change| change.object.name).collect();
    names.sort();
    names
}

#[rstest]
#[case::row_84_both(true, true)]
#[case::row_84_infrastructure(false, true)]
#[case::row_84_bootstrap(true, false)]
#[case::row_84_none(false, false)]
fn providers_objects_go_first(#[case] has_bootstrap: bool, #[case] has_infrastructure: bool) {
    let mut world = World::running(1);
    let held = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
    if !has_bootstrap {
        world.delete::<GenericBootstrapConfig>("bc");
    }
    if !has_infrastructure {
        world.delete::<GenericInfrastructureMachinePool>("imp");
    }
    world.delete_pool();
    let decided = world.decide();
    let deletions: Vec<String> = decided
        .management
        .changes()
        .filter(|change| change.object.resource.kind.starts_with("Generic"))
        .map(|change| change.object.name)
        .collect();
    let expected: Vec<&str> = [(has_bootstrap, "bc"), (has_infrastructure, "imp")]
        .into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, name)| name)
        .collect();
    assert_eq!(deletions, expected);
    let waits = has_bootstrap || has_infrastructure;
    assert_eq!(decided.workload.is_empty(), waits);
    assert_eq!(decided.management.recheck, Some(Duration::from_secs(if waits { 10 } else { 1 })));
    // What is being deleted is not deleted again, and waited for.
    if has_bootstrap {
        world.patch::<GenericBootstrapConfig>("bc", held.clone());
    }
    if has_infrastructure {
        world.patch::<GenericInfrastructureMachinePool>("imp", held);
    }
    if waits {
        let report = world.settle();
        assert_eq!((report.stop, world.nodes().len()), (Some(Stop::Deleting), 1));
        assert!(world.message("Deleting").ends_with("still to be deleted"), "{}", world.message("Deleting"));
    }
}

#[test]
fn row_85_pool_is_released_when_its_nodes_are_gone() {
    let mut world = without_external(2);
    assert_eq!(deleted(&world), ["node-1", "node-2"]);
    world.settle();
    assert!(!world.exists());
    assert_eq!(world.nodes().len(), 0);
}

#[test]
fn row_85_node_of_a_former_machine_is_deleted_too() {
    let mut world = World::running(2);
    world.edit(json!({"spec": {"providerIDList": null}}));
    world.delete_pool();
    world.settle();
    assert_eq!((world.exists(), world.nodes().len()), (false, 0));
}

#[test]
fn rows_86_and_87_failed_deletion_holds_the_pool_until_the_timeout() {
    let mut world = without_external(2);
    world.node_deletion = NodeDeletion::Failed("forbidden");
    let decided = world.decide();
    assert_eq!((deleted(&world).len(), decided.management.report.stop), (2, Some(Stop::Deleting)));
    let message = "2 of its Nodes still to be deleted: forbidden; given up 10 s after the deletion";
    assert_eq!(decided.management.report.waiting[0].to_string(), message);
    assert_eq!(decided.management.recheck, Some(Duration::from_secs(10)));
    world.later(10);
    assert_eq!(world.decide().management.report.stop, Some(Stop::Deleting));
    world.later(1);
    let report = world.decide().management.report;
    assert_eq!((report.stop, deleted(&world).len()), (Some(Stop::Released), 0));
    assert_eq!(report.waiting[0].to_string(), "2 Nodes may be left behind: forbidden");
    world.settle();
    assert!(!world.exists());
}

#[rstest]
#[case::none(Value::Null)]
#[case::zero(json!(0))]
fn without_a_timeout_a_failed_deletion_is_repeated(#[case] seconds: Value) {
    let mut world = World::running(1);
    timeout(&mut world, seconds);
    world.delete_pool();
    world.step();
    world.node_deletion = NodeDeletion::Failed("forbidden");
    world.later(1_000_000);
    let decided = world.decide();
    assert_eq!((deleted(&world).len(), decided.management.recheck), (1, Some(Duration::from_secs(10))));
    let message = "1 of its Nodes still to be deleted: forbidden; there is no time limit";
    assert_eq!(decided.management.report.waiting[0].to_string(), message);
}

#[test]
fn accepted_deletions_release_the_pool() {
    let mut world = without_external(2);
    world.node_deletion = NodeDeletion::Accepted;
    let decided = world.decide();
    assert_eq!((decided.management.report.stop, decided.workload.is_empty()), (Some(Stop::Released), true));
}

#[test]
fn nodes_that_are_being_deleted_hold_nothing() {
    let mut world = without_external(1);
    world.patch::<Node>("node-1", json!({"metadata": {"deletionTimestamp": START.to_string()}}));
    world.settle();
    assert!(!world.exists());
}

#[rstest]
#[case::row_88_not_deleted(None, json!(10), false)]
#[case::row_88_none(Some(60), Value::Null, false)]
#[case::row_88_zero(Some(60), json!(0), false)]
#[case::row_88_just_now(Some(0), json!(60), false)]
#[case::row_88_passed(Some(60), json!(10), true)]
#[case::largest(Some(60), json!(i32::MAX), false)]
fn timeout_counts_from_the_deletion(#[case] ago: Option<i64>, #[case] seconds: Value, #[case] expected: bool) {
    let mut object = pool("pool", 1);
    object["spec"]["template"]["spec"]["deletion"]["nodeDeletionTimeoutSeconds"] = seconds;
    let mut world = World::empty();
    world.later(-ago.unwrap_or_default());
    if ago.is_some() {
        object["metadata"]["deletionTimestamp"] = json!(world.now.to_string());
    }
    let pool: MachinePool = serde_json::from_value(object).unwrap();
    assert_eq!(has_timed_out(&pool, START), expected);
}

#[test]
fn row_89_finalizers_of_others_stay() {
    let mut world = World::running(1);
    let finalizers = json!(["machinepool.cluster.x-k8s.io", "test"]);
    world.edit(json!({"metadata": {"finalizers": finalizers}}));
    world.delete_pool();
    let report = world.settle();
    assert_eq!(world.pool()["metadata"]["finalizers"], json!(["test"]));
    assert_eq!((report.stop, world.phase().as_str()), (Some(Stop::Released), "Deleting"));
}

#[test]
fn row_90_nodes_are_deleted_however_long_the_machines_took() {
    let mut world = World::running(2);
    let held = json!({"metadata": {"deletionTimestamp": START.to_string()}});
    world.patch::<GenericInfrastructureMachinePool>("imp", held);
    world.delete_pool();
    world.settle();
    world.later(300);
    assert_eq!(world.settle().stop, Some(Stop::Deleting));
    world.delete::<GenericInfrastructureMachinePool>("imp");
    assert_eq!(deleted(&world), ["node-1", "node-2"]);
    world.settle();
    assert_eq!((world.exists(), world.nodes().len()), (false, 0));
}

/// §2.1, 2 and section 9, 7.
#[test]
fn pool_whose_cluster_is_gone_is_released() {
    let mut world = World::running(1);
    world.delete::<Cluster>("c");
    world.delete_pool();
    world.settle();
    assert_eq!((world.exists(), world.json::<GenericInfrastructureMachinePool>("imp")), (false, None));
    assert_eq!(world.nodes(), ["node-1"]);
}

#[test]
fn pool_whose_providers_are_uninstalled_is_released() {
    let mut world = World::running(1);
    world.bootstrap = Lookup::NotInstalled;
    world.infrastructure = Lookup::NotInstalled;
    world.delete_pool();
    world.settle();
    assert_eq!((world.exists(), world.nodes().len()), (false, 0));
}

#[test]
fn object_that_cannot_be_read_holds_the_pool() {
    let mut world = World::running(1);
    world.infrastructure = Lookup::Unreadable;
    world.delete_pool();
    let report = world.settle();
    assert_eq!((report.stop, report.problems.len(), world.nodes().len()), (Some(Stop::Deleting), 1, 1));
    assert!(world.message("Deleting").contains("it could not be read: forbidden"));
}

#[test]
fn unreachable_cluster_holds_the_pool_until_the_timeout() {
    let mut world = without_external(1);
    world.unreachable();
    let decided = world.decide();
    assert_eq!(
        (decided.management.report.stop, decided.management.recheck),
        (Some(Stop::Deleting), Some(Duration::from_secs(11)))
    );
    world.settle();
    let message = "1 of its Nodes still to be deleted: Cluster c cannot be reached since 2027-01-15T08:00:00Z: connection refused; \
                   given up 10 s after the deletion";
    assert_eq!(world.message("Deleting"), message);
    world.later(11);
    world.settle();
    assert!(!world.exists());
}

/// Section 9, 6.
#[test]
fn unreachable_cluster_that_is_being_deleted_holds_nothing() {
    let mut world = World::running(1);
    timeout(&mut world, json!(0));
    world.delete_pool();
    world.step();
    world.unreachable();
    world.settle();
    assert!(world.exists());
    world.patch::<Cluster>("c", json!({"metadata": {"deletionTimestamp": START.to_string()}}));
    world.settle();
    assert!(!world.exists());
}

#[test]
fn pool_that_never_had_machines_does_not_wait_for_its_cluster() {
    let mut world = World::new(1);
    world.unreachable();
    timeout(&mut world, json!(0));
    world.delete_pool();
    world.settle();
    assert!(!world.exists());
}

/// A Node of another pool is not the deleted one's.
#[test]
fn nodes_that_another_pool_lists_are_left_to_it() {
    let mut world = World::running(2);
    let mut other = pool("other", 1);
    other["spec"]["providerIDList"] = json!([id(2)]);
    world.create::<MachinePool>(other);
    world.delete_pool();
    world.settle();
    assert_eq!((world.exists(), world.nodes()), (false, vec!["node-2".to_owned()]));
}

#[test]
fn interrupted_deletion_goes_on() {
    let mut world = World::running(3);
    world.delete_pool();
    world.step();
    // One Node was deleted before the controller was stopped.
    world.delete::<Node>("node-2");
    assert_eq!(deleted(&world), ["node-1", "node-3"]);
    world.settle();
    assert_eq!((world.exists(), world.nodes().len()), (false, 0));
}
