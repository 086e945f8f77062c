//! Namespace: the room that other objects live in.

use jiff::Timestamp;
use seaworthy_schema::{Cause, names};
use serde_json::{Value, json};

use crate::object::reach::Reach;
use crate::object::{Metadata, Object};
use crate::request::Verb;
use crate::resource::kind::{Column, Deed, Kind, Part, STATUS, Selectable, Subresource, Ways, keep_parts_apart};
use crate::response::table;

/// The label by which selectors find a namespace by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What holds a namespace until it is empty. Other finalizers live in `metadata` as everywhere.
pub const FINALIZER: &str = "kubernetes";

/// Namespaces that cannot be deleted.
pub const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The kind.
pub static NAMESPACE: Kind = Kind {
    plural: "namespaces",
    singular: "namespace",
    kind: "Namespace",
    is_namespaced: false,
    short_names: &["ns"],
    verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch],
    subresources: &[
        Subresource { name: "finalize", kind: ("", "", ""), verbs: &[Verb::Update], deed: Deed::Part },
        STATUS,
    ],
    definition: "io.k8s.api.core.v1.Namespace",
    name_rule: names::dns_label,
    ways: Ways { answers_deleted: true, is_graceful: true, ..Ways::PLAIN },
    selectable: &[Selectable::text("status.phase")],
    defaults,
    prepare,
    validate,
    begin_deletion,
    is_held: |namespace| !namespace.list("spec.finalizers").is_empty(),
    columns: &[Column::NAME, Column::shown("Status", "Whether it is in use or on its way out."), Column::AGE],
    cells,
    ..Kind::BASE
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

fn prepare(object: &mut Object, old: Option<&Object>, part: Part) {
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
        // Only `/finalize` may let a namespace go.
        (Some(old), Part::Main) => {
            for key in ["spec", "status"] {
                match old.get(key) {
                    Some(value) => object.insert(key.to_owned(), value.clone()),
                    None => object.remove(key),
                };
            }
        }
        (Some(_), Part::Status) => keep_parts_apart(object, old, part),
        (Some(old), Part::Finalize) => {
            if let Some(status) = old.get("status") {
                object.insert("status".to_owned(), status.clone());
            }
        }
    }
}

/// Whoever looks sees that it is on its way out.
fn begin_deletion(object: &mut Object) {
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("phase".to_owned(), "Terminating".into());
    }
}

fn validate(object: &Object, old: Option<&Object>, part: Part) -> Vec<Cause> {
    match part {
        Part::Status if old.is_some() => {
            let phase = phase(object);
            let why = match (object.is_deleting(), phase.as_str()) {
                (true, "Terminating") | (false, "" | "Active") => return Vec::new(),
                (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
                (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
            };
            vec![Cause::invalid("status.Phase", &phase, why)]
        }
        Part::Finalize => {
            let all = object.list("spec.finalizers").iter().filter_map(Value::as_str).enumerate();
            all.flat_map(|(at, name)| judge_finalizer(format!("spec.finalizers[{at}]"), name)).collect()
        }
        Part::Main if old.is_none() => {
            let all = object.list("spec.finalizers").iter().filter_map(Value::as_str);
            all.flat_map(|name| judge_finalizer("spec.finalizers".to_owned(), name)).collect()
        }
        Part::Main | Part::Status => Vec::new(),
    }
}

fn judge_finalizer(field: String, name: &str) -> Vec<Cause> {
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
