//! [`BootstrapFolder`]: the source of answers before there is a cluster, for the first machines of its control plane.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seaworthy_api::lossless;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{ARBITER, CONTROLLER_CONFIG, MASTER};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::warn;

use crate::answers::{AnswerStore, Answers, PoolAnswers};
use crate::servable_config::{Additions, Authorities, ServableConfig};
use crate::stub::is_pool_name;

/// The pools that are served: machines of others wait for the cluster.
///
/// Differs: for other pools upstream answers 500, and this endpoint 404.
const POOLS: [&str; 2] = [MASTER, ARBITER];
/// How often the folder is read.
const READ_INTERVAL: Duration = Duration::from_secs(5);
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The folder with the manifests, and further files.
#[derive(Clone, Debug)]
pub struct BootstrapFolder {
    /// The folder with `machine-pools`, `machine-configs` and `controller-config`.
    pub base: PathBuf,
    /// The kubeconfig for new machines.
    pub kubeconfig: PathBuf,
    /// Image registries by host, with the CA file of each.
    pub registries: Vec<(String, PathBuf)>,
}

/// Why nothing can be served from a folder.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {cause}", path.display())]
    File { path: PathBuf, cause: std::io::Error },
    /// The name of a registry, which becomes part of a path, is not valid.
    #[error("{found:?} is not a registry; expected host or host:port")]
    Registry { found: String },
}

/// The files of one pool.
#[derive(Debug, Hash)]
struct PoolFiles {
    pool: ManifestFile,
    /// `None` if the pool does not name it.
    config: Option<ManifestFile>,
    controller: ManifestFile,
    kubeconfig: String,
    registries: Vec<(String, Vec<u8>)>,
}

/// A file, with its text if it exists.
#[derive(Debug, Hash)]
struct ManifestFile {
    path: PathBuf,
    text: Option<String>,
}

/// Why a pool cannot be served.
enum ServeFailure {
    /// A file does not exist.
    Missing(String),
    /// A file cannot be served.
    Invalid(String),
}

impl BootstrapFolder {
    /// Checks what must exist from the start.
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

    /// Reads the folder, and builds the answers of every pool.
    pub fn read(&self) -> Result<PoolAnswers, BootstrapError> {
        Ok(pool_answers(&self.pool_files()?))
    }

