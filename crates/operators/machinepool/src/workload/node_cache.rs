//! Node cache: the Nodes of one workload cluster, kept current by one watch for all of its pools.
//!
//! - It outlives connections: after a reconnect only the Nodes that have changed meanwhile are reported.
//! - A heartbeat is no change: nothing is reported, so no pool is decided on again.
//! - What this process writes is recorded ahead of the watch, so that no decision repeats it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use seaworthy_change::{ObjectVersion, ResourceType};
use seaworthy_plan::machinepool::{NodeChange, NodeIndex, WorkloadNode};
use seaworthy_runtime::{AnyCache, Key};
use tokio::sync::watch;
use tokio::time::Instant;

use super::kubeconfig;
use super::watched_node::WatchedNode;

/// How many Nodes are listed at a time: each can be 20 kB, and many clusters may connect at once.
const PAGE_SIZE: u32 = 100;

/// How many refusals of the watch in a row are no accident.
const MIN_REFUSALS: u32 = 3;
/// A watch that is refused is retried after half of this at the latest: one that was not refused for so long has recovered.
const WATCH_RECOVERY_INTERVAL: Duration = Duration::from_secs(60);

/// Called with the name of a Node and its provider IDs before and after a change.
type OnChange = Box<dyn Fn(&str, [&str; 2]) + Send + Sync>;

pub struct NodeCache {
    state: RwLock<NodeState>,
    /// How many lists are complete.
    lists: watch::Sender<u64>,
    /// Why the list in progress fails, if it does.
    failure: watch::Sender<Option<String>>,
    /// How many times the watch was refused since the last event, and when it was last.
    refusals: Mutex<Option<(u32, Instant)>>,
    on_change: OnChange,
}

#[derive(Default)]
struct NodeState {
    index: NodeIndex,
    names: BTreeSet<String>,
    /// The names in the list in progress.
    listed: Option<BTreeSet<String>>,
}

impl NodeCache {
    /// `on_change` is called with the name of a Node and its provider IDs before and after, when a pool would look at the change.
    pub fn new(on_change: impl Fn(&str, [&str; 2]) + Send + Sync + 'static) -> NodeCache {
        NodeCache {
            state: RwLock::default(),
            lists: watch::Sender::new(0),
            failure: watch::Sender::new(None),
            refusals: Mutex::default(),
            on_change: Box::new(on_change),
        }
    }

    /// Reads the Nodes. No event is taken in meanwhile.
    pub fn read<T>(&self, read: impl FnOnce(&NodeIndex) -> T) -> T {
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner).index)
    }

    /// Waits for the next list that is complete from now on, or that fails.
    pub fn next_list(&self) -> impl Future<Output = Result<(), String>> + Send + use<> {
        self.failure.send_replace(None);
        *self.refusals() = None;
        let (mut lists, mut failure) = (self.lists.subscribe(), self.failure.subscribe());
        lists.mark_unchanged();
        async move {
            tokio::select! {
                // An error of a channel means that the cache is gone, and with it the connection.
                changed = lists.changed() => changed.map_err(|_| String::new()),
                failed = failure.wait_for(Option::is_some) => {
                    Err(failed.ok().and_then(|reason| reason.clone()).unwrap_or_default())
                }
            }
        }
    }

    /// Why the watch cannot go on, if it is refused again and again: then what is held is out of date, although the server answers.
    pub fn lasting_failure(&self) -> Option<String> {
        let (count, last) = (*self.refusals())?;
        let is_lasting = count >= MIN_REFUSALS && last.elapsed() < WATCH_RECOVERY_INTERVAL;
        self.failure.borrow().clone().filter(|_| is_lasting)
    }

    /// A server that does not answer is no refusal: that is what the probe is for.
    fn fail(&self, reason: String, is_refusal: bool) {
        if is_refusal {
            let mut refusals = self.refusals();
            let count = refusals.map_or(0, |(count, _)| count);
            *refusals = Some((count.saturating_add(1), Instant::now()));
        }
        self.failure.send_replace(Some(reason));
    }

    fn refusals(&self) -> MutexGuard<'_, Option<(u32, Instant)>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn apply(&self, event: watcher::Event<WatchedNode>) {
        match event {
            watcher::Event::Apply(found) => self.change(|state| state.set(found.node, false).into_iter().collect()),
            watcher::Event::Delete(found) => {
                self.change(|state| state.remove(&found.node.name, &found.node.uid).into_iter().collect());
            }
            watcher::Event::Init => self.change(|state| {
                state.listed = Some(BTreeSet::new());
                Vec::new()
            }),
            watcher::Event::InitApply(found) => self.change(|state| state.set(found.node, true).into_iter().collect()),
            watcher::Event::InitDone => {
                self.change(NodeState::end_list);
                self.failure.send_replace(None);
                self.lists.send_modify(|lists| *lists += 1);
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut NodeState) -> Vec<ChangedNode>) {
        let changes = change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
        for ChangedNode { name, provider_ids: [before, after] } in &changes {
            (self.on_change)(name, [before, after]);
        }
    }

    async fn run(self: Arc<Self>, client: Client) {
        let config = watcher::Config::default().page_size(PAGE_SIZE);
        let mut events = std::pin::pin!(watcher(Api::<WatchedNode>::all(client), config).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                // It is the attempt that begins, not a list that succeeds.
                Ok(event @ watcher::Event::Init) => self.apply(event),
                Ok(event) => {
                    *self.refusals() = None;
                    self.apply(event);
                }
                Err(error) => {
                    let reason = watch_failure(&error);
                    // The probe decides whether the cluster is gone; a watch alone ends now and then.
                    tracing::debug!(reason, "watch of Nodes failed; retrying");
                    self.fail(reason, is_refusal(&error));
                }
            }
        }
    }
}

