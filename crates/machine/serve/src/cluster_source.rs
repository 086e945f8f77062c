//! [`ClusterSource`]: the source of answers from an API server. They are built again when a pool, its MachineConfig or the
//! ControllerConfig changes, and only then.
//!
//! Only the metadata of MachineConfigs is watched. A cluster has many that are not needed here, such as old rendered ones,
//! each as large as an answer: the few that pools give to new machines are read when they are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, select_all};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, PoolEvent};
use seaworthy_change::{Event, ObjectRef};
use seaworthy_runtime::{Cache, Events, Key, Leadership, client_error};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::access::{SECRET_NAMESPACE, SECRET_TYPE};
use crate::answers::{AnswerStore, Answers, PoolAnswers};
use crate::first_boot_config::config_name;
use crate::kubeconfig::{Kubeconfig, TokenFolderError};
use crate::servable_config::{Additions, Authorities, ServableConfig};

/// The ConfigMap with the newest CA of the API server, and its key there.
const CA_CONFIG_MAP: (&str, &str) = ("kubeconfig-data", "ca-bundle.crt");
/// How often files are read: tokens are rotated every few hours.
const FILE_INTERVAL: Duration = Duration::from_secs(10);
/// How long to wait before a MachineConfig that could not be read is read again.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long reading one may take: meanwhile no other answer is updated.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Inputs that are not in the cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The URL of the API server for new machines.
    pub apiserver_url: String,
    /// The folder with the token for new machines, `token`, and with `ca.crt`.
    pub token_folder: PathBuf,
    /// The namespace with the ConfigMap `kubeconfig-data`, if there is one.
    pub namespace: String,
}

/// The caches of the cluster's objects.
pub struct ClusterSource {
    options: ClusterOptions,
    pools: Arc<Cache<MachineConfigPool>>,
    configs: Arc<Cache<PartialObjectMeta<MachineConfig>>>,
    controller_configs: Arc<Cache<ControllerConfig>>,
    config_maps: Arc<Cache<ConfigMap>>,
    secrets: Arc<Cache<Secret>>,
    changed: Arc<Notify>,
    kubeconfig: Mutex<LastKubeconfig>,
}

/// The kubeconfig when the token folder could last be read.
#[derive(Default)]
struct LastKubeconfig {
    kubeconfig: Option<Kubeconfig>,
    /// Whether the folder cannot be read any more.
    is_stale: bool,
}

/// A MachineConfig as it was when its metadata had this resource version, or why there is none.
struct CachedConfig {
    resource_version: Option<String>,
    config: Result<Arc<MachineConfig>, Unavailable>,
}

/// The MachineConfigs that pools give to new machines, by name.
type ConfigCache = BTreeMap<String, CachedConfig>;

/// The inputs of one pool's answers.
struct AnswerInputs {
    config: Arc<MachineConfig>,
    additions: Additions,
}

/// One pool's answers. A refusal has no inputs: it costs nothing to build it again.
struct CachedAnswers {
    inputs: Option<AnswerInputs>,
    answers: Arc<Answers>,
}

/// The answers by pool.
type AnswerCache = BTreeMap<String, CachedAnswers>;

/// A pool that cannot be served, and could before or is new.
struct RefusedPool {
    pool: String,
    refusal: String,
    /// Whether the reason is its config itself, which does not pass by itself.
    is_final: bool,
}

impl ClusterSource {
    /// A source with empty caches.
    pub fn new(options: ClusterOptions) -> Arc<ClusterSource> {
        let source = ClusterSource {
            options,
            pools: Arc::default(),
            configs: Arc::default(),
            controller_configs: Arc::default(),
            config_maps: Arc::default(),
            secrets: Arc::default(),
            changed: Arc::default(),
            kubeconfig: Mutex::default(),
        };
        notify_on_change(&source.pools, &source.changed);
        notify_on_change(&source.configs, &source.changed);
        notify_on_change(&source.controller_configs, &source.changed);
        notify_on_change(&source.config_maps, &source.changed);
        Arc::new(source)
    }

    /// The cache of bootstrap tokens.
    pub fn secrets(&self) -> Arc<Cache<Secret>> {
        Arc::clone(&self.secrets)
    }

