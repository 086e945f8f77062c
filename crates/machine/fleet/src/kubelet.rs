//! Simulated kubelet: registers its Node, and writes the Node's conditions and boot ID.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use seaworthy_api::vocabulary::machineconfiguration::{MASTER, label};
use seaworthy_api::vocabulary::seaworthy::label::SIMULATED;
use serde_json::{Value, json};

use crate::{FleetClock, timestamp};

const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The taint that a new Node has until it is ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The kubelet of one node.
pub struct Kubelet {
    nodes: Api<Node>,
    name: String,
    role: String,
    clock: FleetClock,
    started: String,
    /// The readiness that was reported last, and since when.
    reported: Option<(bool, String)>,
}

impl Kubelet {
    pub fn new(nodes: Api<Node>, name: &str, role: &str, clock: FleetClock) -> Self {
        let started = timestamp(&clock);
        Kubelet { nodes, name: name.to_owned(), role: role.to_owned(), clock, started, reported: None }
    }

    /// Writes the status of the node, and retries until that succeeds.
    pub async fn report(&mut self, is_ready: bool, boot_id: &str) {
        while let Err(error) = self.try_report(is_ready, boot_id).await {
            tracing::warn!(node = self.name, "cannot write the Node's status: {error}");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    async fn try_report(&mut self, is_ready: bool, boot_id: &str) -> Result<(), kube::Error> {
        let now = timestamp(&self.clock);
        let since = match &self.reported {
            Some((reported, since)) if *reported == is_ready => since.clone(),
            _ => now.clone(),
        };
        let patch = json!({"status": self.status(is_ready, &since, &now, boot_id)});
        let write = async || self.nodes.patch_status(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        let node = match write().await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.register().await?;
                write().await?
            }
            node => node?,
        };
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        if is_ready && taints.iter().any(|taint| taint.key == NOT_READY) {
            let left: Vec<_> = taints.iter().filter(|taint| taint.key != NOT_READY).collect();
            let patch = json!({"spec": {"taints": left}});
            self.nodes.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        self.reported = Some((is_ready, since));
        Ok(())
    }

    /// Creates the Node.
    async fn register(&self) -> Result<(), kube::Error> {
        let mut labels = json!({
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            format!("{}{}", label::NODE_ROLE_PREFIX, self.role): "",
            SIMULATED.as_str(): self.role,
        });
        if self.role == MASTER {
            labels[label::NODE_ROLE_CONTROL_PLANE.as_str()] = json!("");
        }
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": labels}});
        let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
        match self.nodes.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            made => made.map(drop),
        }
    }

    /// Reports the node as ready at this interval.
    pub async fn heartbeat(&mut self, interval: Option<Duration>, boot_id: &str) {
        let Some(interval) = interval else { return std::future::pending().await };
        loop {
            tokio::time::sleep(interval).await;
            self.report(true, boot_id).await;
        }
    }

    fn status(&self, is_ready: bool, since: &str, now: &str, boot_id: &str) -> Value {
        let condition = |type_: &str, status: bool, reason: &str, message: &str, since: &str| {
            json!({
                "type": type_, "status": if status { "True" } else { "False" }, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": since,
            })
        };
        let ready = match is_ready {
            true => condition("Ready", true, "KubeletReady", "kubelet is posting ready status", since),
            false => condition("Ready", false, "KubeletNotReady", "node is shutting down", since),
        };
        let fine = |type_: &str, reason: &str| {
            condition(type_, false, reason, "the simulated machine has enough", &self.started)
        };
        json!({
            "conditions": [
                fine("MemoryPressure", "KubeletHasSufficientMemory"),
                fine("DiskPressure", "KubeletHasNoDiskPressure"),
                fine("PIDPressure", "KubeletHasSufficientPID"),
                ready,
            ],
            "addresses": [{"type": "Hostname", "address": self.name}],
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "nodeInfo": {
                "bootID": boot_id, "machineID": self.name, "systemUUID": self.name, "architecture": "amd64",
                "operatingSystem": "linux", "osImage": "Seaworthy simulated machine", "kernelVersion": "simulated",
                "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-simulated"), "kubeProxyVersion": "",
                "containerRuntimeVersion": "simulated://1",
            },
        })
    }
}
