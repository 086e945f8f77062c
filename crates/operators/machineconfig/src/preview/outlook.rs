//! Outlook: the expected roll-out of a pool's target: which nodes move when, with which disruption, and why others wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::operator::MachineConfiguration;
use seaworthy_api::operator::node_disruption_policy::NodeDisruptionPolicyClusterStatus;
use seaworthy_api::vocabulary::machineconfiguration::MACHINE_CONFIGURATION;
use seaworthy_change::{ObjectRef, to_second};
use seaworthy_ignition::Severity;
use seaworthy_plan::disruption::policy;
use seaworthy_plan::disruption::{Disruption, Level, least_disruption};
use seaworthy_plan::drain::eviction::{DisruptionBudgets, EvictionRules, Evictions, evictions};
use seaworthy_plan::fleet::membership::{Membership, PoolSelectors};
use seaworthy_plan::fleet::{NodeView, PoolView, Target, UnreadyReason, control_plane_topology};
use seaworthy_plan::history::pin;
use seaworthy_plan::rendering::{is_rendered, targeted};
use seaworthy_plan::rollout::budget;
use seaworthy_plan::rollout::forecast::{
    Estimate, Forecast, PastUpdate, estimate, forecast, past_update, short_digest,
};
use seaworthy_plan::rollout::waiting::{Reason, Waiting};
use seaworthy_plan::rollout::{self, PoolState};
use seaworthy_plan::status::remark;
use seaworthy_preview::PreviewProblem;

use crate::cluster_state::ClusterState;

/// The expected roll-out of a pool's target.
#[derive(Clone, Debug)]
pub struct Outlook {
    pub target: Option<String>,
    /// How many nodes may be unavailable, or why that is not known.
    pub max_unavailable: Result<i64, String>,
    /// A note for users about that number.
    pub budget_remark: Option<String>,
    /// Sorted by name.
    pub nodes: Vec<NodeOutlook>,
    /// Those that run the target, by name.
    pub updated: Vec<String>,
    /// Those that are ordered to it next, in this order.
    pub chosen: Vec<String>,
    pub waiting: Vec<Waiting>,
    /// Those that run the target but keep the pool from being updated, by name, and why.
    pub unsettled: Vec<(String, String)>,
    pub forecast: Forecast,
    pub is_paused: bool,
    /// The rendered MachineConfig that the pool is pinned to.
    pub pinned: Option<String>,
}

/// The expected update of one node.
#[derive(Clone, Debug)]
pub struct NodeOutlook {
    pub name: String,
    /// What it runs, or will run before it can be ordered to the target.
    pub from: Option<String>,
    /// `None` if what it runs, or the target, is not known.
    pub disruption: Option<Arc<Disruption>>,
    /// The evictions of its pods, if it is drained and its pods are known.
    pub evictions: Option<Evictions>,
}

impl Outlook {
    /// The greatest disruption of a node that is still to move; an unknown one counts as a reboot.
    pub fn level(&self) -> Level {
        let moving = self.nodes.iter().filter(|node| self.target.is_some() && node.from != self.target);
        let level = |node: &NodeOutlook| node.disruption.as_ref().map_or(Level::Reboot, |found| found.level);
        moving.map(level).max().unwrap_or_default()
    }
}

