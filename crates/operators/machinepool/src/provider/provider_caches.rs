//! Provider caches: one watch for each kind that a pool refers to, for the whole process.
//!
//! - A watch is started when the first pool needs the kind and its definition is installed. It ends when no pool needs the kind
//!   any more, when the definition is gone, or when the contract names another version.
//! - Pools are decided on again when a definition or the state of a watch changes, so that nothing polls for a provider that is
//!   installed later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kube::Client;
use seaworthy_plan::machinepool::provider_contract::definition_name;
use seaworthy_runtime::{AnyCache as _, Cache, CacheSet, Delta, Key};

use super::provider_cache::ProviderCache;
use super::provider_definition::ProviderDefinition;
use super::provider_object::ProviderObject;
use crate::pool_queue::PoolQueue;
use crate::task_guard::TaskGuard;

/// A kind in whatever version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

/// Whether the objects of a kind are known.
#[derive(Clone, Debug)]
pub enum KindState {
    /// No definition has the kind; this one would.
    NotInstalled {
        definition: String,
    },
    /// They cannot be read.
    Unreadable {
        reason: String,
    },
    /// They are being listed. The pools that need them are marked when they are.
    Pending,
    Known(Arc<ProviderCache>),
}

type OnChange = Arc<dyn Fn(&GroupKind, &Delta<ProviderObject>) + Send + Sync>;

pub struct ProviderCaches {
    client: Client,
    definitions: Arc<Cache<ProviderDefinition>>,
    /// Where responses to writes are recorded.
    set: CacheSet,
    queue: Arc<PoolQueue>,
    on_change: OnChange,
    kinds: Mutex<BTreeMap<GroupKind, UsedKind>>,
    /// For the callbacks of its own caches.
    this: Weak<ProviderCaches>,
}

/// A kind that pools need, installed or not.
#[derive(Debug, Default)]
struct UsedKind {
    pools: BTreeSet<Key>,
    watch: Option<Watch>,
}

#[derive(Debug)]
struct Watch {
    cache: Arc<ProviderCache>,
    _task: TaskGuard,
}

impl ProviderCaches {
    /// `on_change` is called for each change of an object of any kind that is watched.
    pub fn new(
        client: Client,
        definitions: Arc<Cache<ProviderDefinition>>,
        set: CacheSet,
        queue: Arc<PoolQueue>,
        on_change: impl Fn(&GroupKind, &Delta<ProviderObject>) + Send + Sync + 'static,
    ) -> Arc<ProviderCaches> {
        let on_change: OnChange = Arc::new(on_change);
        let caches = Arc::new_cyclic(|this: &Weak<ProviderCaches>| ProviderCaches {
            client,
            definitions,
            set,
            queue,
            on_change,
            kinds: Mutex::default(),
            this: Weak::clone(this),
        });
        let weak = Arc::downgrade(&caches);
        caches.definitions.listen(move |delta| {
            let Some(caches) = weak.upgrade() else { return };
            for side in delta.sides() {
                caches.mark(&GroupKind { group: side.group().to_owned(), kind: side.kind().to_owned() });
            }
        });
        caches
    }

    /// The objects of a kind, which this pool needs from now on.
    pub fn of_kind(&self, kind: &GroupKind, pool: &Key) -> KindState {
        let definition = self.definition(kind);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let used = kinds.entry(kind.clone()).or_default();
        used.pools.insert(pool.clone());
        let Some(definition) = definition else {
            self.stop(used);
            return KindState::NotInstalled { definition: definition_name(&kind.group, &kind.kind) };
        };
        let read_as = match definition.read_as() {
            Ok(read_as) => read_as,
            Err(reason) => {
                self.stop(used);
                return KindState::Unreadable { reason };
            }
        };
        if used.watch.as_ref().is_some_and(|watch| *watch.cache.read_as() != read_as) {
            self.stop(used);
        }
        let watch = used.watch.get_or_insert_with(|| {
            let (this, of_kind) = (Weak::clone(&self.this), kind.clone());
            let on_state = move || {
                if let Some(caches) = this.upgrade() {
                    caches.mark(&of_kind);
                }
            };
            let (on_change, of_kind) = (Arc::clone(&self.on_change), kind.clone());
            let cache = Arc::new(ProviderCache::new(read_as, move |delta| on_change(&of_kind, delta), on_state));
            self.set.add(Arc::clone(&cache) as _);
            tracing::info!(kind = kind.kind, version = %cache.read_as().resource.api_version(), "watching a provider's kind");
            let task = TaskGuard::spawn(Arc::clone(&cache).watch(&self.client));
            Watch { cache, _task: task }
        });
        match watch.cache.failure() {
            _ if watch.cache.is_synced() => KindState::Known(Arc::clone(&watch.cache)),
            Some(reason) => KindState::Unreadable { reason },
            None => KindState::Pending,
        }
    }

