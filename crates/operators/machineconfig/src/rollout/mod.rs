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

pub mod announcements;
pub mod cluster_snapshot;
pub mod drain;
pub mod drains;
pub mod gauges;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, PoolEvent};
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage};
use seaworthy_generate::base::ROLES;
use seaworthy_plan::fleet::membership::{Membership, Pools};
use seaworthy_plan::fleet::{ARBITER_TOPOLOGY, NodeView, PoolView, control_plane_topology};
use seaworthy_plan::rendering::built_in::missing_pool;
use seaworthy_plan::rollout::pool;
use seaworthy_plan::rollout::reservation::{Promise, Settled};
use seaworthy_plan::rollout::waiting::Reason;
use seaworthy_plan::rollout::{PoolSnapshot, quorum_partner};
use seaworthy_plan::status::node_status;
use seaworthy_plan::status::remark;
use seaworthy_runtime::{Applier, Controller, Delta, Key, Next, Queue, WriteError};
use tokio::time::Instant;

use crate::base::deleted_pools::comes_or_goes;
use crate::cached_node::CachedNode;
use crate::context::Context;
use crate::rollout::announcements::Announcements;
use crate::rollout::cluster_snapshot::{ClusterSnapshot, ProgressJoin};
use crate::rollout::drains::Drains;
use crate::rollout::gauges::Gauges;

/// How long a node that was given an order has before its MachineConfigNode says that it is on its way: one that needs no
/// reboot is often done by then, and one write tells all of it.
const ANSWER: Duration = Duration::from_secs(5);
/// A pool rests after a decision, for as long as this for every node it has: so however many nodes report at once, the
/// share of time that is spent on deciding stays the same.
const REST_PER_NODE: Duration = Duration::from_micros(20);
/// The shortest rest.
const REST: Duration = Duration::from_millis(20);
/// How long at most until it is looked again whether a target that should not be there was put back. Mostly that is seen.
const PUT_BACK: Duration = Duration::from_secs(1);
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
    drains: Drains,
    /// The node that this process runs on, if it runs in the cluster.
    own_node: Option<String>,
    gauges: Gauges,
    memory: Mutex<Memory>,
}

