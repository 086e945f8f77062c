//! The server: what is stored, what is served, who may do what.

mod memo;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use seaworthy_store::{Change, CommitError, Folder, Indexer, Key, OpenError, Record, Store, Tags, Window};
use serde_json::Value;
use tokio::task::JoinError;

use crate::access::Policy;
use crate::admission::{self, Policies};
use crate::authentication::{Keys, KeysError, StaticTokens};
use crate::clock::World;
use crate::housekeeping::{DEFINITIONS, Keeper};
use crate::object::{Metadata, Object};
use crate::resource::Resource;
use crate::resource::custom;
use crate::resource::registry::Registry;
use crate::server::memo::Memo;

/// What the stored kinds of access begin with.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io/";

/// The server. A clone is a handle to the same one.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    registry: Arc<RwLock<Arc<Registry>>>,
    policy: RwLock<Arc<Policy>>,
    admission: RwLock<Arc<Policies>>,
    /// Each held while what follows from these objects is read anew: who reads last has read the newest.
    definitions: Mutex<Memo<Vec<Arc<Resource>>>>,
    refreshing: Mutex<()>,
    /// Held while definitions are brought into order.
    settling: tokio::sync::Mutex<()>,
    world: Arc<dyn World>,
    tokens: StaticTokens,
    keys: Arc<Keys>,
    keeper: tokio::sync::Mutex<Option<Keeper>>,
    /// Whether watches are to end.
    ending: tokio::sync::watch::Sender<bool>,
}

/// What a server is made of.
pub struct Settings {
    /// Where the objects are kept.
    pub place: Place,
    /// Time and chance.
    pub world: Arc<dyn World>,
    /// Tokens that do not change.
    pub tokens: StaticTokens,
    /// The key that signs tokens of service accounts.
    pub keys: Arc<Keys>,
}

impl Settings {
    /// A server in memory with a key of its own, and without tokens that do not change.
    pub fn in_memory(world: Arc<dyn World>) -> Result<Settings, KeysError> {
        let keys = Arc::new(Keys::read(&Keys::generate()?)?);
        Ok(Settings { place: Place::Memory, world, tokens: StaticTokens::default(), keys })
    }
}

/// Where the objects are kept.
#[derive(Debug)]
pub enum Place {
    /// In memory, until the server is dropped.
    Memory,
    /// In a folder, which nobody else has.
    Folder(Folder),
}

impl Server {
    /// Opens the store and reads what is in it.
    pub fn open(settings: Settings) -> Result<Server, OpenError> {
        let Settings { place, world, tokens, keys } = settings;
        let registry = Arc::new(RwLock::new(Arc::new(Registry::with([]))));
        let indexer = indexer(registry.clone());
        let store = match place {
            Place::Memory => Store::in_memory(indexer, Window::default())?,
            Place::Folder(folder) => Store::open_in(folder, indexer, Window::default())?,
        };
        let (policy, admission) = (RwLock::default(), RwLock::default());
        let (definitions, refreshing) = (Mutex::default(), Mutex::default());
        let (settling, keeper) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        let ending = tokio::sync::watch::Sender::new(false);
        let inner = Inner {
            store,
            registry,
            policy,
            admission,
            definitions,
            refreshing,
            settling,
            world,
            tokens,
            keys,
            keeper,
            ending,
        };
        let server = Server { inner: Arc::new(inner) };
        server.refresh_registry();
        server.refresh_policy();
        server.refresh_admission();
        Ok(server)
    }

