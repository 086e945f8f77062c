//! Roll-out controller: gives orders to the nodes of a pool within the budget, and reports why the others wait.
//!
//! The budget holds although caches lag and leaders change:
//! - An order is reserved on the pool before it is given to a node, at the resource version of the pool that was decided on. So
//!   of two concurrent leaders one is refused, and the next decision counts reserved orders as given.
//! - The order itself is given at the resource version of the node that was decided on. So a leader that was replaced between
//!   its reservation and its order is refused as soon as the node has changed since.
//! - A reservation stays on the pool until its node is available again. A node that is cached at an older state than at its
//!   reservation is read again. So also a decision on an outdated cache knows which nodes are unavailable.
//! - What this process wrote is in its caches before it decides again.

pub mod active_drains;
pub mod announcements;
pub mod cluster_objects;
pub mod drain;
pub mod gauges;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, PoolEvent};
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage, to_second};
use seaworthy_generate::base::ROLES;
use seaworthy_plan::fleet::membership::{Membership, PoolSelectors};
use seaworthy_plan::fleet::{ARBITER_TOPOLOGY, NodeView, PoolView, control_plane_topology};
use seaworthy_plan::rendering::built_in::missing_pool;
use seaworthy_plan::rollout::pool;
use seaworthy_plan::rollout::reservation::{Reservation, SettledNodes};
use seaworthy_plan::rollout::waiting::Reason;
use seaworthy_plan::rollout::{PoolState, quorum_partner};
use seaworthy_plan::status::node_status;
use seaworthy_plan::status::remark;
use seaworthy_runtime::{Applier, Controller, Delta, Key, Queue, Requeue, WriteError};
use tokio::time::Instant;

use crate::base::deleted_pools::changes_presence;
use crate::cached_node::CachedNode;
use crate::context::Context;
use crate::rollout::active_drains::ActiveDrains;
use crate::rollout::announcements::Announcements;
use crate::rollout::cluster_objects::{ClusterObjects, ProgressJoin};
use crate::rollout::gauges::Gauges;

/// How long after an order its node may respond before its MachineConfigNode reports the update: an update without a reboot is
/// often complete by then, and needs one write only.
const NODE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two decisions about a pool, for each node of the cluster: so the share of time that is spent on decisions
/// is constant, however many nodes report at once.
const MIN_INTERVAL_PER_NODE: Duration = Duration::from_micros(20);
/// The shortest time between two decisions.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// When to check again whether an edited target was reverted. Usually the watch reports it before.
const REVERT_CHECK_DELAY: Duration = Duration::from_secs(1);
/// The shortest time between two writes of the counts in a pool's status. Other changes of the status are written at once.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// A key of the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutKey {
    /// A pool by name.
    Pool(String),
    /// The nodes that belong to no pool.
    Unassigned,
}

pub struct RolloutController {
    context: Context,
    applier: Applier,
    drains: ActiveDrains,
    /// The node that this process runs on, if it runs in the cluster.
    own_node: Option<String>,
    gauges: Gauges,
    memory: Mutex<Memory>,
}

/// State that may be lost: it only saves writes.
#[derive(Default)]
struct Memory {
    /// When each node was given its order.
    ordered: BTreeMap<String, Instant>,
    /// When the status of each pool was written.
    reported: BTreeMap<String, Instant>,
    announcements: Announcements,
    /// The reserved nodes of each pool whose orders can no longer be given.
    settled: BTreeMap<String, SettledNodes>,
}

