//! Simulated kubelets' pods: new pods are started, and terminating pods are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinSet;

use crate::objects::Pod;
use crate::{FleetClock, FleetTimings, budgets, timestamp};

/// The interval of checks of all pods without a change.
const RECHECK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// All objects of a kind, by namespace and name.
struct ObjectCache<K> {
    objects: BTreeMap<(String, String), K>,
    /// Whether the initial list is complete: before that, missing objects would seem deleted.
    is_complete: bool,
}

/// The budgets whose status must be computed again.
#[derive(Debug, PartialEq)]
enum AffectedBudgets {
    All,
    Namespace(String),
    /// The initial list is not complete.
    None,
}

/// Follows all pods; those of other nodes only count for budgets.
pub async fn run(
    client: Client,
    timings: FleetTimings,
    clock: FleetClock,
    is_ours: impl Fn(&str) -> bool + Send + Sync,
) {
    let watch = watcher::Config::default;
    let mut pods = pin!(watcher(Api::<Pod>::all(client.clone()), watch()).default_backoff());
    let mut limits = pin!(watcher(Api::<PodDisruptionBudget>::all(client.clone()), watch()).default_backoff());
    let (mut known, mut budgets) = (ObjectCache::<Pod>::new(), ObjectCache::<PodDisruptionBudget>::new());
    let mut ending: BTreeSet<String> = BTreeSet::new();
    let mut ends: JoinSet<(String, bool)> = JoinSet::new();
    // A node may be added after its pods: the machines of a data folder are added one by one.
    let mut recheck = tokio::time::interval(RECHECK_INTERVAL);
    recheck.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let handle = async |pod: &Pod, ending: &mut BTreeSet<String>, ends: &mut JoinSet<(String, bool)>| {
        if !pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(&is_ours) {
            return;
        }
        if pod.metadata.deletion_timestamp.is_none() {
            start(&client, pod, &clock).await;
        } else if ending.insert(pod.uid().unwrap_or_default()) {
            ends.spawn(end(client.clone(), pod.clone(), timings));
        }
    };
    loop {
        let changed = tokio::select! {
            Some(event) = pods.next() => {
                let Ok(event) = event else { continue };
                if let watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) = &event {
                    handle(pod, &mut ending, &mut ends).await;
                }
                if let watcher::Event::Delete(pod) = &event {
                    ending.remove(&pod.uid().unwrap_or_default());
                }
                known.apply(event)
            }
            Some(event) = limits.next() => {
                let Ok(event) = event else { continue };
                budgets.apply(event)
            }
            Some(ended) = ends.join_next() => {
                // Retried by the next check.
                if let Ok((uid, false)) = ended {
                    ending.remove(&uid);
                }
                continue;
            }
            _ = recheck.tick() => {
                for pod in known.objects.values() {
                    handle(pod, &mut ending, &mut ends).await;
                }
                continue;
            }
        };
        if !known.is_complete || !budgets.is_complete {
            continue;
        }
        let is_affected = |budget: &&PodDisruptionBudget| match &changed {
            AffectedBudgets::All => true,
            AffectedBudgets::Namespace(namespace) => budget.namespace().as_ref() == Some(namespace),
            AffectedBudgets::None => false,
        };
        for budget in budgets.objects.values().filter(is_affected) {
            update_status(&client, budget, &known).await;
        }
    }
}

impl<K: Resource> ObjectCache<K> {
    fn new() -> ObjectCache<K> {
        ObjectCache { objects: BTreeMap::new(), is_complete: false }
    }

    /// Applies an event; returns the budgets that it affects.
    fn apply(&mut self, event: watcher::Event<K>) -> AffectedBudgets {
        let key = |object: &K| {
            (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
        };
        match event {
            watcher::Event::Apply(object) => {
                let key = key(&object);
                self.objects.insert(key.clone(), object);
                AffectedBudgets::Namespace(key.0)
            }
            watcher::Event::Delete(object) => {
                let key = key(&object);
                self.objects.remove(&key);
                AffectedBudgets::Namespace(key.0)
            }
            watcher::Event::Init => {
                *self = ObjectCache::new();
                AffectedBudgets::None
            }
            watcher::Event::InitApply(object) => {
                self.objects.insert(key(&object), object);
                AffectedBudgets::None
            }
            watcher::Event::InitDone => {
                self.is_complete = true;
                AffectedBudgets::All
            }
        }
    }
}

/// Makes a new pod run.
async fn start(client: &Client, pod: &Pod, clock: &FleetClock) {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if !matches!(phase, None | Some("Pending")) {
        return;
    }
    let now = timestamp(clock);
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let status = json!({"status": {"phase": "Running", "startTime": now, "conditions": conditions}});
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    // A deleted pod needs no start; any other error is retried with the next change.
    if let Err(error) = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await {
        tracing::debug!(pod = pod.name_any(), "cannot start the pod: {error}");
    }
}

/// Deletes a pod after its termination; returns its UID, and whether it is done.
async fn end(client: Client, pod: Pod, timings: FleetTimings) -> (String, bool) {
    tokio::time::sleep(timings.pod_termination_delay).await;
    let pods: Api<Pod> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
    let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default().grace_period(0) };
    // Another client may have deleted it.
    let is_done = match pods.delete(&pod.name_any(), &params).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => matches!(status.code, 404 | 409),
        Err(_) => false,
    };
    (pod.uid().unwrap_or_default(), is_done)
}

/// Writes the status of a budget, if it has changed.
async fn update_status(client: &Client, budget: &PodDisruptionBudget, pods: &ObjectCache<Pod>) {
    let namespace = budget.namespace().unwrap_or_default();
    let in_namespace = pods.objects.iter().filter(|((of, _), _)| *of == namespace).map(|(_, pod)| pod);
    let Some(status) = budgets::status(budget, in_namespace) else { return };
    // An eviction that was counted meanwhile has changed the budget: then its event leads here again.
    let patch = json!({"metadata": {"resourceVersion": budget.resource_version()}, "status": status});
    let api: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), &namespace);
    if let Err(error) = api.patch_status(&budget.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        tracing::debug!(budget = budget.name_any(), "cannot write its status: {error}");
    }
}

#[cfg(test)]
mod tests {
    use watcher::Event;

    use super::*;

    #[test]
    fn nothing_is_counted_on_half_a_list() {
        let pod = |name: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "a"}})).unwrap()
        };
        let mut known = ObjectCache::new();
        for _ in 0..2 {
            for event in [Event::Init, Event::InitApply(pod("p")), Event::InitApply(pod("q"))] {
                assert_eq!(known.apply(event), AffectedBudgets::None);
                assert!(!known.is_complete);
            }
            assert_eq!(known.apply(Event::InitDone), AffectedBudgets::All);
            assert!(known.is_complete);
            assert_eq!(known.apply(Event::Delete(pod("p"))), AffectedBudgets::Namespace("a".to_owned()));
            assert_eq!(known.apply(Event::Apply(pod("r"))), AffectedBudgets::Namespace("a".to_owned()));
            assert!(known.is_complete && known.objects.len() == 2);
        }
    }
}
