//! Membership: the pool that a node belongs to.

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use seaworthy_plan::fleet::membership::{Membership, PoolSelectors};
use seaworthy_plan::fleet::{NodeView, PoolView};
use serde_json::json;

use crate::rows::worker;
use crate::support::{node, pool};

#[rstest]
#[case(&[], &[], "")]
#[case(&["master"], &["master"], "")]
#[case(&["master", "worker"], &["master", "worker"], "")]
#[case(&["worker"], &["worker"], "")]
#[case(&["worker", "infra"], &["infra", "worker"], "")]
#[case(&["infra"], &["infra"], "")]
#[case(&["master", "infra"], &["master"], "infra")]
#[case(&["arbiter"], &["arbiter"], "")]
fn row_90_labels_decide_the_pool(#[case] roles: &[&str], #[case] expected: &[&str], #[case] ignored: &str) {
    let all = ["master", "worker", "infra", "infra2", "arbiter"].map(|name| pool(name, "1", json!({})));
    let pools = PoolSelectors::new(all.iter().map(PoolView::of));
    let node = labelled(roles);
    let membership = pools.of(&NodeView::of(&node, None));
    assert_eq!(membership.affected_pools(), expected);
    assert_eq!(membership.primary(), expected.first().copied());
    if let Membership::In { ignored: found, .. } = membership {
        assert_eq!(found.unwrap_or_default(), ignored);
    }
}

fn labelled(roles: &[&str]) -> Node {
    let mut node = node("n", "1/1R");
    node.metadata.labels =
        Some(roles.iter().map(|role| (format!("node-role.kubernetes.io/{role}"), String::new())).collect());
    node
}

#[test]
fn row_90_two_custom_pools_are_one_too_many_and_both_are_affected() {
    let all = ["master", "infra", "infra2"].map(|name| pool(name, "1", json!({})));
    let pools = PoolSelectors::new(all.iter().map(PoolView::of));
    for roles in [&["infra", "infra2"][..], &["master", "infra", "infra2"]] {
        let node = labelled(roles);
        let membership = pools.of(&NodeView::of(&node, None));
        assert_eq!(membership, Membership::Conflict(vec!["infra", "infra2"]));
        assert_eq!(membership.affected_pools(), ["infra", "infra2"]);
        let reason = membership.reason().unwrap().to_string();
        assert_eq!(reason, "belongs to 2 custom pools (infra, infra2); a node can be in only one");
    }
}

#[test]
fn row_90_windows_belongs_nowhere() {
    let worker = worker(json!(1));
    let mut node = labelled(&["worker"]);
    node.metadata.labels.as_mut().unwrap().insert("kubernetes.io/os".into(), "windows".into());
    let pools = PoolSelectors::new([PoolView::of(&worker)]);
    assert_eq!(pools.of(&NodeView::of(&node, None)), Membership::UnsupportedOs);
}

#[test]
fn selector_that_selects_all_or_is_invalid_selects_no_node_and_harms_no_other_pool() {
    let all = pool("all", "1", json!({"nodeSelector": {}}));
    let wrong = pool("wrong", "1", json!({"nodeSelector": {"matchExpressions": [{"key": "k", "operator": "Foo"}]}}));
    let without = pool("without", "1", json!({"nodeSelector": null}));
    let worker = worker(json!(1));
    let pools = PoolSelectors::new([&all, &wrong, &without, &worker].map(PoolView::of));
    assert_eq!(pools.matching_all, ["all"]);
    assert_eq!(pools.invalid.len(), 1);
    let node = node("n", "1/1R");
    assert_eq!(pools.of(&NodeView::of(&node, None)).affected_pools(), ["worker"]);
}