/// `None` if there is no such pool.
pub fn outlook(cluster: &ClusterState, name: &str, now: Timestamp) -> Option<Outlook> {
    let object = cluster.pool(name)?;
    let now = to_second(now);
    let progress: BTreeMap<&str, &MachineConfigNode> =
        cluster.progress().iter().map(|found| (found.metadata.name.as_deref().unwrap_or_default(), &**found)).collect();
    let progress_of = |name: Option<&str>| progress.get(name.unwrap_or_default()).copied();
    let views: Vec<NodeView<'_>> =
        cluster.nodes().iter().map(|node| NodeView::of(node, progress_of(node.metadata.name.as_deref()))).collect();
    let pools = PoolSelectors::new(cluster.pools().iter().map(|pool| PoolView::of(pool)));
    let assignment = pools.assign(&views);
    let nodes = assignment.nodes_of(name);
    let rendered = cluster.machine_configs().iter().map(|object| &**object).filter(|object| is_rendered(object));
    let topology = cluster.controller_config().and_then(|found| control_plane_topology(found));
    let pools = cluster.pools().iter().map(|pool| &**pool);
    let state = PoolState::of(object, pools, rendered, |pool| assignment.nodes_of(pool), topology, now);
    let inputs = state.inputs();
    let decision = rollout::decide(&inputs);
    let (chosen, waiting) = first_orders(&inputs, &decision);
    let target = targeted(object);
    let target_object = target.and_then(|target| cluster.machine_config(target));
    let policies = policies(cluster);
    let mut known: BTreeMap<String, Option<Arc<Disruption>>> = BTreeMap::new();
    let budgets = DisruptionBudgets::new(cluster.budgets().iter().map(|budget| &**budget));
    let pods = cluster.pods().map(|pods| by_node(pods));
    let of_node = |node: &&NodeView<'_>| {
        let from = starting_config(node, inputs.pool.target());
        let found = from.and_then(|from| {
            let of_change = || {
                let (old, new) = (cluster.machine_config(from)?, target_object?);
                Some(Arc::new(least_disruption(&old.spec, &new.spec, Some(&policies))))
            };
            known.entry(from.to_owned()).or_insert_with(of_change).clone()
        });
        let needs_drain = target.is_some() && from != target && found.as_ref().is_none_or(|found| found.needs_drain());
        let pods = pods.as_ref().filter(|_| needs_drain).map(|pods| {
            evictions(pods.get(node.name).map(Vec::as_slice).unwrap_or_default(), &budgets, EvictionRules::default())
        });
        NodeOutlook { name: node.name.to_owned(), from: from.map(str::to_owned), disruption: found, evictions: pods }
    };
    let mut of_nodes: Vec<NodeOutlook> = nodes.iter().map(of_node).collect();
    of_nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let unsettled = inputs.pool.target().map(|target| remark::unsettled(nodes, target)).unwrap_or_default();
    let max = decision.max_unavailable.as_ref().map(|max| *max).map_err(ToString::to_string);
    let mut outlook = Outlook {
        target: target.map(str::to_owned),
        nodes: of_nodes,
        updated: decision.updated.iter().map(|name| (*name).to_owned()).collect(),
        chosen,
        forecast: forecast(&[], 0, 0, estimate(Level::None, &[]), |_| false),
        is_paused: object.spec.paused == Some(true),
        pinned: pin::name(object).map(str::to_owned),
        max_unavailable: max,
        budget_remark: budget::remark(name, object.spec.max_unavailable.as_ref(), nodes.len()),
        waiting,
        unsettled: unsettled.into_iter().map(|(node, what)| (node.name.to_owned(), what)).collect(),
    };
    let reasons: BTreeMap<&str, &Reason> =
        outlook.waiting.iter().map(|waiting| (waiting.node.as_str(), &waiting.reason)).collect();
    let is_waiting = |name: &str, is: fn(&Reason) -> bool| reasons.get(name).is_some_and(|reason| is(reason));
    let is_next = |reason: &Reason| {
        matches!(
            reason,
            Reason::Budget { .. }
                | Reason::OrdersInProgress { .. }
                | Reason::RunsOperator
                | Reason::OtherTargetInProgress { .. }
        )
    };
    let is_busy = |reason: &Reason| matches!(reason, Reason::Updating { .. } | Reason::OtherTargetInProgress { .. });
    let is_without_daemon = |name: &str| is_waiting(name, |reason| matches!(reason, Reason::NoNodeDaemon));
    let mut later: Vec<&NodeView<'_>> = nodes.iter().copied().filter(|node| is_waiting(node.name, is_next)).collect();
    rollout::sort_for_update(&mut later);
    let first = outlook.chosen.iter().map(String::as_str).filter(|name| !is_without_daemon(name));
    let mut order: Vec<&str> = first.chain(later.iter().map(|node| node.name)).collect();
    if outlook.is_paused || inputs.pool.is_deleting() {
        // Orders that are given there recall updates, which moves no node.
        order.clear();
    }
    let budget = outlook.max_unavailable.as_ref().map_or(0, |max| *max);
    let level = outlook.level();
    let each = estimate(level, &history(cluster, nodes));
    // Of the unavailable nodes some become available by themselves; a user has to fix the others.
    let is_away = |node: &&&NodeView<'_>| inputs.pool.target().is_some_and(|target| node.uses_budget(target));
    let ordered: BTreeSet<&str> = order.iter().copied().collect();
    let is_mover = |node: &&&NodeView<'_>| ordered.contains(node.name) && !is_waiting(node.name, is_busy);
    let unavailable: Vec<&NodeView<'_>> =
        nodes.iter().filter(is_away).filter(|node| !is_mover(node)).copied().collect();
    let busy =
        unavailable.iter().filter(|node| is_waiting(node.name, is_busy) || is_recovering(node, each, now)).count();
    let stuck = i64::try_from(unavailable.len() - busy).unwrap_or(i64::MAX);
    // As the drain controller judges it, before anything is cordoned.
    let is_feasible = |node: &NodeOutlook| node.evictions.as_ref().is_none_or(Evictions::is_feasible);
    let blocked: BTreeSet<&str> =
        outlook.nodes.iter().filter(|node| !is_feasible(node)).map(|node| node.name.as_str()).collect();
    outlook.forecast = forecast(&order, budget.saturating_sub(stuck), busy, each, |name| blocked.contains(name));
    if order.is_empty() && busy > 0 {
        // The last nodes are being updated.
        outlook.forecast.seconds = each.seconds;
    }
    Some(outlook)
}

