//! Answers from a cluster: made anew when a pool, its MachineConfig or the ControllerConfig changes, and only then.
//!
//! Of MachineConfigs only the metadata is followed. A cluster has many that are of no use here, old rendered ones among them,
//! each as large as an answer: the few that pools give to new machines are read when their turn comes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, select_all};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
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
use crate::answers::{Answers, Pools, Shelf};
use crate::choice::chosen;
use crate::content::{Additions, Authorities, Dish};
use crate::kubeconfig::{Kubeconfig, NoToken};

/// The ConfigMap that has the API server's newest authority, and its key there.
const AUTHORITY: (&str, &str) = ("kubeconfig-data", "ca-bundle.crt");
/// How often files are looked at: tokens are exchanged every few hours.
const LOOK: Duration = Duration::from_secs(10);
/// After which time a MachineConfig that could not be read is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long reading one may take: meanwhile nothing else becomes new.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is not in the cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where new machines find the API server.
    pub apiserver_url: String,
    /// The folder with the token for new machines, `token`, and with `ca.crt`.
    pub token_folder: PathBuf,
    /// The namespace with the ConfigMap `kubeconfig-data`, if there is one.
    pub namespace: String,
}

/// Why there is no way to the cluster.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach the cluster: {0}; name a kubeconfig with --kubeconfig")]
pub struct ConnectError(String);

/// A client for the cluster of a kubeconfig, or of the one that the environment speaks of.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let config = match kubeconfig {
        None => kube::Config::infer().await.map_err(|error| ConnectError(error.to_string())),
        Some(path) => {
            let read = ClientConfig::read_from(path).map_err(|error| ConnectError(error.to_string()))?;
            let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            config.map_err(|error| ConnectError(error.to_string()))
        }
    };
    Client::try_from(config?).map_err(|error| ConnectError(error.to_string()))
}

/// What is known of the cluster.
pub struct Cluster {
    settings: Settings,
    pools: Arc<Cache<MachineConfigPool>>,
    configs: Arc<Cache<PartialObjectMeta<MachineConfig>>>,
    controller_configs: Arc<Cache<ControllerConfig>>,
    config_maps: Arc<Cache<ConfigMap>>,
    secrets: Arc<Cache<Secret>>,
    changed: Arc<Notify>,
    kubeconfig: Mutex<Kept>,
}

/// What the folder of the token held when it could last be read.
#[derive(Default)]
struct Kept {
    kubeconfig: Option<Kubeconfig>,
    /// Whether it cannot be read any more.
    is_old: bool,
}

/// A MachineConfig as it was when its metadata had this revision, or why there is none.
struct Held {
    revision: Option<String>,
    config: Result<Arc<MachineConfig>, Lack>,
}

/// The MachineConfigs that pools give to new machines, by name.
type Larder = BTreeMap<String, Held>;

/// What one pool's answers were made of.
struct Recipe {
    config: Arc<MachineConfig>,
    additions: Additions,
}

/// One pool's answers. A refusal has no recipe: it costs nothing to make it again.
struct Made {
    recipe: Option<Recipe>,
    answers: Arc<Answers>,
}

type All = BTreeMap<String, Made>;

/// A pool that cannot be served since now.
struct Refused {
    pool: String,
    refusal: String,
    /// Whether its config itself is why: that does not pass.
    is_final: bool,
}

impl Cluster {
    /// A cluster of which nothing is known yet.
    pub fn new(settings: Settings) -> Arc<Cluster> {
        let cluster = Cluster {
            settings,
            pools: Arc::default(),
            configs: Arc::default(),
            controller_configs: Arc::default(),
            config_maps: Arc::default(),
            secrets: Arc::default(),
            changed: Arc::default(),
            kubeconfig: Mutex::default(),
        };
        tell(&cluster.pools, &cluster.changed);
        tell(&cluster.configs, &cluster.changed);
        tell(&cluster.controller_configs, &cluster.changed);
        tell(&cluster.config_maps, &cluster.changed);
        Arc::new(cluster)
    }

