//! Field ownership: keeps `metadata.managedFields` up to date on every write.

use std::sync::LazyLock;

use seaworthy_fields::{ApplyError, Managers, ObjectType, Set, Writer};
use serde_json::Value;

use crate::builtin::schemas;
use crate::clock;
use crate::object::{self, Object};
use crate::request::Call;
use crate::resource::version_set;
use crate::resource::{Origin, Resource};
use crate::response::status::{Cause, Failure};

/// Fields that a write to the object itself cannot set.
static STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields([["status"].as_slice()]));
/// Fields that a write to the status cannot set.
static SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields([["spec"].as_slice()]));

/// Fields that a write to the status of a custom resource cannot set.
static CUSTOM_SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields([["metadata"].as_slice(), ["spec"].as_slice()]));

/// The schema by which fields are distinguished.
fn object_type(resource: &Resource) -> ObjectType<'_> {
    match (&resource.origin, resource.schema()) {
        (Origin::BuiltIn(_), Some(schema)) => ObjectType::built_in(schema),
        (Origin::Custom(_), Some(schema)) => version_set::object_type(schema),
        (_, None) => ObjectType::unknown(),
    }
}

fn writer(call: &Call) -> Writer<'_> {
    let resource = &*call.resource;
    let ignored = match call.path.subresource.as_str() {
        "" if resource.has_status() => Some(&*STATUS),
        "status" if resource.is_custom() => Some(&*CUSTOM_SPEC),
        "status" => Some(&*SPEC),
        _ => None,
    };
    Writer {
        kind: object_type(resource),
        api_version: &resource.api_version,
        subresource: &call.path.subresource,
        ignored,
        versions: match &resource.origin {
            Origin::Custom(custom) => Some(&*custom.versions),
            Origin::BuiltIn(_) => None,
        },
    }
}

/// Records the field manager of a create, update or patch.
pub fn track_write(call: &Call, live: Option<&Value>, object: Object, manager: &str) -> Object {
    let time = clock::rfc3339(call.server.clock().now());
    let mut new = Value::Object(object);
    // Owners that cannot be tracked are no reason to refuse a write: they stay as they were.
    let _ = writer(call).update(live, &mut new, manager, &time);
    object::into_fields(new)
}

/// A write to a scale.
pub enum ScaleWrite<'w> {
    /// An update or patch, with its result.
    Written(Value),
    /// An apply with its configuration, and whether it is forced.
    Applied(&'w Value, bool),
}

/// The written scale, and the `managedFields` of its object. `live` is the scale before.
pub fn track_scale_write(
    call: &Call,
    object: &Value,
    live: &Value,
    write: ScaleWrite<'_>,
    manager: &str,
) -> Result<(Value, Value), Failure> {
    let resource = &*call.resource;
    let paths = match &resource.origin {
        Origin::Custom(custom) => custom.versions.replicas_paths(),
        Origin::BuiltIn(_) => {
            vec![(resource.api_version.to_string(), Some(vec!["spec".to_owned(), "replicas".to_owned()]))]
        }
    };
    let time = clock::rfc3339(call.server.clock().now());
    let kind = schemas::scale().map_or_else(ObjectType::unknown, ObjectType::built_in);
    let writer = Writer {
        kind,
        api_version: "autoscaling/v1",
        subresource: &call.path.subresource,
        ignored: None,
        versions: None,
    };
    // Owners that cannot be read own nothing.
    let owners = Managers::of_object(object).unwrap_or_default();
    let mut live = live.clone();
    owners.of_scale(&paths).write_into(&mut live);
    let mut scale = match write {
        ScaleWrite::Written(mut scale) => {
            // Owners that cannot be tracked are no reason to refuse a write: they stay as they were.
            let _ = writer.update(Some(&live), &mut scale, manager, &time);
            scale
        }
        ScaleWrite::Applied(config, force) => {
            writer.apply(Some(&live), config, manager, force, &time).map_err(|error| refused(call, error))?
        }
    };
    // A missing number has no owner.
    let of_scale = match scale.pointer("/spec/replicas") {
        Some(_) => Managers::of_object(&scale).unwrap_or_default(),
        None => Managers::default(),
    };
    let mut owned = Value::Object(Object::new());
    owners.with_scale(of_scale, &paths, &resource.api_version).write_into(&mut owned);
    if let Some(metadata) = scale.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok((scale, owned.pointer("/metadata/managedFields").cloned().unwrap_or_default()))
}

/// Records the server as the manager of status fields that it writes.
pub fn track_status_write(resource: &Resource, live: &Object, next: Object, time: &str) -> Object {
    let writer = Writer {
        kind: object_type(resource),
        api_version: &resource.api_version,
        subresource: "status",
        ignored: Some(&*SPEC),
        versions: None,
    };
    let mut new = Value::Object(next);
    // Owners that cannot be tracked are no reason not to report: they stay as they were.
    let _ = writer.update(Some(&Value::Object(live.clone())), &mut new, "kube-apiserver", time);
    object::into_fields(new)
}

/// Checks that a configuration can be applied.
pub fn check_applied(call: &Call, config: &Value) -> Result<(), Failure> {
    writer(call).check_applied(config).map_err(|error| refused(call, error))
}

/// Applies a configuration. Other managers' fields are conflicts unless forced.
pub fn apply_config(
    call: &Call,
    live: Option<&Value>,
    config: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, Failure> {
    let time = clock::rfc3339(call.server.clock().now());
    writer(call).apply(live, config, manager, force, &time).map_err(|error| refused(call, error))
}

fn refused(call: &Call, error: ApplyError) -> Failure {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.0.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict",
                message: conflict.message(),
                field: conflict.field(),
            });
            Failure::apply_conflict(conflicts.to_string(), causes.collect())
        }
        ApplyError::ManagedFields => Failure::bad_request(error.to_string()),
        other => super::redact_secret(&call.resource, Failure::unexplained(other.to_string())),
    }
}
