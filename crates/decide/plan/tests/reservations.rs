//! Reservations: what open ones mean to the quorum partner, and how many nodes one has room for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::support::{NONE, inputs, node, pool};
use k8s_openapi::api::core::v1::Node;
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout::reservation::{MAX_BYTES, Reservation};
use seaworthy_plan::rollout::waiting::Reason;
use seaworthy_plan::rollout::{self, QuorumPartner};
use serde_json::json;

fn at(name: &str, text: &str, revision: &str) -> Node {
    let mut node = node(name, text);
    node.metadata.resource_version = Some(revision.to_owned());
    node
}

fn reservation(node: &str, revision: &str) -> Reservation {
    Reservation { config: "1".to_owned(), nodes: BTreeMap::from([(node.to_owned(), revision.to_owned())]) }
}

/// The nodes that move and those that are fenced, of two pools that keep quorum together, with their reservations.
fn quorum(own: &str, reservation: [&Reservation; 2]) -> [Vec<String>; 2] {
    let (master, arbiter) = (pool("master", "1", json!({})), pool("arbiter", "1", json!({})));
    // The control plane is through with it, so that the arbiter may move.
    let text = if own == "master" { "0/0R" } else { "1/1R" };
    let objects = [at("m0", text, "7"), at("m1", text, "7"), at("a0", "0/0R", "7")];
    let views: Vec<NodeView<'_>> = objects.iter().map(|node| NodeView::of(node, None)).collect();
    let masters = [(PoolView::of(&master), vec![&views[0], &views[1]]), (PoolView::of(&arbiter), vec![&views[2]])];
    let [of_master, of_arbiter] = masters;
    let (mine, other) = if own == "master" { (of_master, of_arbiter) } else { (of_arbiter, of_master) };
    let first_boot_pools = FirstBootPools::default();
    let partner = QuorumPartner { pool: other.0, nodes: &other.1, reservation: reservation[1] };
    let inputs = rollout::RolloutInputs {
        partner: Some(partner),
        reservation: reservation[0],
        ..inputs(mine.0.object, &mine.1, &first_boot_pools)
    };
    let decision = rollout::decide(&inputs);
    [decision.chosen, decision.fence].map(|names| names.into_iter().map(str::to_owned).collect())
}

#[test]
fn quorum_counts_reservations_of_the_other_pool() {
    assert_eq!(quorum("master", [&NONE, &NONE]), [vec!["m0"], vec![]]);
    assert_eq!(quorum("master", [&NONE, &reservation("a0", "7")]), [vec![""; 0], vec![]]);
    assert_eq!(quorum("arbiter", [&NONE, &NONE]), [vec!["a0"], vec![]]);
    assert_eq!(quorum("arbiter", [&NONE, &reservation("m1", "7")]), [vec![""; 0], vec![]]);
    assert_eq!(
        quorum("arbiter", [&NONE, &reservation("m1", "6")]),
        [vec!["a0"], vec![]],
        "that order is refused by now"
    );
}

#[test]
fn two_pools_with_open_reservations_do_not_deadlock() {
    let (of_master, of_arbiter) = (reservation("m0", "7"), reservation("a0", "7"));
    // Each sees the reservation of the other, and revokes its own by fencing its node.
    assert_eq!(quorum("master", [&of_master, &of_arbiter]), [vec![], vec!["m0"]]);
    assert_eq!(quorum("arbiter", [&of_arbiter, &of_master]), [vec![], vec!["a0"]]);
}

#[test]
fn paused_pool_fences_its_open_reservations() {
    let paused = pool("worker", "1", json!({"paused": true}));
    let node = at("w0", "0/0R", "7");
    let view = NodeView::of(&node, None);
    let (members, first_boot_pools, reservation) = ([&view], FirstBootPools::default(), reservation("w0", "7"));
    let decision = rollout::decide(&rollout::RolloutInputs {
        reservation: &reservation,
        ..inputs(&paused, &members, &first_boot_pools)
    });
    assert_eq!((decision.chosen, decision.fence), (vec![], vec!["w0"]));
}

#[test]
fn node_beyond_a_full_reservation_waits_for_orders_in_progress() {
    let nodes: Vec<Node> = (0..1200).map(|nth| at(&format!("{nth:0>253}"), "0/0R", "1234567")).collect();
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let (members, first_boot_pools) = (views.iter().collect::<Vec<_>>(), FirstBootPools::default());
    let pool = pool("worker", "1", json!({"maxUnavailable": 1100}));
    let decision = rollout::decide(&inputs(&pool, &members, &first_boot_pools));
    let chosen = decision.chosen.len();
    let reservation = NONE.next(&decision.chosen, &members, PoolView::of(&pool).target()).unwrap();
    assert_eq!(reservation.nodes.len(), chosen);
    assert!((400..600).contains(&chosen) && reservation.to_text().len() <= MAX_BYTES, "{chosen}");
    let count = |is: fn(&Reason) -> bool| decision.waiting.iter().filter(|waiting| is(&waiting.reason)).count();
    assert_eq!(count(|reason| matches!(reason, Reason::Budget { .. })), 100);
    assert_eq!(count(|reason| matches!(reason, Reason::OrdersInProgress { .. })), 1100 - chosen);
    let text = decision.waiting.iter().find(|waiting| matches!(waiting.reason, Reason::OrdersInProgress { .. }));
    let text = text.unwrap().reason.to_string();
    assert_eq!(text, format!("waiting: {chosen} orders are in progress"));
}

#[test]
fn broken_node_beyond_a_full_reservation_waits_for_orders_in_progress() {
    let nodes: Vec<Node> = (0..1100).map(|nth| at(&format!("n{nth:04}"), "0/other-targetR Degraded", "5")).collect();
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let (members, first_boot_pools) = (views.iter().collect::<Vec<_>>(), FirstBootPools::default());
    let pool = pool("worker", "1", json!({"maxUnavailable": 1}));
    let decision = rollout::decide(&inputs(&pool, &members, &first_boot_pools));
    assert_eq!((decision.chosen.len(), decision.waiting.len()), (1000, 100));
    assert!(decision.waiting.iter().all(|waiting| waiting.reason == Reason::OrdersInProgress { count: 1000 }));
}