/// What may be forgotten: it only saves writes, and tells what it has told.
#[derive(Default)]
struct Memory {
    /// When a node was given its order.
    ordered: BTreeMap<String, Instant>,
    /// When the status of a pool was written.
    reported: BTreeMap<String, Instant>,
    /// What is still to be told of orders.
    announcements: Announcements,
    /// What the promises on a pool are about that cannot come about any more.
    settled: BTreeMap<String, Settled>,
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
            concerned(&pools.all(), delta).into_iter().for_each(|subject| mark.mark(subject));
        });
        let (mark, pools, nodes) = (Arc::clone(&queue), Arc::clone(&caches.pools), Arc::clone(&caches.nodes));
        caches.machine_config_nodes.listen(move |delta| {
            for side in delta.sides() {
                let pool = &side.spec.pool.name;
                let is_known = pools.named(pool).is_some();
                mark.mark(if is_known { Subject::Pool(pool.clone()) } else { Subject::Unassigned });
                if nodes.named(&side.name_any()).is_none() {
                    mark.mark(Subject::Unassigned);
                }
            }
        });
        let (mark, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
        caches.pools.listen(move |delta| {
            let selector =
                |side: &Option<Arc<MachineConfigPool>>| side.as_ref().map(|side| side.spec.node_selector.clone());
            // Also one that is gone: what was told of it goes.
            delta.sides().for_each(|side| mark.mark(Subject::Pool(Key::of(&**side).name)));
            if selector(&delta.before) == selector(&delta.after) && !comes_or_goes(delta) {
                return;
            }
            // Nodes change hands, or waited for a pool.
            pools.all().iter().for_each(|pool| mark.mark(Subject::Pool(pool.name_any())));
            mark.mark(Subject::Unassigned);
        });
        let (mark, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
        caches.controller_configs.listen(move |_| {
            pools.all().iter().for_each(|pool| mark.mark(Subject::Pool(pool.name_any())));
            mark.mark(Subject::Unassigned);
        });
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

    /// A moment, and what is promised in it on these pools. Nodes that a promise is ahead of are read anew, so that whoever
    /// is away is seen to be. What is promised of others after that cannot come about any more: they are gone, in another
    /// pool, or somebody has edited the promise.
    async fn snapshot_of<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<(ClusterSnapshot, [Promise; N]), WriteError> {
        loop {
            let snapshot = ClusterSnapshot::of(&self.context.caches);
            let promises = names.map(|name| snapshot.promised(name));
            let mut unread: BTreeSet<&String> = BTreeSet::new();
            for (name, (promise, unseen)) in names.into_iter().zip(&promises) {
                let settled = self.memory().settled.get(name).cloned().unwrap_or_default();
                unread.extend(settled.unread(promise, unseen));
            }
            for node in &unread {
                self.applier.read::<CachedNode>(node).await?;
            }
            let is_all_read = unread.is_empty();
            for (name, (promise, unseen)) in names.into_iter().zip(&promises) {
                self.memory().settled.entry(name.to_owned()).or_default().note(promise, unseen);
            }
            if is_all_read {
                return Ok((snapshot, promises.map(|(promise, unseen)| promise.without(&unseen))));
            }
        }
    }

    async fn pool(&self, name: &str) -> Result<Next, WriteError> {
        let begun = std::time::Instant::now();
        let controller_config = self.context.caches.controller_configs.named(CONTROLLER_CONFIG);
        let topology = controller_config.as_deref().and_then(control_plane_topology);
        let (cluster, promised, of_partner) = match quorum_partner(name, topology) {
            None => {
                let (cluster, [promised]) = self.snapshot_of([name]).await?;
                (cluster, promised, Promise::default())
            }
            Some(other) => {
                // What is promised there is not written at the revision of this pool: only what stands there now counts.
                self.applier.read::<MachineConfigPool>(other).await?;
                let (cluster, [promised, of_partner]) = self.snapshot_of([name, other]).await?;
                (cluster, promised, of_partner)
            }
        };
        let object = cluster.pools.iter().find(|pool| pool.name_any() == name);
        // The nodes of a pool that is missing for a moment would belong to another meanwhile. Its return is looked at.
        let is_missing = missing_pool(controller_config.as_deref(), &cluster.pools).is_some();
        if is_missing && (object.is_some() || ROLES.contains(&name)) {
            return Ok(Next::change());
        }
        let Some(object) = object else {
            self.forget_pool(name);
            return Ok(Next::change());
        };
        // Somebody else's target, which is being put back: nobody is sent there meanwhile. The pool's Event tells of it.
        if !self.context.targets.agree(object) {
            return Ok(Next::after(PUT_BACK));
        }
        let pools = Pools::new(cluster.pools.iter().map(|pool| PoolView::of(pool)));
        if pools.selecting_all.contains(&name) {
            let message = "the nodeSelector is empty and would select all nodes; the pool moves no node".to_owned();
            let reason = PoolEvent::SelectingAll.as_str();
            let event = Event { is_warning: true, reason, message, related: None };
            self.applier.change(Change::emit(ObjectRef::of(&**object), event)).await?;
            self.gauges.forget_pool(name);
            return Ok(Next::change());
        }

        let partner = quorum_partner(name, topology);
        let mut progress = ProgressJoin::new(&cluster.progress);
        // The nodes of other pools are not looked at: there may be many more of them.
        let (mut own, mut others, mut disputed) = (Vec::new(), Vec::new(), Vec::new());
        for node in &cluster.nodes {
            let membership = pools.of_labels(node.labels());
            match &membership {
                Membership::In { primary, .. } if *primary == name => own.push(progress.view(node)),
                Membership::In { primary, .. } if partner == Some(*primary) => {
                    others.push(progress.view(node));
                }
                Membership::Torn(torn) if torn.contains(&name) => {
                    disputed.extend(remark::dispute(node.name(), &membership));
                }
                _ => {}
            }
        }
        disputed.sort_unstable();
        let (nodes, others): (Vec<&NodeView<'_>>, Vec<&NodeView<'_>>) = (own.iter().collect(), others.iter().collect());
        let nodes = nodes.as_slice();
        let operator_nodes: Vec<&str> = self.own_node.as_deref().into_iter().collect();
        let now = to_second(self.context.now());
        let rendered = cluster.rendered.iter().map(|object| &**object);
        let nodes_of = |pool: &str| if pool == name { nodes } else { others.as_slice() };
        let snapshot =
            PoolSnapshot::of(object, cluster.pools.iter().map(|pool| &**pool), rendered, nodes_of, topology, now)
                .with_reservations(promised, of_partner)
                .with_operator_nodes(&operator_nodes);
        let certificates = controller_config
            .as_ref()
            .and_then(|found| found.status.as_ref()?.controller_certificates.as_deref())
            .unwrap_or_default();
        let (unanswered, hindrances) = (self.unanswered(), self.drains.hindrances());
        let decision = pool::desired(&pool::Inputs {
            rollout: snapshot.inputs(),
            hindrances: &hindrances,
            unanswered: &unanswered,
            disputed: &disputed,
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
            return Ok(Next::change());
        }
        self.note_orders(chosen);
        let is_given = |node: &&&str| performed.is_done(&ObjectRef::named::<Node>(**node));
        let given: Vec<&str> = chosen.iter().filter(is_given).copied().collect();
        let target = PoolView::of(object).target();
        let is_to_order = |node: &&&NodeView<'_>| target.is_some_and(|target| !node.is_targeted(target));
        // No node is chosen that already has the order.
        let are_last = nodes.iter().filter(is_to_order).count() <= chosen.len();
        let (orders, later_announced) = self.memory().announcements.note(PoolView::of(object), &given, are_last);
        self.applier.perform(&Decision::of([Stage::each(Purpose::Announce, orders)])).await.result()?;
        self.gauges.count(name, nodes, report.status.as_ref().or(object.status.as_ref()));
        if report.is_status_written && performed.is_done(&ObjectRef::named::<MachineConfigPool>(name)) {
            self.memory().reported.insert(name.to_owned(), Instant::now());
        }
        performed.result()?;
        let is_waiting = !chosen.is_empty() || nodes.iter().any(|node| unanswered.contains(node.name));
        let recheck = [decision.recheck, is_waiting.then_some(ANSWER), later_announced].into_iter().flatten().min();
        let rest = REST + REST_PER_NODE.saturating_mul(u32::try_from(cluster.nodes.len()).unwrap_or(u32::MAX));
        Ok(Next { recheck, rest })
    }

    /// The nodes without a pool have a MachineConfigNode too, which says why nothing moves them.
    async fn unassigned(&self) -> Result<Next, WriteError> {
        let snapshot = ClusterSnapshot::of(&self.context.caches);
        let controller_config = self.context.caches.controller_configs.named(CONTROLLER_CONFIG);
        if missing_pool(controller_config.as_deref(), &snapshot.pools).is_some() {
            return Ok(Next::change());
        }
        let mut progress = ProgressJoin::new(&snapshot.progress);
        let views: Vec<NodeView<'_>> = snapshot.nodes.iter().map(|node| progress.view(node)).collect();
        let pools = Pools::new(snapshot.pools.iter().map(|pool| PoolView::of(pool)));
        let assignment = pools.assign(&views);
        let now = to_second(self.context.now());
        let reasons: Vec<(&NodeView<'_>, Option<Reason>)> =
            assignment.without.iter().map(|(node, membership)| (*node, membership.reason())).collect();
        let in_vain = |node: &&NodeView<'_>| matches!(pools.of(node), Membership::In { in_vain: Some(_), .. });
        self.gauges.alert(views.iter().filter(in_vain).map(|node| node.name.to_owned()).collect());
        let mut changes = self.orphans(&snapshot, &views).await?;
        changes.extend(reasons.iter().flat_map(|(node, reason)| {
            let inputs = node_status::Inputs {
                node,
                pool: None,
                target: None,
                is_chosen: false,
                waiting: reason.as_ref(),
                hindrance: None,
                now,
            };
            node_status::changes(node.progress, &node_status::desired(&inputs), false)
        }));
        self.applier.perform(&Decision::of([Stage::per_object(Purpose::Report, changes)])).await.result()?;
        Ok(Next { recheck: None, rest: REST })
    }

    /// Deletes the MachineConfigNodes of nodes that are gone. Whether they are is asked at the moment of acting: a cache may
    /// lag, and what is deleted has to be told anew.
    async fn orphans(&self, snapshot: &ClusterSnapshot, nodes: &[NodeView<'_>]) -> Result<Vec<Change>, WriteError> {
        let mut changes = Vec::new();
        for orphan in node_status::orphans(snapshot.progress.iter().map(|found| &**found), nodes) {
            if self.applier.read::<CachedNode>(&orphan.name_any()).await?.is_none() {
                changes.push(Change::delete(ObjectRef::of(orphan)));
            }
        }
        Ok(changes)
    }

    /// The nodes that were given an order a moment ago.
    fn unanswered(&self) -> BTreeSet<String> {
        let mut memory = self.memory();
        memory.ordered.retain(|_, ordered| ordered.elapsed() < ANSWER);
        memory.ordered.keys().cloned().collect()
    }

    /// How long counts of a pool's nodes are not written yet, because they were written within this interval.
    fn count_delay(&self, pool: &str) -> Option<Duration> {
        let since = self.memory().reported.get(pool)?.elapsed();
        COUNT.checked_sub(since).filter(|rest| !rest.is_zero())
    }

    fn note_orders(&self, chosen: &[&str]) {
        let ordered = Instant::now();
        self.memory().ordered.extend(chosen.iter().map(|node| ((*node).to_owned(), ordered)));
    }

    fn forget_pool(&self, pool: &str) {
        self.gauges.forget_pool(pool);
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

/// What has to be looked at when a node changes.
fn concerned(pools: &[Arc<MachineConfigPool>], delta: &Delta<CachedNode>) -> BTreeSet<Subject> {
    let members = Pools::new(pools.iter().map(|pool| PoolView::of(pool)));
    let mut subjects = BTreeSet::new();
    for side in delta.sides() {
        let membership = members.of_labels(side.labels());
        // Nodes without a pool, those that a pool selects in vain, and what is left of one that is gone.
        let is_odd = matches!(membership, Membership::In { in_vain: Some(_), .. }) || membership.primary().is_none();
        if is_odd || delta.after.is_none() {
            subjects.insert(Subject::Unassigned);
        }
        for pool in membership.concerned() {
            subjects.insert(Subject::Pool(pool.to_owned()));
            // Its nodes may be what the other pool of the quorum waits for.
            let other = quorum_partner(pool, Some(ARBITER_TOPOLOGY))
                .filter(|other| pools.iter().any(|it| it.name_any() == *other));
            subjects.extend(other.map(|other| Subject::Pool(other.to_owned())));
        }
    }
    subjects
}

pub(crate) fn to_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
