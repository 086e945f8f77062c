//! Counters: how many machines there are, ready, available and up to date, and of which versions.
//!
//! - Counters that rest on Nodes are kept while the Nodes are not known.
//! - What the provider reports is copied only when it was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use seaworthy_api::cluster::VersionCount;
use seaworthy_api::cluster::v1beta2::{Machine, MachinePool, MachinePoolDeprecatedV1Beta1, MachinePoolStatus};
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::unknown::Unknown;
use seaworthy_api::vocabulary::cluster::MachineCondition;

use super::inputs::UpToDateRule;
use super::kubernetes_version::KubernetesVersion;
use super::node_match::NodeMatch;
use super::phase::desired_replicas;

/// How many versions the definition of pools accepts.
const MAX_VERSIONS: usize = 100;
/// The longest of them.
const MAX_VERSION_BYTES: usize = 256;

/// What the counters are computed from.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    pub pool: &'a MachinePool,
    /// Whether the provider's object was read.
    pub is_fetched: bool,
    /// How many machines the provider reports, if it is ready.
    pub replicas: Option<i32>,
    /// The Nodes, if they are known.
    pub nodes: Option<&'a NodeMatch<'a>>,
    /// The Machines, if each machine has one.
    pub machines: Option<&'a [Arc<Machine>]>,
    pub up_to_date: UpToDateRule,
}

/// Sets the counters of a status.
pub fn update(status: &mut MachinePoolStatus, counted: Counted<'_>) {
    if let Some(replicas) = counted.replicas {
        status.replicas = Some(replicas);
    }
    let replicas = status.replicas.unwrap_or_default();
    let has_counters = counted.nodes.is_some() || counted.replicas.is_some();
    if has_counters {
        let old = old_status(status);
        if let Some(nodes) = counted.nodes {
            old.ready_replicas = Some(nodes.ready);
            old.available_replicas = Some(nodes.available);
        }
        // Differs: never below zero, and computed in each pass, because upstream computes it when the Nodes change only.
        old.unavailable_replicas = Some(replicas.saturating_sub(old.available_replicas.unwrap_or_default()).max(0));
    }
    match (counted.machines, counted.nodes) {
        (Some(machines), _) => of_machines(status, machines),
        (None, Some(nodes)) => of_nodes(status, nodes),
        (None, None) => {}
    }
    if counted.machines.is_none() && counted.is_fetched {
        let desired = desired_replicas(counted.pool);
        match (counted.up_to_date, counted.nodes) {
            (UpToDateRule::Replicas, _) => status.up_to_date_replicas = Some(desired),
            (UpToDateRule::KubeletVersion, Some(nodes)) => {
                status.up_to_date_replicas = Some(with_version(counted.pool, nodes));
            }
            (UpToDateRule::KubeletVersion, None) => {}
        }
    }
}

/// The part of a status for older readers.
pub fn old_status(status: &mut MachinePoolStatus) -> &mut MachinePoolDeprecatedV1Beta1 {
    status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default()
}

/// Differs: machines count by their Nodes, because upstream copies the provider's number, so that a Cluster's totals do not
/// hold.
fn of_nodes(status: &mut MachinePoolStatus, nodes: &NodeMatch<'_>) {
    status.ready_replicas = Some(nodes.ready);
    status.available_replicas = Some(nodes.available);
    status.versions = versions(nodes.nodes.iter().map(|node| node.kubelet_version.as_str()));
}

fn of_machines(status: &mut MachinePoolStatus, machines: &[Arc<Machine>]) {
    let count = |type_: MachineCondition| {
        let number = machines.iter().filter(|machine| is_true(machine, type_)).count();
        Some(i32::try_from(number).unwrap_or(i32::MAX))
    };
    status.ready_replicas = count(MachineCondition::Ready);
    status.available_replicas = count(MachineCondition::Available);
    status.up_to_date_replicas = count(MachineCondition::UpToDate);
    status.versions = versions(machines.iter().map(|machine| {
        let info = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
        let reported = info.map(|info| info.kubelet_version.as_str()).filter(|version| !version.is_empty());
        reported.or(machine.spec.version.as_deref()).unwrap_or_default()
    }));
}

fn is_true(machine: &Machine, type_: MachineCondition) -> bool {
    let mut conditions = machine.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == type_.as_str() && condition.status == ConditionStatus::True)
}

fn with_version(pool: &MachinePool, nodes: &NodeMatch<'_>) -> i32 {
    let wanted = pool.spec.template.spec.version.as_deref();
    let count = nodes.nodes.iter().filter(|node| wanted.is_none_or(|wanted| node.kubelet_version == wanted)).count();
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Machines by version; `None` if none is known.
pub fn versions<'a>(versions: impl Iterator<Item = &'a str>) -> Option<Vec<VersionCount>> {
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    for version in versions.filter(|version| !version.is_empty() && version.len() <= MAX_VERSION_BYTES) {
        let count = counts.entry(version).or_default();
        *count = count.saturating_add(1);
    }
    let mut counts: Vec<(&str, i32)> = counts.into_iter().collect();
    counts.sort_by(|(a, _), (b, _)| KubernetesVersion::compare(a, b));
    let counts: Vec<VersionCount> = counts
        .into_iter()
        .take(MAX_VERSIONS)
        .map(|(version, replicas)| VersionCount {
            replicas: Some(replicas),
            version: version.to_owned(),
            unknown: Unknown::default(),
        })
        .collect();
    (!counts.is_empty()).then_some(counts)
}