impl RolloutController {
    /// The controller and the queue that the caches feed.
    pub fn new(context: &Context, drains: ActiveDrains, own_node: Option<String>) -> (Self, Arc<Queue<RolloutKey>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let (mark, held) = (Arc::clone(&queue), caches.downgrade());
        caches.nodes.listen(move |delta| {
            if delta.before.as_ref().map(|node| node.rollout_fields())
                == delta.after.as_ref().map(|node| node.rollout_fields())
            {
                return;
            }
            affected_keys(&held.pools(), delta).into_iter().for_each(|key| mark.mark(key));
        });
        let (mark, held) = (Arc::clone(&queue), caches.downgrade());
        caches.machine_config_nodes.listen(move |delta| {
            for side in delta.sides() {
                let pool = &side.spec.pool.name;
                mark.mark(if held.has_pool(pool) { RolloutKey::Pool(pool.clone()) } else { RolloutKey::Unassigned });
                if !held.has_node(&side.name_any()) {
                    mark.mark(RolloutKey::Unassigned);
                }
            }
        });
        let mark_all = {
            let (queue, held) = (Arc::clone(&queue), caches.downgrade());
            move || {
                held.pools().iter().for_each(|pool| queue.mark(RolloutKey::Pool(pool.name_any())));
                queue.mark(RolloutKey::Unassigned);
            }
        };
        let (mark, mark_affected) = (Arc::clone(&queue), mark_all.clone());
        caches.pools.listen(move |delta| {
            let selector =
                |side: &Option<Arc<MachineConfigPool>>| side.as_ref().map(|side| side.spec.node_selector.clone());
            // Also a deleted one, whose gauges are removed.
            delta.sides().for_each(|side| mark.mark(RolloutKey::Pool(Key::of(&**side).name)));
            // Nodes change pools, or waited for one.
            if selector(&delta.before) != selector(&delta.after) || changes_presence(delta) {
                mark_affected();
            }
        });
        caches.controller_configs.listen(move |_| mark_all());
        let controller = RolloutController {
            context: context.clone(),
            applier: context.applier(Self::NAME),
            drains,
            own_node,
            gauges: Gauges::new(context.metrics.set()),
            memory: Mutex::default(),
        };
        (controller, queue)
    }

    /// The objects at one moment, and the reservations on these pools. Nodes that are cached at an older state than in a reservation
    /// are read again, so that unavailable ones are known to be. Reservations of other nodes are dropped after that, since their
    /// orders can no longer be given: the node is deleted, in another pool, or the reservation was edited.
    async fn objects_of<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<(ClusterObjects, [Reservation; N]), WriteError> {
        loop {
            let objects = ClusterObjects::of(&self.context.caches);
            let reservations = names.map(|name| objects.reservation(name));
            let mut unread: BTreeSet<&String> = BTreeSet::new();
            for (name, (reservation, stale)) in names.into_iter().zip(&reservations) {
                let settled = self.memory().settled.get(name).cloned().unwrap_or_default();
                unread.extend(settled.unread(reservation, stale));
            }
            for node in &unread {
                self.applier.read::<CachedNode>(node).await?;
            }
            let is_all_read = unread.is_empty();
            for (name, (reservation, stale)) in names.into_iter().zip(&reservations) {
                self.memory().settled.entry(name.to_owned()).or_default().note(reservation, stale);
            }
            if is_all_read {
                return Ok((objects, reservations.map(|(reservation, stale)| reservation.without(&stale))));
            }
        }
    }

