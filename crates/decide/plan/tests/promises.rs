//! What open promises mean to others, and what a promise has room for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::support::{NONE, inputs, node, pool};
use k8s_openapi::api::core::v1::Node;
use seaworthy_plan::fleet::custom_boot::Boots;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout::reservation::{MOST_BYTES, Promise};
use seaworthy_plan::rollout::waiting::Reason;
use seaworthy_plan::rollout::{self, Partner};
use serde_json::json;

fn at(name: &str, text: &str, revision: &str) -> Node {
    let mut node = node(name, text);
    node.metadata.resource_version = Some(revision.to_owned());
    node
}

fn promise(node: &str, revision: &str) -> Promise {
    Promise { config: "1".to_owned(), nodes: BTreeMap::from([(node.to_owned(), revision.to_owned())]) }
}

/// Who moves of two pools that keep quorum together, and who is fenced; each with what is promised on it.
fn quorum(own: &str, promised: [&Promise; 2]) -> [Vec<String>; 2] {
    let (master, arbiter) = (pool("master", "1", json!({})), pool("arbiter", "1", json!({})));
    // The control plane is through with it, so that the arbiter may move.
    let text = if own == "master" { "0/0R" } else { "1/1R" };
    let objects = [at("m0", text, "7"), at("m1", text, "7"), at("a0", "0/0R", "7")];
    let views: Vec<NodeView<'_>> = objects.iter().map(|node| NodeView::of(node, None)).collect();
    let masters = [(PoolView::of(&master), vec![&views[0], &views[1]]), (PoolView::of(&arbiter), vec![&views[2]])];
    let [of_master, of_arbiter] = masters;
    let (mine, other) = if own == "master" { (of_master, of_arbiter) } else { (of_arbiter, of_master) };
    let boots = Boots::default();
    let partner = Partner { pool: other.0, nodes: &other.1, promised: promised[1] };
    let inputs =
        rollout::Inputs { partner: Some(partner), promised: promised[0], ..inputs(mine.0.object, &mine.1, &boots) };
    let decision = rollout::decide(&inputs);
    [decision.chosen, decision.fence].map(|names| names.into_iter().map(str::to_owned).collect())
}

#[test]
fn quorum_counts_what_is_promised_to_the_other_pool() {
    assert_eq!(quorum("master", [&NONE, &NONE]), [vec!["m0"], vec![]]);
    assert_eq!(quorum("master", [&NONE, &promise("a0", "7")]), [vec![""; 0], vec![]]);
    assert_eq!(quorum("arbiter", [&NONE, &NONE]), [vec!["a0"], vec![]]);
    assert_eq!(quorum("arbiter", [&NONE, &promise("m1", "7")]), [vec![""; 0], vec![]]);
    assert_eq!(quorum("arbiter", [&NONE, &promise("m1", "6")]), [vec!["a0"], vec![]], "that order is refused by now");
}

#[test]
fn two_pools_that_have_both_promised_do_not_wait_for_each_other_for_ever() {
    let (of_master, of_arbiter) = (promise("m0", "7"), promise("a0", "7"));
    // Each sees the promise of the other, and takes its own back by touching its node.
    assert_eq!(quorum("master", [&of_master, &of_arbiter]), [vec![], vec!["m0"]]);
    assert_eq!(quorum("arbiter", [&of_arbiter, &of_master]), [vec![], vec!["a0"]]);
}

#[test]
fn paused_pool_takes_back_what_it_has_promised() {
    let paused = pool("worker", "1", json!({"paused": true}));
    let node = at("w0", "0/0R", "7");
    let view = NodeView::of(&node, None);
    let (members, boots, promised) = ([&view], Boots::default(), promise("w0", "7"));
    let decision = rollout::decide(&rollout::Inputs { promised: &promised, ..inputs(&paused, &members, &boots) });
    assert_eq!((decision.chosen, decision.fence), (vec![], vec!["w0"]));
}

#[test]
fn who_only_the_promise_has_no_room_for_is_told_so() {
    let nodes: Vec<Node> = (0..1200).map(|nth| at(&format!("{nth:0>253}"), "0/0R", "1234567")).collect();
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let (members, boots) = (views.iter().collect::<Vec<_>>(), Boots::default());
    let pool = pool("worker", "1", json!({"maxUnavailable": 1100}));
    let decision = rollout::decide(&inputs(&pool, &members, &boots));
    let chosen = decision.chosen.len();
    let promise = NONE.next(&decision.chosen, &members, PoolView::of(&pool).target()).unwrap();
    assert_eq!(promise.nodes.len(), chosen);
    assert!((400..600).contains(&chosen) && promise.to_text().len() <= MOST_BYTES, "{chosen}");
    let count = |is: fn(&Reason) -> bool| decision.waiting.iter().filter(|waiting| is(&waiting.reason)).count();
    assert_eq!(count(|reason| matches!(reason, Reason::Budget { .. })), 100);
    assert_eq!(count(|reason| matches!(reason, Reason::OrdersInProgress { .. })), 1100 - chosen);
    let said = decision.waiting.iter().find(|waiting| matches!(waiting.reason, Reason::OrdersInProgress { .. }));
    let said = said.unwrap().reason.to_string();
    assert_eq!(said, format!("waits until some of the {chosen} nodes that were ordered before it have answered"));
}

#[test]
fn broken_nodes_beyond_the_room_of_a_promise_are_told_so_too() {
    let nodes: Vec<Node> = (0..1100).map(|nth| at(&format!("n{nth:04}"), "0/other-targetR Degraded", "5")).collect();
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let (members, boots) = (views.iter().collect::<Vec<_>>(), Boots::default());
    let pool = pool("worker", "1", json!({"maxUnavailable": 1}));
    let decision = rollout::decide(&inputs(&pool, &members, &boots));
    assert_eq!((decision.chosen.len(), decision.waiting.len()), (1000, 100));
    assert!(decision.waiting.iter().all(|waiting| waiting.reason == Reason::OrdersInProgress { count: 1000 }));
}
