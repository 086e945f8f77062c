//! Observer: watches the nodes of a pool during a roll-out and counts how many are under order at a time.
//!
//! It relies on no controller: a node is under order from the change of its desired configuration until it reports that it
//! runs it. Its watches use a client without injected faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::meta::IntOrString;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_api::vocabulary::seaworthy::annotation as ours;
use serde_json::Value;
use tokio::task::JoinHandle;

/// How often a watch that cannot be opened is tried again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What an observer has recorded about one pool's nodes.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// The nodes under order now.
    pub under_order: BTreeSet<String>,
    /// The largest number of nodes that were under order at a time.
    pub most: usize,
    pub orders: usize,
    /// The number of changes of nodes and pools.
    pub changes: usize,
    /// Each time that more nodes than allowed were under order, in words.
    pub excesses: Vec<String>,
    /// Excesses that an earlier change of the pool may still explain: revision, number of nodes, in words.
    pub suspected: Vec<(u64, i64, String)>,
    /// Every change in the order of its arrival, since a rare history cannot be repeated.
    pub log: Vec<String>,
    nodes: BTreeMap<String, NodeOrder>,
    /// `spec.maxUnavailable` of the pool.
    budget: Option<IntOrString>,
    allowed: i64,
    reserved: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct NodeOrder {
    current: Option<String>,
    desired: Option<String>,
    state: Option<String>,
    revision: u64,
}

impl NodeOrder {
    fn of(node: &Node) -> NodeOrder {
        let text = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).map(str::to_owned);
        NodeOrder {
            current: text(annotation::CURRENT_CONFIG),
            desired: text(annotation::DESIRED_CONFIG),
            state: text(annotation::STATE),
            revision: revision(node.resource_version()),
        }
    }

    fn is_done(&self) -> bool {
        self.current.is_some() && self.current == self.desired && self.state.as_deref() == Some("Done")
    }

    fn is_broken(&self) -> bool {
        matches!(self.state.as_deref(), Some("Degraded" | "Unreconcilable"))
    }
}