    async fn pool(&self, name: &str) -> Result<Requeue, WriteError> {
        let begun = std::time::Instant::now();
        let controller_config = self.context.caches.controller_configs.named(CONTROLLER_CONFIG);
        let topology = controller_config.as_deref().and_then(control_plane_topology);
        let (cluster, reservation, of_partner) = match quorum_partner(name, topology) {
            None => {
                let (cluster, [reservation]) = self.objects_of([name]).await?;
                (cluster, reservation, Reservation::default())
            }
            Some(other) => {
                // Its reservations are not written at the resource version of this pool: they must be read now.
                self.applier.read::<MachineConfigPool>(other).await?;
                let (cluster, [reservation, of_partner]) = self.objects_of([name, other]).await?;
                (cluster, reservation, of_partner)
            }
        };
        let object = cluster.pools.iter().find(|pool| pool.name_any() == name);
        // The nodes of a pool that is missing for a moment would belong to another meanwhile. Its return triggers a reconcile.
        let is_missing = missing_pool(controller_config.as_deref(), &cluster.pools).is_some();
        if is_missing && (object.is_some() || ROLES.contains(&name)) {
            return Ok(Requeue::on_change());
        }
        let Some(object) = object else {
            self.forget_pool(name);
            return Ok(Requeue::on_change());
        };
        // An edited target, which the render controller reverts: no order is given meanwhile. An Event on the pool reports it.
        if !self.context.targets.matches(object) {
            return Ok(Requeue::after(REVERT_CHECK_DELAY));
        }
        let pools = PoolSelectors::new(cluster.pools.iter().map(|pool| PoolView::of(pool)));
        if pools.matching_all.contains(&name) {
            let message = "the nodeSelector is empty and would select all nodes; the pool moves no node".to_owned();
            let reason = PoolEvent::SelectorMatchesAll.as_str();
            let event = Event { is_warning: true, reason, message, related: None };
            self.applier.change(Change::emit(ObjectRef::of(&**object), event)).await?;
            self.gauges.remove_pool(name);
            return Ok(Requeue::on_change());
        }

        let partner = quorum_partner(name, topology);
        let mut progress = ProgressJoin::new(&cluster.progress);
        // The nodes of other pools are skipped: there may be many more of them.
        let (mut own, mut others, mut conflicting) = (Vec::new(), Vec::new(), Vec::new());
        for node in &cluster.nodes {
            let membership = pools.of_labels(node.labels());
            match &membership {
                Membership::In { primary, .. } if *primary == name => own.push(progress.view(node)),
                Membership::In { primary, .. } if partner == Some(*primary) => {
                    others.push(progress.view(node));
                }
                Membership::Conflict(pools) if pools.contains(&name) => {
                    conflicting.extend(remark::conflict_message(node.name(), &membership));
                }
                _ => {}
            }
        }
        conflicting.sort_unstable();
        let (nodes, others): (Vec<&NodeView<'_>>, Vec<&NodeView<'_>>) = (own.iter().collect(), others.iter().collect());
        let nodes = nodes.as_slice();
        let operator_nodes: Vec<&str> = self.own_node.as_deref().into_iter().collect();
        let now = to_second(self.context.now());
        let rendered = cluster.rendered.iter().map(|object| &**object);
        let nodes_of = |pool: &str| if pool == name { nodes } else { others.as_slice() };
        let state = PoolState::of(object, cluster.pools.iter().map(|pool| &**pool), rendered, nodes_of, topology, now)
            .with_reservations(reservation, of_partner)
            .with_operator_nodes(&operator_nodes);
        let certificates = controller_config
            .as_ref()
            .and_then(|found| found.status.as_ref()?.controller_certificates.as_deref())
            .unwrap_or_default();
        let (unanswered, blockers) = (self.unanswered(), self.drains.blockers());
        let decision = pool::desired(&pool::PoolRolloutInputs {
            rollout: state.inputs(),
            blockers: &blockers,
            unanswered: &unanswered,
            conflicting: &conflicting,
            certificates,
            topology,
            count_delay: self.count_delay(name),
        });
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let report = &decision.report;
        let chosen = report.verdicts.chosen.as_slice();
        tracing::debug!(pool = name, nodes = nodes.len(), chosen = chosen.len(), micros, "decided");
        let performed = self.applier.perform(&decision).await;
        if matches!(performed.stopped_at, Some(Purpose::Fence | Purpose::Reserve)) {
            // No order was given.
            performed.result()?;
            return Ok(Requeue::on_change());
        }
        self.note_orders(chosen);
        let is_given = |node: &&&str| performed.is_done(&ObjectRef::named::<Node>(**node));
        let given: Vec<&str> = chosen.iter().filter(is_given).copied().collect();
        let target = PoolView::of(object).target();
        let is_to_order = |node: &&&NodeView<'_>| target.is_some_and(|target| !node.is_targeted(target));
        // No node is chosen that already has the order.
        let are_last = nodes.iter().filter(is_to_order).count() <= chosen.len();
        let (orders, later_announced) = self.memory().announcements.record(PoolView::of(object), &given, are_last);
        self.applier.perform(&Decision::of([Stage::each(Purpose::Announce, orders)])).await.result()?;
        self.gauges.set(name, nodes, report.status.as_ref().or(object.status.as_ref()));
        if report.is_status_written && performed.is_done(&ObjectRef::named::<MachineConfigPool>(name)) {
            self.memory().reported.insert(name.to_owned(), Instant::now());
        }
        performed.result()?;
        let is_waiting = !chosen.is_empty() || nodes.iter().any(|node| unanswered.contains(node.name));
        let recheck = [decision.recheck, is_waiting.then_some(NODE_RESPONSE_TIMEOUT), later_announced]
            .into_iter()
            .flatten()
            .min();
        let min_interval =
            MIN_INTERVAL + MIN_INTERVAL_PER_NODE.saturating_mul(u32::try_from(cluster.nodes.len()).unwrap_or(u32::MAX));
        Ok(Requeue { recheck, min_interval })
    }