    /// Keeps the answers up to date for as long as it is polled.
    pub async fn run(self, answers: Arc<AnswerStore>) {
        let mut ticks = tokio::time::interval(READ_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last_fingerprint = None;
        loop {
            ticks.tick().await;
            let (folder, last) = (self.clone(), last_fingerprint);
            let read = move || {
                let files = folder.pool_files()?;
                let fingerprint = fingerprint(&files);
                let changed = (last != Some(fingerprint)).then(|| pool_answers(&files));
                Ok::<_, BootstrapError>((fingerprint, changed))
            };
            let read = tokio::task::spawn_blocking(read).await;
            answers.record_attempt(matches!(read, Ok(Ok(_))));
            match read {
                Ok(Ok((fingerprint, changed))) => {
                    last_fingerprint = Some(fingerprint);
                    if let Some(pools) = changed {
                        self.log_unserved(&pools);
                        answers.publish(pools);
                    }
                }
                Ok(Err(error)) => warn!(%error, "cannot read the bootstrap folder; serving the previous configs"),
                Err(error) => warn!(%error, "reading the bootstrap folder failed; serving the previous configs"),
            }
        }
    }

    /// Logs which pools are not served when the folder is read, and not only when machines ask.
    fn log_unserved(&self, pools: &PoolAnswers) {
        if pools.is_empty() {
            let files = POOLS.map(|name| format!("machine-pools/{name}.yaml")).join(" or ");
            warn!("{}: there is no {files}; no pool is served", self.base.display());
        }
        for (pool, answers) in pools {
            if let Some(reason) = answers.refusal() {
                warn!(pool, reason, "machines of this pool are not served");
            }
        }
    }

    fn pool_files(&self) -> Result<BTreeMap<String, PoolFiles>, BootstrapError> {
        let (kubeconfig, registries) = self.kubeconfig_and_registries()?;
        let mut all = BTreeMap::new();
        for name in POOLS {
            let read =
                |folder: &str, name: &str| ManifestFile::read(self.base.join(folder).join(format!("{name}.yaml")));
            let pool = read("machine-pools", name)?;
            if pool.text.is_none() {
                continue;
            }
            let config = match config_name(&pool) {
                Ok(config) => Some(read("machine-configs", &config)?),
                // Reported by `PoolFiles::answers`.
                Err(_) => None,
            };
            let controller = read("controller-config", CONTROLLER_CONFIG)?;
            let (kubeconfig, registries) = (kubeconfig.clone(), registries.clone());
            all.insert(name.to_owned(), PoolFiles { pool, config, controller, kubeconfig, registries });
        }
        Ok(all)
    }

    #[allow(clippy::type_complexity, reason = "two values that are read together and used separately")]
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

/// A hash of all files, to detect changes without keeping a second copy of their texts.
fn fingerprint(all: &BTreeMap<String, PoolFiles>) -> u64 {
    let mut hasher = DefaultHasher::new();
    all.hash(&mut hasher);
    hasher.finish()
}

fn pool_answers(all: &BTreeMap<String, PoolFiles>) -> PoolAnswers {
    all.iter().map(|(pool, files)| (pool.clone(), Arc::new(files.answers()))).collect()
}

impl PoolFiles {
    fn answers(&self) -> Answers {
        match self.servable_config() {
            Ok(config) => Answers::of_config(&config),
            Err(ServeFailure::Missing(reason)) => Answers::missing(&reason),
            Err(ServeFailure::Invalid(reason)) => Answers::refused(&reason),
        }
    }

    fn servable_config(&self) -> Result<ServableConfig, ServeFailure> {
        let name = config_name(&self.pool)?;
        let missing = || ServeFailure::Missing(format!("there is no MachineConfig {name}"));
        let config: MachineConfig = self.config.as_ref().ok_or_else(missing)?.parsed("MachineConfig")?;
        let controller: ControllerConfig = match self.controller.parsed("ControllerConfig") {
            // Pool and MachineConfig exist: it is the server that is incomplete, and not the request that is wrong.
            Err(ServeFailure::Missing(reason)) => return Err(ServeFailure::Invalid(reason)),
            controller => controller?,
        };
        let authorities = Authorities::of(&controller).map_err(|error| ServeFailure::Invalid(error.to_string()))?;
        let additions =
            Additions { authorities, kubeconfig: self.kubeconfig.clone(), registries: self.registries.clone() };
        ServableConfig::new(&config, additions).map_err(|error| ServeFailure::Invalid(error.to_string()))
    }
}

/// The name of a pool's MachineConfig, which is also the name of a file.
fn config_name(file: &ManifestFile) -> Result<String, ServeFailure> {
    let invalid = |why: String| ServeFailure::Invalid(format!("{}: {why}", file.path.display()));
    let pool: MachineConfigPool = file.parsed("MachineConfigPool")?;
    let name = pool.status.and_then(|status| status.configuration).and_then(|configuration| configuration.name);
    let name = name.ok_or_else(|| invalid("the pool has no status.configuration.name".to_owned()))?;
    if is_pool_name(&name) {
        Ok(name)
    } else {
        Err(invalid(format!("status.configuration.name {name:?} is not a valid name")))
    }
}

impl ManifestFile {
    fn read(path: PathBuf) -> Result<ManifestFile, BootstrapError> {
        let text = text(&path)?;
        Ok(ManifestFile { path, text })
    }

    fn parsed<T: DeserializeOwned>(&self, kind: &str) -> Result<T, ServeFailure> {
        let path = self.path.display();
        let text = self.text.as_deref().ok_or_else(|| ServeFailure::Missing(format!("{path}: there is no {kind}")))?;
        let invalid = |error: &dyn std::fmt::Display| {
            ServeFailure::Invalid(format!("{path}: the {kind} cannot be read: {error}"))
        };
        // A generated file is mostly JSON, which is parsed faster as such.
        match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| invalid(&error)),
            false => {
                let value: Value =
                    serde_saphyr::from_str_with_options(text, yaml(text.len())).map_err(|error| invalid(&error))?;
                lossless::read(&value).map_err(|error| invalid(&error))
            }
        }
    }
}

/// YAML as kubectl reads it, with a budget for as much as a text of this size can contain without aliases.
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
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => return Err(failed(ErrorKind::FileTooLarge.into())),
        Ok(_) => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(failed)
}
