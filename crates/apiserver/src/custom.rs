//! A kind that a CustomResourceDefinition describes.

use std::sync::Arc;

use jiff::Timestamp;
use seaworthy_schema::{Cause, Document, NodeId, Schema};
use serde_json::Value;

use crate::kind::{PART_VERBS, Part, keep_parts_apart, keep_parts_apart_from_the_start};
use crate::object::{Metadata, Object};
use crate::resource::{Below, Resource};
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
    pub fn judge(&self, _object: &Object, _old: Option<&Object>, _part: Part) -> Vec<Cause> {
        Vec::new()
    }

    /// Brings an object into the state in which this write may leave it.
    pub fn prepare(&self, object: &mut Object, old: Option<&Object>, part: Part) {
        if self.has_status {
            keep_parts_apart_from_the_start(object, old, part);
        } else {
            keep_parts_apart(object, old, Part::Finalize);
        }
    }

    /// Fills in what the client left out.
    pub fn fill_defaults(&self, _object: &mut Object) {}

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
pub fn resources(_definition: &Object) -> Vec<Arc<Resource>> {
    Vec::new()
}