    /// Makes one change, and what follows from it.
    ///
    /// Whoever waits for it may go away, as a client does that hangs up: the change is made all the same, so what
    /// follows from it must follow too. A right that was taken away would be held on to otherwise.
    pub async fn commit(&self, change: Change) -> Result<Arc<Record>, CommitError> {
        let server = self.clone();
        let done = tokio::spawn(async move { server.commit_and_follow_up(change).await }).await;
        match done.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime ends, and whoever waits here with it.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    async fn commit_and_follow_up(&self, change: Change) -> Result<Arc<Record>, CommitError> {
        let key = change.key().clone();
        let committed = self.store().commit(vec![change]).await?;
        self.follow_up(&key).await;
        // One change has one record.
        Ok(committed.records[0].clone())
    }

    /// Serves what the definitions say that are established now.
    pub fn refresh_registry(&self) {
        let mut known = self.inner.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        let definitions = self.store().list(DEFINITIONS, None).records;
        let before = self.registry();
        let custom = known.renew(&definitions, |record| {
            let definition = decode(record);
            match is_established(&definition) {
                true => {
                    let family = before.family(&definition);
                    custom::resources(&definition, record.created_revision, record.revision, family)
                }
                false => Vec::new(),
            }
        });
        let registry = Arc::new(Registry::with(custom.into_iter().flatten()));
        *self.inner.registry.write().unwrap_or_else(PoisonError::into_inner) = registry;
    }

    /// The same, and objects are found by the fields that this makes selectable.
    pub(crate) async fn renew_registry(&self) {
        let before = self.registry();
        self.refresh_registry();
        let now = self.registry();
        for resource in now.stored() {
            if now.selectable(&resource.storage) != before.selectable(&resource.storage) {
                self.store().reindex(&resource.storage).await;
            }
        }
    }

    /// Finds the stored objects of users' kinds by their selectable fields: when the store was opened, nobody knew them.
    pub(crate) async fn index_custom(&self) {
        let registry = self.registry();
        let custom = registry.stored().filter(|resource| resource.is_custom());
        for resource in custom.filter(|resource| !registry.selectable(&resource.storage).is_empty()) {
            self.store().reindex(&resource.storage).await;
        }
    }

    /// Reads all roles and bindings anew.
    pub fn refresh_policy(&self) {
        let _turn = self.inner.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut policy = Policy::default();
        for plural in ["clusterroles", "roles", "clusterrolebindings", "rolebindings"] {
            for object in self.objects(&format!("{RBAC}{plural}")) {
                policy.learn(plural, object.namespace(), object.name(), Some(&object));
            }
        }
        *self.inner.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Reads one role or binding anew. The answer is whether that may change cluster roles that are made of others.
    ///
    /// The cost is that of the one object, unless somebody asks the old state at this very moment.
    pub fn refresh_policy_of(&self, key: &Key) -> bool {
        let _turn = self.inner.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(plural) = key.resource.strip_prefix(RBAC) else { return false };
        let object = self.store().get(key).map(|record| decode(&record));
        let mut policy = self.inner.policy.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut policy).learn(plural, &key.namespace, &key.name, object.as_ref())
    }

    /// Reads admission policies and their bindings anew.
    pub fn refresh_admission(&self) {
        let _turn = self.inner.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = |plural: &str| self.objects(&format!("{}/{plural}", admission::GROUP));
        let (policies, bindings) =
            (objects("validatingadmissionpolicies"), objects("validatingadmissionpolicybindings"));
        let admission = Arc::new(Policies::read(&policies, &bindings, &self.admission()));
        *self.inner.admission.write().unwrap_or_else(PoisonError::into_inner) = admission;
    }

    fn objects(&self, resource: &str) -> Vec<Object> {
        self.store().list(resource, None).records.iter().map(|record| decode(record)).collect()
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// What is served at the moment.
    pub fn registry(&self) -> Arc<Registry> {
        read(&self.inner.registry)
    }

    /// Who may do what at the moment.
    pub fn policy(&self) -> Arc<Policy> {
        read(&self.inner.policy)
    }

    /// The admission policies of the moment.
    pub(crate) fn admission(&self) -> Arc<Policies> {
        read(&self.inner.admission)
    }

    /// Tokens that do not change.
    pub fn static_tokens(&self) -> &StaticTokens {
        &self.inner.tokens
    }

    /// The key that signs tokens of service accounts.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Who keeps the objects in order; none before the first time, and while it is at work.
    pub(crate) fn keeper(&self) -> &tokio::sync::Mutex<Option<Keeper>> {
        &self.inner.keeper
    }

    /// Whose turn it is to bring definitions into order.
    pub(crate) fn settling(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.settling
    }

    /// Ends all watches, in order, now and from now on: a server that stops does not wait for them.
    pub fn end_watches(&self) {
        self.inner.ending.send_replace(true);
    }

    /// Waits until watches are to end.
    pub(crate) async fn ended(&self) {
        // There is always a sender: the server itself.
        let _ = self.inner.ending.subscribe().wait_for(|is_ending| *is_ending).await;
    }

    /// Time and chance.
    pub fn world(&self) -> &dyn World {
        &*self.inner.world
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("revision", &self.store().revision()).finish_non_exhaustive()
    }
}

fn is_established(definition: &Object) -> bool {
    let conditions = definition.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Established")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    })
}

/// The value behind a lock. A writer only ever replaces the whole, so one that panicked left nothing half done.
fn read<T>(lock: &RwLock<Arc<T>>) -> Arc<T> {
    lock.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Where the store keeps an object.
pub fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
    Key::new(resource.storage.clone(), namespace, name)
}

/// The stored object behind a record, in the version in which it is stored.
pub fn decode(record: &Record) -> Object {
    // What the store holds was written by this server.
    serde_json::from_slice(&record.body()).unwrap_or_default()
}

/// Labels and selectable fields of every object that is stored.
fn indexer(registry: Arc<RwLock<Arc<Registry>>>) -> Indexer {
    Arc::new(move |key: &Key, bytes: &[u8]| {
        let Ok(object) = serde_json::from_slice::<Object>(bytes) else { return Tags::default() };
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        let registry = read(&registry);
        let mut fields: Vec<(String, String)> = Vec::new();
        for resource in registry.sharing(&key.resource) {
            let labels = resource.selectable_labels().into_iter();
            fields.extend(labels.filter_map(|label| Some((label.to_owned(), resource.selectable(&object, label)?))));
        }
        Tags::new(labels, fields.iter().map(|(label, value)| (label.as_str(), value.as_str())))
    })
}
