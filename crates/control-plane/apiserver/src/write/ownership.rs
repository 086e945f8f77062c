//! Keeps `metadata.managedFields` true on every write.

use std::sync::LazyLock;

use seaworthy_fields::{ApplyError, Managers, ObjectType, Set, Writer, settle};
use serde_json::Value;

use crate::builtin::schemas;
use crate::clock;
use crate::object::Object;
use crate::request::Call;
use crate::resource::family;
use crate::resource::{Origin, Resource};
use crate::response::status::{Cause, Failure};

/// What a write to the object itself cannot set.
static STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields([["status"].as_slice()]));
/// What a report cannot set.
static SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields([["spec"].as_slice()]));

/// What a report on a custom resource cannot set.
static CUSTOM_SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields([["metadata"].as_slice(), ["spec"].as_slice()]));

/// The types by which fields are told apart.
fn object_type(resource: &Resource) -> ObjectType<'_> {
    match (&resource.origin, resource.schema()) {
        (Origin::BuiltIn(_), Some(schema)) => ObjectType::built_in(schema),
        (Origin::Custom(_), Some(schema)) => family::object_type(schema),
        (_, None) => ObjectType::unknown(),
    }
}

fn writer(call: &Call) -> Writer<'_> {
    let resource = &*call.resource;
    let has_status = resource.below().iter().any(|below| below.name == "status");
    let ignored = match call.path.subresource.as_str() {
        "" if has_status => Some(&*STATUS),
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
            Origin::Custom(custom) => Some(&*custom.family),
            Origin::BuiltIn(_) => None,
        },
    }
}

/// Records who wrote what by creating, updating or patching.
pub fn own_written(call: &Call, live: Option<&Value>, object: Object, manager: &str) -> Object {
    let time = clock::written(call.server.world().now());
    let mut new = Value::Object(object);
    // Owners that cannot be tracked are no reason to refuse a write: they stay as they were.
    let _ = writer(call).update(live, &mut new, manager, &time);
    into_object(new)
}

/// How a scale is written.
pub enum ScaleWrite<'w> {
    /// By an update or a patch that makes this of it.
    Written(Value),
    /// By applying a configuration, perhaps by force.
    Applied(&'w Value, bool),
}

/// A scale after it was written, and the owners of the object behind it. `live` is the scale as it was.
pub fn own_scale(
    call: &Call,
    object: &Object,
    live: &Value,
    write: ScaleWrite<'_>,
    manager: &str,
) -> Result<(Value, Value), Failure> {
    let resource = &*call.resource;
    let paths = match &resource.origin {
        Origin::Custom(custom) => custom.family.replicas_paths(),
        Origin::BuiltIn(_) => {
            vec![(resource.api_version.to_string(), Some(vec!["spec".to_owned(), "replicas".to_owned()]))]
        }
    };
    let time = clock::written(call.server.world().now());
    let kind = schemas::scale().map_or_else(ObjectType::unknown, ObjectType::built_in);
    let writer = Writer {
        kind,
        api_version: "autoscaling/v1",
        subresource: &call.path.subresource,
        ignored: None,
        versions: None,
    };
    let parent = Value::Object(object.clone());
    // Owners that cannot be read own nothing.
    let owners = Managers::of_object(&parent).unwrap_or_default();
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
    // A number that is not there is nobody's.
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

/// Records what the server itself reports in the status of an object.
pub fn own_reported(resource: &Resource, live: &Object, next: Object, time: &str) -> Object {
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
    into_object(new)
}

/// Checks that a configuration can be owned field by field.
pub fn check_applied(call: &Call, config: Object) -> Result<Object, Failure> {
    let config = Value::Object(config);
    writer(call).check_applied(&config).map_err(|error| refused(call, error))?;
    Ok(into_object(config))
}

/// Applies a configuration. Other managers' fields are conflicts unless forced.
pub fn own_applied(
    call: &Call,
    live: Option<&Object>,
    config: &Value,
    manager: &str,
    force: bool,
) -> Result<Object, Failure> {
    let time = clock::written(call.server.world().now());
    let live = live.map(|live| Value::Object(live.clone()));
    let applied = writer(call).apply(live.as_ref(), config, manager, force, &time);
    applied.map(into_object).map_err(|error| refused(call, error))
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
        other => super::discreet(&call.resource, Failure::unexplained(other.to_string())),
    }
}

/// Undoes what a write changed if it is nothing but times. Returns whether nothing changed at all.
pub fn settled(live: &Value, object: Object) -> (Object, bool) {
    let mut new = Value::Object(object);
    let is_same = settle(live, &mut new);
    (into_object(new), is_same)
}

fn into_object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        // The writer was given an object and changes its fields only.
        _ => Object::new(),
    }
}
