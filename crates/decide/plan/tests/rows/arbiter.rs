//! Arbiters, and the node with the controllers.

use rstest::rstest;
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::QuorumPartner;
use serde_json::json;

use crate::support;
use crate::support::{decide, decide_with, inputs, node, nodes, owned, pool};

#[rstest]
#[case::masters_ready(&["0/0R", "0/0R"], true, &["a0"])]
#[case::one_master_not_ready(&["0/0R", "0/0N"], true, &[])]
#[case::masters_go_first(&["0/0R", "0/0R"], false, &[])]
#[case::masters_are_done(&["1/1R", "1/1R"], false, &["a0"])]
#[case::a_master_is_on_its_way(&["1/1R", "0/1R"], false, &[])]
fn row_119_an_arbiter_moves_when_no_master_is_away_or_about_to_be(
    #[case] masters: &[&str],
    #[case] is_paused: bool,
    #[case] chosen: &[&str],
) {
    let master = pool("master", "1", json!({"paused": is_paused}));
    let masters = nodes(masters);
    let views: Vec<NodeView<'_>> = masters.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let arbiter = pool("arbiter", "1", json!({}));
    let arbiters = [node("a0", "0/0R")];
    let arbiter_views: Vec<NodeView<'_>> = arbiters.iter().map(|node| NodeView::of(node, None)).collect();
    let arbiter_members: Vec<&NodeView<'_>> = arbiter_views.iter().collect();
    let first_boot_pools = FirstBootPools::default();
    let partner = QuorumPartner { pool: PoolView::of(&master), nodes: &members, reservation: &support::NONE };
    let inputs =
        rollout::RolloutInputs { partner: Some(partner), ..inputs(&arbiter, &arbiter_members, &first_boot_pools) };
    let decided = owned(&rollout::decide(&inputs));
    assert_eq!(decided.chosen, chosen);
    if chosen.is_empty() {
        assert!(decided.waiting["a0"].starts_with("waiting for quorum: unavailable in pool master: "), "{decided:?}");
    }
    if is_paused {
        assert!(decide(&master, &masters).chosen.is_empty());
    }
}

#[test]
fn row_119_masters_wait_for_an_arbiter_that_is_away() {
    let master = pool("master", "1", json!({}));
    let masters = nodes(&["0/0R", "0/0R"]);
    let views: Vec<NodeView<'_>> = masters.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let arbiter = pool("arbiter", "1", json!({}));
    let first_boot_pools = FirstBootPools::default();
    for (text, chosen) in [("0/1R", 0), ("1/1N", 0), ("0/0R", 1)] {
        let arbiters = [node("a0", text)];
        let arbiter_views: Vec<NodeView<'_>> = arbiters.iter().map(|node| NodeView::of(node, None)).collect();
        let arbiter_members: Vec<&NodeView<'_>> = arbiter_views.iter().collect();
        let partner =
            QuorumPartner { pool: PoolView::of(&arbiter), nodes: &arbiter_members, reservation: &support::NONE };
        let inputs = rollout::RolloutInputs { partner: Some(partner), ..inputs(&master, &members, &first_boot_pools) };
        assert_eq!(rollout::decide(&inputs).chosen.len(), chosen, "{text}");
    }
}

#[test]
fn the_node_with_the_controllers_comes_last_and_the_event_reports_it() {
    let master = pool("master", "1", json!({}));
    let with = |operators: &'static [&'static str], texts: &[&str]| {
        decide_with(&master, &nodes(texts), |inputs| inputs.operator_nodes = operators)
    };
    let decided = with(&["n0"], &["0/0R", "0/0R"]);
    assert_eq!(decided.chosen, ["n1"]);
    assert_eq!(decided.waiting["n0"], "runs the controllers; the other nodes of its pool are updated first");
    // It is the last one, or the controllers run on several nodes.
    assert_eq!(with(&["n0"], &["0/0R", "1/1R"]).chosen, ["n0"]);
    assert_eq!(with(&["n0", "n1"], &["0/0R", "0/0R"]).chosen, ["n0"]);
    let worker = pool("worker", "1", json!({}));
    let decided = decide_with(&worker, &nodes(&["0/0R", "0/0R"]), |inputs| inputs.operator_nodes = &["n0"]);
    assert_eq!(decided.chosen, ["n0"]);
}
