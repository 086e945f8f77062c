//! Laws of the roll-out, tried on many histories: decisions are applied, nodes make progress or fail, people interfere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{NOW, annotate, decide, inputs, merge, node, pool};
use k8s_openapi::api::core::v1::Node;
use proptest::prelude::*;
use seaworthy_api::machineconfiguration::{MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_change::{Action, Change};
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView, Target};
use seaworthy_plan::rollout::targeting;
use seaworthy_plan::rollout::{self, Verdicts};
use seaworthy_plan::status::node_status;
use seaworthy_plan::status::pool_status;
use serde_json::json;

/// Something that happens beside the controller.
#[derive(Clone, Debug)]
enum Event {
    /// A node begins with its order.
    Start(usize),
    /// A node reaches what it is on the way to.
    Succeed(usize),
    /// A node fails on its way.
    Fail(usize),
    /// A node stops being ready, or is ready again.
    Flip(usize),
    /// A user cordons or uncordons a node.
    Cordon(usize),
    /// The pool gets another target.
    Retarget(u8),
    /// A user pauses the pool, or lets it go on.
    Pause,
    /// A user changes the budget.
    Budget(i64),
}

fn event() -> impl Strategy<Value = Event> {
    let at = 0usize..64;
    prop_oneof![
        3 => at.clone().prop_map(Event::Start),
        5 => at.clone().prop_map(Event::Succeed),
        2 => at.clone().prop_map(Event::Fail),
        1 => at.clone().prop_map(Event::Flip),
        1 => at.prop_map(Event::Cordon),
        1 => (0u8..4).prop_map(Event::Retarget),
        1 => Just(Event::Pause),
        1 => (-1i64..5).prop_map(Event::Budget),
    ]
}

fn fleet() -> impl Strategy<Value = Vec<Node>> {
    let config = prop::sample::select(vec!["0", "1", "2", "3"]);
    let state = prop::sample::select(vec!["", " Done", " Degraded", " Unreconcilable", " Working", " Rebooting"]);
    let ready = prop::sample::select(vec!["R", "R", "R", "N"]);
    let zone = prop::option::of(prop::sample::select(vec!["a", "b"]));
    let one = (config.clone(), config, state, ready, zone, 0i64..3);
    prop::collection::vec(one, 0..9).prop_map(|nodes| {
        let made = nodes.into_iter().enumerate().map(|(nth, (current, desired, state, ready, zone, second))| {
            let mut node = node(&format!("n{nth}"), &format!("{current}/{desired}{ready}{state}"));
            support::created(&mut node, second);
            if let Some(zone) = zone {
                node.metadata.labels.as_mut().unwrap().insert("topology.kubernetes.io/zone".into(), zone.into());
            }
            node
        });
        made.collect()
    })
}

fn set(node: &mut Node, key: seaworthy_api::vocabulary::Annotation, value: Option<&str>) {
    match value {
        Some(value) => annotate(node, key, value),
        None => drop(node.metadata.annotations.as_mut().unwrap().remove(key.as_str())),
    }
}

fn get(node: &Node, key: seaworthy_api::vocabulary::Annotation) -> Option<String> {
    key.of(&node.metadata).map(str::to_owned)
}

fn happen(event: &Event, pool: &mut MachineConfigPool, nodes: &mut [Node]) {
    let count = nodes.len();
    let mut with = |at: &usize, act: fn(&mut Node)| {
        if count > 0 {
            act(&mut nodes[at % count]);
        }
    };
    fn on_way(node: &mut Node, state: &str) {
        if get(node, annotation::CURRENT_CONFIG) != get(node, annotation::DESIRED_CONFIG) {
            set(node, annotation::STATE, Some(state));
        }
    }
    match event {
        Event::Start(at) => with(at, |node| on_way(node, "Working")),
        Event::Fail(at) => with(at, |node| on_way(node, "Degraded")),
        Event::Succeed(at) => with(at, finish),
        Event::Flip(at) => with(at, |node| {
            let condition = &mut node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
            condition.status = if condition.status == "True" { "False" } else { "True" }.to_owned();
        }),
        Event::Cordon(at) => with(at, |node| {
            let spec = node.spec.as_mut().unwrap();
            spec.unschedulable = Some(spec.unschedulable != Some(true));
        }),
        Event::Retarget(config) => {
            pool.spec.configuration.as_mut().unwrap().name = Some(config.to_string());
        }
        Event::Pause => pool.spec.paused = Some(pool.spec.paused != Some(true)),
        Event::Budget(max) => pool.spec.max_unavailable = Some((*max).into()),
    }
}

