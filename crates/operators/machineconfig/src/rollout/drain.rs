//! The drain controller: a node that asks for it loses its pods, as PodDisruptionBudgets allow, and later gets room again.
//!
//! Pods are read at the moment of deciding, by node: to keep all pods of a cluster in memory for the few nodes that are
//! drained at a time would cost more than it saves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::ListParams;
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::NodeCondition;
use seaworthy_api::vocabulary::machineconfiguration::node::{DESIRED_DRAIN, LAST_APPLIED_DRAIN};
use seaworthy_api::vocabulary::seaworthy::annotation::CORDONED_FOR;
use seaworthy_plan::drain::eviction::{Budgets, Rules, evictions};
use seaworthy_plan::drain::{self, Progress, UnknownWish};
use seaworthy_plan::fleet::{NodeView, Observed as _};
use seaworthy_runtime::{Applier, Controller, Failure, Key, Next, Queue, Retry, WriteError, client_error};

use crate::cached_node::CachedNode;
use crate::context::Context;
use crate::metrics::{NodeLabel, PoolMetrics};
use crate::rollout::Subject;
use crate::rollout::drains::Drains;

/// How long the API server has to list the pods of a node.
const PATIENCE: Duration = Duration::from_secs(drain::ATTEMPT.as_secs().unsigned_abs());
/// How soon to look again while pods are leaving.
const LEAVING: Duration = Duration::from_secs(2);

/// Drains nodes.
pub struct DrainController {
    context: Context,
    applier: Applier,
    drains: Drains,
    rollout: Arc<Queue<Subject>>,
    metrics: Arc<PoolMetrics>,
}

/// What keeps the controller from deciding.
#[derive(Debug)]
pub enum DrainError {
    /// The pods of the node cannot be read.
    Pods {
        /// The node.
        node: String,
        /// Why not.
        error: kube::Error,
    },
    /// The pods of the node are not given in time.
    Silence {
        /// The node.
        node: String,
    },
    /// The node asks for something that nobody understands.
    Wish(UnknownWish),
    /// A write was not made.
    Write(WriteError),
}

impl fmt::Display for DrainError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrainError::Pods { node, error } => {
                write!(out, "the pods of Node {node} cannot be listed: {}", client_error::summary(error))
            }
            DrainError::Silence { node } => {
                write!(out, "the pods of Node {node} cannot be listed: no answer for {} s", PATIENCE.as_secs())
            }
            DrainError::Wish(wish) => wish.fmt(out),
            DrainError::Write(error) => error.fmt(out),
        }
    }
}

impl Failure for DrainError {
    fn category(&self) -> &'static str {
        match self {
            DrainError::Pods { .. } | DrainError::Silence { .. } => "unavailable",
            DrainError::Wish(_) => "unknown-wish",
            DrainError::Write(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            DrainError::Pods { .. } | DrainError::Silence { .. } => Retry::Backoff,
            DrainError::Wish(_) => Retry::OnChange,
            DrainError::Write(error) => error.retry(),
        }
    }
}

impl DrainController {
    /// The controller and the queue that the caches feed. What it finds about blocked drains goes to `drains`, and pools
    /// that should look again to `rollout`.
    pub fn new(context: &Context, drains: Drains, rollout: Arc<Queue<Subject>>) -> (Self, Arc<Queue<String>>) {
        let queue = Arc::new(Queue::default());
        let mark = Arc::clone(&queue);
        context.caches.nodes.listen(move |delta| {
            if wishes(&delta.before) != wishes(&delta.after) {
                delta.sides().for_each(|side| mark.mark(Key::of(&**side).name));
            }
        });
        let (mark, under_way) = (Arc::clone(&queue), drains.clone());
        context.caches.disruption_budgets.listen(move |delta| {
            let allows = |side: &Option<Arc<PodDisruptionBudget>>| {
                side.as_ref().map(|side| (side.spec.clone(), side.status.clone(), side.metadata.generation))
            };
            if allows(&delta.before) != allows(&delta.after) {
                under_way.nodes().into_iter().for_each(|node| mark.mark(node));
            }
        });
        let controller = DrainController {
            context: context.clone(),
            applier: context.applier(Self::NAME),
            drains,
            rollout,
            metrics: context.metrics.set(),
        };
        (controller, queue)
    }