/// A Node that pools would look at again, with its provider IDs before and after.
struct ChangedNode {
    name: String,
    provider_ids: [String; 2],
}

impl NodeState {
    /// Takes in a Node. An event that is older than what is held is ignored; a list is not: a server may have been restored.
    fn set(&mut self, node: WorkloadNode, is_listed: bool) -> Option<ChangedNode> {
        if let Some(listed) = &mut self.listed {
            listed.insert(node.name.clone());
        }
        let held = self.index.get(&node.name);
        if !is_listed && held.is_some_and(|held| is_newer(held, &node)) {
            return None;
        }
        let (name, after) = (node.name.clone(), node.provider_id.clone());
        let before = match self.index.set(node) {
            NodeChange::None => return None,
            NodeChange::Added => {
                self.names.insert(name.clone());
                String::new()
            }
            NodeChange::From(before) => before.provider_id,
        };
        Some(ChangedNode { name, provider_ids: [before, after] })
    }

    /// Forgets a Node that is gone, unless another one has its name since.
    fn remove(&mut self, name: &str, uid: &str) -> Option<ChangedNode> {
        if let Some(listed) = &mut self.listed {
            listed.remove(name);
        }
        if self.index.get(name).is_some_and(|held| held.uid != uid) {
            return None;
        }
        self.forget(name)
    }

    /// The list is complete: what it lacks is gone.
    fn end_list(&mut self) -> Vec<ChangedNode> {
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let gone: Vec<String> = self.names.difference(&listed).cloned().collect();
        gone.iter().filter_map(|name| self.forget(name)).collect()
    }

    fn forget(&mut self, name: &str) -> Option<ChangedNode> {
        let gone = self.index.remove(name)?;
        self.names.remove(name);
        Some(ChangedNode { name: gone.name, provider_ids: [gone.provider_id, String::new()] })
    }
}

/// Whether what is held is newer than what has come, where the resource versions are numbers.
fn is_newer(held: &WorkloadNode, found: &WorkloadNode) -> bool {
    let revision = |node: &WorkloadNode| node.resource_version.as_ref()?.parse::<u64>().ok();
    revision(held).zip(revision(found)).is_some_and(|(held, found)| held > found)
}

/// Whether the server has answered that it does not allow the watch.
fn is_refusal(error: &watcher::Error) -> bool {
    let error = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        _ => return false,
    };
    matches!(error, kube::Error::Api(status) if [401, 403, 404].contains(&status.code))
}

/// Why a list or a watch failed, without anything that the server sent.
fn watch_failure(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => format!("Nodes cannot be listed: {}", kubeconfig::reason(error)),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            format!("Nodes cannot be watched: {}", kubeconfig::reason(error))
        }
        watcher::Error::WatchError(status) => format!("the watch of Nodes ended with {}", status.code),
        _ => "Nodes cannot be watched".to_owned(),
    }
}

impl AnyCache for NodeCache {
    fn resource(&self) -> ResourceType {
        ResourceType::of::<Node>()
    }

    fn uid(&self, key: &Key) -> Option<String> {
        self.read(|nodes| nodes.get(&key.name).map(|node| node.uid.clone()))
    }

    fn record_write_json(&self, response: &str) -> Result<ObjectVersion, serde_json::Error> {
        let WatchedNode { node, .. } = serde_json::from_str(response)?;
        let version = ObjectVersion { uid: Some(node.uid.clone()), resource_version: node.resource_version.clone() };
        // A Node that is gone by now is not restored.
        self.change(|state| match state.index.get(&node.name).is_some_and(|held| held.uid == node.uid) {
            true => state.set(node, false).into_iter().collect(),
            false => Vec::new(),
        });
        Ok(version)
    }