/// The node reaches its order.
fn finish(node: &mut Node) {
    let desired = get(node, annotation::DESIRED_CONFIG);
    set(node, annotation::CURRENT_CONFIG, desired.as_deref());
    set(node, annotation::STATE, Some("Done"));
}

/// Decides, hands the decision to a check, and applies it; how many nodes were written.
fn step(
    pool: &MachineConfigPool,
    nodes: &mut [Node],
    check: impl FnOnce(&Verdicts<'_>, &[&NodeView<'_>]) -> Result<(), TestCaseError>,
) -> Result<usize, TestCaseError> {
    let before = nodes.to_vec();
    let views: Vec<NodeView<'_>> = before.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let first_boot_pools = FirstBootPools::default();
    let decision = rollout::decide(&inputs(pool, &members, &first_boot_pools));
    check(&decision, &members)?;
    let changes = targeting::changes(&targeting::TargetingInputs {
        pool: PoolView::of(pool),
        nodes: &members,
        decision: &decision,
        topology: None,
        now: NOW,
    });
    let mut written = 0;
    for change in changes {
        if let Change { object, action: Action::Patch(patch) } = change {
            let node = nodes.iter_mut().find(|node| node.metadata.name.as_ref() == Some(&object.name)).unwrap();
            let mut json = serde_json::to_value(&*node).unwrap();
            merge(&mut json, &patch);
            *node = serde_json::from_value(json).unwrap();
            written += 1;
        }
    }
    Ok(written)
}

fn max_of(pool: &MachineConfigPool, nodes: &[Node]) -> i64 {
    seaworthy_plan::rollout::budget::max_unavailable("worker", pool.spec.max_unavailable.as_ref(), nodes.len()).unwrap()
}

