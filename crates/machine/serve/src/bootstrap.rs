//! Answers from a folder, before there is a cluster: for the first machines of its control plane.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{ARBITER, CONTROLLER_CONFIG, MASTER};
use serde::de::DeserializeOwned;
use tracing::warn;

use crate::answers::{Answers, Pools, Shelf};
use crate::content::{Additions, Authorities, Dish};
use crate::stub::is_pool_name;

/// The pools that are served: machines of others wait for the cluster.
///
/// Differs: to others upstream says that it has failed (500), here they are not found.
const POOLS: [&str; 2] = [MASTER, ARBITER];
/// How often the folder is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// No file is longer.
const LONGEST: u64 = 64 << 20;

/// Where everything lies.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The folder with `machine-pools`, `machine-configs` and `controller-config`.
    pub base: PathBuf,
    /// The kubeconfig for new machines.
    pub kubeconfig: PathBuf,
    /// Registries by host, with the file of who vouches for each.
    pub registries: Vec<(String, PathBuf)>,
}

/// Why nothing can be served from a folder.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// What stands for a registry cannot be a part of a path.
    #[error("{found:?} is no registry; accepted are a host, or a host and its port: host or host:port")]
    Registry {
        /// What was given.
        found: String,
    },
}

/// What the folder holds for one pool.
#[derive(Debug, Hash)]
struct Texts {
    pool: Part,
    /// Not looked for where the pool does not say which it is.
    config: Option<Part>,
    controller: Part,
    kubeconfig: String,
    registries: Vec<(String, Vec<u8>)>,
}

/// A file, and what is in it if it is there.
#[derive(Debug, Hash)]
struct Part {
    path: PathBuf,
    text: Option<String>,
}

/// Why there are no answers.
enum Lack {
    /// A file is not there.
    Missing(String),
    /// What is there cannot be served.
    Wrong(String),
}

impl Folder {
    /// Checks what must be there from the start.
    pub fn check(&self) -> Result<(), BootstrapError> {
        for (registry, _) in &self.registries {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
            if registry.is_empty() || !registry.bytes().all(is_plain) || registry.starts_with('.') {
                return Err(BootstrapError::Registry { found: registry.clone() });
            }
        }
        let folder = self.base.join("machine-pools");
        std::fs::read_dir(&folder).map_err(|cause| BootstrapError::File { path: folder, cause })?;
        self.kubeconfig_and_registries().map(|_| ())
    }

    /// The answers of every pool.
    pub fn read(&self) -> Result<Pools, BootstrapError> {
        Ok(pools(&self.texts()?))
    }

    /// Keeps the shelf true for as long as it is polled.
    pub async fn run(self, shelf: Arc<Shelf>) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            looks.tick().await;
            let (folder, former) = (self.clone(), before);
            let look = move || {
                let texts = folder.texts()?;
                let print = fingerprint(&texts);
                let fresh = (former != Some(print)).then(|| pools(&texts));
                Ok::<_, BootstrapError>((print, fresh))
            };
            let looked = tokio::task::spawn_blocking(look).await;
            shelf.tried(matches!(looked, Ok(Ok(_))));
            match looked {
                Ok(Ok((print, fresh))) => {
                    before = Some(print);
                    if let Some(pools) = fresh {
                        self.tell(&pools);
                        shelf.put(pools);
                    }
                }
                Ok(Err(error)) => warn!(%error, "what was served before still is"),
                Err(error) => warn!(%error, "reading the folder broke off"),
            }
        }
    }

    /// Says of what was read what machines will not get, when it is read: they ask at night.
    fn tell(&self, pools: &Pools) {
        if pools.is_empty() {
            let files = POOLS.map(|name| format!("machine-pools/{name}.yaml")).join(" or ");
            warn!("{}: there is no {files}, so nobody is served", self.base.display());
        }
        for (pool, answers) in pools {
            if let Some(reason) = answers.refusal() {
                warn!(pool, reason, "machines of this pool are not served");
            }
        }
    }

    fn texts(&self) -> Result<BTreeMap<String, Texts>, BootstrapError> {
        let (kubeconfig, registries) = self.kubeconfig_and_registries()?;
        let mut all = BTreeMap::new();
        for name in POOLS {
            let part = |folder: &str, name: &str| Part::read(self.base.join(folder).join(format!("{name}.yaml")));
            let pool = part("machine-pools", name)?;
            if pool.text.is_none() {
                continue;
            }
            let config = match config_name(&pool) {
                Ok(config) => Some(part("machine-configs", &config)?),
                // Said when it is asked for.
                Err(_) => None,
            };
            let controller = part("controller-config", CONTROLLER_CONFIG)?;
            let (kubeconfig, registries) = (kubeconfig.clone(), registries.clone());
            all.insert(name.to_owned(), Texts { pool, config, controller, kubeconfig, registries });
        }
        Ok(all)
    }

    #[allow(clippy::type_complexity, reason = "two things that are read together and go their own ways")]
    fn kubeconfig_and_registries(&self) -> Result<(String, Vec<(String, Vec<u8>)>), BootstrapError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| BootstrapError::File { path, cause }
        };
        let kubeconfig = std::fs::read_to_string(&self.kubeconfig).map_err(failed(&self.kubeconfig))?;
        let registries = self.registries.iter();
        let registries: Result<_, BootstrapError> =
            registries.map(|(name, path)| Ok((name.clone(), std::fs::read(path).map_err(failed(path))?))).collect();
        Ok((kubeconfig, registries?))
    }
}