    /// Reports on the MachineConfigNodes of the nodes without a pool why they are not updated.
    async fn unassigned(&self) -> Result<Requeue, WriteError> {
        let objects = ClusterObjects::of(&self.context.caches);
        let controller_config = self.context.caches.controller_configs.named(CONTROLLER_CONFIG);
        if missing_pool(controller_config.as_deref(), &objects.pools).is_some() {
            return Ok(Requeue::on_change());
        }
        let mut progress = ProgressJoin::new(&objects.progress);
        let views: Vec<NodeView<'_>> = objects.nodes.iter().map(|node| progress.view(node)).collect();
        let pools = PoolSelectors::new(objects.pools.iter().map(|pool| PoolView::of(pool)));
        let assignment = pools.assign(&views);
        let now = to_second(self.context.now());
        let reasons: Vec<(&NodeView<'_>, Option<Reason>)> =
            assignment.without.iter().map(|(node, membership)| (*node, membership.reason())).collect();
        let in_vain = |node: &&NodeView<'_>| matches!(pools.of(node), Membership::In { ignored: Some(_), .. });
        self.gauges.set_alerts(views.iter().filter(in_vain).map(|node| node.name.to_owned()).collect());
        let mut changes = self.orphans(&objects, &views).await?;
        changes.extend(reasons.iter().flat_map(|(node, reason)| {
            let inputs = node_status::NodeStatusInputs {
                node,
                pool: None,
                target: None,
                is_chosen: false,
                waiting: reason.as_ref(),
                blocker: None,
                now,
            };
            node_status::changes(node.progress, &node_status::desired(&inputs), false)
        }));
        self.applier.perform(&Decision::of([Stage::per_object(Purpose::Report, changes)])).await.result()?;
        Ok(Requeue { recheck: None, min_interval: MIN_INTERVAL })
    }

    /// Deletes the MachineConfigNodes of deleted nodes. That the node is deleted is read from the API: a cache may lag, and the
    /// conditions of a deleted MachineConfigNode would be lost.
    async fn orphans(&self, objects: &ClusterObjects, nodes: &[NodeView<'_>]) -> Result<Vec<Change>, WriteError> {
        let mut changes = Vec::new();
        for orphan in node_status::orphans(objects.progress.iter().map(|found| &**found), nodes) {
            if self.applier.read::<CachedNode>(&orphan.name_any()).await?.is_none() {
                changes.push(Change::delete(ObjectRef::of(orphan)));
            }
        }
        Ok(changes)
    }

    /// The nodes that were given an order a moment ago, and may not have responded.
    fn unanswered(&self) -> BTreeSet<String> {
        let mut memory = self.memory();
        memory.ordered.retain(|_, ordered| ordered.elapsed() < NODE_RESPONSE_TIMEOUT);
        memory.ordered.keys().cloned().collect()
    }

    /// How long the counts in a pool's status are not written yet, because they were written within the interval.
    fn count_delay(&self, pool: &str) -> Option<Duration> {
        let since = self.memory().reported.get(pool)?.elapsed();
        COUNT_INTERVAL.checked_sub(since).filter(|rest| !rest.is_zero())
    }

    fn note_orders(&self, chosen: &[&str]) {
        let ordered = Instant::now();
        self.memory().ordered.extend(chosen.iter().map(|node| ((*node).to_owned(), ordered)));
    }

    fn forget_pool(&self, pool: &str) {
        self.gauges.remove_pool(pool);
        let mut memory = self.memory();
        memory.reported.remove(pool);
        memory.announcements.forget(pool);
        memory.settled.remove(pool);
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for RolloutController {
    type Key = RolloutKey;
    type Error = WriteError;
    const NAME: &'static str = "seaworthy-rollout";

    async fn reconcile(&self, key: &RolloutKey) -> Result<Requeue, WriteError> {
        match key {
            RolloutKey::Pool(name) => self.pool(name).await,
            RolloutKey::Unassigned => self.unassigned().await,
        }
    }
}

/// The keys to reconcile when a node changes.
fn affected_keys(pools: &[Arc<MachineConfigPool>], delta: &Delta<CachedNode>) -> BTreeSet<RolloutKey> {
    let members = PoolSelectors::new(pools.iter().map(|pool| PoolView::of(pool)));
    let mut keys = BTreeSet::new();
    for side in delta.sides() {
        let membership = members.of_labels(side.labels());
        // Nodes without a pool, those that a pool selects without effect, and MachineConfigNodes of deleted nodes.
        let is_odd = matches!(membership, Membership::In { ignored: Some(_), .. }) || membership.primary().is_none();
        if is_odd || delta.after.is_none() {
            keys.insert(RolloutKey::Unassigned);
        }
        for pool in membership.affected_pools() {
            keys.insert(RolloutKey::Pool(pool.to_owned()));
            // Its nodes may be what the other pool of the quorum waits for.
            let other = quorum_partner(pool, Some(ARBITER_TOPOLOGY))
                .filter(|other| pools.iter().any(|it| it.name_any() == *other));
            keys.extend(other.map(|other| RolloutKey::Pool(other.to_owned())));
        }
    }
    keys
}
