//! Somebody who watches a roll-out from outside, and counts for themselves.
//!
//! It believes no controller: a node is under order from the moment its desired configuration is changed until it says that
//! it runs it. It is told by its own watches, over a way into the server on which nothing fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

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

/// What an observer has seen of one pool's nodes.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The nodes under order now.
    pub under_order: BTreeSet<String>,
    /// How many there were at most.
    pub most: usize,
    /// How many orders were given.
    pub orders: usize,
    /// How many changes of nodes and pools there were.
    pub changes: usize,
    /// Each time that there were more than allowed, in words.
    pub excesses: Vec<String>,
    /// What looks like it as long as no later word of the pool is heard: revision, how many, in words.
    pub suspected: Vec<(u64, i64, String)>,
    /// Every change in the order in which it was heard of: what is rare cannot be watched a second time.
    pub told: Vec<String>,
    nodes: BTreeMap<String, Order>,
    /// What the pool says of its budget.
    says: Option<IntOrString>,
    allowed: i64,
    promised: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Order {
    current: Option<String>,
    desired: Option<String>,
    state: Option<String>,
    revision: u64,
}

impl Order {
    fn of(node: &Node) -> Order {
        let said = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).map(str::to_owned);
        Order {
            current: said(annotation::CURRENT_CONFIG),
            desired: said(annotation::DESIRED_CONFIG),
            state: said(annotation::STATE),
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
    seen: Arc<Mutex<Seen>>,
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
        let seen = Arc::new(Mutex::new(Seen::default()));
        let task = tokio::spawn(watch(client, pool.to_owned(), Arc::clone(&seen)));
        Observer { seen, task }
    }

    /// What it has seen so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A change of a node or of the pool, in the order of revisions as far as two watches can have it.
async fn watch(client: Client, pool: String, seen: Arc<Mutex<Seen>>) {
    let nodes: Api<Node> = Api::all(client.clone());
    let pools: Api<MachineConfigPool> = Api::all(client);
    let role = format!("node-role.kubernetes.io/{pool}");
    let params = WatchParams::default().labels(&role);
    let named = WatchParams::default().fields(&format!("metadata.name={pool}"));
    // A watch from the first revision tells everything; the server ends it after five minutes, then it begins anew with
    // what is there, which changes nothing for one who has seen it.
    loop {
        let (Ok(of_nodes), Ok(of_pools)) = (nodes.watch(&params, "0").await, pools.watch(&named, "0").await) else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let (mut of_nodes, mut of_pools) = (of_nodes.boxed(), of_pools.boxed());
        loop {
            let heard = tokio::select! {
                event = of_pools.next() => event.and_then(Result::ok).map(Heard::of_pool),
                event = of_nodes.next() => event.and_then(Result::ok).map(Heard::of_node),
            };
            let mut all: Vec<Heard> = heard.into_iter().collect();
            let has_ended = all.is_empty();
            // Two watches tell in no common order: whatever both have to tell by now is put into that of revisions.
            while let Some(Some(Ok(event))) = of_pools.next().now_or_never() {
                all.push(Heard::of_pool(event));
            }
            while let Some(Some(Ok(event))) = of_nodes.next().now_or_never() {
                all.push(Heard::of_node(event));
            }
            all.sort_by_key(|heard| heard.revision);
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            for heard in all {
                match heard.what {
                    Change::Pool(pool) => seen.pool(&pool),
                    Change::Node(node) => seen.node(&node),
                    Change::Gone(name) => seen.gone(&name),
                    Change::Nothing => {}
                }
            }
            if has_ended {
                break;
            }
        }
    }
}

/// A change that was heard of.
struct Heard {
    revision: u64,
    what: Change,
}

enum Change {
    Pool(Box<MachineConfigPool>),
    Node(Box<Node>),
    Gone(String),
    Nothing,
}

impl Heard {
    fn of_pool(event: WatchEvent<MachineConfigPool>) -> Heard {
        match event {
            WatchEvent::Added(found) | WatchEvent::Modified(found) => {
                Heard { revision: revision(found.resource_version()), what: Change::Pool(Box::new(found)) }
            }
            _ => Heard { revision: 0, what: Change::Nothing },
        }
    }

    fn of_node(event: WatchEvent<Node>) -> Heard {
        match event {
            WatchEvent::Added(found) | WatchEvent::Modified(found) => {
                Heard { revision: revision(found.resource_version()), what: Change::Node(Box::new(found)) }
            }
            WatchEvent::Deleted(found) => {
                Heard { revision: revision(found.resource_version()), what: Change::Gone(found.name_any()) }
            }
            _ => Heard { revision: 0, what: Change::Nothing },
        }
    }
}

impl Seen {
    fn pool(&mut self, pool: &MachineConfigPool) {
        self.changes += 1;
        self.says = pool.spec.max_unavailable.clone();
        let text = ours::PROMISED.of(&pool.metadata).unwrap_or_default();
        let target = pool.spec.configuration.as_ref().and_then(|found| found.name.as_deref());
        let at = pool.resource_version().unwrap_or_default();
        self.told.push(format!("{at} pool {target:?}, budget {:?}, promise {text}", self.says));
        let promise: Value = serde_json::from_str(text).unwrap_or_default();
        // What is promised at a revision that is over comes to nothing.
        let is_open = |(node, at): &(&String, &Value)| {
            let at: u64 = at.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
            self.nodes.get(*node).is_none_or(|order| order.revision <= at)
        };
        let promised = promise["nodes"].as_object().into_iter().flatten();
        let promised: BTreeSet<String> = promised.filter(is_open).map(|(node, _)| node.clone()).collect();
        // Whoever is out already is not taken out once more.
        let is_out =
            |node: &String| self.under_order.contains(node) || self.nodes.get(node).is_some_and(Order::is_broken);
        let is_new = promised.iter().any(|node| !self.promised.contains(node) && !is_out(node));
        // Orders that were promised under a larger budget may still be given under a smaller one.
        self.allowed = if is_new { self.max() } else { self.max().max(self.allowed) };
        self.promised = promised;
        // Two watches tell in no common order: a node may be heard of before the pool that allowed it.
        let revision = revision(pool.resource_version());
        let (max, allowed) = (self.max(), self.allowed);
        self.suspected.retain(|(at, count, _)| *at < revision || *count > max.max(allowed));
        // What is older than the pool by now was not allowed by it.
        let (certain, open) = std::mem::take(&mut self.suspected).into_iter().partition(|(at, ..)| *at < revision);
        self.suspected = open;
        let certain: Vec<(u64, i64, String)> = certain;
        self.excesses.extend(certain.into_iter().map(|(.., what)| what));
    }

    /// How many may be under order by what the pool says now. A share grows with the nodes.
    fn max(&self) -> i64 {
        let count = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX);
        match &self.says {
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
        let (name, order) = (node.name_any(), Order::of(node));
        self.told.push(format!("{} {name} {order:?}", order.revision));
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

    fn gone(&mut self, name: &str) {
        self.changes += 1;
        self.told.push(format!("{name} is gone"));
        self.nodes.remove(name);
        self.under_order.remove(name);
    }
}