    /// The cluster's bootstrap tokens.
    pub fn secrets(&self) -> Arc<Cache<Secret>> {
        Arc::clone(&self.secrets)
    }

    /// Keeps the shelf true for as long as it is polled. Nothing is put there before everything is known.
    pub async fn run(self: Arc<Self>, client: Client, shelf: Arc<Shelf>) {
        let client = noted(client, Arc::clone(&shelf));
        let events = Events::new(client.clone(), "seaworthy-server", Leadership::alone());
        let watches = select_all(self.watches(&client));
        tokio::select! {
            _ = watches => {}
            () = self.fill(&client, &shelf, &events) => {}
        }
    }

    fn watches(&self, client: &Client) -> Vec<BoxFuture<'static, ()>> {
        let everything = watcher::Config::default;
        let secrets = Api::namespaced(client.clone(), SECRET_NAMESPACE);
        let maps = Api::namespaced(client.clone(), &self.settings.namespace);
        vec![
            follow(&self.pools, Api::all(client.clone()), everything()),
            follow_metadata(&self.configs, Api::all(client.clone())),
            follow(&self.controller_configs, Api::all(client.clone()), everything()),
            follow(&self.config_maps, maps, everything().fields(&format!("metadata.name={}", AUTHORITY.0))),
            follow(&self.secrets, secrets, everything().fields(&format!("type={SECRET_TYPE}"))),
        ]
    }

    async fn fill(self: &Arc<Self>, client: &Client, shelf: &Shelf, events: &Events) {
        self.pools.synced().await;
        self.configs.synced().await;
        self.controller_configs.synced().await;
        self.config_maps.synced().await;
        self.secrets.synced().await;
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut made, mut larder, mut tellings) = (All::new(), Larder::new(), JoinSet::new());
        loop {
            let is_short = larder.values().any(|held| matches!(held.config, Err(Lack::Passing(_))));
            // The first look is at once.
            tokio::select! {
                () = self.changed.notified() => {}
                _ = looks.tick() => {}
                () = tokio::time::sleep(RETRY), if is_short => {}
            }
            // Both look at the same pools: one that asks for something else meanwhile has nothing in the larder yet.
            let pools = self.pools.all();
            self.stock(client, &pools, &mut larder).await;
            let (cluster, stock) = (Arc::clone(self), larder);
            let making = tokio::task::spawn_blocking(move || (cluster.make(&pools, made, &stock), stock)).await;
            let Ok(((next, refusals), stock)) = making else {
                warn!("making answers broke off; what was served before still is");
                (made, larder) = (All::new(), Larder::new());
                continue;
            };
            (made, larder) = (next, stock);
            while tellings.try_join_next().is_some() {}
            shelf.put(made.iter().map(|(pool, made)| (pool.clone(), Arc::clone(&made.answers))).collect::<Pools>());
            for Refused { pool: name, refusal, is_final } in refusals {
                let Some(pool) = self.pools.named(&name).filter(|_| is_final) else {
                    warn!(pool = name, refusal, "nothing can be served");
                    continue;
                };
                // An API that takes its time must not hold up what machines get. Whoever tells it logs it, too.
                let (events, reason) = (events.clone(), PoolEvent::ConfigNotServed.as_str());
                let event = Event { is_warning: true, reason, message: refusal, related: None };
                tellings.spawn(async move { events.emit(&ObjectRef::of(&*pool), &event).await });
            }
        }
    }

    /// Reads what pools give to new machines and is not there yet, or has changed, and forgets the rest.
    async fn stock(&self, client: &Client, pools: &[Arc<MachineConfigPool>], larder: &mut Larder) {
        let api: Api<MachineConfig> = Api::all(client.clone());
        let wanted: BTreeSet<&str> = pools.iter().filter_map(|pool| chosen(pool)).collect();
        larder.retain(|name, _| wanted.contains(name.as_str()));
        for name in wanted {
            let metadata = self.configs.named(name);
            let revision = metadata.as_ref().and_then(|metadata| metadata.resource_version());
            let before = larder.get(name);
            // Without metadata it is gone, or the watch is behind: only who asks knows.
            let is_known = metadata.is_some() && before.is_some_and(|held| held.revision == revision);
            if is_known && before.is_some_and(|held| held.config.is_ok()) {
                continue;
            }
            let config = read(&api, name).await;
            let old = before.map(|held| &held.config);
            match (&config, old) {
                // What it was made into is as good as it was.
                (Ok(config), Some(Ok(old))) if config.resource_version() == old.resource_version() => {
                    let config = Ok(Arc::clone(old));
                    larder.insert(name.to_owned(), Held { revision, config });
                    continue;
                }
                (Err(Lack::Passing(error)), old) if !matches!(old, Some(Err(old)) if old.reason() == error) => {
                    warn!(name, error, "a MachineConfig cannot be read, and is tried again");
                }
                _ => {}
            }
            larder.insert(name.to_owned(), Held { revision, config });
        }
    }

    /// Makes the answers of every pool, keeping those that are as they were, and says which pools have none since now.
    fn make(&self, pools: &[Arc<MachineConfigPool>], mut former: All, larder: &Larder) -> (All, Vec<Refused>) {
        let additions = self.additions();
        let mut refusals = Vec::new();
        let mut all = All::new();
        for pool in pools {
            let name = pool.name_any();
            let before = former.remove(&name);
            let (made, old) = match self.recipe(pool, larder, &additions) {
                // What cannot be read at the moment is no reason to send machines away that could be served.
                Err(Lack::Passing(_)) if before.as_ref().is_some_and(|before| before.recipe.is_some()) => {
                    all.extend(before.map(|before| (name, before)));
                    continue;
                }
                Err(Lack::Passing(reason) | Lack::Lasting(reason)) => {
                    (Made { recipe: None, answers: Arc::new(Answers::refused(&reason)) }, before)
                }
                Ok(recipe) => match before {
                    Some(before) if before.recipe.as_ref().is_some_and(|it| it.is(&recipe)) => {
                        all.insert(name, before);
                        continue;
                    }
                    before => (Made::of(recipe), before),
                },
            };
            if let Some(refusal) = made.answers.refusal()
                && old.as_ref().and_then(|old| old.answers.refusal()) != Some(refusal)
            {
                let (pool, refusal) = (name.clone(), refusal.to_owned());
                refusals.push(Refused { pool, refusal, is_final: made.recipe.is_some() });
            }
            all.insert(name, made);
        }
        (all, refusals)
    }

    fn recipe(
        &self,
        pool: &MachineConfigPool,
        larder: &Larder,
        additions: &Result<Additions, String>,
    ) -> Result<Recipe, Lack> {
        let lasting = |reason: String| Lack::Lasting(reason);
        let name = chosen(pool).ok_or_else(|| lasting("the pool has no configuration yet".to_owned()))?;
        let none = || lasting(format!("there is no MachineConfig {name}"));
        let unread = || Lack::Passing(format!("MachineConfig {name} is not read yet"));
        let config = match &larder.get(name).ok_or_else(unread)?.config {
            Ok(config) => Arc::clone(config),
            Err(Lack::Lasting(_)) => return Err(none()),
            Err(Lack::Passing(error)) => {
                return Err(Lack::Passing(format!("MachineConfig {name} cannot be read: {error}")));
            }
        };
        Ok(Recipe { config, additions: additions.clone().map_err(lasting)? })
    }

    fn additions(&self) -> Result<Additions, String> {
        let config = self.controller_configs.named(CONTROLLER_CONFIG);
        let config = config.ok_or_else(|| format!("there is no ControllerConfig {CONTROLLER_CONFIG}"))?;
        let authorities = Authorities::of(&config).map_err(|refusal| refusal.to_string())?;
        let key = Key { namespace: self.settings.namespace.clone(), name: AUTHORITY.0.to_owned() };
        let map = self.config_maps.get(&key);
        let newest = map.as_ref().and_then(|map| {
            let binary =
                map.binary_data.as_ref().and_then(|data| data.get(AUTHORITY.1)).map(|bytes| bytes.0.as_slice());
            binary.or_else(|| map.data.as_ref()?.get(AUTHORITY.1).map(String::as_bytes))
        });
        let kubeconfig = self.kubeconfig(newest).map_err(|error| error.to_string())?;
        Ok(Additions { authorities, kubeconfig: kubeconfig.text(), registries: Vec::new() })
    }

    /// The kubeconfig of new machines. While its folder cannot be read, what was read last is as good as it was then.
    fn kubeconfig(&self, newest: Option<&[u8]>) -> Result<Kubeconfig, NoToken> {
        let Settings { apiserver_url, token_folder, .. } = &self.settings;
        let mut kept = self.kubeconfig.lock().unwrap_or_else(PoisonError::into_inner);
        match (Kubeconfig::of_folder(token_folder, apiserver_url, newest), &mut kept.kubeconfig) {
            (Ok(kubeconfig), before) => {
                *before = Some(kubeconfig.clone());
                if std::mem::take(&mut kept.is_old) {
                    info!("the token for new machines can be read again");
                }
                Ok(kubeconfig)
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(before)) => {
                if let Some(authority) = newest {
                    before.authority = authority.to_vec();
                }
                let kubeconfig = before.clone();
                if !std::mem::replace(&mut kept.is_old, true) {
                    warn!(%error, "new machines are given the token that was read last");
                }
                Ok(kubeconfig)
            }
        }
    }
}