    /// Keeps the answers up to date for as long as it is polled. Nothing is published before all caches are synced.
    pub async fn run(self: Arc<Self>, client: Client, answers: Arc<AnswerStore>) {
        let client = with_attempts_recorded(client, Arc::clone(&answers));
        let events = Events::new(client.clone(), "seaworthy-server", Leadership::always());
        let watches = select_all(self.watches(&client));
        tokio::select! {
            _ = watches => {}
            () = self.update(&client, &answers, &events) => {}
        }
    }

    fn watches(&self, client: &Client) -> Vec<BoxFuture<'static, ()>> {
        let everything = watcher::Config::default;
        let secrets = Api::namespaced(client.clone(), SECRET_NAMESPACE);
        let maps = Api::namespaced(client.clone(), &self.options.namespace);
        vec![
            follow(&self.pools, Api::all(client.clone()), everything()),
            follow_metadata(&self.configs, Api::all(client.clone())),
            follow(&self.controller_configs, Api::all(client.clone()), everything()),
            follow(&self.config_maps, maps, everything().fields(&format!("metadata.name={}", CA_CONFIG_MAP.0))),
            follow(&self.secrets, secrets, everything().fields(&format!("type={SECRET_TYPE}"))),
        ]
    }

    async fn update(self: &Arc<Self>, client: &Client, answers: &AnswerStore, events: &Events) {
        self.pools.synced().await;
        self.configs.synced().await;
        self.controller_configs.synced().await;
        self.config_maps.synced().await;
        self.secrets.synced().await;
        let mut ticks = tokio::time::interval(FILE_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut cached, mut configs, mut emitting) = (AnswerCache::new(), ConfigCache::new(), JoinSet::new());
        loop {
            let is_incomplete = configs.values().any(|cached| matches!(cached.config, Err(Unavailable::Temporary(_))));
            // The first tick is at once.
            tokio::select! {
                () = self.changed.notified() => {}
                _ = ticks.tick() => {}
                () = tokio::time::sleep(RETRY_DELAY), if is_incomplete => {}
            }
            // Both use the same list of pools: a pool that changes meanwhile may have no config in the cache yet.
            let pools = self.pools.all();
            self.load_configs(client, &pools, &mut configs).await;
            let source = Arc::clone(self);
            let building = tokio::task::spawn_blocking(move || (source.build(&pools, cached, &configs), configs)).await;
            let Ok(((next, refusals), read)) = building else {
                warn!("building the answers failed; serving the previous ones");
                (cached, configs) = (AnswerCache::new(), ConfigCache::new());
                continue;
            };
            (cached, configs) = (next, read);
            while emitting.try_join_next().is_some() {}
            let current = cached.iter().map(|(pool, cached)| (pool.clone(), Arc::clone(&cached.answers)));
            answers.publish(current.collect::<PoolAnswers>());
            for RefusedPool { pool: name, refusal, is_final } in refusals {
                let Some(pool) = self.pools.named(&name).filter(|_| is_final) else {
                    warn!(pool = name, refusal, "the pool cannot be served");
                    continue;
                };
                // A slow API server must not delay the answers. `emit` logs the event, too.
                let (events, reason) = (events.clone(), PoolEvent::ConfigNotServed.as_str());
                let event = Event { is_warning: true, reason, message: refusal, related: None };
                emitting.spawn(async move { events.emit(&ObjectRef::of(&*pool), &event).await });
            }
        }
    }

    /// Reads the MachineConfigs for new machines that are not cached or have changed, and drops the others.
    async fn load_configs(&self, client: &Client, pools: &[Arc<MachineConfigPool>], configs: &mut ConfigCache) {
        let api: Api<MachineConfig> = Api::all(client.clone());
        let wanted: BTreeSet<&str> = pools.iter().filter_map(|pool| config_name(pool)).collect();
        configs.retain(|name, _| wanted.contains(name.as_str()));
        for name in wanted {
            let metadata = self.configs.named(name);
            let resource_version = metadata.as_ref().and_then(|metadata| metadata.resource_version());
            let before = configs.get(name);
            // Without metadata it is deleted, or the watch is behind: only a read shows which.
            let is_current =
                metadata.is_some() && before.is_some_and(|cached| cached.resource_version == resource_version);
            if is_current && before.is_some_and(|cached| cached.config.is_ok()) {
                continue;
            }
            let config = read(&api, name).await;
            let old = before.map(|cached| &cached.config);
            match (&config, old) {
                // The same object, so that its answers stay valid.
                (Ok(config), Some(Ok(old))) if config.resource_version() == old.resource_version() => {
                    let config = Ok(Arc::clone(old));
                    configs.insert(name.to_owned(), CachedConfig { resource_version, config });
                    continue;
                }
                (Err(Unavailable::Temporary(error)), old) if !matches!(old, Some(Err(old)) if old.reason() == error) => {
                    warn!(name, error, "cannot read a MachineConfig; retrying");
                }
                _ => {}
            }
            configs.insert(name.to_owned(), CachedConfig { resource_version, config });
        }
    }

    /// Builds the answers of every pool, keeps those whose inputs are the same, and returns the pools that are refused now.
    fn build(
        &self,
        pools: &[Arc<MachineConfigPool>],
        mut former: AnswerCache,
        configs: &ConfigCache,
    ) -> (AnswerCache, Vec<RefusedPool>) {
        let additions = self.additions();
        let mut refusals = Vec::new();
        let mut all = AnswerCache::new();
        for pool in pools {
            let name = pool.name_any();
            let before = former.remove(&name);
            let (new, old) = match self.inputs(pool, configs, &additions) {
                // A config that cannot be read at the moment does not stop serving the previous one.
                Err(Unavailable::Temporary(_)) if before.as_ref().is_some_and(|before| before.inputs.is_some()) => {
                    all.extend(before.map(|before| (name, before)));
                    continue;
                }
                Err(Unavailable::Temporary(reason) | Unavailable::Permanent(reason)) => {
                    (CachedAnswers { inputs: None, answers: Arc::new(Answers::refused(&reason)) }, before)
                }
                Ok(inputs) => match before {
                    Some(before) if before.inputs.as_ref().is_some_and(|it| it.is_same(&inputs)) => {
                        all.insert(name, before);
                        continue;
                    }
                    before => (CachedAnswers::of(inputs), before),
                },
            };
            if let Some(refusal) = new.answers.refusal()
                && old.as_ref().and_then(|old| old.answers.refusal()) != Some(refusal)
            {
                let (pool, refusal) = (name.clone(), refusal.to_owned());
                refusals.push(RefusedPool { pool, refusal, is_final: new.inputs.is_some() });
            }
            all.insert(name, new);
        }
        (all, refusals)
    }

    fn inputs(
        &self,
        pool: &MachineConfigPool,
        configs: &ConfigCache,
        additions: &Result<Additions, String>,
    ) -> Result<AnswerInputs, Unavailable> {
        let permanent = |reason: String| Unavailable::Permanent(reason);
        let name = config_name(pool).ok_or_else(|| permanent("the pool has no configuration yet".to_owned()))?;
        let none = || permanent(format!("there is no MachineConfig {name}"));
        let unread = || Unavailable::Temporary(format!("MachineConfig {name} has not been read yet"));
        let config = match &configs.get(name).ok_or_else(unread)?.config {
            Ok(config) => Arc::clone(config),
            Err(Unavailable::Permanent(_)) => return Err(none()),
            Err(Unavailable::Temporary(error)) => {
                return Err(Unavailable::Temporary(format!("MachineConfig {name} cannot be read: {error}")));
            }
        };
        Ok(AnswerInputs { config, additions: additions.clone().map_err(permanent)? })
    }

    fn additions(&self) -> Result<Additions, String> {
        let config = self.controller_configs.named(CONTROLLER_CONFIG);
        let config = config.ok_or_else(|| format!("there is no ControllerConfig {CONTROLLER_CONFIG}"))?;
        let authorities = Authorities::of(&config).map_err(|refusal| refusal.to_string())?;
        let key = Key { namespace: self.options.namespace.clone(), name: CA_CONFIG_MAP.0.to_owned() };
        let map = self.config_maps.get(&key);
        let newest = map.as_ref().and_then(|map| {
            let binary =
                map.binary_data.as_ref().and_then(|data| data.get(CA_CONFIG_MAP.1)).map(|bytes| bytes.0.as_slice());
            binary.or_else(|| map.data.as_ref()?.get(CA_CONFIG_MAP.1).map(String::as_bytes))
        });
        let kubeconfig = self.kubeconfig(newest).map_err(|error| error.to_string())?;
        Ok(Additions { authorities, kubeconfig: kubeconfig.text(), registries: Vec::new() })
    }

    /// The kubeconfig of new machines. While its folder cannot be read, the last one stays in use.
    fn kubeconfig(&self, newest: Option<&[u8]>) -> Result<Kubeconfig, TokenFolderError> {
        let ClusterOptions { apiserver_url, token_folder, .. } = &self.options;
        let mut kept = self.kubeconfig.lock().unwrap_or_else(PoisonError::into_inner);
        match (Kubeconfig::of_folder(token_folder, apiserver_url, newest), &mut kept.kubeconfig) {
            (Ok(kubeconfig), before) => {
                *before = Some(kubeconfig.clone());
                if std::mem::take(&mut kept.is_stale) {
                    info!("the bootstrap token for new machines is readable again");
                }
                Ok(kubeconfig)
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(before)) => {
                if let Some(authority) = newest {
                    before.authority = authority.to_vec();
                }
                let kubeconfig = before.clone();
                if !std::mem::replace(&mut kept.is_stale, true) {
                    warn!(%error, "cannot read the bootstrap token for new machines; serving the last one");
                }
                Ok(kubeconfig)
            }
        }
    }
}

