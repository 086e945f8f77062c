//! The pool controller's decision as a whole: a small pool rolled out to the end, counting what is written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{NOW, annotate, merge, node, pool};
use k8s_openapi::api::core::v1::Node;
use seaworthy_api::machineconfiguration::{MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_change::{Action, Change};
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::pool::{PoolRolloutInputs, desired};
use seaworthy_plan::rollout::reservation::Reservation;
use serde_json::{Value, json};

/// A cluster of one pool, with as much of an API as merges patches.
struct Cluster {
    pool: MachineConfigPool,
    nodes: BTreeMap<String, Node>,
    progress: BTreeMap<String, MachineConfigNode>,
    unanswered: BTreeSet<String>,
    writes: BTreeMap<String, usize>,
    events: Vec<String>,
}

fn patched<T: serde::Serialize + serde::de::DeserializeOwned>(object: &T, patch: &Value) -> T {
    let mut json = serde_json::to_value(object).unwrap();
    merge(&mut json, patch);
    serde_json::from_value(json).unwrap()
}

impl Cluster {
    fn decide_and_apply(&mut self) -> usize {
        let views: Vec<NodeView<'_>> =
            self.nodes.iter().map(|(name, node)| NodeView::of(node, self.progress.get(name))).collect();
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let (first_boot_pools, reservation, blockers) =
            (FirstBootPools::default(), Reservation::of(&self.pool), BTreeMap::new());
        let unanswered = self.unanswered.clone();
        let decision = desired(&PoolRolloutInputs {
            rollout: rollout::RolloutInputs {
                pool: PoolView::of(&self.pool),
                nodes: &members,
                holds: &[],
                operator_nodes: &[],
                first_boot_pools: &first_boot_pools,
                partner: None,
                reservation: &reservation,
                now: NOW,
            },
            blockers: &blockers,
            unanswered: &unanswered,
            conflicting: &[],
            certificates: &[],
            topology: Some("HighlyAvailable"),
            count_delay: None,
        });
        let changes: Vec<Change> = decision.changes().collect();
        let chosen: Vec<String> = decision.report.verdicts.chosen.iter().map(|name| (*name).to_owned()).collect();
        let target = PoolView::of(&self.pool).target();
        let given =
            target.and_then(|target| seaworthy_plan::rollout::targeting::orders_event("worker", target, &chosen));
        self.unanswered = chosen.into_iter().collect();
        drop(decision);
        let mut count = 0;
        for Change { object, action } in changes.into_iter().chain(given) {
            let name = match action {
                Action::Patch(patch) | Action::PatchStatus(patch) if object.resource.kind == "MachineConfigPool" => {
                    self.pool = patched(&self.pool, &patch);
                    "pool".to_owned()
                }
                Action::Patch(patch) => {
                    let node = &self.nodes[&object.name];
                    let node = patched(node, &patch);
                    self.nodes.insert(object.name.clone(), node);
                    object.name
                }
                Action::Apply(body) | Action::ApplyStatus(body) => {
                    let name = object.name;
                    let next = match self.progress.get(&name) {
                        Some(old) => {
                            let mut next = patched(old, &body);
                            let generation = old.metadata.generation.unwrap() + i64::from(next.spec != old.spec);
                            next.metadata.generation = Some(generation);
                            next
                        }
                        None => {
                            let mut next: MachineConfigNode = serde_json::from_value(body).unwrap();
                            next.metadata.generation = Some(1);
                            next
                        }
                    };
                    self.progress.insert(name.clone(), next);
                    name
                }
                Action::Emit(event) => {
                    self.events.push(event.reason.to_owned());
                    continue;
                }
                other => panic!("{other:?}"),
            };
            *self.writes.entry(name).or_default() += 1;
            count += 1;
        }
        count
    }

    /// Until nothing is left to write.
    fn settle(&mut self) {
        for _ in 0..20 {
            if self.decide_and_apply() == 0 {
                return;
            }
        }
        panic!("no end of writing");
    }
}

fn cluster(count: usize) -> Cluster {
    let mut cluster = Cluster {
        pool: pool("worker", "0", json!({"maxUnavailable": 2})),
        nodes: (0..count).map(|nth| (format!("n{nth}"), node(&format!("n{nth}"), "0/0R"))).collect(),
        progress: BTreeMap::new(),
        unanswered: BTreeSet::new(),
        writes: BTreeMap::new(),
        events: Vec::new(),
    };
    cluster.settle();
    cluster.writes.clear();
    cluster.events.clear();
    cluster
}

#[test]
fn an_idle_pool_writes_nothing() {
    let mut cluster = cluster(5);
    assert_eq!(cluster.decide_and_apply(), 0);
    assert_eq!(cluster.progress.len(), 5);
}

#[test]
fn roll_out_completes_emits_events_and_writes_little_for_each_node() {
    let mut cluster = cluster(7);
    cluster.pool.spec.configuration.as_mut().unwrap().name = Some("1".to_owned());
    for _ in 0..10 {
        cluster.settle();
        // The fleet acknowledges at once.
        for node in cluster.nodes.values_mut() {
            let desired = annotation::DESIRED_CONFIG.of(&node.metadata).unwrap().to_owned();
            annotate(node, annotation::CURRENT_CONFIG, &desired);
            annotate(node, annotation::STATE, "Done");
        }
    }
    cluster.settle();
    assert_eq!(cluster.decide_and_apply(), 0);
    let status = cluster.pool.status.as_ref().unwrap();
    assert_eq!((status.updated_machine_count, status.ready_machine_count), (Some(7), Some(7)));
    assert_eq!(cluster.events.iter().filter(|reason| *reason == "Updating").count(), 1);
    assert_eq!(cluster.events.iter().filter(|reason| *reason == "Completed").count(), 1);
    assert_eq!(cluster.events.iter().filter(|reason| *reason == "SetDesiredConfig").count(), 4);
    cluster.writes.remove("pool");
    let most = cluster.writes.values().max().unwrap();
    assert!(*most <= 6, "{:?}", cluster.writes);
}
