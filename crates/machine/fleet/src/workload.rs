//! Workload: pods that are replaced on other nodes when they are evicted, as those of a Deployment.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::vocabulary::machineconfiguration::label;
use seaworthy_api::vocabulary::seaworthy::label::SIMULATED;
use serde_json::json;

use crate::objects::{Node, Pod, is_ready};

/// The interval of checks without a change of pods: a cordoned node may have become available.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A number of equal pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub namespace: String,
    /// The label `app` of the pods, and the prefix of their names.
    pub name: String,
    pub replicas: usize,
    /// `minAvailable` of their PodDisruptionBudget, if there is one.
    pub min_available: Option<usize>,
}

/// Creates missing pods.
pub async fn run(client: Client, workload: Workload) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &workload.namespace);
    let config = watcher::Config::default().labels(&format!("app={}", workload.name));
    let mut changes = pin!(watcher(pods, config).default_backoff());
    loop {
        if let Err(error) = reconcile(&client, &workload).await {
            tracing::warn!(workload = workload.name, "cannot create its pods: {error}");
        }
        // After any change all pods are checked.
        let _ = tokio::time::timeout(RECHECK_INTERVAL, changes.next()).await;
    }
}

async fn reconcile(client: &Client, workload: &Workload) -> Result<(), kube::Error> {
    let Workload { namespace, name, replicas, min_available } = workload;
    if let Some(least) = min_available {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), namespace);
        if budgets.get_opt(name).await?.is_none() {
            let spec = json!({"minAvailable": least, "selector": {"matchLabels": {"app": name}}});
            let budget = json!({"metadata": {"name": name}, "spec": spec});
            let budget = serde_json::from_value(budget).map_err(kube::Error::SerdeError)?;
            budgets.create(&PostParams::default(), &budget).await?;
        }
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let all = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?;
    let alive: Vec<&Pod> = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
    if alive.len() >= *replicas {
        return Ok(());
    }
    let selector = format!("{},{}", label::NODE_ROLE_WORKER.as_str(), SIMULATED.as_str());
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default().labels(&selector)).await?;
    // Schedulable nodes, with the number of these pods on each.
    let mut free: BTreeMap<String, usize> =
        nodes.iter().filter(|node| is_schedulable(node)).map(|node| (node.name_any(), 0)).collect();
    let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    for pod in &alive {
        if let Some(count) = free.get_mut(&node_of(pod)) {
            *count += 1;
        }
    }
    for _ in alive.len()..*replicas {
        let Some((node, count)) = free.iter_mut().min_by_key(|(_, count)| **count) else { return Ok(()) };
        *count += 1;
        let pod = json!({
            "metadata": {"generateName": format!("{name}-"), "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "simulated"}]},
        });
        let pod = serde_json::from_value(pod).map_err(kube::Error::SerdeError)?;
        pods.create(&PostParams::default(), &pod).await?;
    }
    Ok(())
}

fn is_schedulable(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    !is_cordoned && is_ready(node.status.as_ref().and_then(|status| status.conditions.as_deref()))
}
