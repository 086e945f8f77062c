//! Validation of a ContainerRuntimeConfig.

use seaworthy_api::machineconfiguration::ContainerRuntimeConfigSpec;
use seaworthy_api::machineconfiguration::container_runtime_config::{ContainerRuntime, Store};
use seaworthy_api::meta::Quantity;
use seaworthy_api::words::{Open, Word};

use crate::pool_settings::FieldError;
use crate::quantity;

/// The smallest size at which logs are cut.
const MIN_LOG_BYTES: i64 = 8192;
/// The smallest limit of processes.
const MIN_PIDS_LIMIT: i64 = 20;

/// Checks the object: the first mistake, but of stores all, in the words of upstream where it has any.
pub(super) fn validate(spec: &ContainerRuntimeConfigSpec) -> Result<(), FieldError> {
    let field_error = |field: &str, why: String| FieldError::new(format!("spec.containerRuntimeConfig.{field}"), why);
    let settings = &spec.container_runtime_config;
    if let Some(limit) = settings.pids_limit.filter(|limit| *limit != 0 && *limit < MIN_PIDS_LIMIT) {
        return Err(field_error("pidsLimit", format!("invalid PidsLimit {limit}")));
    }
    if let Some(size) = &settings.log_size_max {
        let bytes = value(size, "LogSizeMax").map_err(|why| field_error("logSizeMax", why))?;
        // Differs: upstream refuses exactly 8192, which the field's own documentation promises.
        if bytes > 0 && bytes < MIN_LOG_BYTES {
            let why = format!("invalid LogSizeMax {:?}, cannot be less than 8kB", size.to_string());
            return Err(field_error("logSizeMax", why));
        }
    }
    if let Some(size) = &settings.overlay_size
        && value(size, "overlaySize").map_err(|why| field_error("overlaySize", why))? < 0
    {
        let why = format!("invalid overlaySize {:?}, cannot be less than 0", size.to_string());
        return Err(field_error("overlaySize", why));
    }
    if let Some(level) = other(settings.log_level.as_ref()) {
        let why =
            format!("invalid LogLevel {level:?}, must be one of error, fatal, panic, warn, info, debug, or trace");
        return Err(field_error("logLevel", why));
    }
    if let Some(runtime) = other(settings.default_runtime.as_ref()).filter(|runtime| !runtime.is_empty()) {
        let why = format!("invalid DefaultRuntime {runtime:?}, must be one of crun, runc");
        return Err(field_error("defaultRuntime", why));
    }
    let stores = [
        ("AdditionalLayerStores", "additionalLayerStores", &settings.additional_layer_stores),
        ("AdditionalImageStores", "additionalImageStores", &settings.additional_image_stores),
        ("AdditionalArtifactStores", "additionalArtifactStores", &settings.additional_artifact_stores),
    ];
    let mut field_errors: Vec<(String, String)> = Vec::new();
    for (name, field, stores) in stores {
        let wrong =
            stores.iter().flatten().enumerate().filter_map(|(nth, store)| Some((nth, store_error(name, store)?)));
        field_errors.extend(wrong.map(|(nth, why)| (format!("{field}[{nth}].path"), why)));
    }
    if let Some((first, _)) = field_errors.first() {
        let all: Vec<&str> = field_errors.iter().map(|(_, why)| why.as_str()).collect();
        return Err(field_error(first, all.join("; ")));
    }
    spec.runtime.as_ref().map_or(Ok(()), validate_runtime)
}

/// A field of the source document that the upstream has dropped: what it asks for must be what there is.
fn validate_runtime(runtime: &ContainerRuntime) -> Result<(), FieldError> {
    let name = runtime.name.as_deref().unwrap_or_default();
    if !matches!(name, "" | "cri-o") {
        let why = format!("invalid runtime name {name:?}, must be cri-o or empty");
        return Err(FieldError::new("spec.runtime.name", why));
    }
    let endpoint = runtime.endpoint.as_deref().unwrap_or_default();
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if !endpoint.is_empty() && !path.starts_with('/') {
        let why = format!("invalid runtime endpoint {endpoint:?}, must be an absolute path or a unix:// URL of one");
        return Err(FieldError::new("spec.runtime.endpoint", why));
    }
    Ok(())
}

fn store_error(field: &str, store: &Store) -> Option<String> {
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
