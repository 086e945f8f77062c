//! RBAC rules.

use serde_json::{Value, json};

/// The verbs of a reader.
pub const READ: &[&str] = &["get", "list", "watch"];

/// Verbs on resources of a group.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// The same, for objects of these names alone.
pub fn named_rule(group: &str, resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "resourceNames": names, "verbs": verbs})
}
