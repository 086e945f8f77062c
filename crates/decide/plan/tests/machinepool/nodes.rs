//! Nodes: matching, counters, marks (rows 49 to 64, 69, 70, 77).

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::SignedDuration;
use rstest::rstest;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_plan::machinepool::{MatchInputs, MemberState, NodeIndex, UpToDateRule, WorkloadNode, matched};
use serde_json::{Value, json};

use super::world::{START, World, id, node, pool};

fn index(nodes: &[(&str, &str)]) -> NodeIndex {
    let read = |(name, id): &(&str, &str)| WorkloadNode::of(&serde_json::from_value(node(name, id)).unwrap());
    nodes.iter().map(read).collect()
}

#[test]
fn row_49_nodes_without_a_provider_id_are_not_found_by_it() {
    assert_eq!(index(&[("a", "x"), ("b", "y"), ("c", "z")]).provider_ids(), 3);
    assert_eq!(index(&[("a", "x"), ("b", "")]).provider_ids(), 1);
    assert_eq!(index(&[]).provider_ids(), 0);
}

#[rstest]
#[case::row_50_ready(&["n1"], &["n1"], 1)]
#[case::row_51_not_ready(&["n3"], &["n3"], 0)]
#[case::row_52_two_clouds(&["azure://a/n2", "n1"], &["n2", "n1"], 2)]
#[case::row_53_whole_ids_are_compared(
    &["azure://westus2/id-nodepool1/0", "azure://westus2/id-nodepool2/0"],
    &["pool1-0", "pool2-0"],
    2
)]
#[case::row_54_no_node(&["missing"], &[], 0)]
#[case::row_55_empty_list(&[], &[], 0)]
fn nodes_are_matched_in_the_order_of_the_list(#[case] ids: &[&str], #[case] names: &[&str], #[case] ready: i32) {
    let mut unready = node("n3", "n3");
    unready["status"] = json!({});
    let mut index = index(&[
        ("n1", "n1"),
        ("n2", "azure://a/n2"),
        ("pool1-0", "azure://westus2/id-nodepool1/0"),
        ("pool2-0", "azure://westus2/id-nodepool2/0"),
    ]);
    index.set(WorkloadNode::of(&serde_json::from_value(unready).unwrap()));
    let found = matched(ids, &index, MatchInputs { refs: &[], min_ready_seconds: 0, now: START });
    assert_eq!(found.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), names);
    assert_eq!((found.ready, found.available, found.recheck), (ready, ready, None));
}

#[rstest]
#[case::row_56_not_known(None, 0, None)]
#[case::row_57_not_yet(Some(19), 0, Some(1001))]
#[case::on_the_second(Some(20), 0, Some(1))]
#[case::row_57_long_enough(Some(21), 1, None)]
fn node_is_available_after_its_time(
    #[case] seconds: Option<i64>,
    #[case] available: i64,
    #[case] recheck: Option<u64>,
) {
    let mut world = World::running(1);
    world.edit(json!({"spec": {"template": {"spec": {"minReadySeconds": 20}}}}));
    world.node_ready(1, true, seconds.map(|seconds| START - SignedDuration::from_secs(seconds)));
    let report = world.settle();
    assert_eq!((world.old_number("readyReplicas"), world.old_number("availableReplicas")), (1, available));
    assert_eq!(world.old_number("unavailableReplicas"), 1 - available);
    assert_eq!(world.decide().management.recheck, recheck.map(Duration::from_millis));
    assert_eq!(
        (world.phase().as_str(), report.members[0].state == MemberState::Available),
        ("Running", available == 1)
    );
    if seconds == Some(19) {
        assert_eq!(
            world.message("Available"),
            "0 of 1 replicas are available: Node node-1 (cloud:////id-1) is available after 2027-01-15T08:00:01Z"
        );
        world.now += SignedDuration::from_millis(1001);
        world.settle();
        assert_eq!(world.condition("Available"), "True Available");
    }
}

#[test]
fn row_58_node_that_registered_again_is_recorded_with_its_new_uid() {
    let mut world = World::running(2);
    let before = world.status()["nodeRefs"].clone();
    world.delete::<Node>("node-2");
    world.node(2);
    world.settle();
    let after = world.status()["nodeRefs"].clone();
    assert_eq!((&after[0], &after[1]["name"]), (&before[0], &before[1]["name"]));
    assert_ne!(after[1]["uid"], before[1]["uid"]);
}

/// Section 9, 10: the name is taken by a Node whose provider ID is not listed yet.
#[test]
fn node_that_registered_again_under_another_id_is_not_deleted() {
    let mut world = World::running(2);
    world.delete::<Node>("node-2");
    world.create::<Node>(node("node-2", &id(9)));
    world.edit(json!({"spec": {"replicas": 1}}));
    world.machines(1);
    world.settle();
    assert_eq!((world.nodes().len(), world.refs()), (2, vec!["node-1".to_owned()]));
}

