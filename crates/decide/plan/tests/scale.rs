//! A large pool is decided in one pass: what thousands wait for is kept once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::support::{inputs, node, pool};
use k8s_openapi::api::core::v1::Node;
use seaworthy_plan::fleet::NodeView;
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::waiting::Reason;
use serde_json::json;

#[test]
fn who_uses_the_budget_is_listed_once_for_all_who_wait() {
    let nodes: Vec<Node> =
        (0..5000).map(|nth| node(&format!("n{nth:04}"), if nth < 400 { "0/1R" } else { "0/0R" })).collect();
    let pool = pool("worker", "1", json!({"maxUnavailable": "10%"}));
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let first_boot_pools = FirstBootPools::default();
    let decision = rollout::decide(&inputs(&pool, &members, &first_boot_pools));
    assert_eq!((decision.capacity, decision.chosen.len()), (100, 100));
    let lists: Vec<_> = decision
        .waiting
        .iter()
        .filter_map(|waiting| match &waiting.reason {
            Reason::Budget { used_by, .. } => Some(used_by),
            _ => None,
        })
        .collect();
    assert_eq!(lists.len(), 4500);
    assert_eq!(lists[0].len(), 500);
    assert!(lists.iter().all(|list| Arc::ptr_eq(list, lists[0])));
    let text = decision.waiting.last().unwrap().reason.to_string();
    assert_eq!(text, "budget 500 used by n0000; n0001; n0002 and 497 more");
}
