//! The roll-out controller: which node of a pool moves now, and what everybody is told about those that wait.
//!
//! How the budget holds although caches lag and leaders change:
//! - An order is promised on the pool before it is given to a node, at the revision of the pool that was decided on. So of
//!   two deciders one is refused, and whoever decides next counts what was promised as given.
//! - The order itself is given at the revision of the node that was decided on. So a decider that was overtaken between
//!   its promise and its order is refused as soon as anybody has touched the node since.
//! - A promise stays on the pool until its node is seen back, and whoever has not seen a node as it was when it was promised
//!   reads it anew. So a decider whose view of the nodes is old knows all the same who is away.
//! - What this process wrote is in its caches before it decides again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{
    MachineConfig, MachineConfigNode, MachineConfigPool, MachineConfigPoolStatus,
};
use seaworthy_api::vocabulary::machineconfiguration::{ARBITER, CONTROLLER_CONFIG, MASTER};
use seaworthy_plan::custom_boot::Boots;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::membership::{Membership, Pools};
use seaworthy_plan::promise::Promise;
use seaworthy_plan::rollout::Partner;
use seaworthy_plan::waiting::Reason;
use seaworthy_plan::{node_status, pool, pool_status};
use seaworthy_runtime::metrics::{NodeLabel, NodeStateLabels, PoolGauges, PoolLabel};
use seaworthy_runtime::{Applier, Controller, Events, Key, Next, Queue, WriteError};
use serde_json::json;
use tokio::time::Instant;

use crate::context::Context;
use crate::drains::Drains;
use crate::machine::Machine;
use crate::perform::{or_anew, perform, perform_in_order, tell, tell_all};
use crate::writes::is_rendered;

/// How long a node that was given an order has before its MachineConfigNode says that it is on its way: one that needs no
/// reboot is often done by then, and one write tells all of it.
const ANSWER: Duration = Duration::from_secs(5);
/// A pool rests after a decision, for as long as this for every node it has: so however many nodes report at once, the
/// share of time that is spent on deciding stays the same.
const REST_PER_NODE: Duration = Duration::from_micros(20);
/// The shortest rest.
const REST: Duration = Duration::from_millis(20);
/// How many MachineConfigNodes are told at a time, before the pool is looked at again: what was decided on is held until it is
/// carried out, beside what has become of it.
const TELLINGS: usize = 1000;
/// How soon after one count of a pool's nodes the next is told. Whatever else its status says is told at once.
const COUNT: Duration = Duration::from_secs(1);

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A pool.
    Pool(String),
    /// The nodes that belong to no pool.
    Unassigned,
}

/// Rolls configurations out to nodes.
pub struct RolloutController {
    context: Context,
    applier: Applier,
    events: Events,
    drains: Drains,
    /// The node that this process runs on, if it runs in the cluster.
    own_node: Option<String>,
    memory: Mutex<Memory>,
}

/// What may be forgotten: it only saves writes, and tells what it has told.
#[derive(Default)]
struct Memory {
    /// When a node was given its order.
    ordered: BTreeMap<String, Instant>,
    /// When the status of a pool was written.
    reported: BTreeMap<String, Instant>,
    states: BTreeMap<String, NodeStateLabels>,
    alerts: BTreeSet<String>,
}

/// What a decision looks at, taken at one moment.
struct Moment {
    pools: Vec<Arc<MachineConfigPool>>,
    nodes: Vec<Arc<Machine>>,
    progress: Vec<Arc<MachineConfigNode>>,
    rendered: Vec<Arc<MachineConfig>>,
}

