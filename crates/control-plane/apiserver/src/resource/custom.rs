//! Custom kinds: kinds that a CustomResourceDefinition defines.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use seaworthy_schema::{Cause, Column, CustomResource, JsonPath, Scale, Schema, ValidationResult};
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::object::meta::{FOREGROUND, ORPHAN};
use crate::object::{self, Metadata, Object};
use crate::resource::built_in_kind::{
    ALL_VERBS, ObjectPart, READ_WRITE_VERBS, ScalePaths, SubresourceAction, isolate_status_from_creation,
};
use crate::resource::registry::version_order;
use crate::resource::version_set::{VersionIndex, VersionSet};
use crate::resource::{Origin, Resource, ServedSubresource, api_version};
use crate::response::table;

const NAME: crate::resource::built_in_kind::TableColumn = crate::resource::built_in_kind::TableColumn::NAME;
const AGE: crate::resource::built_in_kind::TableColumn = crate::resource::built_in_kind::TableColumn::AGE;

/// One version of a definition.
pub struct CustomKind {
    pub versions: Arc<VersionSet>,
    /// The index of this version.
    pub index: VersionIndex,
    has_status: bool,
    scale: Option<Scale>,
    columns: Vec<Column>,
    selectable: Vec<(String, JsonPath)>,
    /// The schema as it was written, for OpenAPI documents.
    pub published: Value,
    /// The revision that created the definition.
    pub history_begins: u64,
    /// Whether the definition is being deleted: its objects are deleted, and no new ones are accepted.
    pub is_terminating: bool,
    /// Warning for all requests of this version.
    pub deprecation_warning: Option<String>,
}

impl CustomKind {
    /// Reads one version of a definition's `spec`.
    fn read(version: &Value, versions: Arc<VersionSet>, index: VersionIndex, history_begins: u64) -> CustomKind {
        let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
        let list = |key: &str| version.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let columns = list("additionalPrinterColumns").iter().filter_map(Column::of).collect();
        let selectable = list("selectableFields").iter().filter_map(|field| {
            let path = field.get("jsonPath")?.as_str()?;
            Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()?))
        });
        CustomKind {
            versions,
            index,
            has_status: version.pointer("/subresources/status").is_some(),
            scale: version.pointer("/subresources/scale").and_then(Scale::of),
            columns,
            selectable: selectable.collect(),
            published: schema.clone(),
            history_begins,
            is_terminating: false,
            deprecation_warning: None,
        }
    }

    pub fn schema(&self) -> Schema<'_> {
        self.versions.schema(self.index)
    }

    /// Whether it has the status subresource.
    pub fn has_status(&self) -> bool {
        self.has_status
    }

    /// The scale subresource.
    pub fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    pub fn subresources(&self, resource: &Resource) -> Vec<ServedSubresource> {
        let own = (resource.group.clone(), resource.version.clone(), resource.kind.clone());
        let status = ServedSubresource {
            name: "status",
            kind: own,
            is_foreign: false,
            verbs: READ_WRITE_VERBS,
            action: SubresourceAction::ReadWrite,
        };
        let scale = self.scale.as_ref().map(|scale| ServedSubresource {
            name: "scale",
            kind: ("autoscaling".into(), "v1".into(), "Scale".into()),
            is_foreign: true,
            verbs: READ_WRITE_VERBS,
            action: SubresourceAction::Scale(ScalePaths::of_custom(scale)),
        });
        self.has_status.then_some(status).into_iter().chain(scale).collect()
    }

    /// The value of a selectable field.
    pub fn selectable(&self, object: &Value, label: &str) -> Option<String> {
        let (_, path) = self.selectable.iter().find(|(field, _)| field == label)?;
        let found = path.find(object).ok()?;
        Some(match found.first().map(|value| &**value) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        })
    }

    /// The names of the selectable fields.
    pub fn selectable_labels(&self) -> Vec<&str> {
        self.selectable.iter().map(|(field, _)| field.as_str()).collect()
    }

    /// Validates an object. `metadata` has the problems of its metadata.
    pub fn validate(
        &self,
        object: &Value,
        old: Option<&Value>,
        part: ObjectPart,
        metadata: Vec<Cause>,
    ) -> ValidationResult {
        let validator = CustomResource { schema: self.schema(), scale: self.scale.as_ref() };
        match (part, old) {
            (ObjectPart::Status, Some(old)) => validator.status_mistakes(object, old, metadata),
            _ => validator.mistakes(object, old, metadata),
        }
    }

    /// Warnings about the new finalizers of an object.
    pub fn warnings(&self, object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<String> {
        if part == ObjectPart::Status {
            return Vec::new();
        }
        let known: BTreeSet<&str> = old.into_iter().flat_map(Metadata::finalizers).collect();
        let new: BTreeSet<&str> = object.finalizers().filter(|name| !known.contains(name)).collect();
        let mut warnings = Vec::new();
        for name in new {
            let mut warn = |why: &str| warnings.push(format!("metadata.finalizers: {name:?}: {why}"));
            names::qualified_name(name).iter().for_each(|why| warn(why));
            if name.contains('/') || matches!(name, ORPHAN | FOREGROUND | "kubernetes") {
                continue;
            }
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            warn(&format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            ));
        }
        warnings
    }

    /// Drops changes that this write may not make.
    pub fn prepare(&self, object: &mut Object, old: Option<&Object>, part: ObjectPart) {
        if self.has_status {
            isolate_status_from_creation(object, old, part);
        }
        // A write to the status cannot change the metadata.
        if let (ObjectPart::Status, Some(old)) = (part, old) {
            let mut kept = old.metadata().clone();
            for key in ["managedFields", "resourceVersion"] {
                match object.metadata().get(key) {
                    Some(value) => kept.insert(key.to_owned(), value.clone()),
                    None => kept.remove(key),
                };
            }
            object.insert("metadata".to_owned(), Value::Object(kept));
        }
    }

    /// Sets default values. Nulls are dropped, except in an applied configuration, where they are invalid values.
    pub fn fill_defaults(&self, object: &mut Object, is_applied: bool) {
        let mut value = Value::Object(std::mem::take(object));
        match is_applied {
            true => seaworthy_schema::fill(self.schema(), &mut value),
            false => seaworthy_schema::apply_defaults(self.schema(), &mut value),
        }
        *object = object::into_fields(value);
    }

    /// The columns of its table.
    pub fn columns(&self) -> Vec<Value> {
        let name = table::column(&NAME);
        if self.columns.is_empty() {
            return vec![name, table::column(&crate::resource::built_in_kind::TableColumn { kind: "date", ..AGE })];
        }
        let own = self.columns.iter().map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": column.description,
                "priority": column.priority,
            })
        });
        std::iter::once(name).chain(own).collect()
    }

    /// One row of its table.
    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let name = Value::from(object.name());
        if self.columns.is_empty() {
            return vec![name, table::age(object, now)];
        }
        let value = Value::Object(object.clone());
        let own = self.columns.iter().map(|column| column.cell(&value, now.as_second()));
        std::iter::once(name).chain(own).collect()
    }
}

