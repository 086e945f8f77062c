//! What a ContainerRuntimeConfig may say.

use seaworthy_api::machineconfiguration::ContainerRuntimeConfigSpec;
use seaworthy_api::machineconfiguration::container_runtime_config::{ContainerRuntime, Store};
use seaworthy_api::meta::Quantity;
use seaworthy_api::words::{Open, Word};

use crate::quantity;

/// The smallest size at which logs are cut.
const SMALLEST_LOG: i64 = 8192;
/// The smallest limit of processes.
const SMALLEST_PIDS_LIMIT: i64 = 20;

/// Checks the object: the first mistake, but of stores all, in the words of upstream where it has any.
pub(super) fn validate(spec: &ContainerRuntimeConfigSpec) -> Result<(), String> {
    let settings = &spec.container_runtime_config;
    if let Some(limit) = settings.pids_limit.filter(|limit| *limit != 0 && *limit < SMALLEST_PIDS_LIMIT) {
        return Err(format!("invalid PidsLimit {limit}"));
    }
    if let Some(size) = &settings.log_size_max {
        let bytes = value(size, "LogSizeMax")?;
        // Differs: upstream refuses exactly 8192, which the field's own documentation promises.
        if bytes > 0 && bytes < SMALLEST_LOG {
            return Err(format!("invalid LogSizeMax {:?}, cannot be less than 8kB", size.to_string()));
        }
    }
    if let Some(size) = &settings.overlay_size
        && value(size, "overlaySize")? < 0
    {
        return Err(format!("invalid overlaySize {:?}, cannot be less than 0", size.to_string()));
    }
    if let Some(level) = other(settings.log_level.as_ref()) {
        return Err(format!(
            "invalid LogLevel {level:?}, must be one of error, fatal, panic, warn, info, debug, or trace"
        ));
    }
    if let Some(runtime) = other(settings.default_runtime.as_ref()).filter(|runtime| !runtime.is_empty()) {
        return Err(format!("invalid DefaultRuntime {runtime:?}, must be one of crun, runc"));
    }
    let stores = [
        ("AdditionalLayerStores", &settings.additional_layer_stores),
        ("AdditionalImageStores", &settings.additional_image_stores),
        ("AdditionalArtifactStores", &settings.additional_artifact_stores),
    ];
    let mistakes = stores.iter().flat_map(|(field, stores)| {
        stores.iter().flatten().filter_map(|store| store_mistake(field, store)).collect::<Vec<_>>()
    });
    let mistakes: Vec<String> = mistakes.collect();
    if !mistakes.is_empty() {
        return Err(mistakes.join("; "));
    }
    spec.runtime.as_ref().map_or(Ok(()), validate_runtime)
}

/// A field of the source document that the upstream has dropped: what it asks for must be what there is.
fn validate_runtime(runtime: &ContainerRuntime) -> Result<(), String> {
    let name = runtime.name.as_deref().unwrap_or_default();
    if !matches!(name, "" | "cri-o") {
        return Err(format!("invalid runtime name {name:?}, must be cri-o or empty"));
    }
    let endpoint = runtime.endpoint.as_deref().unwrap_or_default();
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if !endpoint.is_empty() && !path.starts_with('/') {
        return Err(format!("invalid runtime endpoint {endpoint:?}, must be an absolute path or a unix:// URL of one"));
    }
    Ok(())
}

fn store_mistake(field: &str, store: &Store) -> Option<String> {
    let path = store.path.as_str();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if path.is_empty() {
        Some(format!("invalid {field}: path must not be empty"))
    } else if !path.starts_with('/') || path.len() < 2 || !path.bytes().all(is_plain) {
        Some(format!(
            "invalid {field} path {path:?}: must be an absolute path containing only alphanumeric characters, '/', '.', '_' \
             and '-'"
        ))
    } else if path.contains("//") {
        Some(format!("invalid {field} path {path:?}: must not contain consecutive forward slashes"))
    } else {
        None
    }
}

pub(super) fn value(size: &Quantity, field: &str) -> Result<i64, String> {
    quantity::value(&size.to_string()).map_err(|error| format!("invalid {field}: {error}"))
}

/// A word that is not one of the accepted ones.
fn other<W: Word>(word: Option<&Open<W>>) -> Option<&str> {
    match word {
        Some(Open::Other(text)) => Some(text),
        _ => None,
    }
}
