//! Targeting: what is written onto nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_change::{Action, Change};
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::targeting;
use serde_json::{Value, json};

use crate::rows::worker;
use crate::support::{NOW, annotate, inputs, node, nodes, pool};

pub fn patches(pool: &MachineConfigPool, nodes: &[Node]) -> BTreeMap<String, Value> {
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let first_boot_pools = FirstBootPools::default();
    let decision = rollout::decide(&inputs(pool, &members, &first_boot_pools));
    let changes = targeting::changes(&targeting::TargetingInputs {
        pool: PoolView::of(pool),
        nodes: &members,
        decision: &decision,
        topology: None,
        now: NOW,
    });
    let patches = changes.into_iter().filter_map(|change| match change {
        Change { object, action: Action::Patch(patch) } => Some((object.name, patch)),
        _ => None,
    });
    patches.collect()
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

#[test]
fn row_104_node_that_has_the_order_loses_our_taint_and_no_other() {
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
    let ordered =
        json!({key: "1", "seaworthy.dev/last-order": format!("{} 0", NOW.as_second()), "seaworthy.dev/ordered": null});
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
fn orders_are_announced_in_one_event() {
    let pool = worker(json!(2));
    for (texts, message) in [
        (&["0/0R"][..], "Targeted node n0 to MachineConfig: 1"),
        (&["0/0R", "0/0R", "0/0R"], "Set target for 2 nodes to MachineConfig: 1 (n0, n1)"),
    ] {
        let nodes = nodes(texts);
        let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let first_boot_pools = FirstBootPools::default();
        let decision = rollout::decide(&inputs(&pool, &members, &first_boot_pools));
        let (view, chosen) = (PoolView::of(&pool), decision.chosen.iter().map(|name| (*name).to_owned()));
        let change = targeting::orders_event(view.name, view.target().unwrap(), &chosen.collect::<Vec<_>>()).unwrap();
        let event = change.event().unwrap();
        assert_eq!((event.reason, event.message.as_str()), ("SetDesiredConfig", message));
        assert_eq!(event.related.as_ref().map(|found| found.name.as_str()), Some("1"));
    }
    let view = PoolView::of(&pool);
    assert_eq!(targeting::orders_event(view.name, view.target().unwrap(), &[]), None);
    let many: Vec<String> = (0..300).map(|nth| format!("node-{nth}")).collect();
    let change = targeting::orders_event(view.name, view.target().unwrap(), &many).unwrap();
    let event = change.event().unwrap();
    assert!(event.message.starts_with("Set target for 300 nodes to MachineConfig: 1 (node-0, "), "{}", event.message);
    assert!(event.message.len() < 1000 && event.message.ends_with("node-9, …)"), "{}", event.message);
}