/// Counts who is away by its own rules, not by the controller's.
fn away(pool: &MachineConfigPool, nodes: &[Node]) -> BTreeSet<String> {
    let target = pool.spec.configuration.as_ref().unwrap().name.clone();
    let uses_budget = |node: &&Node| {
        let [current, desired, state] =
            [annotation::CURRENT_CONFIG, annotation::DESIRED_CONFIG, annotation::STATE].map(|key| get(node, key));
        let is_ready = node.spec.as_ref().unwrap().unschedulable != Some(true)
            && node.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].status == "True";
        let has_failed = matches!(state.as_deref(), Some("Degraded" | "Unreconcilable")) && current != desired;
        let is_idle = current == desired && state.as_deref() == Some("Done");
        !is_ready || !(is_idle || has_failed && desired != target)
    };
    nodes.iter().filter(uses_budget).map(|node| node.metadata.name.clone().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_healthy_node_is_taken_beyond_the_budget_whatever_happens(
        nodes in fleet(),
        max in -1i64..5,
        events in prop::collection::vec(event(), 0..40),
    ) {
        let mut nodes = nodes;
        let mut pool = pool("worker", "1", json!({"maxUnavailable": max}));
        for event in &events {
            happen(event, &mut pool, &mut nodes);
            let (is_paused, max) = (pool.spec.paused == Some(true), max_of(&pool, &nodes));
            let mut has_taken = false;
            step(&pool, &mut nodes, |decision, members| {
                let target = Target { config: pool.spec.configuration.as_ref().unwrap().name.as_deref().unwrap(), image: None };
                let named = |name: &str| members.iter().find(|node| node.name == name).unwrap();
                let is_out = |name: &&str| named(name).is_broken(target) || named(name).is_recallable(target);
                // In a paused pool no node moves: one that is given an order keeps what it runs.
                prop_assert!(!is_paused || decision.chosen.iter().all(|name| named(name).current_config == Some(target.config)));
                has_taken = decision.chosen.iter().any(|name| !is_out(name));
                // No node waits without a reason, and none is forgotten or reported twice.
                let mut reported: Vec<&str> = decision.chosen.clone();
                reported.extend(decision.waiting.iter().map(|waiting| waiting.node.as_str()));
                reported.extend(&decision.updated);
                reported.sort_unstable();
                let mut all: Vec<&str> = members.iter().map(|node| node.name).collect();
                all.sort_unstable();
                prop_assert_eq!(reported, all);
                for waiting in &decision.waiting {
                    prop_assert!(!waiting.reason.to_string().is_empty() && !waiting.reason.stable_text().is_empty());
                }
                Ok(())
            })?;
            if has_taken {
                let away = away(&pool, &nodes);
                prop_assert!(away.len() as i64 <= max, "{max}: {away:?} after {event:?}");
            }
        }
    }

    /// Where nothing else happens, no more nodes than the budget are ever away.
    #[test]
    fn a_quiet_roll_out_keeps_to_the_budget_all_the_time(
        count in 0usize..12,
        max in 1i64..5,
        order in prop::collection::vec(0usize..64, 0..80),
    ) {
        let mut nodes: Vec<Node> = (0..count).map(|nth| node(&format!("n{nth}"), "0/0R")).collect();
        let mut pool = pool("worker", "1", json!({"maxUnavailable": max}));
        for at in order {
            happen(&Event::Succeed(at), &mut pool, &mut nodes);
            step(&pool, &mut nodes, |_, _| Ok(()))?;
            prop_assert!(away(&pool, &nodes).len() as i64 <= max);
        }
    }

    #[test]
    fn deciding_and_applying_comes_to_an_end(nodes in fleet(), max in 1i64..5) {
        let mut nodes = nodes;
        let pool = pool("worker", "1", json!({"maxUnavailable": max}));
        // Without progress of nodes every decision adds to the last one until nothing is left to write.
        let mut rounds = 0;
        while step(&pool, &mut nodes, |_, _| Ok(()))? > 0 {
            rounds += 1;
            prop_assert!(rounds <= nodes.len() + 1);
        }
        // With progress, and once all nodes are ready, all reach the target.
        for round in 0..=2 * nodes.len() {
            for node in &mut nodes {
                node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "True".to_owned();
                if round % 2 == 0 {
                    finish(node);
                }
            }
            step(&pool, &mut nodes, |_, _| Ok(()))?;
        }
        nodes.iter_mut().for_each(finish);
        step(&pool, &mut nodes, |_, _| Ok(()))?;
        prop_assert_eq!(step(&pool, &mut nodes, |decision, members| {
            prop_assert_eq!(decision.updated.len(), members.len());
            Ok(())
        })?, 0);
        let status = support::status(&pool, &nodes);
        let configuration = status.configuration.unwrap();
        prop_assert_eq!(configuration.name.as_deref(), Some("1"));
    }

    #[test]
    fn the_order_of_the_nodes_changes_nothing(nodes in fleet(), max in -1i64..5, seed in any::<u64>()) {
        let pool = pool("worker", "1", json!({"maxUnavailable": max}));
        let mut shuffled = nodes.clone();
        let mut state = seed;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shuffled.swap(at, (state >> 33) as usize % (at + 1));
        }
        prop_assert_eq!(decide(&pool, &nodes), decide(&pool, &shuffled));
    }

    /// A status and a MachineConfigNode that were written are not written again.
    #[test]
    fn what_is_written_is_not_written_again(nodes in fleet(), max in 0i64..5) {
        let mut pool = pool("worker", "1", json!({"maxUnavailable": max}));
        let first = support::status(&pool, &nodes);
        pool.status = Some(first.clone());
        prop_assert_eq!(&support::status(&pool, &nodes), &first);

        let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let first_boot_pools = FirstBootPools::default();
        let decision = rollout::decide(&inputs(&pool, &members, &first_boot_pools));
        let waiting: BTreeMap<&str, _> =
            decision.waiting.iter().map(|waiting| (waiting.node.as_str(), &waiting.reason)).collect();
        for view in &views {
            let later = |progress: Option<&MachineConfigNode>, now| node_status::desired(&node_status::NodeStatusInputs {
                node: &NodeView { progress, ..view.clone() },
                pool: Some("worker"),
                target: PoolView::of(&pool).target(),
                is_chosen: decision.chosen.contains(&view.name),
                waiting: waiting.get(view.name).copied(),
                blocker: None,
                now,
            });
            let mut object = later(None, NOW);
            object.metadata.generation = Some(1);
            let again = later(Some(&object), NOW + k8s_openapi::jiff::SignedDuration::from_hours(1));
            prop_assert_eq!(node_status::differs(Some(&object), &again), (false, false));
            let conditions = again.status.unwrap().conditions.unwrap();
            prop_assert!(conditions.len() <= 20);
            for condition in conditions {
                prop_assert!(!condition.reason.is_empty());
            }
        }
        let inputs = pool_status::PoolStatusInputs {
            pool: PoolView::of(&pool),
            nodes: &members,
            remarks: &Default::default(),
            certificates: &[],
            now: NOW + k8s_openapi::jiff::SignedDuration::from_hours(1),
        };
        prop_assert_eq!(pool_status::status(&inputs), Some(first));
    }
}
