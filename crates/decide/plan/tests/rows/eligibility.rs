//! Eligibility, beyond upstream: broken nodes go first, and every node that waits has a reason.

use rstest::rstest;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_plan::fleet::NodeView;
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::rollout;
use serde_json::{Value, json};

use crate::rows::targeting::patches;
use crate::rows::worker;
use crate::support::{NOW, annotate, decide, inputs, node, nodes, owned, pool};

#[rstest]
#[case::no_budget_left(json!(1), &["0/2R Degraded", "0/1R", "0/0R"], &["n0"])]
#[case::not_ready(json!(1), &["0/2N Degraded", "0/0R"], &["n0"])]
#[case::unreadable_budget(json!("x"), &["0/2R Unreconcilable", "0/0R"], &["n0"])]
#[case::first_and_the_rest_of_the_budget_after_it(json!(2), &["0/0R", "0/0R", "0/2R Degraded"], &["n2", "n0"])]
#[case::failed_with_what_it_runs(json!(1), &["0/0R Degraded", "0/0R"], &["n0"])]
#[case::all_of_them(json!(1), &["0/2R Degraded", "0/2R Degraded", "0/0R"], &["n0", "n1"])]
fn a_node_that_the_last_target_broke_goes_first_whatever_the_budget(
    #[case] max: Value,
    #[case] texts: &[&str],
    #[case] chosen: &[&str],
) {
    assert_eq!(decide(&worker(max), &nodes(texts)).chosen, chosen);
}

#[rstest]
#[case::its_own_revert(json!(1), &["1/2R Done", "1/1R"], &["n0"])]
#[case::a_newer_target(json!(1), &["0/2R Done", "0/0R"], &["n0"])]
#[case::not_ready(json!(1), &["0/2N Done", "0/0R"], &["n0"])]
#[case::after_the_broken(json!(1), &["0/2R Done", "0/2R Degraded", "0/0R"], &["n1", "n0"])]
#[case::its_part_of_the_budget_stays_taken(json!(2), &["0/2R Done", "0/0R", "0/0R"], &["n0", "n1"])]
#[case::unreadable_budget(json!("x"), &["0/2R Done", "0/0R"], &["n0"])]
#[case::no_budget_ever(json!(-1), &["0/2R Done", "0/0R"], &["n0"])]
#[case::not_one_that_has_begun(json!(1), &["0/2R Working", "0/0R"], &[])]
#[case::not_one_that_has_this_order(json!(1), &["0/1R Done", "0/0R"], &[])]
fn an_order_that_was_not_begun_is_taken_back_at_once(
    #[case] max: Value,
    #[case] texts: &[&str],
    #[case] chosen: &[&str],
) {
    assert_eq!(decide(&worker(max), &nodes(texts)).chosen, chosen);
}

#[test]
fn machine_that_was_not_adopted_gets_no_order_and_blocks_no_other_node() {
    let mut all = nodes(&["0/0R", "0/0R", "0/0R Degraded", "0/0R Degraded"]);
    for node in &mut all[2..] {
        let annotations = node.metadata.annotations.as_mut().unwrap();
        annotations.retain(|key, _| !key.ends_with("Config"));
        annotate(node, annotation::REASON, "annotate it");
    }
    let decided = decide(&worker(json!(1)), &all);
    assert_eq!(decided.chosen, ["n0"]);
    for name in ["n2", "n3"] {
        assert_eq!(decided.waiting[name], "failed: annotate it");
    }
    // One that is not to be relied on counts all the same.
    let mut away = nodes(&["0/0N Degraded", "0/0R"]);
    away[0].metadata.annotations.as_mut().unwrap().retain(|key, _| !key.ends_with("Config"));
    assert!(decide(&worker(json!(1)), &away).chosen.is_empty());
}

