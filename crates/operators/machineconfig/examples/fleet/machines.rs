//! Simulated nodes: Node objects like real ones, and one task that follows the orders of all of them at little cost.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::counting_service::CountingService;

const NODES_PATH: &str = "/api/v1/nodes";

/// A node of a pool that runs `config`, as its kubelet and its daemon report it.
pub fn node(index: usize, role: &str, config: &str) -> Value {
    let name = name(index);
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let amounts = json!({
        "cpu": "16", "memory": "65844140Ki", "ephemeral-storage": "209702892Ki", "pods": "250",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let image = |nth: usize| {
        let digest = format!("{:064x}", index % 7 * 100 + nth);
        json!({"names": [format!("registry.example.com/platform/component-{nth}@sha256:{digest}")], "sizeBytes": 104_857_600 + nth})
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                format!("node-role.kubernetes.io/{role}"): "",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": format!("region-1{}", ["a", "b", "c"][index % 3]),
            },
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": format!("{{\"disk.csi.example.com\":\"i-{index:017x}\"}}"),
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                annotation::CURRENT_CONFIG.as_str(): config,
                annotation::DESIRED_CONFIG.as_str(): config,
                annotation::STATE.as_str(): "Done",
                annotation::REASON.as_str(): "",
            },
        },
        "spec": {
            "podCIDR": format!("10.{}.{}.0/24", index / 256 % 256, index % 256),
            "podCIDRs": [format!("10.{}.{}.0/24", index / 256 % 256, index % 256)],
            "providerID": format!("example:///region-1/i-{index:017x}"),
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [
                {"type": "InternalIP", "address": format!("172.{}.{}.{}", 16 + index / 65536, index / 256 % 256, index % 256)},
                {"type": "Hostname", "address": name},
                {"type": "InternalDNS", "address": name},
            ],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": (0..8).map(image).collect::<Vec<Value>>(),
            "nodeInfo": {
                "machineID": format!("{index:032x}"), "systemUUID": format!("{index:032x}"),
                "bootID": format!("{index:032x}"), "kernelVersion": "6.12.0-200.fc44.x86_64",
                "osImage": "Fedora CoreOS 44.20260101.3.0", "containerRuntimeVersion": "cri-o://1.37.0",
                "kubeletVersion": "v1.37.1", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

/// The name of a node.
pub fn name(index: usize) -> String {
    format!("node-{index:05}.fleet.example.com")
}

/// Adds a node.
pub async fn join(service: &CountingService, node: &Value) -> Result<(), String> {
    send(service, Method::POST, NODES_PATH, "application/json", node.to_string()).await.map(drop)
}

/// Follows the orders of the nodes that `written` names: at once, or `takes` after reporting `Working`.
pub async fn follow(service: CountingService, mut written: UnboundedReceiver<String>, takes: Duration) -> String {
    let mut under_way: VecDeque<(Instant, String, String)> = VecDeque::new();
    let state = annotation::STATE.as_str();
    loop {
        let due = under_way.front().map(|(due, ..)| *due);
        let next = tokio::select! {
            name = written.recv() => name,
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => None,
        };
        let done = match next {
            Some(name) => match order(&service, &name).await {
                Ok(None) => continue,
                Ok(Some(config)) if takes.is_zero() => (name, config),
                Ok(Some(config)) => {
                    if let Err(error) = report(&service, &name, json!({state: "Working"})).await {
                        return error;
                    }
                    under_way.push_back((Instant::now() + takes, name, config));
                    continue;
                }
                Err(error) => return error,
            },
            None => match under_way.pop_front() {
                Some((_, name, config)) => (name, config),
                None => return "no more orders are given".to_owned(),
            },
        };
        let (name, config) = done;
        let report_done = json!({state: "Done", annotation::CURRENT_CONFIG.as_str(): config});
        if let Err(error) = report(&service, &name, report_done).await {
            return error;
        }
    }
}

/// The ordered configuration of a node that neither runs it nor is updating.
async fn order(service: &CountingService, name: &str) -> Result<Option<String>, String> {
    #[derive(Deserialize)]
    struct OrderedNode {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        annotations: BTreeMap<String, String>,
    }
    let body = send(service, Method::GET, &format!("{NODES_PATH}/{name}"), "application/json", String::new()).await?;
    let node: OrderedNode = serde_json::from_slice(&body).map_err(|error| format!("node {name}: {error}"))?;
    let annotation_value = |key: &str| node.metadata.annotations.get(key);
    let wanted = annotation_value(annotation::DESIRED_CONFIG.as_str());
    let is_new = wanted != annotation_value(annotation::CURRENT_CONFIG.as_str());
    let is_idle = annotation_value(annotation::STATE.as_str()).is_some_and(|state| state == "Done");
    Ok(wanted.filter(|_| is_new && is_idle).cloned())
}

async fn report(service: &CountingService, name: &str, annotations: Value) -> Result<(), String> {
    let patch = json!({"metadata": {"annotations": annotations}}).to_string();
    send(service, Method::PATCH, &format!("{NODES_PATH}/{name}"), "application/merge-patch+json", patch).await.map(drop)
}

/// Without a typed client, whose cost is not to be measured.
async fn send(
    service: &CountingService,
    method: Method,
    path: &str,
    media: &str,
    body: String,
) -> Result<Vec<u8>, String> {
    let request = Request::builder().method(method.clone()).uri(path).header(header::CONTENT_TYPE, media);
    let request = request.body(Body::from(body.into_bytes())).map_err(|error| error.to_string())?;
    let response = service.send(request).await;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    match status.is_success() {
        true => Ok(body.into()),
        false => Err(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body))),
    }
}