fn revision(text: Option<String>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Watches one pool. Its nodes are those with the label of its role.
pub struct Observer {
    observations: Arc<Mutex<Observations>>,
    task: JoinHandle<()>,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Observer {
    /// Starts to watch the pool with this name.
    pub fn start(client: Client, pool: &str) -> Observer {
        let observations = Arc::new(Mutex::new(Observations::default()));
        let task = tokio::spawn(watch(client, pool.to_owned(), Arc::clone(&observations)));
        Observer { observations, task }
    }

    /// What it has recorded so far.
    pub fn observations(&self) -> Observations {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Records changes of the nodes and of the pool, in the order of revisions as far as two watches allow.
async fn watch(client: Client, pool: String, observations: Arc<Mutex<Observations>>) {
    let nodes: Api<Node> = Api::all(client.clone());
    let pools: Api<MachineConfigPool> = Api::all(client);
    let role = format!("node-role.kubernetes.io/{pool}");
    let params = WatchParams::default().labels(&role);
    let named = WatchParams::default().fields(&format!("metadata.name={pool}"));
    // A watch from the first revision has every change. The server ends it after five minutes; the next one starts with the
    // present objects, which changes nothing that is recorded.
    loop {
        let (Ok(of_nodes), Ok(of_pools)) = (nodes.watch(&params, "0").await, pools.watch(&named, "0").await) else {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        };
        let (mut of_nodes, mut of_pools) = (of_nodes.boxed(), of_pools.boxed());
        loop {
            let change = tokio::select! {
                event = of_pools.next() => event.and_then(Result::ok).map(ObservedChange::of_pool),
                event = of_nodes.next() => event.and_then(Result::ok).map(ObservedChange::of_node),
            };
            let mut all: Vec<ObservedChange> = change.into_iter().collect();
            let has_ended = all.is_empty();
            // Two watches have no common order: what has arrived on both by now is sorted by revision.
            while let Some(Some(Ok(event))) = of_pools.next().now_or_never() {
                all.push(ObservedChange::of_pool(event));
            }
            while let Some(Some(Ok(event))) = of_nodes.next().now_or_never() {
                all.push(ObservedChange::of_node(event));
            }
            all.sort_by_key(|change| change.revision);
            let mut observations = observations.lock().unwrap_or_else(PoisonError::into_inner);
            for change in all {
                match change.object {
                    ChangedObject::Pool(pool) => observations.pool(&pool),
                    ChangedObject::Node(node) => observations.node(&node),
                    ChangedObject::DeletedNode(name) => observations.deleted(&name),
                    ChangedObject::None => {}
                }
            }
            if has_ended {
                break;
            }
        }
    }
}

/// An event of one of the watches.
struct ObservedChange {
    revision: u64,
    object: ChangedObject,
}

enum ChangedObject {
    Pool(Box<MachineConfigPool>),
    Node(Box<Node>),
    DeletedNode(String),
    None,
}

impl ObservedChange {
    fn of_pool(event: WatchEvent<MachineConfigPool>) -> ObservedChange {
        match event {
            WatchEvent::Added(found) | WatchEvent::Modified(found) => ObservedChange {
                revision: revision(found.resource_version()),
                object: ChangedObject::Pool(Box::new(found)),
            },
            _ => ObservedChange { revision: 0, object: ChangedObject::None },
        }
    }

    fn of_node(event: WatchEvent<Node>) -> ObservedChange {
        match event {
            WatchEvent::Added(found) | WatchEvent::Modified(found) => ObservedChange {
                revision: revision(found.resource_version()),
                object: ChangedObject::Node(Box::new(found)),
            },
            WatchEvent::Deleted(found) => ObservedChange {
                revision: revision(found.resource_version()),
                object: ChangedObject::DeletedNode(found.name_any()),
            },
            _ => ObservedChange { revision: 0, object: ChangedObject::None },
        }
    }
}

impl Observations {
    fn pool(&mut self, pool: &MachineConfigPool) {
        self.changes += 1;
        self.budget = pool.spec.max_unavailable.clone();
        let text = ours::RESERVED_NODES.of(&pool.metadata).unwrap_or_default();
        let target = pool.spec.configuration.as_ref().and_then(|found| found.name.as_deref());
        let at = pool.resource_version().unwrap_or_default();
        self.log.push(format!("{at} pool {target:?}, budget {:?}, reservation {text}", self.budget));
        let reservation: Value = serde_json::from_str(text).unwrap_or_default();
        // A reservation for a revision of the node that is past has no effect.
        let is_open = |(node, at): &(&String, &Value)| {
            let at: u64 = at.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
            self.nodes.get(*node).is_none_or(|order| order.revision <= at)
        };
        let reserved = reservation["nodes"].as_object().into_iter().flatten();
        let reserved: BTreeSet<String> = reserved.filter(is_open).map(|(node, _)| node.clone()).collect();
        // A node that is unavailable already counts once.
        let is_unavailable =
            |node: &String| self.under_order.contains(node) || self.nodes.get(node).is_some_and(NodeOrder::is_broken);
        let is_new = reserved.iter().any(|node| !self.reserved.contains(node) && !is_unavailable(node));
        // Orders that were reserved under a larger budget may still be given under a smaller one.
        self.allowed = if is_new { self.max() } else { self.max().max(self.allowed) };
        self.reserved = reserved;
        // Two watches have no common order: a node may arrive before the pool that allowed its order.
        let revision = revision(pool.resource_version());
        let (max, allowed) = (self.max(), self.allowed);
        self.suspected.retain(|(at, count, _)| *at < revision || *count > max.max(allowed));
        // What is older than the pool by now was not allowed by it.
        let (certain, open) = std::mem::take(&mut self.suspected).into_iter().partition(|(at, ..)| *at < revision);
        self.suspected = open;
        let certain: Vec<(u64, i64, String)> = certain;
        self.excesses.extend(certain.into_iter().map(|(.., what)| what));
    }

    /// The number of nodes that the pool's budget allows now. A percentage grows with the nodes.
    fn max(&self) -> i64 {
        let count = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX);
        match &self.budget {
            None => 1,
            Some(IntOrString::Int(number)) => (*number).max(1),
            Some(IntOrString::String(text)) => {
                let percent: Option<i64> = text.strip_suffix('%').and_then(|digits| digits.parse().ok());
                percent.map_or(0, |percent| (percent * count / 100).max(1))
            }
        }
    }

    fn node(&mut self, node: &Node) {
        self.changes += 1;
        let (name, order) = (node.name_any(), NodeOrder::of(node));
        self.log.push(format!("{} {name} {order:?}", order.revision));
        let before = self.nodes.insert(name.clone(), order.clone());
        let is_order = before.as_ref().is_some_and(|before| before.desired != order.desired);
        if let Some(before) = before
            && is_order
        {
            self.orders += 1;
            if !before.is_broken() {
                self.under_order.insert(name.clone());
            }
        }
        if order.is_done() {
            self.under_order.remove(&name);
        }
        self.most = self.most.max(self.under_order.len());
        let count = i64::try_from(self.under_order.len()).unwrap_or(i64::MAX);
        let allowed = self.allowed.max(self.max());
        if is_order && count > allowed {
            let what = format!("{count} under order, {allowed} allowed, after {name}: {:?}", self.under_order);
            self.suspected.push((revision(node.resource_version()), count, what));
        }
    }

    fn deleted(&mut self, name: &str) {
        self.changes += 1;
        self.log.push(format!("{name} is deleted"));
        self.nodes.remove(name);
        self.under_order.remove(name);
    }
}
