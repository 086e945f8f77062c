//! Everything about one pool at once: the decision of the pool controller, as changes and a report.
//!
//! Applying the changes and deciding again leads, without progress of nodes, to no further change; an idle pool causes
//! none at all.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::machineconfiguration::controller_config::ControllerCertificate;
use seaworthy_api::machineconfiguration::{API_VERSION, MachineConfigNode, MachineConfigPoolStatus};
use serde_json::{Value, json};

use crate::change::{Change, Reference};
use crate::custom_boot::Boots;
use crate::eviction::Evictions;
use crate::fleet::{NodeView, PoolView};
use crate::hold::Hold;
use crate::rollout::Partner;
use crate::waiting::Reason;
use crate::{node_status, pool_status, rollout, targeting};

/// Everything that the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The pool.
    pub pool: PoolView<'a>,
    /// The nodes that take their configuration from it.
    pub nodes: &'a [&'a NodeView<'a>],
    /// The MachineConfigNodes by name.
    pub progress: &'a BTreeMap<&'a str, &'a MachineConfigNode>,
    /// What becomes of the pods of nodes that are being drained, by node.
    pub evictions: &'a BTreeMap<&'a str, Evictions>,
    /// What else asks nodes to wait.
    pub holds: &'a [Hold],
    /// The nodes that the pods of the controllers run on, one for each pod.
    pub operator_nodes: &'a [&'a str],
    /// Custom pools that nodes may have booted for.
    pub boots: &'a Boots<'a>,
    /// The pool that keeps quorum together with this one.
    pub partner: Option<Partner<'a>>,
    /// The certificates of the ControllerConfig.
    pub certificates: &'a [ControllerCertificate],
    /// How many control-plane nodes the cluster has, in the words of Infrastructure.
    pub topology: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// What should change, and the reason for everything that should not.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// What to do, in order: a node's MachineConfigNode is told of an order before the node is.
    pub changes: Vec<Change>,
    /// Who moves, who waits and why.
    pub report: rollout::Decision<'a>,
    /// The status that the pool should have, if any.
    pub status: Option<MachineConfigPoolStatus>,
    /// When to decide again although nothing has changed.
    pub recheck: Option<SignedDuration>,
}

/// Decides about a pool.
pub fn desired<'a>(inputs: &Inputs<'a>) -> Decision<'a> {
    let Inputs { pool, nodes, progress, now, .. } = *inputs;
    let report = rollout::decide(&rollout::Inputs {
        pool,
        nodes,
        holds: inputs.holds,
        operator_nodes: inputs.operator_nodes,
        boots: inputs.boots,
        partner: inputs.partner,
        now,
    });
    let mut changes = of_machine_config_nodes(inputs, &report);
    let targeting = targeting::Inputs { pool, nodes, decision: &report, topology: inputs.topology };
    changes.extend(targeting::changes(&targeting));
    let certificates = inputs.certificates;
    let status = pool_status::status(&pool_status::Inputs { pool, nodes, progress, certificates, now });
    if let Some(status) = status.as_ref().filter(|status| pool.object.status.as_ref() != Some(status)) {
        let reference = Reference {
            uid: pool.object.metadata.uid.clone(),
            resource_version: pool.object.metadata.resource_version.clone(),
            ..Reference::pool(pool.name)
        };
        changes.push(Change::PatchStatus { object: reference, patch: json!({ "status": status }) });
        let events = pool_status::events(pool, status);
        changes.extend(events.into_iter().map(|event| Change::Emit { event }));
    }
    let recheck = report.recheck;
    Decision { changes, report, status, recheck }
}

/// The MachineConfigNodes of the pool's nodes, as far as they differ from what they should be.
fn of_machine_config_nodes(inputs: &Inputs<'_>, report: &rollout::Decision<'_>) -> Vec<Change> {
    let waiting: BTreeMap<&str, &Reason> =
        report.waiting.iter().map(|waiting| (waiting.node.as_str(), &waiting.reason)).collect();
    let chosen: BTreeSet<&str> = report.chosen.iter().copied().collect();
    let target = inputs.pool.target();
    let mut changes = Vec::new();
    for node in inputs.nodes {
        let old = inputs.progress.get(node.name).copied();
        let object = node_status::desired(&node_status::Inputs {
            node,
            pool: Some(inputs.pool.name),
            target,
            is_chosen: chosen.contains(node.name),
            waiting: waiting.get(node.name).copied(),
            evictions: inputs.evictions.get(node.name),
            old,
            now: inputs.now,
        });
        let (spec_differs, status_differs) = node_status::differs(old, &object);
        let metadata = |more: Value| {
            let mut metadata = json!({ "name": node.name });
            if !more.is_null() {
                metadata["ownerReferences"] = more;
            }
            metadata
        };
        if spec_differs {
            let owners = json!(object.metadata.owner_references);
            changes.push(Change::Apply { object: applied(metadata(owners), "spec", json!(object.spec)) });
        }
        if status_differs {
            changes
                .push(Change::ApplyStatus { object: applied(metadata(Value::Null), "status", json!(object.status)) });
        }
    }
    changes
}

fn applied(metadata: Value, part: &str, value: Value) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": "MachineConfigNode", "metadata": metadata, part: value })
}
