//! Pods that are started again elsewhere when they end, as those of a Deployment are.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::vocabulary::machineconfiguration::label;
use seaworthy_api::vocabulary::seaworthy::label::SIMULATED;
use serde_json::json;

/// When it is looked again although nothing has happened: a node that was cordoned may be free.
const LOOK: Duration = Duration::from_millis(500);

/// Pods that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Where they are.
    pub namespace: String,
    /// Their label `app`, and how their names begin.
    pub name: String,
    /// How many there should be.
    pub replicas: usize,
    /// How many must be there, if there is a budget.
    pub min_available: Option<usize>,
}

/// Keeps the pods for as long as it is polled.
pub async fn run(client: Client, workload: Workload) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &workload.namespace);
    let config = watcher::Config::default().labels(&format!("app={}", workload.name));
    let mut changes = pin!(watcher(pods, config).default_backoff());
    loop {
        if let Err(error) = keep(&client, &workload).await {
            tracing::warn!(workload = workload.name, "cannot be kept: {error}");
        }
        // Whatever it was, it is looked at as a whole.
        let _ = tokio::time::timeout(LOOK, changes.next()).await;
    }
}

async fn keep(client: &Client, workload: &Workload) -> Result<(), kube::Error> {
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
    // By how many of these pods each has.
    let mut free: BTreeMap<String, usize> =
        nodes.iter().filter(|node| is_free(node)).map(|node| (node.name_any(), 0)).collect();
    let place = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    for pod in &alive {
        if let Some(count) = free.get_mut(&place(pod)) {
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

/// Whether new pods may come.
fn is_free(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    !is_cordoned && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