/// The nodes that are given orders before any node has reacted, in this order, and the nodes that wait then.
///
/// The controllers decide again as soon as they have given orders. Mostly nothing is left to do then; but an order to a node
/// that was unavailable takes no more of the budget than before.
fn first_orders(inputs: &rollout::RolloutInputs<'_>, decision: &rollout::Verdicts<'_>) -> (Vec<String>, Vec<Waiting>) {
    let Some(target) = inputs.pool.target() else { return (Vec::new(), decision.waiting.clone()) };
    let mut chosen: Vec<String> = decision.chosen.iter().map(|name| (*name).to_owned()).collect();
    let mut ordered: BTreeSet<String> = chosen.iter().cloned().collect();
    let mut views: Vec<NodeView<'_>> = inputs.nodes.iter().map(|node| (*node).clone()).collect();
    loop {
        for view in views.iter_mut().filter(|view| ordered.contains(view.name)) {
            (view.desired_config, view.desired_image) = (Some(target.config), target.image);
            // The order has changed the resource version.
            view.resource_version = None;
        }
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let next = rollout::decide(&rollout::RolloutInputs { nodes: &members, ..*inputs });
        let more: Vec<String> = next.chosen.iter().map(|name| (*name).to_owned()).collect();
        if more.is_empty() {
            // Without a node daemon, an order does not change why its node waits.
            let mut waiting = next.waiting;
            waiting.retain(|waiting| waiting.reason == Reason::NoNodeDaemon || !ordered.contains(&waiting.node));
            return (chosen, waiting);
        }
        ordered.extend(more.iter().cloned());
        chosen.extend(more);
    }
}

/// What a node will run when it is ordered to the target: the configuration of an update in progress that cannot be recalled,
/// else the current one.
fn starting_config<'a>(node: &NodeView<'a>, target: Option<Target<'_>>) -> Option<&'a str> {
    let is_elsewhere = |target: Target<'_>| {
        node.is_under_way() && !node.is_targeted(target) && !node.is_recallable(target) && !node.is_broken(target)
    };
    if target.is_some_and(is_elsewhere) { node.desired_config } else { node.current_config }
}