#[rstest]
#[case::its_pods_have_not_left("drain-2", "uncordon-0", &["n0"])]
#[case::never_drained_before("drain-2", "", &["n0"])]
#[case::its_pods_have_left("drain-2", "drain-2", &[])]
#[case::it_has_booted_and_lets_pods_in_again("uncordon-2", "drain-2", &[])]
#[case::it_did_not_ask("", "", &[])]
#[case::it_asked_for_an_order_before("drain-0", "", &[])]
fn an_order_that_waits_for_pods_is_taken_back_whatever_holds_them(
    #[case] asked: &str,
    #[case] done: &str,
    #[case] chosen: &[&str],
) {
    let mut nodes = nodes(&["1/2R Working", "1/1R"]);
    annotate(&mut nodes[0], annotation::DESIRED_DRAIN, asked);
    annotate(&mut nodes[0], annotation::LAST_APPLIED_DRAIN, done);
    assert_eq!(decide(&worker(json!(1)), &nodes).chosen, chosen);
}

#[test]
fn a_paused_pool_takes_an_order_back_where_that_leaves_the_node_as_it_is() {
    let pool = pool("worker", "1", json!({"paused": true}));
    let mut nodes = nodes(&["1/2R Working", "0/2R Working", "0/0R", "1/2R Done"]);
    for node in &mut nodes[..2] {
        annotate(node, annotation::DESIRED_DRAIN, "drain-2");
    }
    let decided = decide(&pool, &nodes);
    assert_eq!(decided.chosen, ["n0", "n3"]);
    // The other goes on as soon as its pods have left, which the reason has to show.
    assert_eq!(decided.waiting["n1"], "still updating to 2");
    assert_eq!(decided.waiting["n2"], "paused: spec.paused of pool worker is true");
    let ordered: Vec<String> = patches(&pool, &nodes).into_keys().collect();
    assert_eq!(ordered, ["n0", "n3"], "no other node is touched");
}

#[test]
fn pause_does_not_hide_that_a_node_has_no_daemon() {
    let mut nodes = nodes(&["0/0R"]);
    nodes[0].metadata.annotations = None;
    let decided = decide(&pool("worker", "1", json!({"paused": true})), &nodes);
    assert!(decided.waiting["n0"].starts_with("no node daemon"), "{}", decided.waiting["n0"]);
}

#[rstest]
#[case::paused(json!({"paused": true}), None)]
#[case::node_paused(json!({}), Some("debugging"))]
fn an_order_is_not_taken_back_where_nothing_may_move(#[case] spec: Value, #[case] paused: Option<&str>) {
    let mut nodes = nodes(&["0/2R Done"]);
    if let Some(why) = paused {
        annotate(&mut nodes[0], seaworthy_api::vocabulary::seaworthy::annotation::PAUSED, why);
    }
    assert!(decide(&pool("worker", "1", spec), &nodes).chosen.is_empty());
}

#[test]
fn broken_nodes_up_to_the_size_of_a_reservation_move_at_once_and_the_rest_after_them() {
    let broken = vec!["0/2R Degraded"; seaworthy_plan::rollout::reservation::MAX_NODES + 1];
    let decided = decide(&worker(json!(1)), &nodes(&broken));
    assert_eq!(decided.chosen.len(), seaworthy_plan::rollout::reservation::MAX_NODES);
    assert_eq!(decided.waiting.len(), 1);
}

#[test]
fn a_broken_node_of_a_paused_pool_waits_too() {
    let pool = pool("worker", "1", json!({"paused": true}));
    let decided = decide(&pool, &nodes(&["0/2R Degraded"]));
    assert!(decided.chosen.is_empty());
    assert_eq!(decided.waiting["n0"], "paused: spec.paused of pool worker is true");
}

#[test]
fn an_annotation_keeps_one_node_back_and_no_other() {
    let mut nodes = nodes(&["0/0R", "0/0R", "0/2R Degraded"]);
    annotate(&mut nodes[0], seaworthy_api::vocabulary::seaworthy::annotation::PAUSED, "kernel debugging");
    annotate(&mut nodes[2], seaworthy_api::vocabulary::seaworthy::annotation::PAUSED, "");
    let decided = decide(&worker(json!(3)), &nodes);
    assert_eq!(decided.chosen, ["n1"]);
    assert_eq!(decided.waiting["n0"], "paused by annotation seaworthy.dev/paused: kernel debugging");
    assert_eq!(decided.waiting["n2"], "paused by annotation seaworthy.dev/paused");
}