    fn watch(self: Arc<Self>, client: &Client) -> BoxFuture<'static, ()> {
        self.run(client.clone()).boxed()
    }

    fn wait_synced(&self) -> BoxFuture<'_, ()> {
        let mut lists = self.lists.subscribe();
        async move {
            // The sender lives in self, so waiting cannot fail.
            let _ = lists.wait_for(|lists| *lists > 0).await;
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watcher::Event;

    use super::*;

    fn node(name: &str, uid: &str, revision: u64, provider_id: &str) -> WatchedNode {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": uid, "resourceVersion": revision.to_string()},
            "spec": {"providerID": provider_id},
        }))
        .unwrap()
    }

    type Reported = Arc<Mutex<Vec<(String, String, String)>>>;

    fn cache() -> (NodeCache, impl Fn() -> Vec<(String, String, String)>) {
        let reported = Reported::default();
        let report = Arc::clone(&reported);
        let cache = NodeCache::new(move |name, [before, after]| {
            report.lock().unwrap().push((name.to_owned(), before.to_owned(), after.to_owned()));
        });
        (cache, move || std::mem::take(&mut *reported.lock().unwrap()))
    }

    fn change(name: &str, before: &str, after: &str) -> (String, String, String) {
        (name.to_owned(), before.to_owned(), after.to_owned())
    }

    #[test]
    fn only_what_concerns_pools_is_reported() {
        let (cache, reported) = cache();
        cache.apply(Event::Apply(node("a", "u", 1, "x")));
        cache.apply(Event::Apply(node("a", "u", 2, "x")));
        assert_eq!(reported(), [change("a", "", "x")], "a heartbeat is no change");
        cache.apply(Event::Apply(node("a", "u", 3, "y")));
        cache.apply(Event::Apply(node("a", "u", 2, "x")));
        assert_eq!(reported(), [change("a", "x", "y")], "an older event is ignored");
        cache.apply(Event::Delete(node("a", "u", 4, "y")));
        assert_eq!(reported(), [change("a", "y", "")]);
    }

    #[test]
    fn list_after_a_reconnect_reports_what_has_changed_meanwhile() {
        let (cache, reported) = cache();
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(node("a", "u", 5, "x")));
        cache.apply(Event::InitApply(node("b", "v", 6, "y")));
        cache.apply(Event::InitDone);
        reported();
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(node("b", "v", 3, "y")));
        assert_eq!(reported(), []);
        cache.apply(Event::InitDone);
        assert_eq!(reported(), [change("a", "x", "")]);
        assert!(cache.read(|nodes| nodes.get("a").is_none() && nodes.get("b").is_some()));
    }

    #[test]
    fn late_deletion_and_late_response_concern_their_own_node_only() {
        let (cache, reported) = cache();
        cache.apply(Event::Apply(node("a", "second", 9, "x")));
        cache.apply(Event::Delete(node("a", "first", 8, "x")));
        assert!(cache.read(|nodes| nodes.get("a").is_some()));
        reported();
        let response =
            r#"{"metadata": {"name": "a", "uid": "first", "resourceVersion": "10"}, "spec": {"providerID": "z"}}"#;
        cache.record_write_json(response).unwrap();
        assert_eq!(reported(), []);
        cache.record_write_json(&response.replace("first", "second")).unwrap();
        assert_eq!(reported(), [change("a", "x", "z")]);
    }

    #[tokio::test]
    async fn next_list_is_one_that_is_completed_later() {
        let (cache, _) = cache();
        cache.apply(Event::Init);
        cache.apply(Event::InitDone);
        let mut next = std::pin::pin!(cache.next_list());
        assert!(futures::poll!(&mut next).is_pending());
        cache.apply(Event::Init);
        cache.apply(Event::InitDone);
        assert_eq!(next.await, Ok(()));
        let next = cache.next_list();
        cache.fail("it answers 403 Forbidden".to_owned(), true);
        assert!(next.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_is_refused_again_and_again_is_a_failure_until_it_recovers() {
        let (cache, _) = cache();
        for _ in 0..MIN_REFUSALS {
            assert_eq!(cache.lasting_failure(), None);
            cache.fail("it answers 503 Service Unavailable".to_owned(), false);
            cache.fail("it answers 403 Forbidden".to_owned(), true);
        }
        assert_eq!(cache.lasting_failure().as_deref(), Some("it answers 403 Forbidden"));
        tokio::time::advance(WATCH_RECOVERY_INTERVAL).await;
        assert_eq!(cache.lasting_failure(), None);
    }
}
