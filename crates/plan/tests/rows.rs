//! The rows of the specification's table (machineconfig.md, section 8) about pools, nodes and status: 90 to 119.
//!
//! Elsewhere: 85 to 89 beside `reconcilable`, 91 and 92 beside `budget`. Left out: 120 to 125, which are about rendering,
//! bootstrap files and conversions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use rstest::rstest;
use seaworthy_api::machineconfiguration::controller_config::ControllerCertificate;
use seaworthy_api::machineconfiguration::{MachineConfigNode, MachineConfigPool};
use seaworthy_api::meta::LabelSelector;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_plan::change::Change;
use seaworthy_plan::custom_boot::Boots;
use seaworthy_plan::fleet::{NodeView, PoolView, Target};
use seaworthy_plan::membership::{Membership, Pools};
use seaworthy_plan::remark::{Remarks, dispute, unsettled};
use seaworthy_plan::rollout::Partner;
use seaworthy_plan::{pool_status, rollout, targeting};
use serde_json::{Value, json};
use support::{NOW, annotate, condition, created, decide, decide_with, inputs, node, nodes, owned, pool, status};

fn worker(max: Value) -> MachineConfigPool {
    pool("worker", "1", json!({ "maxUnavailable": max }))
}

// === 90: which pool ===

#[rstest]
#[case(&[], &[], "")]
#[case(&["master"], &["master"], "")]
#[case(&["master", "worker"], &["master", "worker"], "")]
#[case(&["worker"], &["worker"], "")]
#[case(&["worker", "infra"], &["infra", "worker"], "")]
#[case(&["infra"], &["infra"], "")]
#[case(&["master", "infra"], &["master"], "infra")]
#[case(&["arbiter"], &["arbiter"], "")]
fn row_90_labels_decide_the_pool(#[case] roles: &[&str], #[case] expected: &[&str], #[case] in_vain: &str) {
    let all = ["master", "worker", "infra", "infra2", "arbiter"].map(|name| pool(name, "1", json!({})));
    let pools = Pools::new(all.iter().map(PoolView::of));
    let node = labelled(roles);
    let membership = pools.of(&NodeView::of(&node, None));
    assert_eq!(membership.concerned(), expected);
    assert_eq!(membership.primary(), expected.first().copied());
    if let Membership::In { in_vain: found, .. } = membership {
        assert_eq!(found.unwrap_or_default(), in_vain);
    }
}

fn labelled(roles: &[&str]) -> Node {
    let mut node = node("n", "1/1R");
    node.metadata.labels =
        Some(roles.iter().map(|role| (format!("node-role.kubernetes.io/{role}"), String::new())).collect());
    node
}

#[test]
fn row_90_two_custom_pools_are_one_too_many_and_both_are_told() {
    let all = ["master", "infra", "infra2"].map(|name| pool(name, "1", json!({})));
    let pools = Pools::new(all.iter().map(PoolView::of));
    for roles in [&["infra", "infra2"][..], &["master", "infra", "infra2"]] {
        let node = labelled(roles);
        let membership = pools.of(&NodeView::of(&node, None));
        assert_eq!(membership, Membership::Torn(vec!["infra", "infra2"]));
        assert_eq!(membership.concerned(), ["infra", "infra2"]);
        let reason = membership.reason().unwrap().to_string();
        assert_eq!(reason, "belongs to 2 custom pools (infra, infra2); leave it in one");
    }
}

#[test]
fn row_90_windows_belongs_nowhere() {
    let worker = worker(json!(1));
    let mut node = labelled(&["worker"]);
    node.metadata.labels.as_mut().unwrap().insert("kubernetes.io/os".into(), "windows".into());
    let pools = Pools::new([PoolView::of(&worker)]);
    assert_eq!(pools.of(&NodeView::of(&node, None)), Membership::Foreign);
}

#[test]
fn a_selector_that_selects_all_or_is_wrong_selects_nobody_and_harms_no_other_pool() {
    let all = pool("all", "1", json!({"nodeSelector": {}}));
    let wrong = pool("wrong", "1", json!({"nodeSelector": {"matchExpressions": [{"key": "k", "operator": "Foo"}]}}));
    let without = pool("without", "1", json!({"nodeSelector": null}));
    let worker = worker(json!(1));
    let pools = Pools::new([&all, &wrong, &without, &worker].map(PoolView::of));
    assert_eq!(pools.selecting_all, ["all"]);
    assert_eq!(pools.broken.len(), 1);
    let node = node("n", "1/1R");
    assert_eq!(pools.of(&NodeView::of(&node, None)).concerned(), ["worker"]);
}

