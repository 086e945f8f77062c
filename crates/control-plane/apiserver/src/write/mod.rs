//! Writes: the pipeline that every write takes, and its steps.
//!
//! ```text
//! body ─▶ decode ─▶ conform (drop what the kind does not have) ─▶ pipeline: defaults, owners, admission, rules, commit
//! ```

mod amend;
mod conform;
mod deletion;
mod ownership;
mod pipeline;

pub use amend::amend;
pub use conform::{Conformed, conform, conform_scale};
pub use deletion::{Deletion, delete_checked, delete_object, deletion};
pub use ownership::{ScaleWrite, apply_config, check_applied, track_scale_write, track_status_write, track_write};
pub use pipeline::{MAX_ATTEMPTS, Outcome, Proposal, change, change_and_present, check_name, create_object};

use seaworthy_schema::ValidationResult;
use serde_json::Value;

use crate::clock;
use crate::object::{self, Metadata, Object, meta};
use crate::request::Call;
use crate::request::options::{FieldValidation, WriteOptions};
use crate::resource::Resource;
use crate::resource::built_in_kind::{GenerationPolicy, ObjectPart};
use crate::response::status::{Failure, GroupResource};
use crate::server::key;

/// Metadata that only the server sets: an object keeps its own through every change.
const SERVER_FIELDS: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"];

/// The part of an object that the path of a call addresses.
pub fn part(call: &Call) -> ObjectPart {
    match call.path.subresource.as_str() {
        "status" => ObjectPart::Status,
        "finalize" => ObjectPart::Finalize,
        _ => ObjectPart::Main,
    }
}

/// Turns unknown and duplicate fields into warnings or an error, as `fieldValidation` says.
pub fn field_validation_warnings(
    resource: &Resource,
    options: &WriteOptions,
    unknown: &[String],
    duplicates: &[String],
) -> Result<Vec<String>, Failure> {
    field_validation_warnings_of(&resource.kind, &resource.version, options, unknown, duplicates)
}

/// The same for any kind and version.
pub fn field_validation_warnings_of(
    kind: &str,
    version: &str,
    options: &WriteOptions,
    unknown: &[String],
    duplicates: &[String],
) -> Result<Vec<String>, Failure> {
    let unknown = unknown.iter().map(|path| seaworthy_schema::unknown_field(path));
    let warnings: Vec<String> = duplicates.iter().cloned().chain(unknown).collect();
    match options.validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(warnings),
        FieldValidation::Strict if warnings.is_empty() => Ok(warnings),
        FieldValidation::Strict => Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
            warnings.join(", ")
        ))),
    }
}

/// Redacts the message of a failure that may repeat values of a Secret.
pub fn redact_secret(resource: &Resource, failure: Failure) -> Failure {
    if &*resource.storage != "core/secrets" {
        return failure;
    }
    // Differs: the real server repeats values here, because a Secret's data must be in no message.
    let message = "the patch cannot be applied to the Secret; details are omitted because they may contain its data";
    Failure { message: message.to_owned(), ..failure }
}

/// Sets uid, creation time and generation of a new object.
pub fn assign_identity(call: &Call, object: &mut Object) -> Result<(), Failure> {
    let resource = &call.resource;
    if !object.revision_text().is_empty() {
        return Err(Failure::unexplained("resourceVersion should not be set on objects to be created"));
    }
    set_namespace(call, object)?;
    let metadata = object.metadata_mut();
    for field in SERVER_FIELDS {
        metadata.remove(field);
    }
    metadata.remove("resourceVersion");
    let clock = call.server.clock();
    object.set_meta("uid", clock::uid(clock));
    object.set_meta("creationTimestamp", clock::rfc3339(clock.now()));
    if resource.behaviour().generation != GenerationPolicy::None {
        object.set_meta("generation", 1);
    }
    Ok(())
}

/// Refuses to create an object that carries a uid, which names an existing object.
pub fn check_no_uid(call: &Call, object: &impl Metadata) -> Result<(), Failure> {
    if object.uid().is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {}, and no existing object was found", object.uid());
    Err(Failure::conflict(call.resource.group_resource(), &call.path.name, &why))
}

/// Sets the namespace of an object from the path; refuses another one.
pub fn set_namespace(call: &Call, object: &mut Object) -> Result<(), Failure> {
    let namespace = if call.resource.is_namespaced { call.path.namespace.as_str() } else { "" };
    match object.namespace() {
        own if own.is_empty() || own == namespace => {}
        // The namespace of a cluster-scoped object is ignored.
        _ if namespace.is_empty() => {}
        _ => {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::bad_request(why));
        }
    }
    if namespace.is_empty() {
        object.metadata_mut().remove("namespace");
    } else {
        object.set_meta("namespace", namespace);
    }
    Ok(())
}

