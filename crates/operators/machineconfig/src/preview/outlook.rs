//! How the nodes of a pool come to its target: decided as the controllers would, with what it does to each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode};
use seaworthy_api::operator::node_disruption_policy::NodeDisruptionPolicyClusterStatus;
use seaworthy_api::vocabulary::machineconfiguration::MACHINE_CONFIGURATION;
use seaworthy_ignition::Severity;
use seaworthy_plan::disruption::policy;
use seaworthy_plan::disruption::{Disruption, Level, least_disruption};
use seaworthy_plan::drain::eviction::{Budgets, Evictions, Rules, evictions};
use seaworthy_plan::fleet::membership::{Membership, Pools};
use seaworthy_plan::fleet::{Ailment, NodeView, PoolView, Target, control_plane_topology};
use seaworthy_plan::history::pin;
use seaworthy_plan::rendering::{is_rendered, targeted};
use seaworthy_plan::rollout::budget;
use seaworthy_plan::rollout::forecast::{Estimate, Forecast, Past, estimate, forecast, mark, past};
use seaworthy_plan::rollout::waiting::{Reason, Waiting};
use seaworthy_plan::rollout::{self, PoolSnapshot};
use seaworthy_plan::status::remark;

use super::Problem;
use crate::rollout::to_second;
use crate::world::World;

/// How the nodes of a pool come to its target.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// What they should run.
    pub target: Option<String>,
    /// How many nodes may be away, or why that cannot be told.
    pub max_unavailable: Result<i64, String>,
    /// What people should know about that number.
    pub budget_remark: Option<String>,
    /// The nodes, by name.
    pub nodes: Vec<NodeOutlook>,
    /// Those that run the target, by name.
    pub updated: Vec<String>,
    /// Those that are given it next, in this order.
    pub chosen: Vec<String>,
    /// Those that wait, and why.
    pub waiting: Vec<Waiting>,
    /// Those that run the target and keep the pool from being updated all the same, by name, and why.
    pub unsettled: Vec<(String, String)>,
    /// How long it takes.
    pub forecast: Forecast,
    /// Whether no node is given anything.
    pub is_paused: bool,
    /// What the pool targets whatever its MachineConfigs say.
    pub pinned: Option<String>,
}

/// How one node comes to its pool's target.
#[derive(Clone, Debug)]
pub struct NodeOutlook {
    /// The node.
    pub name: String,
    /// What it runs, or will before it can be sent to the target.
    pub from: Option<String>,
    /// What the change does to it; `None` where what it runs, or the target, is not known.
    pub disruption: Option<Arc<Disruption>>,
    /// What keeps its pods, where they have to leave and are known.
    pub evictions: Option<Evictions>,
}

impl Outlook {
    /// The greatest disruption of a node that is still to move; what is not known is taken for a reboot.
    pub fn level(&self) -> Level {
        let moving = self.nodes.iter().filter(|node| self.target.is_some() && node.from != self.target);
        let level = |node: &NodeOutlook| node.disruption.as_ref().map_or(Level::Reboot, |found| found.level);
        moving.map(level).max().unwrap_or_default()
    }
}

