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
pub use deletion::{Deleted, delete_checked, delete_object, deletion};
pub use ownership::{ScaleWrite, check_applied, own_applied, own_reported, own_scale, own_written, settled};
pub use pipeline::{
    MAX_ATTEMPTS, Outcome, Proposal, change, change_and_present, check_name, create_object, in_version,
};

use seaworthy_schema::Verdict;
use serde_json::Value;

use crate::clock;
use crate::object::meta;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::options::{FieldValidation, WriteOptions};
use crate::resource::Resource;
use crate::resource::kind::{Generation, Part};
use crate::response::status::{Failure, Named};
use crate::server::key;

/// Metadata that only the server sets: an object keeps its own through every change.
const SERVER_FIELDS: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"];

/// The part of an object that a path is about.
pub fn part(call: &Call) -> Part {
    match call.path.subresource.as_str() {
        "status" => Part::Status,
        "finalize" => Part::Finalize,
        _ => Part::Main,
    }
}

/// Turns what a write has to say about odd fields into warnings, or into a refusal.
pub fn judge_oddities(
    resource: &Resource,
    options: &WriteOptions,
    unknown: &[String],
    duplicates: &[String],
) -> Result<Vec<String>, Failure> {
    judge_oddities_of(&resource.kind, &resource.version, options, unknown, duplicates)
}

/// The same for any kind and version.
pub fn judge_oddities_of(
    kind: &str,
    version: &str,
    options: &WriteOptions,
    unknown: &[String],
    duplicates: &[String],
) -> Result<Vec<String>, Failure> {
    let unknown = unknown.iter().map(|path| seaworthy_schema::unknown_field(path));
    let said: Vec<String> = duplicates.iter().cloned().chain(unknown).collect();
    match options.validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(said),
        FieldValidation::Strict if said.is_empty() => Ok(said),
        FieldValidation::Strict => Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
            said.join(", ")
        ))),
    }
}

/// A failure whose message may repeat values of the object: fit to be seen, whatever the kind.
pub fn discreet(resource: &Resource, failure: Failure) -> Failure {
    if &*resource.storage != "core/secrets" {
        return failure;
    }
    // Differs: the real server repeats values here, because a Secret's data must be in no message.
    let message = "the patch does not fit the Secret; what exactly is wrong is left out as it may repeat its data";
    Failure { message: message.to_owned(), ..failure }
}

/// Gives a new object its identity.
pub fn identify(call: &Call, object: &mut Object) -> Result<(), Failure> {
    let resource = &call.resource;
    if !object.revision_text().is_empty() {
        return Err(Failure::unexplained("resourceVersion should not be set on objects to be created"));
    }
    place(call, object)?;
    let metadata = object.metadata_mut();
    for field in SERVER_FIELDS {
        metadata.remove(field);
    }
    metadata.remove("resourceVersion");
    let world = call.server.world();
    object.set_meta("uid", clock::uid(world));
    object.set_meta("creationTimestamp", clock::written(world.now()));
    if resource.ways().generation != Generation::None {
        object.set_meta("generation", 1);
    }
    Ok(())
}

/// Refuses to create an object that is said to exist already.
pub fn check_no_uid(call: &Call, object: &Object) -> Result<(), Failure> {
    if object.uid().is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {}, and no existing object was found", object.uid());
    Err(Failure::conflict(call.resource.named(), &call.path.name, &why))
}

/// Puts an object into the namespace of its path, or refuses if it says another one.
pub fn place(call: &Call, object: &mut Object) -> Result<(), Failure> {
    let namespace = if call.resource.is_namespaced { call.path.namespace.as_str() } else { "" };
    match object.namespace() {
        own if own.is_empty() || own == namespace => {}
        // What lives in no namespace does not mind being told one.
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
pub fn check_place(call: &Call, name: &str) -> Result<(), Failure> {
    let resource = &call.resource;
    if resource.is_custom() {
        let registry = call.server.registry();
        let served = registry.find(&resource.group, &resource.version, &resource.plural);
        if served.ok_or_else(Failure::unknown_path)?.is_terminating() {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(resource.named(), name, why));
        }
    }
    check_namespace(call, name)
}

fn check_namespace(call: &Call, name: &str) -> Result<(), Failure> {
    let Call { server, resource, path, .. } = call;
    if !resource.is_namespaced || path.namespace.is_empty() {
        return Ok(());
    }
    let namespaces = Named { group: "", word: "namespaces" };
    let Some(found) = server.store().get(&seaworthy_store::Key::new("core/namespaces", "", path.namespace.as_str()))
    else {
        return Err(Failure::not_found(namespaces, &path.namespace));
    };
    let namespace = crate::server::decode(&found);
    if namespace.is_deleting() {
        let place = &path.namespace;
        let why = format!("unable to create new content in namespace {place} because it is being terminated");
        let mut failure = Failure::forbidden(resource.named(), name, &why);
        failure.details.get_or_insert_with(Box::default).causes.push(crate::response::status::Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {place} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        return Err(failure);
    }
    Ok(())
}

/// Keeps what only the server sets, whatever the client sent.
pub fn keep_identity(object: &mut Object, old: &Object) {
    let metadata = object.metadata_mut();
    for field in SERVER_FIELDS {
        // Who says what the deletion of an object is like is refused where it is not so.
        if field.starts_with("deletion") && metadata.get(field).is_some_and(|own| !own.is_null()) {
            continue;
        }
        match old.metadata().get(field) {
            // Only the server gives a uid or begins a deletion, but who says otherwise is told so.
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

/// Counts a change of what the user wants.
pub fn count_wish(resource: &Resource, object: &mut Object, old: &Object) {
    let counts_labels = match resource.ways().generation {
        Generation::None | Generation::One => return,
        Generation::Wishes => false,
        Generation::WishesAndLabels => true,
    };
    fn wishes<'o>(resource: &Resource, object: &'o Object) -> Vec<(&'o String, &'o Value)> {
        object.iter().filter(|(key, _)| resource.is_wish(key)).collect()
    }
    let has_other_labels = || object.metadata().get("labels") != old.metadata().get("labels");
    if wishes(resource, object) != wishes(resource, old) || (counts_labels && has_other_labels()) {
        object.set_meta("generation", old.generation() + 1);
    }
}

/// All rules: metadata, schema, kind. Returns what the client should know beside.
pub fn judge(resource: &Resource, object: &Object, old: Option<&Object>, part: Part) -> Result<Vec<String>, Failure> {
    let mut metadata = meta::judge(object, resource);
    if let Some(old) = old {
        metadata.extend(meta::judge_change(object, old));
    }
    let Verdict { mistakes, mut warnings } = resource.judge(object, old, part, metadata);
    if !mistakes.is_empty() {
        return Err(Failure::invalid(resource.named_kind(), object.name(), mistakes).warned(&warnings));
    }
    warnings.extend(resource.advice(object, old, part));
    Ok(warnings)
}

/// Where the object of a call is stored.
pub fn own_key(call: &Call, name: &str) -> seaworthy_store::Key {
    let namespace = if call.resource.is_namespaced { call.path.namespace.as_str() } else { "" };
    key(&call.resource, namespace, name)
}