#[test]
fn row_59_node_that_is_not_ready_any_more_counts_no_more() {
    let mut world = World::running(2);
    world.node_ready(2, false, None);
    let report = world.settle();
    assert_eq!((world.old_number("readyReplicas"), world.status()["readyReplicas"].clone()), (1, json!(1)));
    assert_eq!(world.old("ReplicasReady"), "False WaitingForReplicasReady Info");
    assert_eq!((world.phase().as_str(), world.refs().len()), ("ScalingUp", 2));
    assert_eq!(report.members[1].to_string(), "Node node-2 (cloud:////id-2) is not ready");
    assert_eq!(world.message("Available"), format!("1 of 2 replicas are available: {}", report.members[1]));
}

#[test]
fn row_60_pool_whose_nodes_are_all_gone_says_so() {
    let mut world = World::running(2);
    world.delete::<Node>("node-1");
    world.delete::<Node>("node-2");
    world.settle();
    assert_eq!((world.refs().len(), world.phase().as_str()), (0, "ScalingUp"));
    for key in ["readyReplicas", "availableReplicas"] {
        assert_eq!((world.old_number(key), world.status()[key].clone()), (0, json!(0)), "{key}");
    }
    assert_eq!((world.old_number("unavailableReplicas"), world.status().get("versions")), (2, None));
    assert_eq!(world.list().len(), 2);
}

fn marks(world: &World, name: &str) -> Value {
    world.json::<Node>(name).unwrap()["metadata"]["annotations"].clone()
}

#[test]
fn rows_61_62_and_64_node_is_marked_once() {
    let mut world = World::new(2);
    world.machines(2);
    let uninitialized = json!({"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"});
    let other = json!({"key": "keep", "value": "1", "effect": "NoSchedule"});
    world.node(1);
    world.patch::<Node>("node-1", json!({"spec": {"taints": [uninitialized]}}));
    world.node(2);
    world.patch::<Node>(
        "node-2",
        json!({"metadata": {"annotations": {"foo": "bar"}}, "spec": {"taints": [other, uninitialized]}}),
    );
    world.create::<Node>(node("node-9", &id(9)));
    world.patch::<Node>("node-9", json!({"spec": {"taints": [uninitialized]}}));
    let stranger = world.json::<Node>("node-9");
    world.settle();
    let mut expected = json!({
        "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "ns",
        "cluster.x-k8s.io/owner-kind": "MachinePool", "cluster.x-k8s.io/owner-name": "pool",
    });
    assert_eq!(
        (marks(&world, "node-1"), world.json::<Node>("node-1").unwrap()["spec"].get("taints")),
        (expected.clone(), None)
    );
    expected["foo"] = json!("bar");
    assert_eq!(
        (marks(&world, "node-2"), world.json::<Node>("node-2").unwrap()["spec"]["taints"].clone()),
        (expected, json!([other]))
    );
    // Row 64: nothing is written again; and what is no machine of the pool is not touched.
    assert!(world.decide().workload.is_empty());
    assert_eq!(world.json::<Node>("node-9"), stranger);
}

