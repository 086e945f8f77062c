//! Pools and nodes in a short form: `1/2R Degraded` runs 1, should run 2, is ready, and failed.

#![allow(dead_code, reason = "each suite uses its part")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfigPool, MachineConfigPoolStatus};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::reservation::Reservation;
use seaworthy_plan::status::pool_status;
use serde_json::{Value, json};

pub const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A pool that targets a configuration.
pub fn pool(name: &str, target: &str, spec: Value) -> MachineConfigPool {
    let mut all = json!({
        "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
        "configuration": {"name": target},
    });
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "generation": 1}, "spec": all,
    }))
    .unwrap()
}

/// A node in the short form: `current/desired`, `R` or `N`, and a state where it is not the usual one.
pub fn node(name: &str, text: &str) -> Node {
    let (configs, state) = text.split_once(' ').unwrap_or((text, ""));
    let (configs, is_ready) = match configs.strip_suffix('R') {
        Some(configs) => (configs, true),
        None => (configs.strip_suffix('N').unwrap(), false),
    };
    let (current, desired) = configs.split_once('/').unwrap();
    let state = match state {
        "" if current == desired => "Done",
        "" => "Working",
        state => state,
    };
    let annotations =
        [(annotation::CURRENT_CONFIG, current), (annotation::DESIRED_CONFIG, desired), (annotation::STATE, state)];
    let status = if is_ready { "True" } else { "False" };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(annotations.map(|(key, value)| (key.into(), value.to_owned())).into()),
            labels: Some(BTreeMap::from([("node-role.kubernetes.io/worker".to_owned(), String::new())])),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus { conditions: Some(vec![condition("Ready", status)]), ..NodeStatus::default() }),
    }
}

pub fn condition(type_: &str, status: &str) -> NodeCondition {
    NodeCondition { type_: type_.to_owned(), status: status.to_owned(), ..NodeCondition::default() }
}

/// Nodes `n0`, `n1`, …
pub fn nodes(texts: &[&str]) -> Vec<Node> {
    texts.iter().enumerate().map(|(nth, text)| node(&format!("n{nth}"), text)).collect()
}

pub fn annotate(node: &mut Node, key: seaworthy_api::vocabulary::Annotation, value: &str) {
    key.set(&mut node.metadata, value);
}

pub fn created(node: &mut Node, second: i64) {
    node.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
}

/// What was decided, without borrowing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decided {
    pub candidates: Vec<String>,
    pub capacity: usize,
    pub chosen: Vec<String>,
    pub waiting: BTreeMap<String, String>,
}

/// Decides about nodes that are all in the pool.
pub fn decide(pool: &MachineConfigPool, nodes: &[Node]) -> Decided {
    decide_with(pool, nodes, |_| {})
}

pub fn decide_with(
    pool: &MachineConfigPool,
    nodes: &[Node],
    adjust: impl for<'a> Fn(&mut rollout::RolloutInputs<'a>),
) -> Decided {
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let first_boot_pools = FirstBootPools::default();
    let mut inputs = inputs(pool, &members, &first_boot_pools);
    adjust(&mut inputs);
    owned(&rollout::decide(&inputs))
}

/// No reservation.
pub static NONE: Reservation = Reservation { config: String::new(), nodes: BTreeMap::new() };

pub fn inputs<'a>(
    pool: &'a MachineConfigPool,
    nodes: &'a [&'a NodeView<'a>],
    first_boot_pools: &'a FirstBootPools<'a>,
) -> rollout::RolloutInputs<'a> {
    rollout::RolloutInputs {
        pool: PoolView::of(pool),
        nodes,
        holds: &[],
        operator_nodes: &[],
        first_boot_pools,
        partner: None,
        reservation: &NONE,
        now: NOW,
    }
}

pub fn owned(decision: &rollout::Verdicts<'_>) -> Decided {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    Decided {
        candidates: names(&decision.candidates),
        capacity: decision.capacity,
        chosen: names(&decision.chosen),
        waiting: decision.waiting.iter().map(|waiting| (waiting.node.clone(), waiting.reason.to_string())).collect(),
    }
}

pub fn status(pool: &MachineConfigPool, nodes: &[Node]) -> MachineConfigPoolStatus {
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let inputs = pool_status::PoolStatusInputs {
        pool: PoolView::of(pool),
        nodes: &members,
        remarks: &Default::default(),
        certificates: &[],
        now: NOW,
    };
    pool_status::status(&inputs).unwrap()
}

/// A JSON merge patch.
pub fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, patch) in patch {
        if patch.is_null() {
            value.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut value[key.as_str()], patch);
        }
    }
}
