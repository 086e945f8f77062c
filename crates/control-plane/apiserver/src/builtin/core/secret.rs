//! Secret: confidential data by key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::{Map, Value};

use crate::builtin::core::config_map::data_key;
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, ObjectPart, SelectableField, TableColumn};
use crate::response::table;

/// The largest total size of all values, in bytes.
const MAX_SIZE: usize = 1024 * 1024;

const OPAQUE: &str = "Opaque";

/// The annotation that names the account of a token.
const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub static SECRET: BuiltInKind = BuiltInKind {
    plural: "secrets",
    singular: "secret",
    kind: "Secret",
    definition: "io.k8s.api.core.v1.Secret",
    selectable: &[SelectableField::text("type")],
    defaults,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Type", "What is in it."),
        TableColumn::text("Data", "How many entries it has."),
        TableColumn::AGE,
    ],
    cells,
    ..BuiltInKind::BASE
};

fn kind_of(object: &Object) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn defaults(object: &mut Object) {
    if kind_of(object).is_empty() {
        object.insert("type".to_owned(), OPAQUE.into());
    }
    // `stringData` is a convenience for the writer: it is never stored, and wins over `data`.
    if let Some(Value::Object(texts)) = object.remove("stringData") {
        let data = object.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if let Some(data) = data.as_object_mut() {
            for (key, text) in texts {
                data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
            }
        }
    }
}

fn validate(object: &Object, old: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for (key, value) in entries(object) {
        if let Some(problem) = data_key(key) {
            causes.push(Cause::invalid(format!("data[{key}]"), key, &problem));
        }
        size += value.as_str().map_or(0, |text| text.len() / 4 * 3);
    }
    if size > MAX_SIZE {
        causes.push(Cause::too_long("data", MAX_SIZE as i64));
    }
    for key in required_keys(kind_of(object)) {
        if !entries(object).any(|(present, _)| present == key) {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    }
    causes.extend(validate_content(object));
    if let Some(old) = old {
        if kind_of(old) != kind_of(object) {
            causes.push(Cause::invalid("type", &object["type"], "field is immutable"));
        }
        if old.get("immutable").and_then(Value::as_bool).unwrap_or(false) {
            if object.get("immutable").and_then(Value::as_bool) != Some(true) {
                causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
            }
            if object.get("data") != old.get("data") {
                causes.push(Cause::forbidden("data", "field is immutable when `immutable` is set"));
            }
        }
    }
    causes
}

/// The rules of well-known types beyond the entries that they need.
fn validate_content(object: &Object) -> Vec<Cause> {
    let entry = |key: &str| entries(object).find(|(name, _)| *name == key).and_then(|(_, value)| value.as_str());
    let json = |key: &str| {
        let bytes = STANDARD.decode(entry(key)?).unwrap_or_default();
        let is_json = serde_json::from_slice::<Map<String, Value>>(&bytes).is_ok();
        // Messages must not quote a secret.
        (!is_json).then(|| Cause::invalid(format!("data[{key}]"), "<secret contents redacted>", "not a JSON object"))
    };
    match kind_of(object) {
        "kubernetes.io/dockercfg" => json(".dockercfg").into_iter().collect(),
        "kubernetes.io/dockerconfigjson" => json(".dockerconfigjson").into_iter().collect(),
        "kubernetes.io/basic-auth" if entry("username").is_none() && entry("password").is_none() => {
            ["username", "password"].iter().map(|key| Cause::required(format!("data[{key}]"), "")).collect()
        }
        "kubernetes.io/service-account-token" => {
            let annotations = object.metadata().get("annotations");
            let is_named = annotations
                .and_then(|all| all.get(ACCOUNT))
                .and_then(Value::as_str)
                .is_some_and(|name| !name.is_empty());
            let missing = (!is_named).then(|| Cause::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
            missing.into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The entries without which a Secret of a well-known type is useless.
fn required_keys(kind: &str) -> &'static [&'static str] {
    match kind {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    }
}

fn entries(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    object.get("data").and_then(Value::as_object).into_iter().flatten()
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let count = entries(object).count();
    vec![object.name().into(), kind_of(object).into(), count.into(), table::age(object, now)]
}
