//! Nodes that follow their orders, without machines: what a node daemon writes to the API, and nothing else.

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
pub struct Manners {
    /// How long it takes from an order to its end.
    pub takes: Duration,
    /// Whether a node says that it is working before it says that it is done.
    pub says_working: bool,
    /// Whether a node has itself drained first.
    pub drains: bool,
    /// The configurations that nodes fail on, with what they say.
    pub fails_on: BTreeMap<String, String>,
}

/// Nodes that follow their orders for as long as this lives.
pub struct Machines {
    client: Client,
    manners: Arc<Mutex<Manners>>,
    task: JoinHandle<()>,
}

impl Machines {
    /// Follows the orders of all nodes of a cluster.
    pub fn start(client: Client, manners: Manners) -> Machines {
        let manners = Arc::new(Mutex::new(manners));
        let task = tokio::spawn(follow(client.clone(), Arc::clone(&manners)));
        Machines { client, manners, task }
    }

    /// Changes how nodes behave from now on.
    pub fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.manners.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds a node that runs `config`; without one it is new to us.
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

impl Drop for Machines {
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

async fn follow(client: Client, manners: Arc<Mutex<Manners>>) {
    let nodes: Api<Node> = Api::all(client);
    let mut under_way: BTreeMap<String, (String, JoinHandle<()>)> = BTreeMap::new();
    let mut changes =
        std::pin::pin!(watcher(nodes.clone(), watcher::Config::default()).default_backoff().applied_objects());
    while let Some(node) = changes.next().await {
        // A watch that breaks off begins anew by itself.
        let Ok(node) = node else { continue };
        let name = node.name_any();
        let said = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).unwrap_or_default();
        let (wanted, current) = (said(annotation::DESIRED_CONFIG), said(annotation::CURRENT_CONFIG));
        let is_settled = wanted == current && said(annotation::STATE) == "Done";
        if wanted.is_empty() || is_settled {
            // An order that was taken back is not carried out.
            if let Some((_, earlier)) = under_way.remove(&name) {
                earlier.abort();
            }
            continue;
        }
        if under_way.get(&name).is_some_and(|(config, _)| config == wanted) {
            continue;
        }
        let wanted = wanted.to_owned();
        let now = manners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let task = tokio::spawn(obey(nodes.clone(), name.clone(), wanted.clone(), now));
        if let Some((_, earlier)) = under_way.insert(name, (wanted, task)) {
            // A daemon reads its order anew: what it was doing is over.
            earlier.abort();
        }
    }
}

async fn obey(nodes: Api<Node>, name: String, config: String, manners: Manners) {
    let say = async |annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        // A node that is gone says nothing more.
        let _ = nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    };
    let state = annotation::STATE.as_str();
    if manners.says_working || manners.drains {
        say(json!({state: "Working"})).await;
    }
    if manners.drains {
        let drain = format!("drain-{config}");
        say(json!({annotation::DESIRED_DRAIN.as_str(): drain})).await;
        until(&nodes, &name, &drain).await;
    }
    if !manners.takes.is_zero() {
        tokio::time::sleep(manners.takes).await;
    }
    if let Some(reason) = manners.fails_on.get(&config) {
        say(json!({state: "Degraded", annotation::REASON.as_str(): reason})).await;
        return;
    }
    if manners.drains {
        let uncordon = format!("uncordon-{config}");
        say(json!({annotation::DESIRED_DRAIN.as_str(): uncordon})).await;
        until(&nodes, &name, &uncordon).await;
    }
    say(json!({
        state: "Done",
        annotation::REASON.as_str(): "",
        annotation::CURRENT_CONFIG.as_str(): config,
    }))
    .await;
}

/// Waits until the drain controller has done what was asked.
async fn until(nodes: &Api<Node>, name: &str, wish: &str) {
    let is_done =
        |node: Option<&Node>| node.is_none_or(|node| annotation::LAST_APPLIED_DRAIN.of(&node.metadata) == Some(wish));
    // It ends with the node or with the wish.
    let _ = kube::runtime::wait::await_condition(nodes.clone(), name, is_done).await;
}