// === 93 to 103: capacity, candidates, order ===

#[rstest]
#[case::row_93(json!(1), &["1/1R", "1/1R", "1/1R"], &[], 1)]
#[case::row_94_not_ready(json!(1), &["1/1R", "1/1R", "1/1N"], &[], 0)]
#[case::row_94_two_away(json!(1), &["1/1R", "1/1N", "0/1R"], &[], 0)]
#[case::row_94_one_on_its_way(json!(1), &["1/1R", "1/1R", "0/1R", "0/0R", "0/0R"], &[], 0)]
#[case::row_95(json!(2), &["0/0N", "0/0R", "0/0R"], &["n1", "n2"], 1)]
#[case::row_96(json!(3), &["1/1R", "1/1N", "0/1R", "0/0R", "0/0R"], &["n3", "n4"], 1)]
#[case::row_97(json!(1), &["1/1R", "x/yR Degraded", "0/0R"], &["n1", "n2"], 1)]
#[case::row_98(json!(1), &["1/1R", "1/1R Degraded", "0/0R"], &[], 0)]
#[case::row_99(json!(1), &["1/1R", "1/1R", "1/2R Degraded", "1/1R"], &["n2"], 1)]
// The node that has not begun holds the budget; that it may be told otherwise is beyond upstream, see below.
#[case::row_100(json!(1), &["1/1R", "1/2R Done", "1/1R"], &["n1"], 0)]
#[case::row_101(
    json!(4),
    &["1/1R", "1/1N", "0/1R", "0/0R", "0/0R", "0/0R", "0/0R", "1/1R", "1/1R"],
    &["n3", "n4", "n5", "n6"],
    2
)]
#[case::a_failing_target_takes_its_part(json!(2), &["0/1R Degraded", "0/0R", "0/0R"], &["n1", "n2"], 1)]
#[case::a_failing_target_that_is_not_ready_counts_once(json!(2), &["0/1N Degraded", "0/0R"], &["n1"], 1)]
#[case::failing_targets_use_up_the_budget(json!(1), &["0/1R Unreconcilable", "0/0R"], &[], 0)]
#[case::never(json!(-1), &["0/0R"], &[], 0)]
fn rows_93_to_101(#[case] max: Value, #[case] texts: &[&str], #[case] candidates: &[&str], #[case] capacity: usize) {
    let decided = decide(&worker(max), &nodes(texts));
    assert_eq!(decided.candidates, candidates);
    assert_eq!(decided.capacity, capacity);
}

#[rstest]
fn row_102_an_image_on_one_side_only_is_unfinished(
    #[values(annotation::DESIRED_IMAGE, annotation::CURRENT_IMAGE)] key: seaworthy_api::vocabulary::Annotation,
    #[values("Done", "Working")] state: &str,
) {
    let mut nodes = nodes(&[&format!("1/1R {state}"), "1/1R"]);
    annotate(&mut nodes[0], key, "image");
    assert_eq!(decide(&worker(json!(1)), &nodes).capacity, 0);
}

#[test]
fn row_103_zone_by_zone_the_oldest_first() {
    let rows = [("ZZZ", &[100, 1500, 0][..]), ("RRR", &[100, 0]), ("", &[200, 900, 0]), ("QQQ", &[0])];
    let mut fleet = Vec::new();
    for (zone, seconds) in rows {
        for second in seconds {
            let mut node = node(&format!("{}{second}", if zone.is_empty() { "none" } else { zone }), "0/0R");
            created(&mut node, *second);
            if !zone.is_empty() {
                let labels = node.metadata.labels.as_mut().unwrap();
                labels.insert("topology.kubernetes.io/zone".into(), zone.into());
            }
            fleet.push(node);
        }
    }
    let all = ["QQQ0", "RRR0", "RRR100", "ZZZ0", "ZZZ100", "ZZZ1500", "none0", "none200", "none900"];
    for max in 1..=all.len() {
        assert_eq!(decide(&worker(json!(max)), &fleet).chosen, all[..max]);
    }
}