#[test]
fn taint_of_the_same_key_with_another_effect_stays() {
    let mut world = World::new(1);
    world.machines(1);
    world.node(1);
    let other = json!([{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoExecute"}]);
    world.patch::<Node>("node-1", json!({ "spec": {"taints": other} }));
    world.settle();
    assert_eq!(world.json::<Node>("node-1").unwrap()["spec"]["taints"], other);
}

#[test]
fn row_63_node_of_a_former_pool_is_marked_as_this_ones() {
    let mut world = World::new(1);
    world.machines(1);
    world.node(1);
    let former = json!({"cluster.x-k8s.io/owner-name": "machinepool-3", "cluster.x-k8s.io/owner-kind": "MachinePool"});
    world.patch::<Node>("node-1", json!({"metadata": {"annotations": former}}));
    world.settle();
    assert_eq!(marks(&world, "node-1")["cluster.x-k8s.io/owner-name"], "pool");
}

/// Section 9, 14.
#[test]
fn labels_of_managed_domains_reach_the_nodes() {
    let mut world = World::running(1);
    let labels = json!({"node-role.kubernetes.io/infra": "", "team": "blue"});
    world.edit(json!({"spec": {"template": {"metadata": {"labels": labels}}}}));
    world.settle();
    let found = world.json::<Node>("node-1").unwrap()["metadata"]["labels"].clone();
    assert_eq!(found, json!({"node-role.kubernetes.io/infra": ""}));
}

#[test]
fn node_changes_are_bound_to_the_node_that_was_seen() {
    let mut world = World::new(1);
    world.machines(1);
    world.node(1);
    let changes: Vec<_> = world.decide().workload.changes().collect();
    let node = world.json::<Node>("node-1").unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].object.uid.as_deref(), node["metadata"]["uid"].as_str());
    assert_eq!(changes[0].object.resource_version.as_deref(), Some("1"));
}

#[test]
fn row_69_pool_at_rest_writes_nothing_and_sets_no_timer() {
    let world = World::running(1);
    let decided = world.decide();
    assert!(decided.is_empty());
    assert_eq!((world.phase().as_str(), world.nodes().len(), decided.management.recheck), ("Running", 1, None));
    assert_eq!(decided.management.report.members[0].to_string(), "Node node-1 (cloud:////id-1) is available");
}

#[test]
fn row_70_pool_with_a_missing_node_is_looked_at_again() {
    let mut world = World::new(2);
    world.bootstrap_ready("data");
    world.machines(2);
    world.node(1);
    world.settle();
    assert_eq!(world.old("ReplicasReady"), "False WaitingForReplicasReady Info");
    assert_eq!(world.decide().management.recheck, Some(Duration::from_secs(30)));
    assert_eq!(world.message("Available"), "1 of 2 replicas are available: cloud:////id-2 has no Node");
}

#[test]
fn row_77_versions_are_those_of_the_nodes() {
    let mut world = World::running(3);
    world.patch::<Node>("node-2", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.32.0"}}}));
    world.settle();
    let expected = json!([{"version": "v1.31.1", "replicas": 2}, {"version": "v1.32.0", "replicas": 1}]);
    assert_eq!(world.status()["versions"], expected);
}

#[test]
fn more_versions_than_the_api_accepts_are_cut() {
    let mut world = World::new(120);
    world.machines(120);
    for number in 1..=120 {
        let mut node = node(&format!("node-{number}"), &id(number));
        node["status"]["nodeInfo"]["kubeletVersion"] = json!(format!("v1.{number}.0"));
        world.create::<Node>(node);
    }
    world.settle();
    let versions = world.status()["versions"].as_array().unwrap().clone();
    assert_eq!((versions.len(), &versions[9]["version"]), (100, &json!("v1.10.0")));
}

#[rstest]
#[case(UpToDateRule::Replicas, 3)]
#[case(UpToDateRule::KubeletVersion, 2)]
fn up_to_date_machines_are_counted_by_the_rule(#[case] rule: UpToDateRule, #[case] expected: i32) {
    let mut world = World::running(3);
    world.up_to_date = rule;
    world.edit(json!({"spec": {"template": {"spec": {"version": "v1.31.1"}}}}));
    world.patch::<Node>("node-2", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.30.0"}}}));
    world.settle();
    assert_eq!(world.status()["upToDateReplicas"], expected);
}

/// §2.8, 3: a pool that wants more than the provider has is not ready.
#[test]
fn pool_whose_provider_has_too_few_machines_is_not_ready() {
    let mut world = World::running(2);
    world.edit(json!({"spec": {"replicas": 3}}));
    let report = world.settle();
    assert_eq!(
        (world.old("ReplicasReady").as_str(), world.phase().as_str()),
        ("False WaitingForReplicasReady Info", "ScalingUp")
    );
    assert_eq!(report.waiting[0].to_string(), "GenericInfrastructureMachinePool ns/imp reports 2 of 3 replicas");
}

/// Section 9, 17.
#[test]
fn event_is_emitted_when_the_nodes_change_only() {
    let mut world = World::new(2);
    world.bootstrap_ready("data");
    world.machines(2);
    world.node(1);
    let events = |world: &World| -> Vec<String> {
        let decided = world.decide();
        let changes = decided.management.changes();
        changes.filter_map(|change| change.event().map(|event| event.message.clone())).collect()
    };
    assert_eq!(events(&world), ["1 Node: node-1"]);
    world.settle();
    world.patch::<Node>("node-1", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}}));
    assert_eq!(events(&world), Vec::<String>::new());
    world.node(2);
    assert_eq!(events(&world), ["2 Nodes: node-1, node-2"]);
}

#[test]
fn of_two_nodes_with_one_provider_id_the_recorded_one_counts() {
    let mut world = World::running(1);
    world.create::<Node>(node("again", &id(1)));
    world.settle();
    assert_eq!(
        (world.refs(), world.old_number("readyReplicas"), world.nodes().len()),
        (vec!["node-1".to_owned()], 1, 2)
    );
    world.delete::<Node>("node-1");
    world.settle();
    assert_eq!(world.refs(), ["again"]);
}

/// Two pools whose providers list the same machine.
#[test]
fn node_of_two_pools_is_marked_by_one_and_deleted_by_none() {
    let mut world = World::running(1);
    let mut other = pool("other", 1);
    other["spec"]["providerIDList"] = json!([id(1)]);
    world.create::<MachinePool>(other);
    let report = world.settle();
    assert_eq!(report.waiting[0].to_string(), "cloud:////id-1 is also listed by MachinePool other");
    assert_eq!(marks(&world, "node-1")["cluster.x-k8s.io/owner-name"], "pool");
    world.edit(json!({"spec": {"replicas": 0}}));
    world.listed(&[], 0);
    world.settle();
    assert_eq!((world.nodes().len(), world.refs().len()), (1, 0));
}