    /// The kind with this name whose objects a pool's provider has: in the provider's own group, or in the only other group that
    /// has it.
    ///
    /// Differs: the group is looked up, because the machines of a provider may be in another group than its pools; upstream
    /// assumes the same one.
    pub fn group_of(&self, kind: &str, provider_group: &str) -> GroupKind {
        let found = self.definitions.filter(|definition| definition.kind() == kind && definition.is_installed());
        let is_own = found.iter().any(|definition| definition.group() == provider_group);
        let group = match found.as_slice() {
            [only] if !is_own => only.group(),
            _ => provider_group,
        };
        GroupKind { group: group.to_owned(), kind: kind.to_owned() }
    }

    /// A pool needs these kinds and no others; a kind that no pool needs is not watched any more.
    pub fn retain(&self, pool: &Key, needed: &BTreeSet<GroupKind>) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.retain(|kind, used| {
            if !needed.contains(kind) {
                used.pools.remove(pool);
            }
            if used.pools.is_empty() {
                self.stop(used);
            }
            !used.pools.is_empty()
        });
    }

    fn stop(&self, used: &mut UsedKind) {
        if let Some(watch) = used.watch.take() {
            self.set.remove(&watch.cache.read_as().resource);
        }
    }

    /// Has the pools that need a kind decided on again.
    fn mark(&self, kind: &GroupKind) {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).into_iter().flat_map(|used| &used.pools).for_each(|pool| self.queue.mark(pool.clone()));
    }

    /// The installed definition of a kind. Its name is the computed one, as a rule.
    fn definition(&self, kind: &GroupKind) -> Option<Arc<ProviderDefinition>> {
        let is_of_kind = |definition: &ProviderDefinition| {
            definition.group() == kind.group && definition.kind() == kind.kind && definition.is_installed()
        };
        let named = self.definitions.named(&definition_name(&kind.group, &kind.kind));
        let other = || self.definitions.filter(is_of_kind).into_iter().next();
        named.filter(|definition| is_of_kind(definition)).or_else(other)
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use seaworthy_runtime::Queue;
    use seaworthy_testkit::Embedded;
    use serde_json::json;

    use super::*;

    fn definition(version: &str, revision: u64) -> ProviderDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": "pools.g", "uid": "u", "resourceVersion": revision.to_string()},
            "spec": {"group": "g", "scope": "Namespaced", "names": {"kind": "Pool", "plural": "pools"}, "versions": [
                {"name": version, "served": true, "storage": true},
            ]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        }))
        .unwrap()
    }

    fn version(state: &KindState) -> String {
        match state {
            KindState::NotInstalled { definition } => format!("no {definition}"),
            KindState::Unreadable { reason } => reason.clone(),
            KindState::Pending => "pending".to_owned(),
            KindState::Known(cache) => cache.read_as().resource.version.to_string(),
        }
    }

    #[tokio::test]
    async fn kind_is_watched_while_a_pool_needs_it_and_its_definition_serves_it() {
        let definitions = Arc::<Cache<ProviderDefinition>>::default();
        let (set, queue) = (CacheSet::default(), Arc::<PoolQueue>::default());
        let client = Embedded::start().await.client();
        let caches = ProviderCaches::new(client, Arc::clone(&definitions), set.clone(), Arc::clone(&queue), |_, _| {});
        let kind = GroupKind { group: "g".to_owned(), kind: "Pool".to_owned() };
        let pool = |name: &str| Key { namespace: "a".to_owned(), name: name.to_owned() };
        let marked = || queue.workers().map(Queue::depth).sum::<usize>();
        assert_eq!(version(&caches.of_kind(&kind, &pool("p"))), "no pools.g");
        definitions.apply_event(Event::Apply(definition("v1", 1)));
        assert_eq!(marked(), 1, "the pool is decided on again");
        assert_eq!(version(&caches.of_kind(&kind, &pool("p"))), "pending");
        assert_eq!(version(&caches.of_kind(&kind, &pool("q"))), "pending");
        let watched = |kind: &GroupKind| {
            let kinds = caches.kinds.lock().unwrap();
            let watch = kinds.get(kind).and_then(|used| used.watch.as_ref());
            watch.map(|watch| watch.cache.read_as().resource.version.to_string())
        };
        caches.retain(&pool("p"), &BTreeSet::new());
        assert_eq!(watched(&kind).as_deref(), Some("v1"), "another pool needs it");
        definitions.apply_event(Event::Apply(definition("v2", 2)));
        caches.of_kind(&kind, &pool("q"));
        assert_eq!(watched(&kind).as_deref(), Some("v2"));
        definitions.apply_event(Event::Delete(definition("v2", 3)));
        assert_eq!(version(&caches.of_kind(&kind, &pool("q"))), "no pools.g");
        assert_eq!(watched(&kind), None);
        caches.retain(&pool("q"), &BTreeSet::new());
        assert!(caches.kinds.lock().unwrap().is_empty());
    }
}
