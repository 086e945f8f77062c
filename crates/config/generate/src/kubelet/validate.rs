//! Validation of a KubeletConfig.

use seaworthy_api::machineconfiguration::{KubeletConfigSpec, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{ARBITER, MASTER, label};
use serde_json::{Map, Value};

use super::{conflicts, keys, values};
use crate::generated::name_of;
use crate::pool_settings::FieldError;
use crate::quantity;

/// The group and version of the kubelet's configuration file.
pub(super) const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// Its kind.
pub(super) const KIND: &str = "KubeletConfiguration";

/// Keys of `systemReserved` that are written to the sizing file, and not to the kubelet's own.
pub(super) const SIZED: [&str; 3] = ["memory", "cpu", "ephemeral-storage"];

/// What the platform sets and a KubeletConfig may not: the path, and the name in the message.
///
/// A value that is empty passes, as upstream has it, and has no effect.
const RESERVED: [(&[&str], &str); 6] = [
    (&["cgroupDriver"], "cgroupDriver"),
    (&["clusterDNS"], "clusterDNS"),
    (&["clusterDomain"], "clusterDomain"),
    (&["featureGates"], "featureGates"),
    (&["failSwapOn"], "failSwapOn"),
    (&["memorySwap", "swapBehavior"], "swapBehavior"),
];

/// A KubeletConfig that may be applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ValidSettings {
    /// The user's settings, without those that are the platform's.
    pub(super) overlay: Map<String, Value>,
    /// Keys that the kubelet is not known to have.
    pub(super) unknown: Vec<String>,
}

/// Checks the object by itself: the first mistake, in the words of upstream where it has any.
pub(super) fn validate(spec: &KubeletConfigSpec) -> Result<ValidSettings, FieldError> {
    if let Some(level) = spec.log_level.filter(|level| !(0..=10).contains(level)) {
        let why = format!("KubeletConfig's LogLevel is not valid [0,10]: {level}");
        return Err(FieldError::new("spec.logLevel", why));
    }
    let Some(document) = spec.kubelet_config.as_ref().filter(|document| !document.is_null()) else {
        return Ok(ValidSettings::default());
    };
    let undecodable = |why: String| format!("KubeletConfig could not be unmarshalled, err: {why}");
    let checked = keys::check(document);
    if !checked.wrong.is_empty() {
        return Err(FieldError::new(first_field_path(&checked.wrong), undecodable(checked.wrong.join("; "))));
    }
    let mut overlay = document.as_object().cloned().unwrap_or_default();
    for (key, accepted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if let Some(found) = overlay.remove(key).filter(|found| found != accepted && !found.is_null()) {
            let why = undecodable(format!("{key}: found {found}; expected {accepted:?}, or nothing"));
            return Err(FieldError::new(field_path(key), why));
        }
    }
    for (path, name) in RESERVED {
        if let Some(found) = take(&mut overlay, path)
            && (!is_empty(&found) || name == "failSwapOn" && !found.is_null())
        {
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            let why = format!("KubeletConfiguration: {name} is not allowed to be set, but contains: {found}");
            return Err(FieldError::new(field_path(&path.join(".")), why));
        }
    }
    // To take the whole away would take the platform's part away with it.
    if overlay.get("memorySwap").is_some_and(Value::is_null) {
        overlay.remove("memorySwap");
    }
    let reserved = overlay.get("systemReserved").and_then(Value::as_object);
    if reserved.is_some_and(|reserved| !reserved.is_empty()) && spec.auto_sizing_reserved == Some(true) {
        let why = "KubeletConfiguration: autoSizingReserved and systemdReserved cannot be set together";
        return Err(FieldError::new("spec.autoSizingReserved", why));
    }
    for key in SIZED {
        // The sizing file is read by a shell: nothing but an amount may come into it.
        if let Some(amount) = reserved.and_then(|reserved| reserved.get(key)).and_then(Value::as_str) {
            quantity::value(amount).map_err(|error| {
                let setting = format!("systemReserved.{key}");
                FieldError::new(field_path(&setting), format!("KubeletConfiguration: {setting}: {error}"))
            })?;
        }
    }
    let text = |key: &str| overlay.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let (Some(reserved), Some(system)) = (text("systemReservedCgroup"), text("systemCgroups"))
        && reserved != system
    {
        let why =
            format!("KubeletConfiguration: systemReservedCgroup ({reserved}) must match systemCgroups ({system})");
        return Err(FieldError::new(field_path("systemReservedCgroup"), why));
    }
    startable(&values::refused(&overlay))?;
    Ok(ValidSettings { overlay, unknown: checked.unknown })
}

