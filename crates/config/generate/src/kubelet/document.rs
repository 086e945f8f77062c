//! The kubelet's configuration file: a base, merged with the user's settings.

use serde_json::{Map, Value, json};

use super::validate::{API_VERSION, KIND, SIZED};
use crate::tls::TlsSettings;
use seaworthy_ignition::Node;

/// What to do when a pool has no configuration file of its own: a kubelet that asks the API server who may talk to it.
pub(super) fn built_in() -> Map<String, Value> {
    let document = json!({
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "rotateCertificates": true,
    });
    match document {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Reads a base: YAML, of which JSON is a part.
pub(super) fn read(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("it is not text: {error}"))?;
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let value: Value = serde_saphyr::from_str(text).map_err(|error| format!("it is not YAML: {error}"))?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err("it is not an object".to_owned()),
    }
}

/// Writes a document, keys in order.
pub(super) fn write(mut document: Map<String, Value>) -> String {
    document.insert("apiVersion".to_owned(), API_VERSION.into());
    document.insert("kind".to_owned(), KIND.into());
    seaworthy_render::yaml::to_string(&Node::from_json(&Value::Object(document)))
}

/// Puts TLS settings into a document.
pub(super) fn set_tls(document: &mut Map<String, Value>, settings: &TlsSettings) {
    match &settings.min_version {
        Some(version) => document.insert("tlsMinVersion".to_owned(), version.as_str().into()),
        None => document.remove("tlsMinVersion"),
    };
    if settings.ciphers.is_empty() {
        document.remove("tlsCipherSuites");
    } else {
        document.insert("tlsCipherSuites".to_owned(), settings.ciphers.clone().into());
    }
}

/// Merges the user's settings into a base, and adjusts settings that depend on each other.
pub(super) fn overlaid(
    mut document: Map<String, Value>,
    overlay: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let mut overlay = overlay.clone();
    if let Some(reserved) = overlay.get_mut("systemReserved").and_then(Value::as_object_mut) {
        reserved.retain(|key, amount| amount.is_null() || !SIZED.contains(&key.as_str()));
        if reserved.is_empty() {
            overlay.remove("systemReserved");
        }
    }
    // Differs: upstream merges typed values and cannot distinguish `false`, `0`, `""` and `[]` from absence, so it loses them.
    // Here whatever is there counts, and `null` takes away.
    for (key, value) in &overlay {
        merge(&mut document, key, value);
    }

    const SYSTEM: [&str; 2] = ["system-reserved", "system-reserved-compressible"];
    let enforced = |map: &Map<String, Value>| -> Vec<String> {
        let list = map.get("enforceNodeAllocatable").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |map: &Map<String, Value>, key: &str| -> String {
        map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let users = enforced(&overlay);
    if !users.is_empty()
        && !users.iter().any(|entry| SYSTEM.contains(&entry.as_str()))
        && text(&overlay, "systemReservedCgroup").is_empty()
    {
        document.remove("systemReservedCgroup");
    }
    if !text(&document, "reservedSystemCPUs").is_empty() {
        document.remove("systemReservedCgroup");
        let mut entries = enforced(&document);
        // Differs: `none` must be the only entry, and the kubelet does not start with any other beside it.
        if entries != ["none"] {
            entries.retain(|entry| !SYSTEM.contains(&entry.as_str()));
            if !entries.iter().any(|entry| entry == "pods") {
                entries.insert(0, "pods".to_owned());
            }
            document.insert("enforceNodeAllocatable".to_owned(), entries.into());
        }
    }
    let (reserved, system) = (text(&document, "systemReservedCgroup"), text(&document, "systemCgroups"));
    if !reserved.is_empty() && !system.is_empty() && reserved != system {
        return Err(format!(
            "invalid merged configuration: systemReservedCgroup ({reserved}) must match systemCgroups ({system})"
        ));
    }
    Ok(document)
}

fn merge(map: &mut Map<String, Value>, key: &str, value: &Value) {
    match (map.get_mut(key), value) {
        (_, Value::Null) => {
            map.remove(key);
        }
        (Some(Value::Object(below)), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(below, key, value);
            }
        }
        (_, Value::Object(changes)) => {
            // What is new has nothing to take away from.
            let mut below = Map::new();
            for (key, value) in changes {
                merge(&mut below, key, value);
            }
            map.insert(key.to_owned(), Value::Object(below));
        }
        (_, value) => {
            map.insert(key.to_owned(), value.clone());
        }
    }
}
