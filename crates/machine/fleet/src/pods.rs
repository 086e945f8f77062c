//! What kubelets do about pods: those that come are started, those that are told to end do so.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{Clock, Pace, budgets, written};

/// How often pods are looked at although nothing has changed.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// All objects of a kind, by namespace and name.
struct Known<K> {
    objects: BTreeMap<(String, String), K>,
    /// Whether none is missing: while a list comes in, those that are not there yet look as if they were gone.
    is_whole: bool,
}

/// Whose budgets are to be counted again.
#[derive(Debug, PartialEq)]
enum Concerned {
    Everybody,
    Namespace(String),
    /// Nothing is counted before everything is known again.
    Nobody,
}

/// Follows all pods for as long as it is polled; those of other nodes count for budgets only.
pub async fn run(client: Client, pace: Pace, clock: Clock, is_ours: impl Fn(&str) -> bool + Send + Sync) {
    let watch = watcher::Config::default;
    let mut pods = pin!(watcher(Api::<Pod>::all(client.clone()), watch()).default_backoff());
    let mut limits = pin!(watcher(Api::<PodDisruptionBudget>::all(client.clone()), watch()).default_backoff());
    let (mut known, mut budgets) = (Known::<Pod>::nothing(), Known::<PodDisruptionBudget>::nothing());
    let mut ending: BTreeSet<String> = BTreeSet::new();
    let mut ends: JoinSet<(String, bool)> = JoinSet::new();
    // A node may come after its pods: the machines of a folder are switched on one by one.
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let attend = async |pod: &Pod, ending: &mut BTreeSet<String>, ends: &mut JoinSet<(String, bool)>| {
        if !pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(&is_ours) {
            return;
        }
        if pod.metadata.deletion_timestamp.is_none() {
            start(&client, pod, &clock).await;
        } else if ending.insert(pod.uid().unwrap_or_default()) {
            ends.spawn(end(client.clone(), pod.clone(), pace));
        }
    };
    loop {
        let changed = tokio::select! {
            Some(event) = pods.next() => {
                let Ok(event) = event else { continue };
                if let watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) = &event {
                    attend(pod, &mut ending, &mut ends).await;
                }
                if let watcher::Event::Delete(pod) = &event {
                    ending.remove(&pod.uid().unwrap_or_default());
                }
                known.learn(event)
            }
            Some(event) = limits.next() => {
                let Ok(event) = event else { continue };
                budgets.learn(event)
            }
            Some(ended) = ends.join_next() => {
                // Tried again by the next look.
                if let Ok((uid, false)) = ended {
                    ending.remove(&uid);
                }
                continue;
            }
            _ = look.tick() => {
                for pod in known.objects.values() {
                    attend(pod, &mut ending, &mut ends).await;
                }
                continue;
            }
        };
        if !known.is_whole || !budgets.is_whole {
            continue;
        }
        let is_concerned = |budget: &&PodDisruptionBudget| match &changed {
            Concerned::Everybody => true,
            Concerned::Namespace(namespace) => budget.namespace().as_ref() == Some(namespace),
            Concerned::Nobody => false,
        };
        for budget in budgets.objects.values().filter(is_concerned) {
            count(&client, budget, &known).await;
        }
    }
}

impl<K: Resource> Known<K> {
    fn nothing() -> Known<K> {
        Known { objects: BTreeMap::new(), is_whole: false }
    }

    /// Takes an event in, and says whom it concerns.
    fn learn(&mut self, event: watcher::Event<K>) -> Concerned {
        let key = |object: &K| {
            (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
        };
        match event {
            watcher::Event::Apply(object) => {
                let key = key(&object);
                self.objects.insert(key.clone(), object);
                Concerned::Namespace(key.0)
            }
            watcher::Event::Delete(object) => {
                let key = key(&object);
                self.objects.remove(&key);
                Concerned::Namespace(key.0)
            }
            watcher::Event::Init => {
                *self = Known::nothing();
                Concerned::Nobody
            }
            watcher::Event::InitApply(object) => {
                self.objects.insert(key(&object), object);
                Concerned::Nobody
            }
            watcher::Event::InitDone => {
                self.is_whole = true;
                Concerned::Everybody
            }
        }
    }
}

/// Has a new pod run.
async fn start(client: &Client, pod: &Pod, clock: &Clock) {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if !matches!(phase, None | Some("Pending")) {
        return;
    }
    let now = written(clock);
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let status = json!({"status": {"phase": "Running", "startTime": now, "conditions": conditions}});
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    // One that is gone needs no start; anything else is tried with the next change.
    if let Err(error) = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await {
        tracing::debug!(pod = pod.name_any(), "cannot be started: {error}");
    }
}

/// Ends a pod after a while; gives which one, and whether it is done.
async fn end(client: Client, pod: Pod, pace: Pace) -> (String, bool) {
    tokio::time::sleep(pace.pod_end).await;
    let pods: Api<Pod> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
    let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default().grace_period(0) };
    // Whoever was faster has done the same.
    let is_done = match pods.delete(&pod.name_any(), &params).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => matches!(status.code, 404 | 409),
        Err(_) => false,
    };
    (pod.uid().unwrap_or_default(), is_done)
}

/// Writes what a budget allows, where that is new.
async fn count(client: &Client, budget: &PodDisruptionBudget, pods: &Known<Pod>) {
    let namespace = budget.namespace().unwrap_or_default();
    let near = pods.objects.iter().filter(|((of, _), _)| *of == namespace).map(|(_, pod)| pod);
    let Some(status) = budgets::status(budget, near) else { return };
    // An eviction that was counted meanwhile has changed the budget: then this is decided again.
    let patch = json!({"metadata": {"resourceVersion": budget.resource_version()}, "status": status});
    let api: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), &namespace);
    if let Err(error) = api.patch_status(&budget.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        tracing::debug!(budget = budget.name_any(), "cannot be counted: {error}");
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
        let mut known = Known::nothing();
        for _ in 0..2 {
            for event in [Event::Init, Event::InitApply(pod("p")), Event::InitApply(pod("q"))] {
                assert_eq!(known.learn(event), Concerned::Nobody);
                assert!(!known.is_whole);
            }
            assert_eq!(known.learn(Event::InitDone), Concerned::Everybody);
            assert!(known.is_whole);
            assert_eq!(known.learn(Event::Delete(pod("p"))), Concerned::Namespace("a".to_owned()));
            assert_eq!(known.learn(Event::Apply(pod("r"))), Concerned::Namespace("a".to_owned()));
            assert!(known.is_whole && known.objects.len() == 2);
        }
    }
}
