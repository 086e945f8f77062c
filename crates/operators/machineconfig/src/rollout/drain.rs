//! Drain controller: cordons and drains nodes that request it, as PodDisruptionBudgets allow, and uncordons them later.
//!
//! Pods are listed for each decision, by node: a cache of all pods of a cluster for the few nodes that are drained at a time
//! would cost more than it saves.

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
use seaworthy_plan::drain::eviction::{DisruptionBudgets, EvictionRules, evictions};
use seaworthy_plan::drain::{self, DrainProgress, InvalidDrainRequest};
use seaworthy_plan::fleet::{NodeObject as _, NodeView};
use seaworthy_runtime::{
    Applier, Controller, Key, Queue, ReconcileError, Requeue, RetryPolicy, WriteError, client_error,
};

use crate::cached_node::CachedNode;
use crate::context::Context;
use crate::metrics::{NodeLabel, PoolMetrics};
use crate::rollout::RolloutKey;
use crate::rollout::active_drains::ActiveDrains;

/// How long the API server has to list the pods of a node.
const LIST_TIMEOUT: Duration = Duration::from_secs(drain::EVICTION_TIMEOUT.as_secs().unsigned_abs());
/// How soon to check again while pods terminate.
const TERMINATING_PODS_INTERVAL: Duration = Duration::from_secs(2);

pub struct DrainController {
    context: Context,
    applier: Applier,
    drains: ActiveDrains,
    rollout: Arc<Queue<RolloutKey>>,
    metrics: Arc<PoolMetrics>,
}

/// An error of the drain controller.
#[derive(Debug)]
pub enum DrainError {
    /// The pods of the node cannot be listed.
    ListPods {
        node: String,
        error: kube::Error,
    },
    /// The pods of the node are not listed in time.
    ListTimeout {
        node: String,
    },
    InvalidRequest(InvalidDrainRequest),
    Write(WriteError),
}

impl fmt::Display for DrainError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrainError::ListPods { node, error } => {
                write!(out, "cannot list the pods of Node {node}: {}", client_error::summary(error))
            }
            DrainError::ListTimeout { node } => {
                write!(out, "cannot list the pods of Node {node}: no answer within {} s", LIST_TIMEOUT.as_secs())
            }
            DrainError::InvalidRequest(error) => error.fmt(out),
            DrainError::Write(error) => error.fmt(out),
        }
    }
}

impl ReconcileError for DrainError {
    fn category(&self) -> &'static str {
        match self {
            DrainError::ListPods { .. } | DrainError::ListTimeout { .. } => "unavailable",
            DrainError::InvalidRequest(_) => "invalid-drain-request",
            DrainError::Write(error) => error.category(),
        }
    }

    fn retry(&self) -> RetryPolicy {
        match self {
            DrainError::ListPods { .. } | DrainError::ListTimeout { .. } => RetryPolicy::Backoff,
            DrainError::InvalidRequest(_) => RetryPolicy::OnChange,
            DrainError::Write(error) => error.retry(),
        }
    }
}

impl DrainController {
    /// The controller and the queue that the caches feed. It records blocked drains in `drains`, and marks pools that should be
    /// decided on again in `rollout`.
    pub fn new(context: &Context, drains: ActiveDrains, rollout: Arc<Queue<RolloutKey>>) -> (Self, Arc<Queue<String>>) {
        let queue = Arc::new(Queue::default());
        let mark = Arc::clone(&queue);
        context.caches.nodes.listen(move |delta| {
            if drain_fields(&delta.before) != drain_fields(&delta.after) {
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

    /// Has the roll-out controller decide on the pool of a node.
    fn mark_pool(&self, node: &str) {
        let progress = self.context.caches.machine_config_nodes.named(node);
        let pool = progress.map(|progress| progress.spec.pool.name.clone());
        self.rollout.mark(pool.map_or(RolloutKey::Unassigned, RolloutKey::Pool));
    }
}

impl Controller for DrainController {
    type Key = String;
    type Error = DrainError;
    const NAME: &'static str = "seaworthy-drain";

    async fn reconcile(&self, name: &String) -> Result<Requeue, DrainError> {
        let caches = &self.context.caches;
        let label = NodeLabel { node: name.clone() };
        let idle = || {
            self.metrics.drain_error.remove(&label);
            if self.drains.finish(name) {
                self.mark_pool(name);
            }
            Ok(Requeue::on_change())
        };
        let Some(node) = caches.nodes.named(name) else { return idle() };
        let progress = caches.machine_config_nodes.named(name);
        let view = NodeView::of(&node, progress.as_deref());
        if drain::request(&view).map_err(DrainError::InvalidRequest)?.is_none() {
            return idle();
        }
        let pods: Api<Pod> = Api::all(self.context.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
        // A server that does not respond must not delay the drains of other nodes.
        let pods = tokio::time::timeout(LIST_TIMEOUT, pods.list(&here))
            .await
            .map_err(|_| DrainError::ListTimeout { node: name.clone() })?
            .map_err(|error| DrainError::ListPods { node: name.clone(), error })?;
        let pods: Vec<&Pod> = pods.items.iter().collect();
        let budgets = caches.disruption_budgets.all();
        let found =
            evictions(&pods, &DisruptionBudgets::new(budgets.iter().map(|budget| &**budget)), EvictionRules::default());
        let now = self.context.now();
        let (cordoned, moved) = (
            view.since_when(NodeCondition::Cordoned, ConditionStatus::True),
            self.drains.last_progress(name, view.drain_blocked().is_some(), now),
        );
        let inputs = drain::DrainInputs {
            node: &view,
            evictions: &found,
            // Only a drain in progress counts: a finished one may be of an earlier order.
            since: view.since_when(NodeCondition::Drained, ConditionStatus::Unknown),
            moved: cordoned.map(|cordoned| moved.map_or(cordoned, |moved| moved.max(cordoned))),
            now,
        };
        let decision = drain::decide(&inputs).map_err(DrainError::InvalidRequest)?;
        let report = &decision.report;
        let is_leaving = report.progress == DrainProgress::Draining && !found.is_drained() && found.is_feasible();
        let is_over = matches!(report.progress, DrainProgress::Idle | DrainProgress::Done);
        let is_new = match is_over {
            true => self.drains.finish(name),
            false => self.drains.set_blocker(name, report.blocker.as_deref()),
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
            self.drains.record_eviction(name, self.context.now());
        }
        performed.result().map_err(DrainError::Write)?;
        let recheck = decision.recheck;
        let recheck = if is_leaving { recheck.map(|wait| wait.min(TERMINATING_PODS_INTERVAL)) } else { recheck };
        Ok(Requeue { recheck, min_interval: Duration::ZERO })
    }
}

/// The fields of a node that the drain decides on, to compare.
fn drain_fields(node: &Option<Arc<CachedNode>>) -> Option<impl PartialEq> {
    let node = node.as_ref()?;
    let value = |key: Annotation| node.annotation(key);
    Some((value(DESIRED_DRAIN), value(LAST_APPLIED_DRAIN), value(CORDONED_FOR), node.is_unschedulable()))
}
