//! Namespace: a scope for the names of other objects.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::request::Verb;
use crate::resource::built_in_kind::{
    BuiltInKind, KindBehaviour, ObjectPart, STATUS, SelectableField, Subresource, SubresourceAction, TableColumn,
    isolate_status,
};
use crate::response::table;

/// The label by which selectors find a namespace by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer in `spec` that holds a namespace until it is empty. Other finalizers are in `metadata`.
pub const FINALIZER: &str = "kubernetes";

/// Namespaces that cannot be deleted.
pub const PROTECTED_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

pub static NAMESPACE: BuiltInKind = BuiltInKind {
    plural: "namespaces",
    singular: "namespace",
    kind: "Namespace",
    is_namespaced: false,
    short_names: &["ns"],
    verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch],
    subresources: &[
        Subresource {
            name: "finalize",
            kind: ("", "", ""),
            verbs: &[Verb::Update],
            action: SubresourceAction::ReadWrite,
        },
        STATUS,
    ],
    definition: "io.k8s.api.core.v1.Namespace",
    name_rule: names::dns_label,
    behaviour: KindBehaviour { answers_deleted: true, is_graceful: true, ..KindBehaviour::PLAIN },
    selectable: &[SelectableField::text("status.phase")],
    defaults,
    prepare,
    validate,
    begin_deletion,
    blocks_deletion: |namespace| !namespace.list("spec.finalizers").is_empty(),
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Status", "Whether it is in use or on its way out."),
        TableColumn::AGE,
    ],
    cells,
    ..BuiltInKind::BASE
};

fn phase(object: &Object) -> String {
    object.get("status").and_then(|status| status.get("phase")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn defaults(object: &mut Object) {
    let name = object.name().to_owned();
    if !name.is_empty() {
        let labels = object.metadata_mut().entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(NAME_LABEL.to_owned(), name.into());
        }
    }
}

fn prepare(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    match (old, part) {
        (None, _) => {
            let spec = object.entry("spec").or_insert_with(|| json!({}));
            let mut finalizers = spec.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
            if !finalizers.iter().any(|name| name == FINALIZER) {
                finalizers.push(FINALIZER.into());
            }
            *spec = json!({"finalizers": finalizers});
            object.insert("status".to_owned(), json!({"phase": "Active"}));
        }
        // Only `/finalize` may change `spec.finalizers`.
        (Some(old), ObjectPart::Main) => {
            for key in ["spec", "status"] {
                match old.get(key) {
                    Some(value) => object.insert(key.to_owned(), value.clone()),
                    None => object.remove(key),
                };
            }
        }
        (Some(_), ObjectPart::Status) => isolate_status(object, old, part),
        (Some(old), ObjectPart::Finalize) => {
            if let Some(status) = old.get("status") {
                object.insert("status".to_owned(), status.clone());
            }
        }
    }
}

/// Sets the phase `Terminating`.
fn begin_deletion(object: &mut Object) {
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("phase".to_owned(), "Terminating".into());
    }
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    match part {
        ObjectPart::Status if old.is_some() => {
            let phase = phase(object);
            let why = match (object.is_deleting(), phase.as_str()) {
                (true, "Terminating") | (false, "" | "Active") => return Vec::new(),
                (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
                (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
            };
            vec![Cause::invalid("status.Phase", &phase, why)]
        }
        ObjectPart::Finalize => {
            let all = object.list("spec.finalizers").iter().filter_map(Value::as_str).enumerate();
            all.flat_map(|(at, name)| validate_finalizer(format!("spec.finalizers[{at}]"), name)).collect()
        }
        ObjectPart::Main if old.is_none() => {
            let all = object.list("spec.finalizers").iter().filter_map(Value::as_str);
            all.flat_map(|name| validate_finalizer("spec.finalizers".to_owned(), name)).collect()
        }
        ObjectPart::Main | ObjectPart::Status => Vec::new(),
    }
}

fn validate_finalizer(field: String, name: &str) -> Vec<Cause> {
    let problems = names::qualified_name(name);
    let mut causes: Vec<Cause> = problems.iter().map(|why| Cause::invalid(&field, name, why)).collect();
    if !name.contains('/') && name != FINALIZER {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        causes.push(Cause::invalid(&field, name, why));
    }
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), phase(object).into(), table::age(object, now)]
}