#[test]
fn a_hold_keeps_nodes_back_until_its_time_and_never_a_broken_one() {
    let hold = seaworthy_plan::rollout::hold::Hold {
        kind: seaworthy_plan::rollout::hold::HoldKind::Window,
        scope: seaworthy_plan::rollout::hold::HoldScope::AllExcept(["n1".to_owned()].into()),
        what: "the window \"nights\"".to_owned(),
        until: Some(NOW + k8s_openapi::jiff::SignedDuration::from_mins(5)),
    };
    let pool = worker(json!(3));
    let nodes = nodes(&["0/0R", "0/0R", "0/2R Degraded"]);
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let (first_boot_pools, holds) = (FirstBootPools::default(), [hold]);
    let decision =
        rollout::decide(&rollout::RolloutInputs { holds: &holds, ..inputs(&pool, &members, &first_boot_pools) });
    assert_eq!(decision.chosen, ["n2", "n1"]);
    assert_eq!(decision.recheck, Some(k8s_openapi::jiff::SignedDuration::from_mins(5)));
    assert_eq!(owned(&decision).waiting["n0"], "waits for the window \"nights\"");
}

#[rstest]
#[case("0/1R", "is updating")]
#[case("0/1R Degraded", "failed; its daemon reported no reason")]
#[case("1/1R Degraded", "failed; its daemon reported no reason")]
#[case("0/0N", "not ready: condition Ready is False")]
#[case("0/0R", "budget 1 used by away")]
#[case("0/2R", "still updating to 2")]
fn every_node_that_stays_has_a_reason(#[case] text: &str, #[case] reason: &str) {
    let mut nodes = nodes(&[text]);
    nodes.push(node("away", "1/1N"));
    assert_eq!(decide(&worker(json!(1)), &nodes).waiting["n0"], reason);
}

#[test]
fn foreign_cordon_is_a_reason_and_budget_holders_are_named_with_the_time() {
    let mut nodes = nodes(&["0/0R", "0/0R", "1/1N"]);
    nodes[0].spec.as_mut().unwrap().unschedulable = Some(true);
    let conditions = nodes[2].status.as_mut().unwrap().conditions.as_mut().unwrap();
    let since = NOW - k8s_openapi::jiff::SignedDuration::from_mins(14);
    conditions[0].last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
    let decided = decide(&worker(json!(2)), &nodes);
    assert_eq!(decided.waiting["n0"], "cordoned by a user or another controller; `kubectl uncordon` allows its update");
    assert_eq!(decided.waiting["n1"], "budget 2 used by n2, 14 min; n0");
}

/// No daemon would carry out an order there, and such a node waits for no budget that it uses up itself.
#[test]
fn node_without_a_daemon_reports_that_whether_it_has_an_order_or_not() {
    let mut mute = node("n1", "/R");
    mute.metadata.annotations = None;
    let mut ordered = mute.clone();
    ordered.metadata.name = Some("n2".to_owned());
    annotate(&mut ordered, annotation::DESIRED_CONFIG, "1");
    let decided = decide(&worker(json!(1)), &[node("n0", "0/0R"), mute.clone(), ordered]);
    assert!(decided.waiting["n1"].starts_with("no node daemon has reported"), "{decided:?}");
    assert!(decided.waiting["n2"].starts_with("no node daemon has reported"), "{decided:?}");
    assert_eq!(decided.waiting["n0"], "budget 1 used by n1; n2");
    // As upstream: such a node is one of the candidates.
    assert_eq!(decide(&worker(json!(2)), &[mute]).chosen, ["n1"]);
}

#[test]
fn a_node_that_uses_the_budget_up_itself_does_not_wait_for_it() {
    let decided = decide(&worker(json!(1)), &[node("n0", "0/0R Working")]);
    assert_eq!(decided.waiting["n0"], "still updating to 0");
}