/// The outlook of a pool as it is; `None` if there is no such pool.
pub fn outlook(world: &World, name: &str, now: Timestamp) -> Option<Outlook> {
    let object = world.pool(name)?;
    let now = to_second(now);
    let progress: BTreeMap<&str, &MachineConfigNode> =
        world.progress.iter().map(|found| (found.metadata.name.as_deref().unwrap_or_default(), &**found)).collect();
    let told = |name: Option<&str>| progress.get(name.unwrap_or_default()).copied();
    let views: Vec<NodeView<'_>> =
        world.nodes.iter().map(|node| NodeView::of(node, told(node.metadata.name.as_deref()))).collect();
    let pools = Pools::new(world.pools.iter().map(|pool| PoolView::of(pool)));
    let assignment = pools.assign(&views);
    let nodes = assignment.nodes_of(name);
    let rendered = world.machine_configs.iter().map(|object| &**object).filter(|object| is_rendered(object));
    let topology = world.controller_config().and_then(|found| control_plane_topology(found));
    let pools = world.pools.iter().map(|pool| &**pool);
    let snapshot = PoolSnapshot::of(object, pools, rendered, |pool| assignment.nodes_of(pool), topology, now);
    let inputs = snapshot.inputs();
    let decision = rollout::decide(&inputs);
    let (chosen, waiting) = first_orders(&inputs, &decision);
    let target = targeted(object);
    let target_object = target.and_then(|target| world.machine_config(target));
    let policies = policies(world);
    let mut known: BTreeMap<String, Option<Arc<Disruption>>> = BTreeMap::new();
    let budgets = Budgets::new(world.budgets.iter().map(|budget| &**budget));
    let pods = world.pods.as_ref().map(|pods| by_node(pods));
    let of_node = |node: &&NodeView<'_>| {
        let from = coming_from(node, inputs.pool.target());
        let found = from.and_then(|from| {
            let of_change = || {
                let (old, new) = (world.machine_config(from)?, target_object?);
                Some(Arc::new(least_disruption(&old.spec, &new.spec, Some(&policies))))
            };
            known.entry(from.to_owned()).or_insert_with(of_change).clone()
        });
        let needs_drain = target.is_some() && from != target && found.as_ref().is_none_or(|found| found.needs_drain());
        let pods = pods.as_ref().filter(|_| needs_drain).map(|pods| {
            evictions(pods.get(node.name).map(Vec::as_slice).unwrap_or_default(), &budgets, Rules::default())
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
    let is_mute = |name: &str| is_waiting(name, |reason| matches!(reason, Reason::NoNodeDaemon));
    let mut later: Vec<&NodeView<'_>> = nodes.iter().copied().filter(|node| is_waiting(node.name, is_next)).collect();
    rollout::in_order(&mut later);
    let first = outlook.chosen.iter().map(String::as_str).filter(|name| !is_mute(name));
    let mut order: Vec<&str> = first.chain(later.iter().map(|node| node.name)).collect();
    if outlook.is_paused || inputs.pool.is_deleting() {
        // Who is told something there stays what it is.
        order.clear();
    }
    let budget = outlook.max_unavailable.as_ref().map_or(0, |max| *max);
    let level = outlook.level();
    let each = estimate(level, &history(world, nodes));
    // Of the nodes that hold the budget some give it back by themselves; the others have to be put right by somebody.
    let is_away = |node: &&&NodeView<'_>| inputs.pool.target().is_some_and(|target| node.is_away(target));
    let ordered: BTreeSet<&str> = order.iter().copied().collect();
    let is_mover = |node: &&&NodeView<'_>| ordered.contains(node.name) && !is_waiting(node.name, is_busy);
    let away: Vec<&NodeView<'_>> = nodes.iter().filter(is_away).filter(|node| !is_mover(node)).copied().collect();
    let busy = away.iter().filter(|node| is_waiting(node.name, is_busy) || is_coming_back(node, each, now)).count();
    let stuck = i64::try_from(away.len() - busy).unwrap_or(i64::MAX);
    // As the drain controller judges it, before anything is cordoned.
    let is_feasible = |node: &NodeOutlook| node.evictions.as_ref().is_none_or(Evictions::is_feasible);
    let blocked: BTreeSet<&str> =
        outlook.nodes.iter().filter(|node| !is_feasible(node)).map(|node| node.name.as_str()).collect();
    outlook.forecast = forecast(&order, budget.saturating_sub(stuck), busy, each, |name| blocked.contains(name));
    if order.is_empty() && busy > 0 {
        // The last ones are on their way.
        outlook.forecast.seconds = each.seconds;
    }
    Some(outlook)
}

/// Who is given the target before any node has done anything, in this order, and who waits then.
///
/// The controllers decide again as soon as they have given orders. Mostly nothing is left to do then; but a node that was away
/// and is given an order takes no more of the budget than before.
fn first_orders(inputs: &rollout::Inputs<'_>, decision: &rollout::Verdicts<'_>) -> (Vec<String>, Vec<Waiting>) {
    let Some(target) = inputs.pool.target() else { return (Vec::new(), decision.waiting.clone()) };
    let mut chosen: Vec<String> = decision.chosen.iter().map(|name| (*name).to_owned()).collect();
    let mut ordered: BTreeSet<String> = chosen.iter().cloned().collect();
    let mut views: Vec<NodeView<'_>> = inputs.nodes.iter().map(|node| (*node).clone()).collect();
    loop {
        for view in views.iter_mut().filter(|view| ordered.contains(view.name)) {
            (view.desired_config, view.desired_image) = (Some(target.config), target.image);
            // The order has made another revision.
            view.resource_version = None;
        }
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let next = rollout::decide(&rollout::Inputs { nodes: &members, ..*inputs });
        let more: Vec<String> = next.chosen.iter().map(|name| (*name).to_owned()).collect();
        if more.is_empty() {
            // An order that nobody carries out changes nothing about why its node waits.
            let mut waiting = next.waiting;
            waiting.retain(|waiting| waiting.reason == Reason::NoNodeDaemon || !ordered.contains(&waiting.node));
            return (chosen, waiting);
        }
        ordered.extend(more.iter().cloned());
        chosen.extend(more);
    }
}

/// What a node will run when it is sent to the target: what it is on its way to, where it has begun and cannot be recalled.
fn coming_from<'a>(node: &NodeView<'a>, target: Option<Target<'_>>) -> Option<&'a str> {
    let is_elsewhere = |target: Target<'_>| {
        node.is_under_way() && !node.is_targeted(target) && !node.is_recallable(target) && !node.is_broken(target)
    };
    if target.is_some_and(is_elsewhere) { node.desired_config } else { node.current_config }
}

/// Whether a node that is not ready has been so for no longer than an update takes: then it is most likely the end of one.
fn is_coming_back(node: &NodeView<'_>, each: Estimate, now: Timestamp) -> bool {
    match node.ailment {
        Some(Ailment::Condition { since: Some(since), .. }) => now.duration_since(since).as_secs() < each.seconds,
        _ => false,
    }
}

/// What is wrong between nodes and pools.
#[derive(Clone, Debug, Default)]
pub struct Strays {
    /// The nodes that take their configuration from no pool, by name, and why.
    pub nodes: Vec<Waiting>,
    /// Selectors that select nobody, or in vain.
    pub problems: Vec<Problem>,
}

/// The nodes that no pool moves, as the controllers tell of them.
pub fn strays(world: &World) -> Strays {
    let pools = Pools::new(world.pools.iter().map(|pool| PoolView::of(pool)));
    let of_pool = |severity: Severity, pool: &str, message: String| {
        Problem::of(severity, "node-selector", "MachineConfigPool", pool, message)
    };
    let mut found = Strays::default();
    for (pool, error) in &pools.broken {
        let problem = format!("MachineConfigPool {pool}: spec.nodeSelector: {error}; until then it has no nodes");
        found.problems.push(of_pool(Severity::Error, pool, problem));
    }
    found.problems.extend(pools.selecting_all.iter().map(|pool| {
        let problem = format!(
            "MachineConfigPool {pool}: spec.nodeSelector names no label, which would select every node, so it selects none; \
             name a label"
        );
        of_pool(Severity::Warning, pool, problem)
    }));
    for node in &world.nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let membership = pools.of_labels(node.metadata.labels.as_ref());
        if let Membership::In { primary, in_vain: Some(pool), .. } = &membership {
            let problem = format!(
                "Node {name}: pool {pool} selects it in vain, as it belongs to the control plane and takes its configuration \
                 from pool {primary}"
            );
            found.problems.push(of_pool(Severity::Warning, pool, problem));
        }
        found.nodes.extend(membership.reason().map(|reason| Waiting { node: name.to_owned(), reason }));
    }
    found.nodes.sort_by(|a, b| a.node.cmp(&b.node));
    found
}

