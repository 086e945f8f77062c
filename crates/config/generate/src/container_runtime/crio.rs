//! Drop-ins of CRI-O's configuration: one for each setting, so that what is not set is never written.

use seaworthy_api::machineconfiguration::container_runtime_config::{ContainerRuntimeConfiguration, Store};
use toml_edit::Value;

use super::validate;
use crate::generated::GeneratedFile;

/// The folder that CRI-O reads in the order of names, later ones upon earlier ones.
pub const DROP_INS: &str = "/etc/crio/crio.conf.d";

/// The drop-ins of an object.
pub(super) fn drop_ins(
    settings: &ContainerRuntimeConfiguration,
    has_stores: bool,
) -> Result<Vec<GeneratedFile>, String> {
    let mut files = Vec::new();
    let text = |word: Option<&str>| word.filter(|word| !word.is_empty()).map(Value::from);
    if let Some(level) = text(settings.log_level.as_ref().map(|level| level.as_str())) {
        files.push(drop_in("logLevel", "log_level", Some(level)));
    }
    if let Some(limit) = settings.pids_limit {
        // Zero leaves the limit to what is below; the file says so by being there and empty.
        files.push(drop_in("pidsLimit", "pids_limit", (limit != 0).then(|| limit.into())));
    }
    if let Some(size) = &settings.log_size_max {
        let bytes = validate::value(size, "LogSizeMax")?;
        if bytes != 0 {
            files.push(drop_in("logSizeMax", "log_size_max", Some(bytes.into())));
        }
    }
    if let Some(runtime) = text(settings.default_runtime.as_ref().map(|runtime| runtime.as_str())) {
        files.push(drop_in("defaultRuntime", "default_runtime", Some(runtime)));
    }
    let stores = settings.additional_artifact_stores.as_deref().filter(|stores| has_stores && !stores.is_empty());
    if let Some(stores) = stores {
        let value = Value::Array(paths(stores).collect());
        files.push(drop_in("additionalArtifactStores", "additional_artifact_stores", Some(value)));
    }
    Ok(files)
}

/// The paths of stores.
pub(super) fn paths(stores: &[Store]) -> impl Iterator<Item = &str> {
    stores.iter().map(|store| store.path.as_str())
}

fn drop_in(field: &str, key: &str, value: Option<Value>) -> GeneratedFile {
    let setting = value.map(|value| format!("    {key} = {}\n", value.to_string().trim())).unwrap_or_default();
    GeneratedFile::new(format!("{DROP_INS}/01-ctrcfg-{field}"), format!("[crio]\n  [crio.runtime]\n{setting}"))
}
