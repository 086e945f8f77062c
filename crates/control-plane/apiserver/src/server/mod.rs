//! Server state: the store, the registry of served resources, access rules and admission policies.

mod revision_cache;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use seaworthy_store::{Change, CommitError, DataFolder, EventWindow, Indexer, Key, OpenError, Record, Store, Tags};
use serde_json::Value;
use tokio::task::JoinError;

use crate::access::AccessPolicy;
use crate::admission::{self, AdmissionPolicies};
use crate::authentication::{SigningKey, SigningKeyError, StaticTokens};
use crate::clock::ClockAndEntropy;
use crate::housekeeping::{DEFINITIONS, Reconciler};
use crate::object::{Metadata, Object};
use crate::resource::Resource;
use crate::resource::custom;
use crate::resource::registry::Registry;
use crate::server::revision_cache::RevisionCache;

/// Prefix of the storage of all RBAC kinds.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io/";

/// The server. A clone is a handle to the same one.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    registry: Arc<RwLock<Arc<Registry>>>,
    policy: RwLock<Arc<AccessPolicy>>,
    admission: RwLock<Arc<AdmissionPolicies>>,
    /// Each held while derived state is refreshed, so that the last refresh has the newest objects.
    definitions: Mutex<RevisionCache<Vec<Arc<Resource>>>>,
    refresh_lock: Mutex<()>,
    /// Held while the status of definitions is updated.
    definitions_lock: tokio::sync::Mutex<()>,
    clock: Arc<dyn ClockAndEntropy>,
    tokens: StaticTokens,
    signing_key: Arc<SigningKey>,
    reconciler: tokio::sync::Mutex<Option<Reconciler>>,
    ending: tokio::sync::watch::Sender<bool>,
}

/// Options of a server.
pub struct ServerOptions {
    pub storage: StorageLocation,
    pub clock: Arc<dyn ClockAndEntropy>,
    pub tokens: StaticTokens,
    pub signing_key: Arc<SigningKey>,
}

impl ServerOptions {
    /// A server in memory with a new signing key and without static tokens.
    pub fn in_memory(clock: Arc<dyn ClockAndEntropy>) -> Result<ServerOptions, SigningKeyError> {
        let signing_key = Arc::new(SigningKey::read(&SigningKey::generate()?)?);
        Ok(ServerOptions { storage: StorageLocation::Memory, clock, tokens: StaticTokens::default(), signing_key })
    }
}

/// Where the objects are stored.
#[derive(Debug)]
pub enum StorageLocation {
    /// In memory, until the server is dropped.
    Memory,
    /// In a folder that this process has locked.
    Folder(DataFolder),
}

impl Server {
    /// Opens the store and reads what is in it.
    pub fn open(options: ServerOptions) -> Result<Server, OpenError> {
        let ServerOptions { storage, clock, tokens, signing_key } = options;
        let registry = Arc::new(RwLock::new(Arc::new(Registry::with([]))));
        let indexer = indexer(registry.clone());
        let store = match storage {
            StorageLocation::Memory => Store::in_memory(indexer, EventWindow::default())?,
            StorageLocation::Folder(folder) => Store::open_in(folder, indexer, EventWindow::default())?,
        };
        let (policy, admission) = (RwLock::default(), RwLock::default());
        let (definitions, refresh_lock) = (Mutex::default(), Mutex::default());
        let (definitions_lock, reconciler) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        let ending = tokio::sync::watch::Sender::new(false);
        let inner = Inner {
            store,
            registry,
            policy,
            admission,
            definitions,
            refresh_lock,
            definitions_lock,
            clock,
            tokens,
            signing_key,
            reconciler,
            ending,
        };
        let server = Server { inner: Arc::new(inner) };
        server.refresh_registry();
        server.refresh_policy();
        server.refresh_admission();
        Ok(server)
    }