/// Checks what the kubelet will read, which is the user's settings upon a base.
pub(super) fn validate_merged(document: &Map<String, Value>, overlay: &Map<String, Value>) -> Result<(), FieldError> {
    startable(&conflicts::refused(document, overlay))
}

/// Whether a kubelet would start: nothing was refused.
fn startable(refused: &[String]) -> Result<(), FieldError> {
    if refused.is_empty() {
        return Ok(());
    }
    let why = format!("KubeletConfiguration: the kubelet would not start with: {}", refused.join("; "));
    Err(FieldError::new(first_field_path(refused), why))
}

/// The path of a kubelet setting in the object.
fn field_path(setting: &str) -> String {
    if setting.is_empty() { "spec.kubeletConfig".to_owned() } else { format!("spec.kubeletConfig.{setting}") }
}

/// The path of the first of several errors: each begins with its setting and a colon.
fn first_field_path(field_errors: &[String]) -> String {
    field_path(field_errors.first().and_then(|first| first.split_once(": ")).map_or("", |(setting, _)| setting))
}

/// Checks the object against a pool that it selects.
pub(super) fn validate_for(spec: &KubeletConfigSpec, pool: &MachineConfigPool) -> Result<(), FieldError> {
    let path = spec.kubelet_config.as_ref().and_then(|document| document.get("staticPodPath"));
    let name = name_of(&pool.metadata);
    let field_error = |why: String| Err(FieldError::new(field_path("staticPodPath"), why));
    match path {
        None => Ok(()),
        Some(_) if is_control_plane(pool) => field_error(format!(
            "KubeletConfiguration: staticPodPath is not allowed to be set for control plane pool {name:?}"
        )),
        Some(found) => match found.as_str() {
            Some("") => Ok(()),
            None if found.is_null() => Ok(()),
            found => field_error(format!(
                "KubeletConfiguration: staticPodPath must be empty for pool {name:?}, but contains: {}",
                found.unwrap_or_default()
            )),
        },
    }
}

/// Whether the control plane runs on the nodes of a pool.
pub fn is_control_plane(pool: &MachineConfigPool) -> bool {
    let key = label::NODE_ROLE_MASTER.as_str();
    let by_selector = |selector: &seaworthy_api::meta::LabelSelector| {
        let by_label = selector.match_labels.as_ref().is_some_and(|labels| labels.contains_key(key));
        let by_expression = selector
            .match_expressions
            .iter()
            .flatten()
            .any(|expression| expression.key == key && matches!(expression.operator.as_str(), "Exists" | "In"));
        by_label || by_expression
    };
    matches!(name_of(&pool.metadata), MASTER | ARBITER) || pool.spec.node_selector.as_ref().is_some_and(by_selector)
}

/// Takes a value out, and the objects around it that are empty then.
fn take(map: &mut Map<String, Value>, path: &[&str]) -> Option<Value> {
    match path {
        [] => None,
        [key] => map.remove(*key),
        [key, rest @ ..] => {
            let below = map.get_mut(*key)?.as_object_mut()?;
            let taken = take(below, rest)?;
            if below.is_empty() {
                map.remove(*key);
            }
            Some(taken)
        }
    }
}

/// Whether a value is empty: upstream's typed reading cannot distinguish it from an absent one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