/// Checks that what an object is created in exists and is not terminating: its definition and its namespace.
///
/// The definition is looked up in the registry of now, not of the request: it may have begun to terminate since.
pub fn check_parents(call: &Call, name: &str) -> Result<(), Failure> {
    let resource = &call.resource;
    if resource.is_custom() {
        let registry = call.server.registry();
        let served = registry.find(&resource.group, &resource.version, &resource.plural);
        if served.ok_or_else(Failure::unknown_path)?.is_terminating() {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(resource.group_resource(), name, why));
        }
    }
    check_namespace(call, name)
}

fn check_namespace(call: &Call, name: &str) -> Result<(), Failure> {
    let Call { server, resource, path, .. } = call;
    if !resource.is_namespaced || path.namespace.is_empty() {
        return Ok(());
    }
    let namespaces = GroupResource { group: "", resource: "namespaces" };
    let Some(found) = server.store().get(&seaworthy_store::Key::new("core/namespaces", "", path.namespace.as_str()))
    else {
        return Err(Failure::not_found(namespaces, &path.namespace));
    };
    let namespace = crate::server::decode(&found);
    if namespace.is_deleting() {
        let place = &path.namespace;
        let why = format!("unable to create new content in namespace {place} because it is being terminated");
        let mut failure = Failure::forbidden(resource.group_resource(), name, &why);
        failure.details.get_or_insert_with(Box::default).causes.push(crate::response::status::Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {place} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        return Err(failure);
    }
    Ok(())
}

/// Keeps the metadata that only the server sets.
pub fn keep_identity(object: &mut Object, old: &Object) {
    let metadata = object.metadata_mut();
    for field in SERVER_FIELDS {
        // Values of the client are kept, so that validation refuses them if they differ.
        if field.starts_with("deletion") && metadata.get(field).is_some_and(|own| !own.is_null()) {
            continue;
        }
        match old.metadata().get(field) {
            // Only the server sets these; a different value of the client is kept so that validation refuses it.
            Some(value) if matches!(field, "uid" | "deletionGracePeriodSeconds") => {
                metadata.entry(field).or_insert_with(|| value.clone());
            }
            Some(value) => {
                metadata.insert(field.to_owned(), value.clone());
            }
            None if matches!(field, "deletionTimestamp" | "deletionGracePeriodSeconds") => {}
            None => {
                metadata.remove(field);
            }
        };
    }
    for field in ["name", "namespace"] {
        if let Some(value) = old.metadata().get(field) {
            metadata.entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// Increments `metadata.generation` after a change that it counts.
pub fn bump_generation(resource: &Resource, object: &mut Object, old: &Object) {
    let counts_labels = match resource.behaviour().generation {
        GenerationPolicy::None | GenerationPolicy::AlwaysOne => return,
        GenerationPolicy::SpecChanges => false,
        GenerationPolicy::SpecAndLabelChanges => true,
    };
    fn desired_state<'o>(resource: &Resource, object: &'o Object) -> Vec<(&'o String, &'o Value)> {
        object.iter().filter(|(key, _)| resource.is_desired_state(key)).collect()
    }
    let has_other_labels = || object.metadata().get("labels") != old.metadata().get("labels");
    if desired_state(resource, object) != desired_state(resource, old) || (counts_labels && has_other_labels()) {
        object.set_meta("generation", old.generation() + 1);
    }
}

/// Validates metadata, schema and the rules of the kind. Returns warnings for the client.
pub fn validate(
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
    part: ObjectPart,
) -> Result<Vec<String>, Failure> {
    let (fields, old_fields) = (object::fields(object), old.map(object::fields));
    let mut metadata = meta::validate(fields, resource);
    if let Some(old) = old_fields {
        metadata.extend(meta::validate_change(fields, old));
    }
    let ValidationResult { mistakes, mut warnings } = resource.validate(object, old, part, metadata);
    if !mistakes.is_empty() {
        return Err(Failure::invalid(resource.group_kind(), fields.name(), mistakes).with_warnings(&warnings));
    }
    warnings.extend(resource.warnings(fields, old_fields, part));
    Ok(warnings)
}

/// The key of a call's object in the store.
pub fn object_key(call: &Call, name: &str) -> seaworthy_store::Key {
    let namespace = if call.resource.is_namespaced { call.path.namespace.as_str() } else { "" };
    key(&call.resource, namespace, name)
}