/// Why a pool's MachineConfig is not available.
enum Unavailable {
    /// It may be available soon.
    Temporary(String),
    /// A user has to change the cluster.
    Permanent(String),
}

impl Unavailable {
    fn reason(&self) -> &str {
        let (Unavailable::Temporary(reason) | Unavailable::Permanent(reason)) = self;
        reason
    }
}

async fn read(api: &Api<MachineConfig>, name: &str) -> Result<Arc<MachineConfig>, Unavailable> {
    match tokio::time::timeout(READ_TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(Some(mut config))) => {
            config.metadata.managed_fields = None;
            Ok(Arc::new(config))
        }
        Ok(Ok(None)) => Err(Unavailable::Permanent("not found".to_owned())),
        Ok(Err(error)) => Err(Unavailable::Temporary(error.to_string())),
        Err(_) => Err(Unavailable::Temporary(format!("no answer within {} s", READ_TIMEOUT.as_secs()))),
    }
}

impl AnswerInputs {
    fn is_same(&self, other: &AnswerInputs) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.additions == other.additions
    }
}

impl CachedAnswers {
    fn of(inputs: AnswerInputs) -> CachedAnswers {
        let answers = match ServableConfig::new(&inputs.config, inputs.additions.clone()) {
            Ok(config) => Answers::of_config(&config),
            Err(error) => Answers::refused(&error.to_string()),
        };
        CachedAnswers { inputs: Some(inputs), answers: Arc::new(answers) }
    }
}

