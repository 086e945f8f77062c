//! ContainerRuntimeConfigs: settings of CRI-O and of its storage that become MachineConfigs.
//!
//! Each setting of CRI-O is a drop-in of its own, so of several objects for a pool the last one wins setting by setting.
//! `storage.conf` has no drop-ins and is written whole, upon what the pool's other MachineConfigs put there.

mod crio;
mod storage;
mod validate;

use std::sync::Arc;

use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, MachineConfig, MachineConfigPool, SettingsStatus};
use seaworthy_api::meta::LabelSelector;
use seaworthy_api::vocabulary::machineconfiguration::GeneratorReason;
use seaworthy_change::Change;

use crate::generated::GeneratedFile;
use crate::name::NameScheme;
use crate::pool_settings::{
    self, PoolSettings, Refusal, SettingsContent, SettingsDecision, SettingsInputs, SettingsKind,
};
use crate::source;

pub use crio::DROP_INS;
pub use storage::STORAGE_CONF;

/// How the MachineConfigs are called. The second form of older names is that of the source document.
pub const NAME_SCHEME: NameScheme =
    NameScheme { word: "containerruntime", noun: "ctrcfgs", legacy: &["containerruntime-managed"] };

const SETTINGS_KIND: SettingsKind = SettingsKind {
    scheme: NAME_SCHEME,
    no_pool: "could not find any MachineConfigPool set for ContainerRuntimeConfig ",
    no_name: "could not get ctrcfg key",
};

/// Whether further stores of layers, images and artifacts may be set: a runtime that does not know them refuses to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdditionalStores {
    /// They are written.
    Allowed,
    /// They are checked and not written.
    Ignored,
}

impl PoolSettings for ContainerRuntimeConfig {
    fn selector(&self) -> Option<&LabelSelector> {
        self.spec.machine_config_pool_selector.as_ref()
    }

    fn status(&self) -> Option<&SettingsStatus> {
        self.status.as_ref()
    }
}

/// Decides about one ContainerRuntimeConfig.
pub fn desired(inputs: &SettingsInputs<'_, ContainerRuntimeConfig>, stores: AdditionalStores) -> SettingsDecision {
    pool_settings::decide(&SETTINGS_KIND, inputs, content(inputs.object, inputs.pools, inputs.machine_configs, stores))
}

/// The MachineConfigs that objects left behind which are gone: to be deleted when no object is left to decide about.
pub fn orphans(
    all: &[Arc<ContainerRuntimeConfig>],
    pools: &[Arc<MachineConfigPool>],
    machine_configs: &[Arc<MachineConfig>],
    build: &str,
) -> Vec<Change> {
    pool_settings::orphans(&SETTINGS_KIND, all, pools, machine_configs, build)
}

/// The MachineConfigs for a cluster that does not exist yet. The objects get the annotation
/// [`MC_NAME_SUFFIX`](seaworthy_api::vocabulary::machineconfiguration::annotation::MC_NAME_SUFFIX) with an empty text.
pub fn bootstrap_machine_configs(
    all: &[Arc<ContainerRuntimeConfig>],
    pools: &[Arc<MachineConfigPool>],
    machine_configs: &[Arc<MachineConfig>],
    build: &str,
    stores: AdditionalStores,
) -> Result<Vec<MachineConfig>, Refusal> {
    let contents = all.iter().map(|object| Ok((object.as_ref(), content(object, pools, machine_configs, stores)?)));
    pool_settings::bootstrap_machine_configs(
        &SETTINGS_KIND,
        pools,
        build,
        &contents.collect::<Result<Vec<_>, Refusal>>()?,
    )
}

/// Checks an object, and says what it is for a pool.
fn content<'c>(
    object: &'c ContainerRuntimeConfig,
    pools: &'c [Arc<MachineConfigPool>],
    machine_configs: &'c [Arc<MachineConfig>],
    stores: AdditionalStores,
) -> Result<SettingsContent<'c>, Refusal> {
    validate::validate(&object.spec).map_err(Refusal::invalid)?;
    let invalid = |why: String| Refusal::new(GeneratorReason::Invalid, format!("Error: {why}"));
    let settings = &object.spec.container_runtime_config;
    let has_stores = stores == AdditionalStores::Allowed;
    let files = move |pool: &MachineConfigPool| {
        let mut files = Vec::new();
        if storage::is_needed(settings, has_stores).map_err(invalid)? {
            let is_ours = |machine_config: &MachineConfig| {
                SETTINGS_KIND.has_made::<ContainerRuntimeConfig>(machine_config, pools)
            };
            let base = source::file(pool, machine_configs, is_ours, STORAGE_CONF).map_err(|error| {
                let message = format!("could not generate origin ContainerRuntime Configs: {error}");
                Refusal::new(GeneratorReason::NoBase, message)
            })?;
            let base = base.as_deref().unwrap_or(storage::BUILT_IN.as_bytes());
            // Differs: upstream leaves the file out when it cannot be merged, and reports success.
            let changed = storage::changed(base, settings, has_stores)
                .map_err(|why| Refusal::new(GeneratorReason::Conflict, format!("Error: {why}")))?;
            files.push(GeneratedFile::new(STORAGE_CONF, changed));
        }
        files.extend(crio::drop_ins(settings, has_stores).map_err(invalid)?);
        Ok(files)
    };
    Ok(SettingsContent { files: Box::new(files), notices: Vec::new() })
}