/// Why there is nothing to make answers of.
enum Lack {
    /// It may be there in a moment.
    Passing(String),
    /// Somebody has to do something.
    Lasting(String),
}

impl Lack {
    fn reason(&self) -> &str {
        let (Lack::Passing(reason) | Lack::Lasting(reason)) = self;
        reason
    }
}

async fn read(api: &Api<MachineConfig>, name: &str) -> Result<Arc<MachineConfig>, Lack> {
    match tokio::time::timeout(PATIENCE, api.get_opt(name)).await {
        Ok(Ok(Some(mut config))) => {
            config.metadata.managed_fields = None;
            Ok(Arc::new(config))
        }
        Ok(Ok(None)) => Err(Lack::Lasting("there is none".to_owned())),
        Ok(Err(error)) => Err(Lack::Passing(error.to_string())),
        Err(_) => Err(Lack::Passing(format!("there was no answer within {} s", PATIENCE.as_secs()))),
    }
}

impl Recipe {
    fn is(&self, other: &Recipe) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.additions == other.additions
    }
}

impl Made {
    fn of(recipe: Recipe) -> Made {
        let answers = match Dish::new(&recipe.config, recipe.additions.clone()) {
            Ok(dish) => Answers::of_dish(&dish),
            Err(refusal) => Answers::refused(&refusal.to_string()),
        };
        Made { recipe: Some(recipe), answers: Arc::new(answers) }
    }
}

/// The same client, with the shelf told after each request whether there was an answer.
///
/// Only that shows it: a watch that is silent is the same as one that is about to break off.
fn noted(client: Client, shelf: Arc<Shelf>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, shelf) = (client.clone(), Arc::clone(&shelf));
        async move {
            let response = client.send(request).await;
            shelf.tried(response.as_ref().is_ok_and(|response| !response.status().is_server_error()));
            response
        }
    });
    Client::new(service, namespace)
}

fn tell<K: Resource>(cache: &Cache<K>, changed: &Arc<Notify>) {
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
            Ok(event) => cache.follow(event),
            Err(error) => {
                let error = client_error::watch_summary(&error);
                warn!(kind = "MachineConfig", error, "the watch broke off and is tried again");
            }
        }
        std::future::ready(())
    };
    events.for_each(follow).boxed()
}

fn follow<K>(
    cache: &Arc<Cache<K>>,
    api: Api<seaworthy_runtime::Checked<K>>,
    config: watcher::Config,
) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    Arc::clone(cache).run(api, config).boxed()
}