// === Beyond upstream: broken nodes, reasons ===

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
fn a_machine_that_nobody_has_taken_in_is_given_nothing_and_holds_nobody_up() {
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
fn as_many_broken_nodes_as_a_promise_holds_go_at_once_and_the_rest_after_them() {
    let broken = vec!["0/2R Degraded"; seaworthy_plan::promise::MOST + 1];
    let decided = decide(&worker(json!(1)), &nodes(&broken));
    assert_eq!(decided.chosen.len(), seaworthy_plan::promise::MOST);
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
    let hold = seaworthy_plan::hold::Hold {
        kind: seaworthy_plan::hold::HoldKind::Window,
        scope: seaworthy_plan::hold::Scope::AllBut(["n1".to_owned()].into()),
        what: "the window \"nights\"".to_owned(),
        until: Some(NOW + k8s_openapi::jiff::SignedDuration::from_mins(5)),
    };
    let pool = worker(json!(3));
    let nodes = nodes(&["0/0R", "0/0R", "0/2R Degraded"]);
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let (boots, holds) = (Boots::default(), [hold]);
    let decision = rollout::decide(&rollout::Inputs { holds: &holds, ..inputs(&pool, &members, &boots) });
    assert_eq!(decision.chosen, ["n2", "n1"]);
    assert_eq!(decision.recheck, Some(k8s_openapi::jiff::SignedDuration::from_mins(5)));
    assert_eq!(owned(&decision).waiting["n0"], "waits for the window \"nights\"");
}

#[rstest]
#[case("0/1R", "is updating")]
#[case("0/1R Degraded", "failed; its daemon gives no reason")]
#[case("1/1R Degraded", "failed; its daemon gives no reason")]
#[case("0/0N", "not ready: condition Ready is False")]
#[case("0/0R", "budget 1 used by away")]
#[case("0/2R", "still on its way to 2")]
fn every_node_that_stays_says_why(#[case] text: &str, #[case] reason: &str) {
    let mut nodes = nodes(&[text]);
    nodes.push(node("away", "1/1N"));
    assert_eq!(decide(&worker(json!(1)), &nodes).waiting["n0"], reason);
}

#[test]
fn a_cordon_of_somebody_else_is_a_reason_and_who_uses_the_budget_is_told_with_the_time() {
    let mut nodes = nodes(&["0/0R", "0/0R", "1/1N"]);
    nodes[0].spec.as_mut().unwrap().unschedulable = Some(true);
    let conditions = nodes[2].status.as_mut().unwrap().conditions.as_mut().unwrap();
    let since = NOW - k8s_openapi::jiff::SignedDuration::from_mins(14);
    conditions[0].last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
    let decided = decide(&worker(json!(2)), &nodes);
    assert_eq!(decided.waiting["n0"], "cordoned by someone else; `kubectl uncordon` lets it move");
    assert_eq!(decided.waiting["n1"], "budget 2 used by n2, 14 min; n0");
}

/// Nobody would carry out an order there, and such a node waits for no budget that it uses up itself.
#[test]
fn a_node_without_a_daemon_says_so_whether_it_was_told_or_not() {
    let mut mute = node("n1", "/R");
    mute.metadata.annotations = None;
    let mut told = mute.clone();
    told.metadata.name = Some("n2".to_owned());
    annotate(&mut told, annotation::DESIRED_CONFIG, "1");
    let decided = decide(&worker(json!(1)), &[node("n0", "0/0R"), mute.clone(), told]);
    assert!(decided.waiting["n1"].starts_with("no node daemon has reported"), "{decided:?}");
    assert!(decided.waiting["n2"].starts_with("no node daemon has reported"), "{decided:?}");
    assert_eq!(decided.waiting["n0"], "budget 1 used by n1; n2");
    // The budget is the page's: such a node is one of the candidates.
    assert_eq!(decide(&worker(json!(2)), &[mute]).chosen, ["n1"]);
}

#[test]
fn a_node_that_uses_the_budget_up_itself_does_not_wait_for_it() {
    let decided = decide(&worker(json!(1)), &[node("n0", "0/0R Working")]);
    assert_eq!(decided.waiting["n0"], "still on its way to 0");
}

// === 104 to 106: targeting ===

fn patches(pool: &MachineConfigPool, nodes: &[Node]) -> BTreeMap<String, Value> {
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let boots = Boots::default();
    let decision = rollout::decide(&inputs(pool, &members, &boots));
    let changes = targeting::changes(&targeting::Inputs {
        pool: PoolView::of(pool),
        nodes: &members,
        decision: &decision,
        topology: None,
        now: NOW,
    });
    let patches = changes.into_iter().filter_map(|change| match change {
        Change::Patch { object, patch } => Some((object.name, patch)),
        _ => None,
    });
    patches.collect()
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

#[test]
fn row_104_a_node_that_is_told_already_loses_our_taint_and_no_other() {
    let pool = worker(json!(1));
    let mut node = node("n0", "0/1R");
    assert_eq!(patches(&pool, std::slice::from_ref(&node)), BTreeMap::new());
    node.spec.as_mut().unwrap().taints =
        Some(vec![taint("theirs", "NoSchedule"), taint("UpdateInProgress", "PreferNoSchedule")]);
    let patch = patches(&pool, &[node]).remove("n0").unwrap();
    assert_eq!(patch, json!({"spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]}}));
}

#[test]
fn row_105_a_chosen_node_gets_its_order_in_one_patch_and_a_waiting_one_the_taint() {
    let pool = worker(json!(1));
    let mut fleet = nodes(&["0/0R", "0/0R"]);
    fleet[0].spec.as_mut().unwrap().taints = Some(vec![taint("UpdateInProgress", "PreferNoSchedule")]);
    let key = annotation::DESIRED_CONFIG.as_str();
    let patches = patches(&pool, &fleet);
    let ordered = json!({key: "1", "seaworthy.dev/ordered": format!("{} 0", NOW.as_second())});
    assert_eq!(patches["n0"], json!({"metadata": {"annotations": ordered}, "spec": {"taints": []}}));
    let tainted = json!([{"key": "UpdateInProgress", "effect": "PreferNoSchedule"}]);
    assert_eq!(patches["n1"], json!({"spec": {"taints": tainted}}));
}

#[test]
fn row_106_a_pool_that_builds_no_image_any_more_takes_the_order_for_it_back() {
    let pool = worker(json!(1));
    let mut node = node("n0", "1/1R");
    annotate(&mut node, annotation::DESIRED_IMAGE, "image");
    annotate(&mut node, annotation::CURRENT_IMAGE, "image");
    let patch = patches(&pool, &[node]).remove("n0").unwrap();
    assert_eq!(patch, json!({"metadata": {"annotations": {annotation::DESIRED_IMAGE.as_str(): null}}}));
}

#[test]
fn a_paused_pool_touches_no_node() {
    let pool = pool("worker", "1", json!({"paused": true}));
    assert_eq!(patches(&pool, &nodes(&["0/0R", "0/1R"])), BTreeMap::new());
}

#[test]
fn targeting_is_told_in_one_event() {
    let pool = worker(json!(2));
    for (texts, message) in [
        (&["0/0R"][..], "Targeted node n0 to MachineConfig: 1"),
        (&["0/0R", "0/0R", "0/0R"], "Set target for 2 nodes to MachineConfig: 1 (n0, n1)"),
    ] {
        let nodes = nodes(texts);
        let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let boots = Boots::default();
        let decision = rollout::decide(&inputs(&pool, &members, &boots));
        let (view, chosen) = (PoolView::of(&pool), decision.chosen.iter().map(|name| (*name).to_owned()));
        let event = targeting::given(view.name, view.target().unwrap(), &chosen.collect::<Vec<_>>()).unwrap();
        assert_eq!((event.reason, event.message.as_str()), ("SetDesiredConfig", message));
        assert_eq!(event.config.as_deref(), Some("1"));
    }
    let view = PoolView::of(&pool);
    assert_eq!(targeting::given(view.name, view.target().unwrap(), &[]), None);
    let many: Vec<String> = (0..300).map(|nth| format!("node-{nth}")).collect();
    let event = targeting::given(view.name, view.target().unwrap(), &many).unwrap();
    assert!(event.message.starts_with("Set target for 300 nodes to MachineConfig: 1 (node-0, "), "{}", event.message);
    assert!(event.message.len() < 1000 && event.message.ends_with("node-9, …)"), "{}", event.message);
}

// === 107 to 116: status ===

/// updated, ready, unavailable, degraded; then Updated, Updating, Degraded.
type Expected = ([i32; 4], &'static str);

fn summary(pool: &MachineConfigPool, nodes: &[Node]) -> ([i32; 4], String) {
    let status = status(pool, nodes);
    let counts = [
        status.updated_machine_count,
        status.ready_machine_count,
        status.unavailable_machine_count,
        status.degraded_machine_count,
    ];
    let said = |type_: &str| {
        let conditions = status.conditions.as_ref().unwrap();
        let found = conditions.iter().find(|found| found.type_.as_deref() == Some(type_)).unwrap();
        found.status.as_deref().unwrap()[..1].to_owned()
    };
    (counts.map(Option::unwrap), ["Updated", "Updating", "Degraded"].map(said).concat())
}

#[rstest]
#[case::row_107(&["0/0R", "0/0R", "0/0R"], ([0, 0, 0, 0], "FTF"))]
#[case::row_108(&["0/1R", "0/0R", "0/0R"], ([0, 0, 1, 0], "FTF"))]
#[case::row_109(&["0/1N Degraded", "0/0R", "0/0R"], ([0, 0, 1, 1], "FTT"))]
#[case::row_110_not_ready(&["1/1N", "0/0R", "0/0R"], ([1, 0, 1, 0], "FTF"))]
#[case::row_110_two_on_their_way(&["1/1R", "0/1R", "0/1R"], ([1, 1, 2, 0], "FTF"))]
#[case::row_110_all(&["1/1R", "1/1R", "1/1R"], ([3, 3, 0, 0], "TFF"))]
fn rows_107_to_110(#[case] texts: &[&str], #[case] (counts, said): Expected) {
    assert_eq!(summary(&worker(json!(1)), &nodes(texts)), (counts, said.to_owned()));
}

#[test]
fn row_108_a_paused_pool_is_not_updating() {
    let pool = pool("worker", "1", json!({"paused": true}));
    assert_eq!(summary(&pool, &nodes(&["0/1R", "0/0R", "0/0R"])), ([0, 0, 1, 0], "FFF".to_owned()));
}

#[test]
fn row_111_states_are_counted_by_what_they_mean() {
    let pool = pool("worker", "0", json!({}));
    let texts = ["0/0R Degraded", "0/0R Done", "0/0R Unreconcilable", "0/1R Working", "0/1R Rebooting"];
    assert_eq!(summary(&pool, &nodes(&texts)).0, [1, 1, 4, 2]);
}

#[test]
fn row_112_a_layered_pool_counts_failed_nodes_as_degraded_and_available() {
    let pool = worker(json!(1));
    let nodes = nodes(&["1/0R Degraded", "1/0R Unreconcilable", "0/0R", "0/0R"]);
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let layered = PoolView { image: Some("image"), ..PoolView::of(&pool) };
    let counts = pool_status::Counts::of(&members, layered.target().unwrap());
    assert_eq!((counts.degraded, counts.unavailable, counts.updated), (2, 0, 0));
}

#[test]
fn row_113_a_node_without_annotations_is_unavailable() {
    let mut node = node("n0", "1/1R");
    node.metadata.annotations = None;
    assert_eq!(summary(&worker(json!(1)), &[node]).0, [0, 0, 1, 0]);
}

#[rstest]
#[case(&[("Ready", "True")], false, true)]
#[case(&[("Ready", "False")], false, false)]
#[case(&[("Ready", "Unknown")], false, false)]
#[case(&[("DiskPressure", "True")], false, false)]
#[case(&[("DiskPressure", "False")], false, true)]
#[case(&[("NetworkUnavailable", "True")], false, false)]
#[case(&[("MemoryPressure", "True")], false, true)]
#[case(&[("Ready", "True")], true, false)]
#[case(&[], false, true)]
fn row_114_conditions_make_a_node_ready(
    #[case] conditions: &[(&str, &str)],
    #[case] is_unschedulable: bool,
    #[case] is_ready: bool,
) {
    let mut node = node("n0", "1/1R");
    node.status.as_mut().unwrap().conditions =
        Some(conditions.iter().map(|(type_, status)| condition(type_, status)).collect());
    node.spec.as_mut().unwrap().unschedulable = Some(is_unschedulable);
    assert_eq!(NodeView::of(&node, None).is_ready(), is_ready);
}

#[test]
fn row_115_a_pool_without_configuration_writes_nothing() {
    let pool = pool("worker", "", json!({}));
    assert_eq!(patches(&pool, &nodes(&["0/0R", "0/1R"])), BTreeMap::new());
    let decided = decide(&pool, &nodes(&["0/0R"]));
    assert!(decided.chosen.is_empty());
    assert_eq!(decided.waiting["n0"], "pool worker has no rendered configuration yet");
    let inputs = pool_status::Inputs {
        pool: PoolView::of(&pool),
        nodes: &[],
        progress: &BTreeMap::new(),
        remarks: &Default::default(),
        certificates: &[],
        now: NOW,
    };
    assert_eq!(pool_status::status(&inputs), None);
}

/// A condition of a pool with these nodes, and the events that tell of the change.
fn remarked(nodes: &[Node], disputed: &[String], type_: &str) -> (bool, String, String, Vec<String>) {
    let pool = worker(json!(2));
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let boots = Boots::default();
    let decision = rollout::decide(&inputs(&pool, &members, &boots));
    let remarks = Remarks::of(&members, PoolView::of(&pool).target(), &decision.waiting, disputed);
    let mut status_of = pool_status::Inputs {
        pool: PoolView::of(&pool),
        nodes: &members,
        progress: &BTreeMap::new(),
        remarks: &remarks,
        certificates: &[],
        now: NOW,
    };
    let status = pool_status::status(&status_of).unwrap();
    let events = pool_status::events(status_of.pool, &status, &remarks);
    let told = serde_json::to_value(&status).unwrap();
    let found = told["conditions"].as_array().unwrap().iter().find(|found| found["type"] == type_).unwrap().clone();
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    // Told already, it is not told again.
    let mut after = pool.clone();
    after.status = Some(status.clone());
    status_of.pool = PoolView::of(&after);
    let again = pool_status::events(status_of.pool, &status, &remarks);
    assert!(again.iter().all(|event| !event.is_warning), "{again:?}");
    let warnings = events.iter().filter(|event| event.is_warning).map(|event| event.message.clone());
    (text("status") == "True", text("reason"), text("message"), warnings.collect())
}

#[test]
fn pools_that_argue_about_a_node_say_so() {
    let (infra, edge) = (custom("infra"), custom("edge"));
    let pools = Pools::new([PoolView::of(&infra), PoolView::of(&edge)]);
    let labels = ["infra", "edge"].map(|name| (format!("node-role.kubernetes.io/{name}"), String::new()));
    let membership = pools.of_labels(Some(&labels.into()));
    let disputed: Vec<String> = dispute("w6", &membership).into_iter().collect();
    let (is_degraded, reason, message, events) = remarked(&nodes(&["1/1R"]), &disputed, "Degraded");
    assert_eq!((is_degraded, reason.as_str()), (true, "NodesInSeveralPools"));
    assert!(message.starts_with("Node w6 is in no pool") && message.contains("edge, infra"), "{message}");
    assert_eq!(events, [message]);
    assert_eq!(remarked(&nodes(&["1/1R"]), &[], "Degraded").3, [""; 0]);
    assert!(!remarked(&nodes(&["1/1R"]), &[], "Degraded").0);
}

fn custom(name: &str) -> MachineConfigPool {
    let selector = json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}});
    pool(name, "1", json!({"nodeSelector": selector}))
}

#[test]
fn node_that_somebody_cordoned_is_why_a_pool_is_still_updating() {
    let mut fleet = nodes(&["1/1R", "1/1R", "0/0R"]);
    assert_eq!(remarked(&fleet[..1], &[], "Updating").2, "");
    for node in &mut fleet[1..] {
        node.spec.as_mut().unwrap().unschedulable = Some(true);
    }
    let (is_updating, _, message, _) = remarked(&fleet, &[], "Updating");
    assert!(is_updating);
    assert_eq!(
        message,
        "All nodes are updating to MachineConfig 1; Node n1: runs the target, and is cordoned by someone else; `kubectl \
         uncordon n1` ends that; Node n2: cordoned by someone else; `kubectl uncordon` lets it move"
    );
    let views: Vec<NodeView<'_>> = fleet.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let found = unsettled(&members, Target { config: "1", image: None });
    assert_eq!(found.iter().map(|(node, _)| node.name).collect::<Vec<_>>(), ["n1"], "n2 waits, and says why itself");
}

#[test]
fn row_116_the_certificates_of_the_api_server_are_told() {
    let certificate = |bundle: &str| -> ControllerCertificate {
        let json = json!({
            "bundleFile": bundle, "signer": "s", "subject": "CN=x",
            "notAfter": "2030-01-01T00:00:00Z", "notBefore": "2020-01-01T00:00:00Z",
        });
        serde_json::from_value(json).unwrap()
    };
    let pool = worker(json!(1));
    let certificates = ["KubeAPIServerServingCAData", "CloudProviderCAData"].map(certificate);
    let inputs = pool_status::Inputs {
        pool: PoolView::of(&pool),
        nodes: &[],
        progress: &BTreeMap::new(),
        remarks: &Default::default(),
        certificates: &certificates,
        now: NOW,
    };
    let told = pool_status::status(&inputs).unwrap().cert_expirys.unwrap();
    let told = serde_json::to_value(told).unwrap();
    let bundle = "KubeAPIServerServingCAData";
    assert_eq!(told, json!([{"bundle": bundle, "subject": "CN=x", "expiry": "2030-01-01T00:00:00Z"}]));
}

// === 117 and 118: nodes that booted for a custom pool ===

#[rstest]
#[case(json!({"matchLabels": {"k": "v"}}), &[("k", "v")])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}), &[("k", "v")])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}]}), &[])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]}), &[("k", "")])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"]}]}), &[])]
#[case(
    json!({"matchLabels": {"k": "v"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]}),
    &[("k", "v")]
)]
fn row_117_the_selector_says_which_labels(#[case] selector: Value, #[case] labels: &[(&str, &str)]) {
    let selector: LabelSelector = serde_json::from_value(selector).unwrap();
    let boots = Boots {
        owners: BTreeMap::from([("rendered-infra-1", "infra")]),
        selectors: BTreeMap::from([("infra", Some(&selector)), ("none", None)]),
    };
    let expected: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(boots.labels("infra"), Ok(expected.clone()));
    assert_eq!(boots.labels("none"), Ok(BTreeMap::new()));
    assert!(boots.labels("other").unwrap_err().to_string().starts_with("there is no MachineConfigPool other"));
    // The annotation is there only when labels were applied.
    let mut node = node("n0", "0/0R");
    annotate(&mut node, annotation::FIRST_PIVOT_CONFIG, "rendered-infra-1");
    assert_eq!(
        boots.joining(&NodeView::of(&node, None)).map(|joining| joining.labels),
        Some(expected).filter(|labels| !labels.is_empty())
    );
}

#[test]
fn row_118_a_node_that_booted_for_a_custom_pool_is_labelled_before_anything_else() {
    let pool = worker(json!(3));
    let mut fleet = nodes(&["0/0R", "0/0R", "0/0R"]);
    annotate(&mut fleet[0], annotation::FIRST_PIVOT_CONFIG, "rendered-infra-1");
    annotate(&mut fleet[1], annotation::FIRST_PIVOT_CONFIG, "rendered-infra-1");
    annotate(&mut fleet[1], annotation::CUSTOM_POOL_LABELS_APPLIED, "");
    annotate(&mut fleet[2], annotation::FIRST_PIVOT_CONFIG, "rendered-worker-1");
    let selector: LabelSelector = serde_json::from_value(json!({"matchLabels": {"infra": "yes"}})).unwrap();
    let boots = Boots {
        owners: BTreeMap::from([("rendered-infra-1", "infra"), ("rendered-worker-1", "worker")]),
        selectors: BTreeMap::from([("infra", Some(&selector)), ("worker", Some(&selector))]),
    };
    let views: Vec<NodeView<'_>> = fleet.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let decision = rollout::decide(&inputs(&pool, &members, &boots));
    let decided = owned(&decision);
    assert_eq!(decided.chosen, ["n1", "n2"]);
    assert_eq!(decided.waiting["n0"], "booted for pool infra and gets its labels first");
    let changes = targeting::changes(&targeting::Inputs {
        pool: PoolView::of(&pool),
        nodes: &members,
        decision: &decision,
        topology: None,
        now: NOW,
    });
    let labelled = changes.iter().find_map(|change| match change {
        Change::Patch { object, patch } if object.name == "n0" => Some(patch),
        _ => None,
    });
    let metadata = &labelled.unwrap()["metadata"];
    assert_eq!(metadata["labels"], json!({"infra": "yes"}));
    assert_eq!(metadata["annotations"], json!({annotation::CUSTOM_POOL_LABELS_APPLIED.as_str(): ""}));
}

// === 119: arbiter; and the node with the controllers ===

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
    let boots = Boots::default();
    let partner = Partner { pool: PoolView::of(&master), nodes: &members, promised: &support::NONE };
    let inputs = rollout::Inputs { partner: Some(partner), ..inputs(&arbiter, &arbiter_members, &boots) };
    let decided = owned(&rollout::decide(&inputs));
    assert_eq!(decided.chosen, chosen);
    if chosen.is_empty() {
        assert!(decided.waiting["a0"].starts_with("keeps quorum: pool master has away "), "{decided:?}");
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
    let boots = Boots::default();
    for (text, chosen) in [("0/1R", 0), ("1/1N", 0), ("0/0R", 1)] {
        let arbiters = [node("a0", text)];
        let arbiter_views: Vec<NodeView<'_>> = arbiters.iter().map(|node| NodeView::of(node, None)).collect();
        let arbiter_members: Vec<&NodeView<'_>> = arbiter_views.iter().collect();
        let partner = Partner { pool: PoolView::of(&arbiter), nodes: &arbiter_members, promised: &support::NONE };
        let inputs = rollout::Inputs { partner: Some(partner), ..inputs(&master, &members, &boots) };
        assert_eq!(rollout::decide(&inputs).chosen.len(), chosen, "{text}");
    }
}

#[test]
fn the_node_with_the_controllers_comes_last_and_the_event_says_so() {
    let master = pool("master", "1", json!({}));
    let with = |operators: &'static [&'static str], texts: &[&str]| {
        decide_with(&master, &nodes(texts), |inputs| inputs.operator_nodes = operators)
    };
    let decided = with(&["n0"], &["0/0R", "0/0R"]);
    assert_eq!(decided.chosen, ["n1"]);
    assert_eq!(decided.waiting["n0"], "runs the controllers, so the others of its pool come first");
    // It is the last one, or the controllers run on several nodes.
    assert_eq!(with(&["n0"], &["0/0R", "1/1R"]).chosen, ["n0"]);
    assert_eq!(with(&["n0", "n1"], &["0/0R", "0/0R"]).chosen, ["n0"]);
    let worker = pool("worker", "1", json!({}));
    let decided = decide_with(&worker, &nodes(&["0/0R", "0/0R"]), |inputs| inputs.operator_nodes = &["n0"]);
    assert_eq!(decided.chosen, ["n0"]);
}

