//! Validation of `metadata`, the same for all kinds.

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::object::{Metadata, Object};
use crate::resource::Resource;

/// The largest total size of all annotations, keys included, in bytes.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// The finalizer of a deletion that leaves dependents alone.
pub const ORPHAN: &str = "orphan";
/// The finalizer of a deletion that waits for dependents.
pub const FOREGROUND: &str = "foregroundDeletion";

/// Validates the metadata of an object.
pub fn validate(object: &Object, resource: &Resource) -> Vec<Cause> {
    let mut causes = validate_name(object, resource);
    causes.extend(validate_labels(object));
    causes.extend(validate_annotations(object));
    causes.extend(validate_owners(object));
    causes.extend(validate_finalizers(object, resource));
    causes
}

/// Validates a change of the metadata.
pub fn validate_change(object: &Object, old: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (object.metadata().get(key), old.metadata().get(key));
        if new != old {
            let shown = new.unwrap_or(&Value::Null);
            causes.push(Cause::invalid(format!("metadata.{key}"), shown, "field is immutable"));
        }
    }
    if old.is_deleting() {
        let new: Vec<&str> = object.finalizers().filter(|new| old.finalizers().all(|old| old != *new)).collect();
        if !new.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                new.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}

fn validate_name(object: &Object, resource: &Resource) -> Vec<Cause> {
    let mut causes = Vec::new();
    let prefix = object.meta_text("generateName");
    if !prefix.is_empty() {
        // The suffix is appended later, so the prefix is checked with a valid one.
        let trial = format!("{prefix}a");
        let problems = resource.name_problems(&trial);
        causes.extend(problems.iter().map(|problem| Cause::invalid("metadata.generateName", prefix, problem)));
    }
    match object.name() {
        "" => causes.push(Cause::required("metadata.name", "name or generateName is required")),
        name => {
            let problems = resource.name_problems(name);
            causes.extend(problems.iter().map(|problem| Cause::invalid("metadata.name", name, problem)));
        }
    }
    causes
}

fn validate_labels(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in texts(object, "labels") {
        let keys = names::qualified_name(key);
        causes.extend(keys.iter().map(|problem| Cause::invalid("metadata.labels", key, problem)));
        let values = names::label_value(value);
        causes.extend(values.iter().map(|problem| Cause::invalid("metadata.labels", value, problem)));
    }
    causes
}

fn validate_annotations(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for (key, value) in texts(object, "annotations") {
        // Upper case is allowed here, and only here.
        let problems = names::qualified_name(&key.to_lowercase());
        causes.extend(problems.iter().map(|problem| Cause::invalid("metadata.annotations", key, problem)));
        size += key.len() + value.len();
    }
    if size > MAX_ANNOTATIONS_SIZE {
        causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS_SIZE as i64));
    }
    causes
}

fn validate_owners(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut controllers = Vec::new();
    for (at, owner) in object.owners().iter().enumerate() {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let field = |key: &str| format!("metadata.ownerReferences[{at}].{key}");
        let api_version = text("apiVersion");
        if api_version.matches('/').count() > 1 {
            causes.push(Cause::invalid(field("apiVersion"), api_version, "must be <group>/<version> or <version>"));
        } else if api_version.ends_with('/') {
            causes.push(Cause::invalid(field("apiVersion"), api_version, "version must not be empty"));
        }
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(key).is_empty() {
                causes.push(Cause::required(field(key), "must not be empty"));
            }
        }
        if text("kind") == "Event" && matches!(api_version, "v1" | "events.k8s.io/v1") {
            let group = if api_version == "v1" { "/v1" } else { api_version };
            let why = format!("{group}, Kind=Event is disallowed from being an owner");
            causes.push(Cause::invalid(format!("metadata.ownerReferences[{at}]"), owner, &why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid("metadata.ownerReferences", &Value::from(object.owners()), &why));
    }
    causes
}

fn validate_finalizers(object: &Object, resource: &Resource) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (at, name) in object.finalizers().enumerate() {
        let problems = names::qualified_name(name);
        causes.extend(problems.iter().map(|problem| Cause::invalid("metadata.finalizers", name, problem)));
        if resource.is_custom() {
            continue;
        }
        let is_known = matches!(name, ORPHAN | FOREGROUND | "kubernetes");
        if !name.contains('/') && !is_known {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{at}]"), name, why));
        }
    }
    let has = |wanted: &str| object.finalizers().any(|name| name == wanted);
    if has(ORPHAN) && has(FOREGROUND) {
        let list = object.metadata().get("finalizers").unwrap_or(&Value::Null);
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        causes.push(Cause::invalid("metadata.finalizers", list, &why));
    }
    causes
}

fn texts<'o>(object: &'o Object, key: &str) -> impl Iterator<Item = (&'o String, &'o str)> {
    let map = object.metadata().get(key).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}
