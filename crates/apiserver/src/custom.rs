//! A kind that a CustomResourceDefinition describes.

use std::sync::Arc;

use jiff::Timestamp;
use seaworthy_schema::{Cause, Document, NodeId, Schema};
use serde_json::Value;

use crate::kind::{ALL_VERBS, PART_VERBS, Part, keep_parts_apart_from_the_start};
use crate::object::{self, Metadata, Object};
use crate::resource::{Below, Origin, Resource, api_version};
use crate::table;

/// One version of a definition.
pub struct Custom {
    document: Document,
    root: NodeId,
    has_status: bool,
    /// The revision that created the definition.
    pub history_begins: u64,
}

impl Custom {
    /// Reads one version of a definition's `spec`.
    pub fn read(version: &Value, history_begins: u64) -> Custom {
        let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
        let (document, root) = Document::of_custom_resource(schema);
        Custom { document, root, has_status: version.pointer("/subresources/status").is_some(), history_begins }
    }

    /// Its schema.
    pub fn schema(&self) -> Schema<'_> {
        self.document.at(self.root)
    }

    /// What lives below its objects.
    pub fn below(&self, resource: &Resource) -> Vec<Below> {
        let kind = (resource.group.clone(), resource.version.clone(), resource.kind.clone());
        let status = Below { name: "status", kind, is_foreign: false, verbs: PART_VERBS };
        self.has_status.then_some(status).into_iter().collect()
    }

    /// The value of a field that selectors may name.
    pub fn selectable(&self, _object: &Object, _label: &str) -> Option<String> {
        None
    }

    /// The fields that selectors may name.
    pub fn selectable_labels(&self) -> Vec<&str> {
        Vec::new()
    }

    /// What is wrong with an object.
    pub fn judge(&self, object: &Object, old: Option<&Object>, _part: Part) -> Vec<Cause> {
        let value = Value::Object(object.clone());
        let old = old.map(|old| Value::Object(old.clone()));
        seaworthy_schema::validate(self.schema(), &value, old.as_ref(), "")
    }

    /// Brings an object into the state in which this write may leave it.
    pub fn prepare(&self, object: &mut Object, old: Option<&Object>, part: Part) {
        if self.has_status {
            keep_parts_apart_from_the_start(object, old, part);
        }
    }

    /// Fills in what the client left out.
    pub fn fill_defaults(&self, object: &mut Object) {
        let mut value = Value::Object(std::mem::take(object));
        seaworthy_schema::apply_defaults(self.schema(), &mut value);
        if let Value::Object(filled) = value {
            *object = filled;
        }
    }

    /// The columns of its table.
    pub fn columns(&self) -> Vec<Value> {
        [crate::kind::Column::NAME, crate::kind::Column::AGE].iter().map(table::column).collect()
    }

    /// One row of its table.
    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        vec![object.name().into(), table::age(object, now)]
    }
}

/// The resources of a definition: one for each version that is served.
pub fn resources(definition: &Object, history_begins: u64) -> Vec<Arc<Resource>> {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let text = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let texts = |path: &str| -> Vec<Arc<str>> {
        let list = spec.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(Into::into).collect()
    };
    let group = text("/group");
    let versions = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let name = |version: &Value| version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |version: &Value, key: &str| version.get(key).and_then(Value::as_bool).unwrap_or(false);
    let stored = versions.iter().find(|version| is(version, "storage")).map(name).unwrap_or_default();
    let kind = text("/names/kind");
    let prefix =
        |version: &str| -> Box<[u8]> { object::prefix(&api_version(group, version), kind).into_bytes().into() };
    let served = versions.iter().filter(|version| is(version, "served"));
    served
        .map(|version| {
            let version_name = name(version);
            Arc::new(Resource {
                group: group.into(),
                version: version_name.as_str().into(),
                plural: text("/names/plural").into(),
                singular: text("/names/singular").into(),
                kind: kind.into(),
                list_kind: text("/names/listKind").into(),
                is_namespaced: text("/scope") == "Namespaced",
                short_names: texts("/names/shortNames"),
                categories: texts("/names/categories"),
                verbs: ALL_VERBS,
                storage: format!("{group}/{}", text("/names/plural")).into(),
                api_version: api_version(group, &version_name).into(),
                prefix: prefix(&version_name),
                stored_prefix: prefix(&stored),
                origin: Origin::Custom(Arc::new(Custom::read(version, history_begins))),
            })
        })
        .collect()
}