    /// Has the pool of a node look again.
    fn mark_pool(&self, node: &str) {
        let progress = self.context.caches.machine_config_nodes.named(node);
        let pool = progress.map(|progress| progress.spec.pool.name.clone());
        self.rollout.mark(pool.map_or(Subject::Unassigned, Subject::Pool));
    }
}

impl Controller for DrainController {
    type Key = String;
    type Error = DrainError;
    const NAME: &'static str = "seaworthy-drain";

    async fn reconcile(&self, name: &String) -> Result<Next, DrainError> {
        let caches = &self.context.caches;
        let label = NodeLabel { node: name.clone() };
        let idle = || {
            self.metrics.drain_error.remove(&label);
            if self.drains.forget(name) {
                self.mark_pool(name);
            }
            Ok(Next::change())
        };
        let Some(node) = caches.nodes.named(name) else { return idle() };
        let progress = caches.machine_config_nodes.named(name);
        let view = NodeView::of(&node, progress.as_deref());
        if drain::wish(&view).map_err(DrainError::Wish)?.is_none() {
            return idle();
        }
        let pods: Api<Pod> = Api::all(self.context.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
        // A server that does not answer must not hold up the drains of other nodes.
        let pods = tokio::time::timeout(PATIENCE, pods.list(&here))
            .await
            .map_err(|_| DrainError::Silence { node: name.clone() })?
            .map_err(|error| DrainError::Pods { node: name.clone(), error })?;
        let pods: Vec<&Pod> = pods.items.iter().collect();
        let budgets = caches.disruption_budgets.all();
        let found = evictions(&pods, &Budgets::new(budgets.iter().map(|budget| &**budget)), Rules::default());
        let now = self.context.now();
        let (cordoned, moved) = (
            view.since_when(NodeCondition::Cordoned, ConditionStatus::True),
            self.drains.moved(name, view.drain_blocked().is_some(), now),
        );
        let inputs = drain::Inputs {
            node: &view,
            evictions: &found,
            // A drain that is over, or was of an earlier order, says nothing about this one.
            since: view.since_when(NodeCondition::Drained, ConditionStatus::Unknown),
            moved: cordoned.map(|cordoned| moved.map_or(cordoned, |moved| moved.max(cordoned))),
            now,
        };
        let decision = drain::decide(&inputs).map_err(DrainError::Wish)?;
        let report = &decision.report;
        let is_leaving = report.progress == Progress::Draining && !found.is_drained() && found.is_feasible();
        let is_over = matches!(report.progress, Progress::Idle | Progress::Done);
        let is_new = match is_over {
            true => self.drains.forget(name),
            false => self.drains.note(name, report.hindrance.as_deref()),
        };
        if is_new {
            self.mark_pool(name);
        }
        if report.is_alarming {
            self.metrics.drain_error.get_or_create(&label).set(1);
        } else {
            self.metrics.drain_error.remove(&label);
        }
        let performed = self.applier.perform(&decision).await;
        if !performed.evicted.is_empty() {
            self.drains.evicted(name, self.context.now());
        }
        performed.result().map_err(DrainError::Write)?;
        let recheck = decision.recheck;
        let recheck = if is_leaving { recheck.map(|wait| wait.min(LEAVING)) } else { recheck };
        Ok(Next { recheck, rest: Duration::ZERO })
    }
}

/// What the drain looks at of a node.
fn wishes(node: &Option<Arc<CachedNode>>) -> Option<impl PartialEq> {
    let node = node.as_ref()?;
    let said = |key: Annotation| node.annotation(key);
    Some((said(DESIRED_DRAIN), said(LAST_APPLIED_DRAIN), said(CORDONED_FOR), node.is_unschedulable()))
}
