//! ConfigMap: texts and bytes by key.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::kind::{ALL_VERBS, Column, Kind, Part, Ways, no_defaults, no_preparation};
use crate::object::{Metadata, Object};
use crate::{name, table};

/// The most that all values together may weigh, the same as for a Secret.
const MAX_SIZE: usize = 1024 * 1024;

/// The kind.
pub static CONFIG_MAP: Kind = Kind {
    group: "",
    version: "v1",
    plural: "configmaps",
    singular: "configmap",
    kind: "ConfigMap",
    is_namespaced: true,
    short_names: &["cm"],
    categories: &[],
    verbs: ALL_VERBS,
    subresources: &[],
    definition: "io.k8s.api.core.v1.ConfigMap",
    name_rule: name::dns_subdomain,
    ways: Ways::PLAIN,
    selectable: &[],
    defaults: no_defaults,
    prepare: no_preparation,
    validate,
    columns: &[Column::NAME, Column::shown("Data", "How many entries it has."), Column::AGE],
    cells,
};

fn validate(object: &Object, old: Option<&Object>, _: Part) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in entries(object, field) {
            if let Some(problem) = name::data_key(key) {
                causes.push(Cause::invalid(format!("{field}[{key}]"), key, &problem));
            }
            if field == "data" && entries(object, "binaryData").any(|(other, _)| other == key) {
                let why = "duplicate of key present in binaryData";
                causes.push(Cause::invalid(format!("data[{key}]"), key, why));
            }
            let length = value.as_str().map_or(0, str::len);
            size += if field == "data" { length } else { length / 4 * 3 };
        }
    }
    if size > MAX_SIZE {
        causes.push(Cause::too_long("", MAX_SIZE as i64));
    }
    if let Some(old) = old.filter(|old| is_immutable(old)) {
        if !is_immutable(object) {
            causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
        }
        for field in ["data", "binaryData"] {
            if object.get(field) != old.get(field) {
                causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
    causes
}

fn is_immutable(object: &Object) -> bool {
    object.get("immutable").and_then(Value::as_bool).unwrap_or(false)
}

fn entries<'o>(object: &'o Object, field: &str) -> impl Iterator<Item = (&'o String, &'o Value)> {
    object.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let count = entries(object, "data").count() + entries(object, "binaryData").count();
    vec![object.name().into(), count.into(), table::age(object, now)]
}