/// The resources of a definition: one for each served version. `written` is the definition's revision, `before` its
/// previous versions.
pub fn resources(
    definition: &Object,
    history_begins: u64,
    written: u64,
    before: Option<&VersionSet>,
) -> Vec<Arc<Resource>> {
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
    let kind = text("/names/kind");
    let prefix =
        |version: &str| -> Box<[u8]> { object::prefix(&api_version(group, version), kind).into_bytes().into() };
    let version_set = Arc::new(VersionSet::read(spec, definition.generation(), written, before));
    let served = versions.iter().enumerate().filter(|(_, version)| is(version, "served"));
    served
        .map(|(at, version)| {
            let version_name = name(version);
            let mut custom = CustomKind::read(version, version_set.clone(), version_set.index(at), history_begins);
            custom.deprecation_warning = deprecation(spec, version);
            custom.is_terminating = definition.is_deleting();
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
                origin: Origin::Custom(Arc::new(custom)),
            })
        })
        .collect()
}

/// The resource of a definition's stored version, whether that is served or not.
pub fn stored_resource(definition: &Object) -> Option<Arc<Resource>> {
    let mut definition = definition.clone();
    let versions = definition.get_mut("spec").and_then(|spec| spec.get_mut("versions")).and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten().filter_map(Value::as_object_mut) {
        version.insert("served".to_owned(), true.into());
    }
    resources(&definition, 0, 0, None).into_iter().find(|resource| resource.is_stored_version())
}

/// The warning of a deprecated version.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    let is = |version: &Value, key: &str| version.get(key).and_then(Value::as_bool).unwrap_or(false);
    if !is(version, "deprecated") {
        return None;
    }
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let text = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let name = |version: &Value| version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind, own) = (text("/group"), text("/names/kind"), name(version));
    let all = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let better = all.iter().filter(|other| is(other, "served") && !is(other, "deprecated")).map(name);
    let better =
        better.filter(|other| version_order(other) > version_order(&own)).max_by_key(|other| version_order(other));
    let instead = better.map(|better| format!("; use {group}/{better} {kind}")).unwrap_or_default();
    Some(format!("{group}/{own} {kind} is deprecated{instead}"))
}
