//! CustomResourceDefinition: a kind that a user defines.

use jiff::Timestamp;
use seaworthy_schema::{
    Cause, default_definition, definition_mistakes, definition_warnings, remember_stored_version, status_mistakes,
};
use serde_json::{Value, json};

use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, STATUS, TableColumn, isolate_status_from_creation,
};

/// The finalizer that holds a definition until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub static CUSTOM_RESOURCE_DEFINITION: BuiltInKind = BuiltInKind {
    group: "apiextensions.k8s.io",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    kind: "CustomResourceDefinition",
    is_namespaced: false,
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    subresources: &[STATUS],
    definition: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    behaviour: KindBehaviour {
        updates_unconditionally: false,
        generation: GenerationPolicy::SpecChanges,
        counts_deletion: false,
        ..KindBehaviour::PLAIN
    },
    defaults,
    prepare,
    validate,
    warnings,
    begin_deletion,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Scope", "Whether its objects live in namespaces."),
        TableColumn::text("Versions", "The versions that are served."),
        TableColumn::date("Created At", "When it was created."),
        TableColumn::wide("Group", "The API group."),
        TableColumn::wide("Kind", "The name in manifests."),
        TableColumn::wide("ShortNames", "What people type."),
        TableColumn { kind: "boolean", ..TableColumn::wide("Established", "Whether it is served.") },
    ],
    cells,
    ..BuiltInKind::BASE
};

fn defaults(object: &mut Object) {
    let mut value = Value::Object(std::mem::take(object));
    default_definition(&mut value);
    if let Value::Object(filled) = value {
        *object = filled;
    }
}

/// Keeps stored versions in the status, even if the client drops them.
fn prepare(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    isolate_status_from_creation(object, old, part);
    if part == ObjectPart::Status {
        return;
    }
    let mut value = Value::Object(std::mem::take(object));
    remember_stored_version(&mut value);
    if let Value::Object(next) = value {
        *object = next;
    }
}

/// Adds the finalizer and the condition `Terminating`.
fn begin_deletion(object: &mut Object) {
    let held: Vec<Value> = object.finalizers().chain([FINALIZER]).map(Value::from).collect();
    object.set_meta("finalizers", held);
    let now = object.meta_text("deletionTimestamp").to_owned();
    set_terminating(object, "InstanceDeletionPending", PENDING, &now);
}

const PENDING: &str = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";

/// Sets the condition `Terminating`.
pub fn set_terminating(object: &mut Object, reason: &str, message: &str, now: &str) {
    let status = object.entry("status").or_insert_with(|| json!({}));
    let conditions = status.as_object_mut().map(|status| status.entry("conditions").or_insert_with(|| json!([])));
    let Some(conditions) = conditions.and_then(Value::as_array_mut) else { return };
    let at = conditions.iter().position(|condition| condition.text("type") == "Terminating");
    let since = at.map_or(now.into(), |at| conditions[at]["lastTransitionTime"].clone());
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

fn warnings(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<String> {
    if part == ObjectPart::Status {
        return Vec::new();
    }
    let value = Value::Object(object.clone());
    let old = old.map(|old| Value::Object(old.clone()));
    definition_warnings(&value, old.as_ref())
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    let value = Value::Object(object.clone());
    if part == ObjectPart::Status {
        return status_mistakes(&value);
    }
    let old = old.map(|old| Value::Object(old.clone()));
    definition_mistakes(&value, old.as_ref())
}

fn cells(object: &Object, _: Timestamp) -> Vec<Value> {
    let served = object.list("spec.versions").iter().filter(|version| version.flag("served"));
    let versions = served.map(|version| match version.flag("storage") {
        true => format!("{}(storage)", version.text("name")),
        false => version.text("name").to_owned(),
    });
    let short: Vec<&str> = object.list("spec.names.shortNames").iter().filter_map(Value::as_str).collect();
    let conditions = object.list("status.conditions");
    let is_established = conditions.iter().any(|one| one.text("type") == "Established" && one.text("status") == "True");
    vec![
        object.name().into(),
        object.text("spec.scope").into(),
        versions.collect::<Vec<_>>().join(",").into(),
        object.meta_text("creationTimestamp").into(),
        object.text("spec.group").into(),
        object.text("spec.names.kind").into(),
        short.join(",").into(),
        is_established.into(),
    ]
}
