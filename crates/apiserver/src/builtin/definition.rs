//! CustomResourceDefinition: a kind that users bring along.

use jiff::Timestamp;
use seaworthy_schema::{Cause, names};
use serde_json::{Value, json};

use crate::kind::{ALL_VERBS, Column, Generation, Kind, Part, STATUS, Ways, keep_parts_apart_from_the_start};
use crate::object::{Metadata, Object};

/// What holds a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The kind.
pub static CUSTOM_RESOURCE_DEFINITION: Kind = Kind {
    group: "apiextensions.k8s.io",
    version: "v1",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    kind: "CustomResourceDefinition",
    is_namespaced: false,
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    verbs: ALL_VERBS,
    subresources: &[STATUS],
    definition: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    name_rule: names::dns_subdomain,
    ways: Ways { updates_unconditionally: false, generation: Generation::Wishes, ..Ways::PLAIN },
    selectable: &[],
    defaults,
    prepare: keep_parts_apart_from_the_start,
    validate,
    columns: &[Column::NAME, Column::shown("Created At", "When it was created.")],
    cells,
};

fn defaults(object: &mut Object) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (key, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
        let is_empty = names.get(key).and_then(Value::as_str).unwrap_or_default().is_empty();
        if is_empty {
            names.insert(key.to_owned(), value.into());
        }
    }
}

fn validate(_: &Object, _: Option<&Object>, _: Part) -> Vec<Cause> {
    Vec::new()
}

fn cells(object: &Object, _: Timestamp) -> Vec<Value> {
    vec![object.name().into(), object.meta_text("creationTimestamp").into()]
}
