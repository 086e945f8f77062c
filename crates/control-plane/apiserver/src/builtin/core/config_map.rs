//! ConfigMap: text and binary data by key.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, ObjectPart, TableColumn};
use crate::response::table;

/// The largest total size of all values, in bytes, as for a Secret.
const MAX_SIZE: usize = 1024 * 1024;

pub static CONFIG_MAP: BuiltInKind = BuiltInKind {
    plural: "configmaps",
    singular: "configmap",
    kind: "ConfigMap",
    short_names: &["cm"],
    definition: "io.k8s.api.core.v1.ConfigMap",
    validate,
    columns: &[TableColumn::NAME, TableColumn::text("Data", "How many entries it has."), TableColumn::AGE],
    cells,
    ..BuiltInKind::BASE
};

fn validate(object: &Object, old: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in entries(object, field) {
            if let Some(problem) = data_key(key) {
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
        causes.push(Cause::too_long("[]", MAX_SIZE as i64));
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

/// A key of a ConfigMap or Secret.
pub fn data_key(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes".to_owned());
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return Some(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}