#[test]
fn however_many_nodes_fail_their_pool_can_say_so() {
    let pool = worker(json!(1));
    let texts = vec!["0/0R Degraded"; 3000];
    let mut nodes = nodes(&texts);
    let reason = "the disk is full; ".repeat(30);
    for node in &mut nodes {
        annotate(node, annotation::REASON, &reason);
    }
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let told: MachineConfigNode = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": "n"},
        "spec": {"configVersion": {"desired": "0"}, "node": {"name": "n"}, "pool": {"name": "worker"}},
    }))
    .unwrap();
    let progress: BTreeMap<&str, &MachineConfigNode> = members.iter().map(|node| (node.name, &told)).collect();
    let inputs = pool_status::Inputs {
        pool: PoolView::of(&pool),
        nodes: &members,
        progress: &progress,
        remarks: &Default::default(),
        certificates: &[],
        now: NOW,
    };
    let status = serde_json::to_string(&pool_status::status(&inputs).unwrap()).unwrap();
    assert!(status.len() < 100_000, "{}", status.len());
    assert!(status.contains("Node n0 is reporting") && status.contains(" more"), "{status}");
}

#[test]
fn pool_whose_selector_cannot_be_read_says_which_expression() {
    let selector =
        json!({"nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}});
    for target in ["1", ""] {
        let pool = pool("infra", target, selector.clone());
        let status = status(&pool, &[]);
        let said = |type_: &str| {
            let found = status.conditions.iter().flatten().find(|found| found.type_.as_deref() == Some(type_)).unwrap();
            let text = |text: &Option<String>| text.clone().unwrap();
            (text(&found.status), text(&found.reason), text(&found.message))
        };
        let message = "spec.nodeSelector cannot be read, so the pool has no nodes: label selector, key \"zone\": \
            operator \"Near\"; accepted are In, NotIn, Exists, DoesNotExist";
        for (type_, is) in [("Updated", "False"), ("Degraded", "True")] {
            assert_eq!(said(type_), (is.to_owned(), "InvalidNodeSelector".to_owned(), message.to_owned()));
        }
        assert_eq!(said("Updating").0, "False");
        assert_eq!(status.configuration, None, "nothing was reached");
    }
    let sound = pool("infra", "1", json!({}));
    assert!(support::status(&sound, &[]).configuration.is_some());
}