impl RolloutController {
    /// The controller and the queue that the caches feed.
    pub fn new(context: &Context, drains: Drains, own_node: Option<String>) -> (Self, Arc<Queue<Subject>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let (mark, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
        caches.nodes.listen(move |delta| {
            if delta.before.as_ref().map(|node| node.seen()) == delta.after.as_ref().map(|node| node.seen()) {
                return;
            }
            let pools = pools.all();
            let members = Pools::new(pools.iter().map(|pool| PoolView::of(pool)));
            for side in delta.sides() {
                let membership = members.of(&NodeView::of(side, None));
                if membership.primary().is_none() {
                    mark.mark(Subject::Unassigned);
                }
                for pool in membership.concerned() {
                    mark.mark(Subject::Pool(pool.to_owned()));
                    // Its nodes may be what the other pool of the quorum waits for.
                    if let Some(other) =
                        other_of_quorum(pool).filter(|other| pools.iter().any(|it| it.name_any() == *other))
                    {
                        mark.mark(Subject::Pool(other.to_owned()));
                    }
                }
            }
        });
        let (mark, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
        caches.machine_config_nodes.listen(move |delta| {
            for side in delta.sides() {
                let pool = &side.spec.pool.name;
                let is_known = pools.named(pool).is_some();
                mark.mark(if is_known { Subject::Pool(pool.clone()) } else { Subject::Unassigned });
            }
        });
        let (mark, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
        caches.pools.listen(move |delta| {
            let selector =
                |side: &Option<Arc<MachineConfigPool>>| side.as_ref().map(|side| side.spec.node_selector.clone());
            if selector(&delta.before) == selector(&delta.after) {
                delta.sides().for_each(|side| mark.mark(Subject::Pool(Key::of(&**side).name)));
                return;
            }
            // Nodes change hands.
            pools.all().iter().for_each(|pool| mark.mark(Subject::Pool(pool.name_any())));
            mark.mark(Subject::Unassigned);
        });
        let (mark, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
        caches.controller_configs.listen(move |_| {
            pools.all().iter().for_each(|pool| mark.mark(Subject::Pool(pool.name_any())));
        });
        let controller = RolloutController {
            context: context.clone(),
            applier: context.applier(Self::NAME),
            events: context.events(Self::NAME),
            drains,
            own_node,
            memory: Mutex::default(),
        };
        (controller, queue)
    }

    fn moment(&self) -> Moment {
        let caches = &self.context.caches;
        Moment {
            pools: caches.pools.all(),
            nodes: caches.nodes.all(),
            progress: caches.machine_config_nodes.all(),
            rendered: caches.machine_configs.filter(is_rendered),
        }
    }

    /// A moment, and what is promised on the pool in it. Nodes that the promise is ahead of are read anew, so that whoever
    /// is away is seen to be. What is promised of others after that cannot come about any more: they are gone, in another
    /// pool, or somebody has edited the promise.
    async fn moment_of(&self, name: &str) -> Result<(Moment, Promise), WriteError> {
        let mut read = BTreeSet::new();
        loop {
            let moment = self.moment();
            let Some(promised) = moment.pools.iter().find(|pool| pool.name_any() == name).map(|pool| Promise::of(pool))
            else {
                return Ok((moment, Promise::default()));
            };
            if promised.nodes.is_empty() {
                return Ok((moment, promised));
            }
            let unseen: Vec<String> = {
                let pools = Pools::new(moment.pools.iter().map(|pool| PoolView::of(pool)));
                let is_promised = |node: &&Arc<Machine>| {
                    node.metadata.name.as_ref().is_some_and(|node| promised.nodes.contains_key(node))
                        && pools.of_labels(node.metadata.labels.as_ref()).primary() == Some(name)
                };
                let views: Vec<NodeView<'_>> =
                    moment.nodes.iter().filter(is_promised).map(|node| NodeView::of(node, None)).collect();
                let views: Vec<&NodeView<'_>> = views.iter().collect();
                promised.unseen(&views).into_iter().map(str::to_owned).collect()
            };
            // A promise that was made while nodes were read may name others, or later revisions.
            let entry = |node: &String| (node.clone(), promised.nodes.get(node).cloned());
            if unseen.iter().all(|node| read.contains(&entry(node))) {
                return Ok((moment, promised.without(&unseen)));
            }
            for node in &unseen {
                if let Some(found) = self.applier.read::<Machine>(node).await? {
                    self.context.caches.nodes.wrote(found);
                }
                read.insert(entry(node));
            }
        }
    }

    async fn pool(&self, name: &str) -> Result<Next, WriteError> {
        let begun = std::time::Instant::now();
        let (moment, promised) = self.moment_of(name).await?;
        let Some(object) = moment.pools.iter().find(|pool| pool.name_any() == name) else {
            self.forget_pool(name);
            return Ok(Next::change());
        };
        let pools = Pools::new(moment.pools.iter().map(|pool| PoolView::of(pool)));
        if pools.selecting_all.contains(&name) {
            // The pool is told by its owner's mistake alone; no node is moved by it.
            return Ok(Next::change());
        }

        let controller_config = self.context.caches.controller_configs.named(CONTROLLER_CONFIG);
        let infrastructure = controller_config.as_ref().and_then(|found| found.spec.infra.as_ref()?.status.as_ref());
        let topology =
            infrastructure.and_then(|status| status.control_plane_topology.as_ref()).map(|word| word.as_str());
        let partner = partner(name, topology, &moment.pools);
        let progress = progress(&moment);
        // The nodes of other pools are not looked at: there may be many more of them.
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for node in &moment.nodes {
            match pools.of_labels(node.metadata.labels.as_ref()).primary() {
                Some(pool) if pool == name => own.push(view(node, &progress)),
                Some(pool) if partner.is_some_and(|partner| partner.name == pool) => others.push(view(node, &progress)),
                _ => {}
            }
        }
        let (nodes, others): (Vec<&NodeView<'_>>, Vec<&NodeView<'_>>) = (own.iter().collect(), others.iter().collect());
        let nodes = nodes.as_slice();
        let partner = partner.map(|pool| Partner { pool, nodes: &others });
        let boots = boots(&moment.pools, &moment.rendered);
        let operator_nodes: Vec<&str> = self.own_node.as_deref().into_iter().collect();
        let now = to_second(self.context.now());
        let certificates = controller_config
            .as_ref()
            .and_then(|found| found.status.as_ref()?.controller_certificates.as_deref())
            .unwrap_or_default();
        let (unanswered, evictions) = (self.unanswered(), self.drains.all());
        let mut decision = pool::desired(&pool::Inputs {
            pool: PoolView::of(object),
            nodes,
            progress: &progress,
            evictions: &evictions,
            unanswered: &unanswered,
            holds: &[],
            operator_nodes: &operator_nodes,
            boots: &boots,
            partner,
            promised: &promised,
            certificates,
            topology,
            now,
        });
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(pool = name, nodes = nodes.len(), chosen = decision.report.chosen.len(), micros, "decided");
        let caches = &self.context.caches;
        perform_in_order(&self.applier, caches, decision.before).await?;
        // The promise has made a new revision of the pool. The status is written at that one: whoever has written meanwhile
        // has said something that the decision does not know of.
        let object = caches.pools.named(name).unwrap_or_else(|| Arc::clone(object));
        self.note_orders(&decision.report.chosen);
        // Those that move now come first: there are no more than may be promised at a time.
        decision.tellings.sort_by_key(|telling| !telling.is_order());
        let is_more = decision.tellings.len() > TELLINGS;
        decision.tellings.truncate(TELLINGS);
        let is_told = tell_all(&self.applier, caches, decision.tellings).await;
        let is_done = perform(&self.applier, &self.events, caches, decision.changes).await;
        self.count(name, nodes, decision.status.as_ref().or(object.status.as_ref()));
        let is_count = |status: &&MachineConfigPoolStatus| {
            object.status.as_ref().is_some_and(|old| pool_status::differ_in_counts_only(old, status))
        };
        let later = decision.status.as_ref().filter(is_count).and_then(|_| self.rests_from_counting(name));
        if later.is_none()
            && let Some(status) = decision.status
        {
            let reported = self.applier.patch_status(&*object, json!({"status": status})).await;
            caches.pools.wrote(or_anew(&self.applier, &caches.pools, &*object, reported).await?);
            self.memory().reported.insert(name.to_owned(), Instant::now());
            for event in &decision.events {
                tell(&self.events, caches, event).await;
            }
        }
        // One object that cannot be written keeps no other from being written, the pool's own status least of all.
        is_told?;
        is_done?;
        let recheck = decision.recheck.and_then(|wait| Duration::try_from(wait).ok());
        let is_waiting = !decision.report.chosen.is_empty() || nodes.iter().any(|node| unanswered.contains(node.name));
        let recheck = [recheck, is_waiting.then_some(ANSWER), later, is_more.then_some(Duration::ZERO)]
            .into_iter()
            .flatten()
            .min();
        let rest = REST + REST_PER_NODE.saturating_mul(u32::try_from(moment.nodes.len()).unwrap_or(u32::MAX));
        Ok(Next { recheck, rest })
    }

    /// The nodes without a pool have a MachineConfigNode too, which says why nothing moves them.
    async fn unassigned(&self) -> Result<Next, WriteError> {
        let moment = self.moment();
        let progress = progress(&moment);
        let views = views(moment.nodes.iter(), &progress);
        let pools = Pools::new(moment.pools.iter().map(|pool| PoolView::of(pool)));
        let assignment = pools.assign(&views);
        let now = to_second(self.context.now());
        let reasons: Vec<(&NodeView<'_>, Option<Reason>)> =
            assignment.without.iter().map(|(node, membership)| (*node, membership.reason())).collect();
        self.alert(&views, &pools);
        let changes = reasons.iter().flat_map(|(node, reason)| {
            let old = progress.get(node.name).copied();
            let inputs = node_status::Inputs {
                node,
                pool: None,
                target: None,
                is_chosen: false,
                waiting: reason.as_ref(),
                evictions: None,
                old,
                now,
            };
            node_status::changes(old, &node_status::desired(&inputs), false)
        });
        perform(&self.applier, &self.events, &self.context.caches, changes.collect()).await?;
        Ok(Next { recheck: None, rest: REST })
    }

    /// The nodes that were given an order a moment ago.
    fn unanswered(&self) -> BTreeSet<String> {
        let mut memory = self.memory();
        memory.ordered.retain(|_, ordered| ordered.elapsed() < ANSWER);
        memory.ordered.keys().cloned().collect()
    }

    /// How long the nodes of a pool should not be counted aloud, since that was done a moment ago.
    fn rests_from_counting(&self, pool: &str) -> Option<Duration> {
        let since = self.memory().reported.get(pool)?.elapsed();
        COUNT.checked_sub(since).filter(|rest| !rest.is_zero())
    }

    fn note_orders(&self, chosen: &[&str]) {
        let ordered = Instant::now();
        self.memory().ordered.extend(chosen.iter().map(|node| ((*node).to_owned(), ordered)));
    }

    fn count(&self, pool: &str, nodes: &[&NodeView<'_>], status: Option<&MachineConfigPoolStatus>) {
        let Some(status) = status else { return };
        let metrics = &self.context.metrics;
        let label = PoolLabel { pool: pool.to_owned() };
        let set = |family: &PoolGauges, count: Option<i32>| {
            family.get_or_create(&label).set(i64::from(count.unwrap_or_default()));
        };
        set(&metrics.machines, status.machine_count);
        set(&metrics.updated, status.updated_machine_count);
        set(&metrics.degraded, status.degraded_machine_count);
        set(&metrics.unavailable, status.unavailable_machine_count);
        let mut memory = self.memory();
        for node in nodes {
            let labels = NodeStateLabels {
                node: node.name.to_owned(),
                pool: pool.to_owned(),
                state: node.state.map(|state| state.as_str()).unwrap_or_default().to_owned(),
                reason: node.reason.to_owned(),
            };
            if memory.states.get(node.name) == Some(&labels) {
                continue;
            }
            metrics.node_state.get_or_create(&labels).set(1);
            if let Some(old) = memory.states.insert(node.name.to_owned(), labels) {
                metrics.node_state.remove(&old);
            }
        }
    }

    /// Raises the alert for nodes that a custom pool selects in vain.
    fn alert(&self, views: &[NodeView<'_>], pools: &Pools<'_>) {
        let in_vain = views.iter().filter(|node| matches!(pools.of(node), Membership::In { in_vain: Some(_), .. }));
        let now: BTreeSet<String> = in_vain.map(|node| node.name.to_owned()).collect();
        let mut memory = self.memory();
        for node in memory.alerts.difference(&now) {
            self.context.metrics.pool_alert.remove(&NodeLabel { node: node.clone() });
        }
        for node in &now {
            self.context.metrics.pool_alert.get_or_create(&NodeLabel { node: node.clone() }).set(1);
        }
        memory.alerts = now;
    }

    fn forget_pool(&self, pool: &str) {
        let metrics = &self.context.metrics;
        let label = PoolLabel { pool: pool.to_owned() };
        for family in [&metrics.machines, &metrics.updated, &metrics.degraded, &metrics.unavailable] {
            family.remove(&label);
        }
        metrics.image_override.remove(&label);
        self.memory().reported.remove(pool);
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for RolloutController {
    type Key = Subject;
    type Error = WriteError;
    const NAME: &'static str = "seaworthy-rollout";

    async fn reconcile(&self, subject: &Subject) -> Result<Next, WriteError> {
        match subject {
            Subject::Pool(name) => self.pool(name).await,
            Subject::Unassigned => self.unassigned().await,
        }
    }
}

/// The MachineConfigNodes by the names of their nodes.
fn progress(moment: &Moment) -> BTreeMap<&str, &MachineConfigNode> {
    moment.progress.iter().map(|found| (found.spec.node.name.as_str(), &**found)).collect()
}

fn views<'a>(
    nodes: impl Iterator<Item = &'a Arc<Machine>>,
    progress: &BTreeMap<&str, &'a MachineConfigNode>,
) -> Vec<NodeView<'a>> {
    nodes.map(|node| view(node, progress)).collect()
}

fn view<'a>(node: &'a Arc<Machine>, progress: &BTreeMap<&str, &'a MachineConfigNode>) -> NodeView<'a> {
    NodeView::of(node, progress.get(node.metadata.name.as_deref().unwrap_or_default()).copied())
}

/// In a cluster with an arbiter, the other pool that keeps quorum.
pub(crate) fn partner<'a>(
    name: &str,
    topology: Option<&str>,
    pools: &'a [Arc<MachineConfigPool>],
) -> Option<PoolView<'a>> {
    let other = other_of_quorum(name).filter(|_| topology == Some("HighlyAvailableArbiter"))?;
    pools.iter().find(|pool| pool.name_any() == other).map(|pool| PoolView::of(pool))
}

/// The pool whose nodes keep quorum together with those of this one, where there is an arbiter.
fn other_of_quorum(name: &str) -> Option<&'static str> {
    match name {
        MASTER => Some(ARBITER),
        ARBITER => Some(MASTER),
        _ => None,
    }
}

/// Which pool each rendered MachineConfig was made for.
pub(crate) fn boots<'a>(pools: &'a [Arc<MachineConfigPool>], rendered: &'a [Arc<MachineConfig>]) -> Boots<'a> {
    let owners = rendered.iter().filter_map(|object| {
        let owner = object.metadata.owner_references.as_ref()?.first()?;
        Some((object.metadata.name.as_deref()?, owner.name.as_str()))
    });
    let selectors =
        pools.iter().map(|pool| (pool.metadata.name.as_deref().unwrap_or_default(), pool.spec.node_selector.as_ref()));
    Boots { owners: owners.collect(), selectors: selectors.collect() }
}

pub(crate) fn to_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