/// Tells whether anything has changed: to keep the texts for that would be to have all of them twice.
fn fingerprint(all: &BTreeMap<String, Texts>) -> u64 {
    let mut hasher = DefaultHasher::new();
    all.hash(&mut hasher);
    hasher.finish()
}

fn pools(all: &BTreeMap<String, Texts>) -> Pools {
    all.iter().map(|(pool, texts)| (pool.clone(), Arc::new(texts.answers()))).collect()
}

impl Texts {
    fn answers(&self) -> Answers {
        match self.dish() {
            Ok(dish) => Answers::of_dish(&dish),
            Err(Lack::Missing(reason)) => Answers::missing(&reason),
            Err(Lack::Wrong(reason)) => Answers::refused(&reason),
        }
    }

    fn dish(&self) -> Result<Dish, Lack> {
        let name = config_name(&self.pool)?;
        let missing = || Lack::Missing(format!("there is no MachineConfig {name}"));
        let config: MachineConfig = self.config.as_ref().ok_or_else(missing)?.parsed("MachineConfig")?;
        let controller: ControllerConfig = match self.controller.parsed("ControllerConfig") {
            // The pool is there, and so is what it names: this is no matter of asking for something else.
            Err(Lack::Missing(reason)) => return Err(Lack::Wrong(reason)),
            controller => controller?,
        };
        let authorities = Authorities::of(&controller).map_err(|refusal| Lack::Wrong(refusal.to_string()))?;
        let additions =
            Additions { authorities, kubeconfig: self.kubeconfig.clone(), registries: self.registries.clone() };
        Dish::new(&config, additions).map_err(|refusal| Lack::Wrong(refusal.to_string()))
    }
}

/// The name of a pool's MachineConfig, which is the name of a file as well.
fn config_name(part: &Part) -> Result<String, Lack> {
    let wrong = |why: String| Lack::Wrong(format!("{}: {why}", part.path.display()));
    let pool: MachineConfigPool = part.parsed("MachineConfigPool")?;
    let name = pool.status.and_then(|status| status.configuration).and_then(|configuration| configuration.name);
    let name = name.ok_or_else(|| wrong("the pool has no status.configuration.name".to_owned()))?;
    if is_pool_name(&name) { Ok(name) } else { Err(wrong(format!("status.configuration.name {name:?} is no name"))) }
}

impl Part {
    fn read(path: PathBuf) -> Result<Part, BootstrapError> {
        let text = text(&path)?;
        Ok(Part { path, text })
    }

    fn parsed<T: DeserializeOwned>(&self, kind: &str) -> Result<T, Lack> {
        let path = self.path.display();
        let text = self.text.as_deref().ok_or_else(|| Lack::Missing(format!("{path}: there is no {kind}")))?;
        let said = |error: &dyn std::fmt::Display| Lack::Wrong(format!("{path}: the {kind} cannot be read: {error}"));
        // One that was generated is mostly JSON, which is read faster as such.
        match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| said(&error)),
            false => serde_saphyr::from_str_with_options(text, yaml(text.len())).map_err(|error| said(&error)),
        }
    }
}

/// YAML as kubectl reads it, with room for as much as a text of this size can say outright.
fn yaml(size: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_nodes: 250_000 + size / 4,
            max_events: 1_000_000 + size / 2,
            max_total_scalar_bytes: (64 << 20) + size,
        },
    }
}

fn text(path: &Path) -> Result<Option<String>, BootstrapError> {
    let failed = |cause| BootstrapError::File { path: path.to_owned(), cause };
    match std::fs::metadata(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
        Ok(metadata) if metadata.len() > LONGEST => return Err(failed(ErrorKind::FileTooLarge.into())),
        Ok(_) => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(failed)
}
