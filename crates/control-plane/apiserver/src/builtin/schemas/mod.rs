//! Schemas of the built-in kinds, loaded from the OpenAPI data when a kind is first used.

mod zeros;

use std::collections::HashSet;
use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::ZlibDecoder;
use seaworthy_schema::{Document, NodeId, Schema};
use serde_json::{Map, Value};

use crate::object::Object;
use crate::resource::built_in_kind::BuiltInKind;

use self::zeros::{ALWAYS, KEPT, MICRO_TIME, OPTIONAL, ZEROS};

/// The definitions of one version of a group.
struct Source {
    group: &'static str,
    version: &'static str,
    /// The definitions as they were published, compressed by the build script.
    packed: &'static [u8],
    document: OnceLock<Document>,
    marks: OnceLock<Marks>,
}

impl Source {
    fn of(group: &str, version: &str) -> Option<&'static Source> {
        SOURCES.iter().find(|source| source.group == group && source.version == version)
    }

    fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // The data is part of the program, and a test parses all of it.
        let _ = ZlibDecoder::new(self.packed).read_to_end(&mut text);
        text
    }
}

/// Properties of fields that the schemas do not have.
#[derive(Default)]
pub struct Marks {
    zeros: HashSet<NodeId>,
    kept: HashSet<NodeId>,
    always: HashSet<NodeId>,
    micro_time: Option<NodeId>,
}

impl Marks {
    fn of(document: &Document) -> Marks {
        let marked = |table: &[(&str, &[&str])]| {
            let fields = table.iter().filter_map(|(name, fields)| Some((document.named(name)?, fields)));
            let fields =
                fields.flat_map(|(schema, fields)| fields.iter().filter_map(move |name| schema.property(name)));
            fields.map(Schema::id).collect()
        };
        let micro_time = document.named(MICRO_TIME).map(Schema::id);
        Marks { zeros: marked(ZEROS), kept: marked(KEPT), always: marked(ALWAYS), micro_time }
    }

    /// Whether a zero or false value of a field is omitted.
    pub fn drops_zero(&self, field: Schema<'_>) -> bool {
        self.zeros.contains(&field.id())
    }

    /// Whether an empty text or list of a field is kept.
    pub fn keeps_empty(&self, field: Schema<'_>) -> bool {
        self.kept.contains(&field.id())
    }

    fn materialise(&self, schema: Schema<'_>, object: &mut Object) {
        for (name, field) in schema.properties() {
            if object.contains_key(name) {
                continue;
            }
            let is_required = || schema.required.iter().any(|required| **required == *name);
            match field.default.as_ref() {
                Some(Value::Object(default)) if default.is_empty() => {
                    object.insert(name.to_owned(), Value::Object(Map::new()));
                }
                Some(default @ (Value::Bool(false) | Value::Number(_) | Value::String(_)))
                    if is_zero(default) && is_required() =>
                {
                    object.insert(name.to_owned(), default.clone());
                }
                _ if self.always.contains(&field.id()) => {
                    object.insert(name.to_owned(), 0.into());
                }
                _ => {}
            }
        }
        for (name, value) in object.iter_mut() {
            if let Some(field) = schema.field(name) {
                self.materialise_value(field, value);
            }
        }
    }

    fn materialise_value(&self, schema: Schema<'_>, value: &mut Value) {
        match value {
            Value::Object(object) => self.materialise(schema, object),
            Value::Array(items) => {
                if let Some(each) = schema.items() {
                    items.iter_mut().for_each(|item| self.materialise_value(each, item));
                }
            }
            _ => {}
        }
    }

    /// Whether a time has microseconds.
    pub fn is_micro_time(&self, field: Schema<'_>) -> bool {
        self.micro_time == Some(field.id())
    }
}

macro_rules! source {
    ($group:literal, $version:literal, $file:literal) => {
        Source {
            group: $group,
            version: $version,
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $file)),
            document: OnceLock::new(),
            marks: OnceLock::new(),
        }
    };
}