/// Whether a node has been unready for no longer than an update takes: then an update is most likely ending.
fn is_recovering(node: &NodeView<'_>, each: Estimate, now: Timestamp) -> bool {
    match node.unready_reason {
        Some(UnreadyReason::Condition { since: Some(since), .. }) => now.duration_since(since).as_secs() < each.seconds,
        _ => false,
    }
}

/// The nodes without a pool, and problems of node selectors.
#[derive(Clone, Debug, Default)]
pub struct UnassignedNodes {
    /// The nodes that take their configuration from no pool, by name, and why.
    pub nodes: Vec<Waiting>,
    /// Selectors that select no node, or without effect.
    pub problems: Vec<PreviewProblem>,
}

/// The nodes that no pool updates, as the controllers report them.
pub fn unassigned_nodes(cluster: &ClusterState) -> UnassignedNodes {
    let pools = PoolSelectors::new(cluster.pools().iter().map(|pool| PoolView::of(pool)));
    let of_pool = |severity: Severity, pool: &str, message: String| {
        PreviewProblem::new(severity, "node-selector", message).about(ObjectRef::named::<MachineConfigPool>(pool))
    };
    let mut found = UnassignedNodes::default();
    for (pool, error) in &pools.invalid {
        let problem = format!("MachineConfigPool {pool}: spec.nodeSelector: {error}; until then it has no nodes");
        found.problems.push(of_pool(Severity::Error, pool, problem));
    }
    found.problems.extend(pools.matching_all.iter().map(|pool| {
        let problem = format!(
            "MachineConfigPool {pool}: spec.nodeSelector names no label, which would select every node, so it selects none; \
             name a label"
        );
        of_pool(Severity::Warning, pool, problem)
    }));
    for node in cluster.nodes() {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let membership = pools.of_labels(node.metadata.labels.as_ref());
        if let Membership::In { primary, ignored: Some(pool), .. } = &membership {
            let problem = format!(
                "Node {name}: pool {pool} selects it without effect, because it belongs to the control plane and takes its \
                 configuration from pool {primary}"
            );
            found.problems.push(of_pool(Severity::Warning, pool, problem));
        }
        found.nodes.extend(membership.reason().map(|reason| Waiting { node: name.to_owned(), reason }));
    }
    found.nodes.sort_by(|a, b| a.node.cmp(&b.node));
    found
}

/// The duration of the last update of each of these nodes.
fn history(cluster: &ClusterState, nodes: &[&NodeView<'_>]) -> Vec<PastUpdate> {
    let policies = policies(cluster);
    let mut known: BTreeMap<(String, String), Option<Level>> = BTreeMap::new();
    let mut level = |from: &str, to: &str| {
        let of_change = || {
            let is_it = |found: &&Arc<MachineConfig>| {
                is_rendered(found) && found.metadata.name.as_deref().map(short_digest) == Some(from)
            };
            let (old, new) = (cluster.machine_configs().iter().find(is_it)?, cluster.machine_config(to)?);
            Some(least_disruption(&old.spec, &new.spec, Some(&policies)).level)
        };
        *known.entry((from.to_owned(), to.to_owned())).or_insert_with(of_change)
    };
    nodes.iter().filter_map(|node| past_update(node, &mut level)).collect()
}

/// The disruption policies of a cluster, merged with the defaults as its nodes do.
fn policies(cluster: &ClusterState) -> NodeDisruptionPolicyClusterStatus {
    let object = cluster.objects().named::<MachineConfiguration>(MACHINE_CONFIGURATION);
    policy::of_cluster(object.and_then(|object| object.spec.node_disruption_policy.as_ref()))
}

fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<&str, Vec<&Pod>> {
    let mut of_nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
            of_nodes.entry(node).or_default().push(pod);
        }
    }
    of_nodes
}
