//! Node simulator: Nodes whose annotations follow their orders as a node daemon would write them, without machines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How nodes behave.
#[derive(Clone, Debug, Default)]
pub struct NodeBehaviour {
    /// The time from an order to its end.
    pub update_duration: Duration,
    /// Whether a node reports Working before Done.
    pub reports_working: bool,
    /// Whether a node requests a drain first.
    pub drains: bool,
    /// The configurations that nodes fail on, with the reason that they report.
    pub fails_on: BTreeMap<String, String>,
}

/// Nodes that follow their orders until this is dropped.
pub struct NodeSimulator {
    client: Client,
    behaviour: Arc<Mutex<NodeBehaviour>>,
    task: JoinHandle<()>,
}

impl NodeSimulator {
    /// Follows the orders of all nodes of a cluster.
    pub fn start(client: Client, behaviour: NodeBehaviour) -> NodeSimulator {
        let behaviour = Arc::new(Mutex::new(behaviour));
        let task = tokio::spawn(follow(client.clone(), Arc::clone(&behaviour)));
        NodeSimulator { client, behaviour, task }
    }

    /// Changes how nodes behave from now on.
    pub fn behave(&self, change: impl FnOnce(&mut NodeBehaviour)) {
        change(&mut self.behaviour.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds a node that runs `config`; without one it has no annotations yet.
    ///
    /// # Panics
    ///
    /// If the API refuses it.
    pub async fn join(&self, name: &str, role: &str, config: Option<&str>) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node: Node = serde_json::from_value(node(name, role, config)).expect("a node");
        nodes.create(&PostParams::default(), &node).await.expect("a node is made");
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await.expect("a node is ready");
    }
}

impl Drop for NodeSimulator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A node as its kubelet and its daemon would have it.
pub fn node(name: &str, role: &str, config: Option<&str>) -> Value {
    let mut annotations = json!({});
    if let Some(config) = config {
        annotations[annotation::CURRENT_CONFIG.as_str()] = json!(config);
        annotations[annotation::DESIRED_CONFIG.as_str()] = json!(config);
        annotations[annotation::STATE.as_str()] = json!("Done");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {format!("node-role.kubernetes.io/{role}"): "", "kubernetes.io/os": "linux"},
            "annotations": annotations,
        },
    })
}

async fn follow(client: Client, behaviour: Arc<Mutex<NodeBehaviour>>) {
    let nodes: Api<Node> = Api::all(client);
    let mut under_way: BTreeMap<String, (String, JoinHandle<()>)> = BTreeMap::new();
    let mut changes =
        std::pin::pin!(watcher(nodes.clone(), watcher::Config::default()).default_backoff().applied_objects());
    while let Some(node) = changes.next().await {
        // A watch that breaks off restarts by itself.
        let Ok(node) = node else { continue };
        let name = node.name_any();
        let text = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).unwrap_or_default();
        let (desired, current) = (text(annotation::DESIRED_CONFIG), text(annotation::CURRENT_CONFIG));
        let is_settled = desired == current && text(annotation::STATE) == "Done";
        if desired.is_empty() || is_settled {
            // An order that was reverted is not carried out.
            if let Some((_, earlier)) = under_way.remove(&name) {
                earlier.abort();
            }
            continue;
        }
        if under_way.get(&name).is_some_and(|(config, _)| config == desired) {
            continue;
        }
        let desired = desired.to_owned();
        let now = behaviour.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let task = tokio::spawn(update(nodes.clone(), name.clone(), desired.clone(), now));
        if let Some((_, earlier)) = under_way.insert(name, (desired, task)) {
            // A daemon reads its order again: the earlier update is over.
            earlier.abort();
        }
    }
}

async fn update(nodes: Api<Node>, name: String, config: String, behaviour: NodeBehaviour) {
    let annotate = async |annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        // A node that is gone reports nothing more.
        let _ = nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    };
    let state = annotation::STATE.as_str();
    if behaviour.reports_working || behaviour.drains {
        annotate(json!({state: "Working"})).await;
    }
    if behaviour.drains {
        let drain = format!("drain-{config}");
        annotate(json!({annotation::DESIRED_DRAIN.as_str(): drain})).await;
        wait_for_drain(&nodes, &name, &drain).await;
    }
    if !behaviour.update_duration.is_zero() {
        tokio::time::sleep(behaviour.update_duration).await;
    }
    if let Some(reason) = behaviour.fails_on.get(&config) {
        annotate(json!({state: "Degraded", annotation::REASON.as_str(): reason})).await;
        return;
    }
    if behaviour.drains {
        let uncordon = format!("uncordon-{config}");
        annotate(json!({annotation::DESIRED_DRAIN.as_str(): uncordon})).await;
        wait_for_drain(&nodes, &name, &uncordon).await;
    }
    annotate(json!({
        state: "Done",
        annotation::REASON.as_str(): "",
        annotation::CURRENT_CONFIG.as_str(): config,
    }))
    .await;
}

/// Waits until the drain controller has done what was requested, or the node is gone.
async fn wait_for_drain(nodes: &Api<Node>, name: &str, request: &str) {
    let is_done = |node: Option<&Node>| {
        node.is_none_or(|node| annotation::LAST_APPLIED_DRAIN.of(&node.metadata) == Some(request))
    };
    let _ = kube::runtime::wait::await_condition(nodes.clone(), name, is_done).await;
}