static SOURCES: [Source; 14] = [
    source!("", "v1", "api_v1.json"),
    source!("admissionregistration.k8s.io", "v1", "apis_admissionregistration.k8s.io_v1.json"),
    source!("apiextensions.k8s.io", "v1", "apis_apiextensions.k8s.io_v1.json"),
    source!("apps", "v1", "apis_apps_v1.json"),
    source!("authentication.k8s.io", "v1", "apis_authentication.k8s.io_v1.json"),
    source!("authorization.k8s.io", "v1", "apis_authorization.k8s.io_v1.json"),
    source!("batch", "v1", "apis_batch_v1.json"),
    source!("coordination.k8s.io", "v1", "apis_coordination.k8s.io_v1.json"),
    source!("discovery.k8s.io", "v1", "apis_discovery.k8s.io_v1.json"),
    source!("events.k8s.io", "v1", "apis_events.k8s.io_v1.json"),
    source!("node.k8s.io", "v1", "apis_node.k8s.io_v1.json"),
    source!("policy", "v1", "apis_policy_v1.json"),
    source!("rbac.authorization.k8s.io", "v1", "apis_rbac.authorization.k8s.io_v1.json"),
    source!("scheduling.k8s.io", "v1", "apis_scheduling.k8s.io_v1.json"),
];

/// The schema of a kind.
pub fn of(kind: &BuiltInKind) -> Option<Schema<'static>> {
    document(kind.group, kind.version)?.named(kind.definition)
}

/// The schema of the metadata that all objects have.
pub fn object_meta() -> Option<Schema<'static>> {
    document("", "v1")?.named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

/// The schema of a `Scale`, which belongs to no resource of its own.
pub fn scale() -> Option<Schema<'static>> {
    document("apps", "v1")?.named("io.k8s.api.autoscaling.v1.Scale")
}

fn is_zero(value: &Value) -> bool {
    *value == false || *value == 0 || *value == ""
}

/// Properties of a version's fields beyond their schemas.
pub fn marks(group: &str, version: &str) -> Option<&'static Marks> {
    let document = document(group, version)?;
    let source = Source::of(group, version)?;
    Some(source.marks.get_or_init(|| Marks::of(document)))
}

/// Adds fields that objects of this kind always have: structures, and required fields that may be zero. The real server
/// reads objects into typed structures and writes them out again, so these fields are never missing.
pub fn materialise(kind: &BuiltInKind, object: &mut Object) {
    if let (Some(schema), Some(marks)) = (of(kind), marks(kind.group, kind.version)) {
        marks.materialise(schema, object);
    }
}

/// As [`materialise`], for the status alone, which a write may have removed.
pub fn materialise_status(kind: &BuiltInKind, object: &mut Object) {
    const STATUS: &str = "status";
    let (Some(schema), Some(marks)) = (of(kind), marks(kind.group, kind.version)) else { return };
    let Some(field) = schema.property(STATUS) else { return };
    if let (false, Some(default)) = (object.contains_key(STATUS), field.default.as_ref()) {
        object.insert(STATUS.to_owned(), default.clone());
    }
    if let Some(status) = object.get_mut(STATUS) {
        marks.materialise_value(field, status);
    }
}

/// The definitions of one version of a group, as they were published.
pub fn text(group: &str, version: &str) -> Option<Vec<u8>> {
    Source::of(group, version).map(Source::text)
}

fn document(group: &str, version: &str) -> Option<&'static Document> {
    let source = Source::of(group, version)?;
    Some(source.document.get_or_init(|| {
        // As above.
        let mut schemas: Map<String, Value> = serde_json::from_slice(&source.text()).unwrap_or_default();
        for (name, fields) in OPTIONAL {
            let required = schemas.get_mut(*name).and_then(|schema| schema.get_mut("required")?.as_array_mut());
            if let Some(required) = required {
                required.retain(|field| !fields.iter().any(|optional| field == optional));
            }
        }
        Document::of_definitions(&schemas)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::KINDS;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for kind in KINDS {
            assert!(of(kind).is_some(), "{} {}", kind.group, kind.definition);
        }
        assert!(object_meta().is_some());
    }

    #[test]
    fn every_marked_field_exists() {
        for (name, fields) in ZEROS.iter().chain(KEPT).chain(ALWAYS).chain(OPTIONAL) {
            let found = SOURCES.iter().find_map(|source| document(source.group, source.version)?.named(name));
            let schema = found.unwrap_or_else(|| panic!("{name} is in no document"));
            for field in *fields {
                assert!(schema.property(field).is_some(), "{name} has no field {field}");
            }
        }
    }
}
