//! Evictions while the pod changes.

use http::Method;
use serde_json::{Value, json};

use crate::housekeeping::cluster::{CallPoint, Cluster};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn ready(status: &str) -> Value {
    json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}})
}

/// A pod that does not work, and a budget that has nothing to give but lets such pods go.
async fn with_pod() -> Cluster {
    let cluster = Cluster::start().await;
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    cluster.create(PODS, json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": spec})).await;
    cluster.patch(&format!("{PODS}/p/status"), ready("False")).await;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow"});
    cluster.create(BUDGETS, json!({"metadata": {"name": "b"}, "spec": spec})).await;
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 1, "currentHealthy": 0,
        "expectedPods": 1});
    cluster.patch(&format!("{BUDGETS}/b/status"), json!({"status": status})).await;
    cluster
}

async fn evict(cluster: &Cluster) -> u16 {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    cluster.send(Method::POST, &format!("{PODS}/p/eviction"), eviction).await.0
}

#[tokio::test]
async fn pod_that_does_not_work_goes() {
    assert_eq!(evict(&with_pod().await).await, 201);
}

#[tokio::test]
async fn pod_that_begins_to_work_while_it_is_evicted_counts() {
    let cluster = with_pod().await;
    cluster.send_amid(CallPoint::Now, Method::PATCH, &format!("{PODS}/p/status"), ready("True"));
    assert_eq!(evict(&cluster).await, 429);
    let pod = cluster.get(&format!("{PODS}/p")).await.unwrap();
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
}