/// The same client, which records after each request whether there was an answer.
///
/// Requests are the only evidence: an idle watch looks the same as one that is about to fail.
fn with_attempts_recorded(client: Client, answers: Arc<AnswerStore>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, answers) = (client.clone(), Arc::clone(&answers));
        async move {
            let response = client.send(request).await;
            answers.record_attempt(response.as_ref().is_ok_and(|response| !response.status().is_server_error()));
            response
        }
    });
    Client::new(service, namespace)
}

fn notify_on_change<K: Resource>(cache: &Cache<K>, changed: &Arc<Notify>) {
    let changed = Arc::clone(changed);
    cache.listen(move |_| changed.notify_one());
}

fn follow_metadata(
    cache: &Arc<Cache<PartialObjectMeta<MachineConfig>>>,
    api: Api<PartialObjectMeta<MachineConfig>>,
) -> BoxFuture<'static, ()> {
    let cache = Arc::clone(cache);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let events = events.modify(|object| object.metadata.managed_fields = None);
    let follow = move |event| {
        match event {
            Ok(event) => cache.apply_event(event),
            Err(error) => {
                let error = client_error::watch_summary(&error);
                warn!(kind = "MachineConfig", error, "watch failed; retrying");
            }
        }
        std::future::ready(())
    };
    events.for_each(follow).boxed()
}

fn follow<K>(
    cache: &Arc<Cache<K>>,
    api: Api<seaworthy_runtime::WatchedObject<K>>,
    config: watcher::Config,
) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    Arc::clone(cache).run(api, config).boxed()
}
