//! KubeletConfigs: kubelet settings that become MachineConfigs.
//!
//! The kubelet's configuration file is written whole: what the pool's other MachineConfigs put there, with the TLS
//! profile and the user's settings upon it. So of several objects for a pool the last one wins as a whole, and the
//! others have that in their status.

mod conflicts;
mod document;
mod keys;
mod sizing;
mod validate;
mod values;

use std::sync::Arc;

use seaworthy_api::machineconfiguration::kubelet_config::TlsSecurityProfile;
use seaworthy_api::machineconfiguration::{KubeletConfig, MachineConfig, MachineConfigPool, SettingsStatus};
use seaworthy_api::meta::LabelSelector;
use seaworthy_api::vocabulary::machineconfiguration::{GeneratorCondition, GeneratorReason};
use seaworthy_api::vocabulary::seaworthy::annotation::KUBELET_CONFIG_PATH;

use seaworthy_change::Change;

use crate::conditions::Notice;
use crate::generated::{GeneratedFile, name_of};
use crate::name::NameScheme;
use crate::pool_settings::{
    self, PoolSettings, Refusal, SettingsContent, SettingsDecision, SettingsInputs, SettingsKind,
};
use crate::{source, tls};

pub use sizing::{LOGGING, SIZING};
pub use validate::is_control_plane;

/// Where the kubelet reads its configuration.
pub const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";

/// A configuration file as it is written here: keys in order, without remarks. One that cannot be read stays as it is; merging
/// settings into it reports why.
pub fn as_written(content: &[u8]) -> Vec<u8> {
    document::read(content).map_or_else(|_| content.to_vec(), |document| document::write(document).into_bytes())
}

/// How the MachineConfigs are called.
pub const NAME_SCHEME: NameScheme = NameScheme { word: "kubelet", noun: "kubelet config", legacy: &[] };

const SETTINGS_KIND: SettingsKind = SettingsKind {
    scheme: NAME_SCHEME,
    no_pool: "could not find any MachineConfigPool set for KubeletConfig",
    no_name: "could not get kubelet config key",
};

impl PoolSettings for KubeletConfig {
    fn selector(&self) -> Option<&LabelSelector> {
        self.spec.machine_config_pool_selector.as_ref()
    }

    fn status(&self) -> Option<&SettingsStatus> {
        self.status.as_ref()
    }
}

/// Decides about one KubeletConfig. `cluster_tls` is the TLS profile of the cluster, for those that name none.
pub fn desired(
    inputs: &SettingsInputs<'_, KubeletConfig>,
    cluster_tls: Option<&TlsSecurityProfile>,
) -> SettingsDecision {
    let content = content(inputs.object, inputs.pools, inputs.machine_configs, cluster_tls);
    pool_settings::decide(&SETTINGS_KIND, inputs, content)
}

/// The MachineConfigs that objects left behind which are gone: to be deleted when no object is left to decide about.
pub fn orphans(
    all: &[Arc<KubeletConfig>],
    pools: &[Arc<MachineConfigPool>],
    machine_configs: &[Arc<MachineConfig>],
    build: &str,
) -> Vec<Change> {
    pool_settings::orphans(&SETTINGS_KIND, all, pools, machine_configs, build)
}

/// The MachineConfigs for a cluster that does not exist yet. The objects get the annotation
/// [`MC_NAME_SUFFIX`](seaworthy_api::vocabulary::machineconfiguration::annotation::MC_NAME_SUFFIX) with an empty text.
pub fn bootstrap_machine_configs(
    all: &[Arc<KubeletConfig>],
    pools: &[Arc<MachineConfigPool>],
    machine_configs: &[Arc<MachineConfig>],
    build: &str,
    cluster_tls: Option<&TlsSecurityProfile>,
) -> Result<Vec<MachineConfig>, Refusal> {
    let contents =
        all.iter().map(|object| Ok((object.as_ref(), content(object, pools, machine_configs, cluster_tls)?)));
    pool_settings::bootstrap_machine_configs(
        &SETTINGS_KIND,
        pools,
        build,
        &contents.collect::<Result<Vec<_>, Refusal>>()?,
    )
}

/// Whether a MachineConfig of this name was made by upstream from a kind that plain Kubernetes does not have (feature
/// gates, node settings). Such ones are part of the base and are never written.
pub fn is_reserved_name(name: &str) -> bool {
    let rest = name.strip_prefix("97-").or_else(|| name.strip_prefix("98-"));
    rest.is_some_and(|rest| rest.ends_with("-generated-kubelet"))
}

/// Checks an object, and says what it is for a pool.
fn content<'c>(
    object: &'c KubeletConfig,
    pools: &'c [Arc<MachineConfigPool>],
    machine_configs: &'c [Arc<MachineConfig>],
    cluster_tls: Option<&'c TlsSecurityProfile>,
) -> Result<SettingsContent<'c>, Refusal> {
    let valid = validate::validate(&object.spec).map_err(Refusal::invalid)?;
    let profile = object.spec.tls_security_profile.as_ref().map(|profile| tls::settings(Some(profile)));
    let mut unknown = Vec::new();
    if !valid.unknown.is_empty() {
        unknown.push(format!(
            "spec.kubeletConfig has keys unknown to every known kubelet, written unchanged: {}",
            valid.unknown.join(", ")
        ));
    }
    if let Some(profile) = profile.as_ref().filter(|profile| !profile.unknown.is_empty()) {
        unknown.push(format!(
            "spec.tlsSecurityProfile has ciphers that the kubelet does not support, omitted: {}",
            profile.unknown.join(", ")
        ));
    }
    let notice = Notice {
        condition: GeneratorCondition::UnknownSettings,
        reason: GeneratorReason::UnknownKey,
        message: unknown.join("; "),
    };
    let notices = if unknown.is_empty() { Vec::new() } else { vec![notice] };
    let files = move |pool: &MachineConfigPool| {
        validate::validate_for(&object.spec, pool).map_err(Refusal::invalid)?;
        let path = KUBELET_CONFIG_PATH.of(&pool.metadata).filter(|path| path.starts_with('/')).unwrap_or(KUBELET_CONF);
        let no_base = |why: String| {
            let message = format!("could not get original kubelet config: {why}");
            Refusal::new(GeneratorReason::NoBase, message)
        };
        let is_ours = |machine_config: &MachineConfig| SETTINGS_KIND.has_made::<KubeletConfig>(machine_config, pools);
        let base = source::file(pool, machine_configs, is_ours, path).map_err(|error| no_base(error.to_string()))?;
        let mut base = match base {
            Some(bytes) => document::read(&bytes)
                .map_err(|why| no_base(format!("{path} of pool {}: {why}", name_of(&pool.metadata))))?,
            None => document::built_in(),
        };
        if cluster_tls.is_some() || !base.contains_key("tlsMinVersion") && !base.contains_key("tlsCipherSuites") {
            document::set_tls(&mut base, &tls::settings(cluster_tls));
        }
        if let Some(profile) = &profile {
            document::set_tls(&mut base, profile);
        }
        let conflict = |why: String| Refusal::new(GeneratorReason::Conflict, format!("Error: {why}"));
        let document = document::overlaid(base, &valid.overlay).map_err(conflict)?;
        validate::validate_merged(&document, &valid.overlay).map_err(Refusal::invalid)?;
        let kubelet_conf = GeneratedFile::new(path, document::write(document));
        Ok([sizing::sizing(&object.spec), sizing::logging(&object.spec)]
            .into_iter()
            .flatten()
            .chain([kubelet_conf])
            .collect())
    };
    Ok(SettingsContent { files: Box::new(files), notices })
}