    /// Commits one change and applies its consequences.
    ///
    /// A caller may stop waiting, for example when its client disconnects. The change is committed all the same, so its
    /// consequences must follow too: otherwise a revoked right would remain in force.
    pub async fn commit(&self, change: Change) -> Result<Arc<Record>, CommitError> {
        let server = self.clone();
        let committing = async move {
            let key = change.key().clone();
            let committed = server.store().commit(vec![change]).await?;
            server.follow_up(&key).await;
            // One change has one record.
            Ok(committed.records[0].clone())
        };
        let done = tokio::spawn(committing).await;
        match done.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this task with it.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    /// Rebuilds the registry from the established definitions.
    pub fn refresh_registry(&self) {
        let mut known = self.inner.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        let definitions = self.store().list(DEFINITIONS, None).records;
        let before = self.registry();
        let custom = known.refresh(&definitions, |record| {
            let definition = decode(record);
            match is_established(&definition) {
                true => {
                    let version_set = before.version_set(&definition);
                    custom::resources(&definition, record.created_revision, record.revision, version_set)
                }
                false => Vec::new(),
            }
        });
        let registry = Arc::new(Registry::with(custom.into_iter().flatten()));
        *self.inner.registry.write().unwrap_or_else(PoisonError::into_inner) = registry;
    }

    /// Rebuilds the registry, and the index of kinds whose selectable fields changed.
    pub(crate) async fn refresh_registry_and_indexes(&self) {
        let before = self.registry();
        self.refresh_registry();
        let now = self.registry();
        for resource in now.stored() {
            if now.selectable(&resource.storage) != before.selectable(&resource.storage) {
                self.store().reindex(&resource.storage).await;
            }
        }
    }

    /// Indexes the stored custom resources by their selectable fields, which were unknown when the store was opened.
    pub(crate) async fn index_custom_resources(&self) {
        let registry = self.registry();
        let custom = registry.stored().filter(|resource| resource.is_custom());
        for resource in custom.filter(|resource| !registry.selectable(&resource.storage).is_empty()) {
            self.store().reindex(&resource.storage).await;
        }
    }

    /// Reloads all roles and bindings.
    pub fn refresh_policy(&self) {
        let _turn = self.inner.refresh_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut policy = AccessPolicy::default();
        for plural in ["clusterroles", "roles", "clusterrolebindings", "rolebindings"] {
            for object in self.objects(&format!("{RBAC}{plural}")) {
                policy.set(plural, object.namespace(), object.name(), Some(&object));
            }
        }
        *self.inner.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Reloads one role or binding. Returns whether that may change aggregated cluster roles.
    ///
    /// Costs as much as the one object, unless a request uses the old state at that moment.
    pub fn refresh_policy_of(&self, key: &Key) -> bool {
        let _turn = self.inner.refresh_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(plural) = key.resource.strip_prefix(RBAC) else { return false };
        let object = self.store().get(key).map(|record| decode(&record));
        let mut policy = self.inner.policy.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut policy).set(plural, &key.namespace, &key.name, object.as_ref())
    }

    /// Reloads admission policies and their bindings.
    pub fn refresh_admission(&self) {
        let _turn = self.inner.refresh_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = |plural: &str| self.objects(&format!("{}/{plural}", admission::GROUP));
        let (policies, bindings) =
            (objects("validatingadmissionpolicies"), objects("validatingadmissionpolicybindings"));
        let admission = Arc::new(AdmissionPolicies::read(&policies, &bindings, &self.admission()));
        *self.inner.admission.write().unwrap_or_else(PoisonError::into_inner) = admission;
    }

    fn objects(&self, resource: &str) -> Vec<Object> {
        self.store().list(resource, None).records.iter().map(|record| decode(record)).collect()
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The current registry.
    pub fn registry(&self) -> Arc<Registry> {
        read(&self.inner.registry)
    }

    /// The current access policy.
    pub fn policy(&self) -> Arc<AccessPolicy> {
        read(&self.inner.policy)
    }

    /// The current admission policies.
    pub(crate) fn admission(&self) -> Arc<AdmissionPolicies> {
        read(&self.inner.admission)
    }

    pub fn static_tokens(&self) -> &StaticTokens {
        &self.inner.tokens
    }

    pub fn signing_key(&self) -> &SigningKey {
        &self.inner.signing_key
    }

    /// The reconciler; none before the first pass and during one.
    pub(crate) fn reconciler(&self) -> &tokio::sync::Mutex<Option<Reconciler>> {
        &self.inner.reconciler
    }

    /// Serialises updates of the status of definitions.
    pub(crate) fn definitions_lock(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.definitions_lock
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

    pub fn clock(&self) -> &dyn ClockAndEntropy {
        &*self.inner.clock
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

/// The key of an object in the store.
pub fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
    Key::new(resource.storage.clone(), namespace, name)
}

/// The stored object behind a record, in the version in which it is stored.
pub fn decode(record: &Record) -> Object {
    // What the store holds was written by this server.
    serde_json::from_slice(&record.body()).unwrap_or_default()
}

/// Indexes labels and selectable fields of stored objects.
fn indexer(registry: Arc<RwLock<Arc<Registry>>>) -> Indexer {
    Arc::new(move |key: &Key, bytes: &[u8]| {
        let Ok(object) = serde_json::from_slice(bytes).map(Value::Object) else { return Tags::default() };
        let labels = object.metadata().get("labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        let registry = read(&registry);
        let mut fields: Vec<(String, String)> = Vec::new();
        for resource in registry.versions_in_storage(&key.resource) {
            let labels = resource.selectable_labels().into_iter();
            fields.extend(labels.filter_map(|label| Some((label.to_owned(), resource.selectable(&object, label)?))));
        }
        Tags::new(labels, fields.iter().map(|(label, value)| (label.as_str(), value.as_str())))
    })
}