/// How long the last update of each of these nodes took.
fn history(world: &World, nodes: &[&NodeView<'_>]) -> Vec<Past> {
    let policies = policies(world);
    let mut known: BTreeMap<(String, String), Option<Level>> = BTreeMap::new();
    let mut level = |from: &str, to: &str| {
        let of_change = || {
            let is_it = |found: &&Arc<MachineConfig>| {
                is_rendered(found) && found.metadata.name.as_deref().map(mark) == Some(from)
            };
            let (old, new) = (world.machine_configs.iter().find(is_it)?, world.machine_config(to)?);
            Some(least_disruption(&old.spec, &new.spec, Some(&policies)).level)
        };
        *known.entry((from.to_owned(), to.to_owned())).or_insert_with(of_change)
    };
    nodes.iter().filter_map(|node| past(node, &mut level)).collect()
}

/// The disruption policies of a cluster, worked out as its nodes work them out.
fn policies(world: &World) -> NodeDisruptionPolicyClusterStatus {
    let object = crate::world::named(&world.policies, MACHINE_CONFIGURATION);
    policy::of_cluster(object.and_then(|object| object.spec.node_disruption_policy.as_ref()))
}

/// The pods of each node.
fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<&str, Vec<&Pod>> {
    let mut of_nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
            of_nodes.entry(node).or_default().push(pod);
        }
    }
    of_nodes
}
