//! Embedded: a Kubernetes structure that a user writes inside one of our kinds, kept as written.
//!
//! Volumes, environment variables and the like end up in pods that we create. Their Rust types of `k8s-openapi` drop
//! keys of a newer Kubernetes, so the JSON itself is kept, with the full schema of the type, and read as the type where
//! code looks inside.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::Quantity;

/// A `T` of Kubernetes as the JSON object it was written as.
pub struct Embedded<T> {
    object: Map<String, Value>,
    type_: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Embedded<T> {
    /// The object as its Rust type; what that type does not know is left out.
    pub fn typed(&self) -> Result<T, serde_json::Error> {
        T::deserialize(Value::Object(self.object.clone()))
    }
}

impl<T> Embedded<T> {
    /// The object as it was written.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }
}

impl<T> From<Map<String, Value>> for Embedded<T> {
    fn from(object: Map<String, Value>) -> Self {
        Self { object, type_: PhantomData }
    }
}

// Not derived: a derive would ask the same of `T`, of which there is no value here.
impl<T> Clone for Embedded<T> {
    fn clone(&self) -> Self {
        self.object.clone().into()
    }
}

impl<T> PartialEq for Embedded<T> {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl<T> fmt::Debug for Embedded<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(formatter)
    }
}

impl<T> Serialize for Embedded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Embedded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Into::into)
    }
}

impl<T: JsonSchema> JsonSchema for Embedded<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of::<T>()
    }
}

/// What the definitions of Kubernetes say and the schemas of `k8s-openapi` leave out: type, field, keyword.
///
/// An empty field means the type itself. A field with a default is not required although `k8s-openapi` says so.
const LEFT_OUT: &[(&str, &str, Keyword)] = &[
    ("AzureDiskVolumeSource", "fsType", DefaultText("ext4")),
    ("AzureDiskVolumeSource", "readOnly", DefaultFalse),
    ("CephFSVolumeSource", "monitors", AtomicList),
    ("ConfigMapKeySelector", "", AtomicMap),
    ("ConfigMapKeySelector", "name", DefaultText("")),
    ("ConfigMapProjection", "", AtomicMap),
    ("ConfigMapProjection", "items", AtomicList),
    ("ConfigMapProjection", "name", DefaultText("")),
    ("ConfigMapVolumeSource", "", AtomicMap),
    ("ConfigMapVolumeSource", "items", AtomicList),
    ("ConfigMapVolumeSource", "name", DefaultText("")),
    ("DownwardAPIProjection", "items", AtomicList),
    ("DownwardAPIVolumeSource", "items", AtomicList),
    ("FCVolumeSource", "targetWWNs", AtomicList),
    ("FCVolumeSource", "wwids", AtomicList),
    ("FileKeySelector", "", AtomicMap),
    ("FileKeySelector", "optional", DefaultFalse),
    ("ISCSIVolumeSource", "iscsiInterface", DefaultText("default")),
    ("ISCSIVolumeSource", "portals", AtomicList),
    ("LabelSelector", "", AtomicMap),
    ("LabelSelector", "matchExpressions", AtomicList),
    ("LabelSelectorRequirement", "values", AtomicList),
    ("LocalObjectReference", "", AtomicMap),
    ("LocalObjectReference", "name", DefaultText("")),
    ("ObjectFieldSelector", "", AtomicMap),
    ("PersistentVolumeClaimSpec", "accessModes", AtomicList),
    ("ProjectedVolumeSource", "sources", AtomicList),
    ("RBDVolumeSource", "keyring", DefaultText("/etc/ceph/keyring")),
    ("RBDVolumeSource", "monitors", AtomicList),
    ("RBDVolumeSource", "pool", DefaultText("rbd")),
    ("RBDVolumeSource", "user", DefaultText("admin")),
    ("ResourceFieldSelector", "", AtomicMap),
    ("ResourceRequirements", "claims", MapByName),
    ("ScaleIOVolumeSource", "fsType", DefaultText("xfs")),
    ("ScaleIOVolumeSource", "storageMode", DefaultText("ThinProvisioned")),
    ("SecretKeySelector", "", AtomicMap),
    ("SecretKeySelector", "name", DefaultText("")),
    ("SecretProjection", "", AtomicMap),
    ("SecretProjection", "items", AtomicList),
    ("SecretProjection", "name", DefaultText("")),
    ("SecretVolumeSource", "items", AtomicList),
    ("TypedLocalObjectReference", "", AtomicMap),
    ("VolumeMount", "bindMountOptions", SetList),
];

enum Keyword {
    AtomicList,
    AtomicMap,
    MapByName,
    SetList,
    DefaultText(&'static str),
    DefaultFalse,
}

use Keyword::*;

/// The schema of a type of Kubernetes, self-contained, without prose and with the keywords of [`LEFT_OUT`].
fn schema_of<T: JsonSchema>() -> Schema {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.subschema_for::<T>();
    let mut types = generator.take_definitions(false);
    for (name, schema) in &mut types {
        if let Value::Object(schema) = schema {
            let short = name.rsplit('.').next().unwrap_or(name);
            complete(short, schema);
        }
    }
    Inlined(&types).transform(&mut schema);
    schema
}

fn complete(type_: &str, schema: &mut Map<String, Value>) {
    match type_ {
        "Quantity" => {
            if let Value::Object(quantity) = Quantity::json_schema(&mut SchemaGenerator::default()).to_value() {
                *schema = quantity;
            }
        }
        // An API server knows metadata by itself.
        "ObjectMeta" => *schema = Map::from_iter([("type".to_owned(), json!("object"))]),
        _ => {}
    }
    for (_, field, keyword) in LEFT_OUT.iter().filter(|(name, ..)| *name == type_) {
        let target = match *field {
            "" => Some(&mut *schema),
            field => schema
                .get_mut("properties")
                .and_then(|properties| properties.get_mut(field))
                .and_then(Value::as_object_mut),
        };
        let Some(target) = target else {
            continue;
        };
        match keyword {
            AtomicList => {
                target.insert("x-kubernetes-list-type".into(), json!("atomic"));
            }
            AtomicMap => {
                target.insert("x-kubernetes-map-type".into(), json!("atomic"));
            }
            MapByName => {
                target.insert("x-kubernetes-list-type".into(), json!("map"));
                target.insert("x-kubernetes-list-map-keys".into(), json!(["name"]));
            }
            SetList => {
                target.insert("x-kubernetes-list-type".into(), json!("set"));
            }
            DefaultText(text) => {
                target.insert("default".into(), json!(text));
            }
            DefaultFalse => {
                target.insert("default".into(), json!(false));
            }
        }
        if matches!(keyword, DefaultText(_) | DefaultFalse)
            && let Some(Value::Array(required)) = schema.get_mut("required")
        {
            required.retain(|name| name != field);
            if required.is_empty() {
                schema.remove("required");
            }
        }
    }
}

/// Puts the types in place of the references to them. None of them contains itself, so this ends.
struct Inlined<'a>(&'a Map<String, Value>);

impl Transform for Inlined<'_> {
    fn transform(&mut self, schema: &mut Schema) {
        let object = schema.ensure_object();
        object.remove("description");
        if let Some(Value::String(reference)) = object.remove("$ref") {
            let name = reference.rsplit('/').next().unwrap_or_default();
            if let Some(Value::Object(type_)) = self.0.get(name) {
                for (key, value) in type_ {
                    object.entry(key).or_insert_with(|| value.clone());
                }
            }
            object.remove("description");
        }
        transform_subschemas(self, schema);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements, Volume, VolumeMount};

    use super::*;

    #[test]
    fn a_key_of_a_newer_kubernetes_survives() {
        let written = json!({ "name": "v", "hostPath": { "path": "/dev", "new": 1 }, "newer": true });
        let volume: Embedded<Volume> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&volume).unwrap(), written);
        assert_eq!(volume.typed().unwrap().host_path.unwrap().path, "/dev");
    }

    #[test]
    fn anything_but_an_object_is_refused() {
        assert!(serde_json::from_value::<Embedded<Volume>>(json!("v")).is_err());
    }

    #[test]
    fn every_line_of_the_table_reaches_a_schema() {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        generator.subschema_for::<Volume>();
        generator.subschema_for::<ResourceRequirements>();
        generator.subschema_for::<EnvVar>();
        generator.subschema_for::<VolumeMount>();
        let types = generator.take_definitions(false);
        for (type_, field, _) in LEFT_OUT {
            let schema = types
                .iter()
                .find(|(name, _)| name.ends_with(&format!(".{type_}")))
                .unwrap_or_else(|| panic!("no type {type_}"))
                .1;
            assert!(field.is_empty() || schema["properties"].get(field).is_some(), "{type_} has no {field}");
        }
    }

    #[test]
    fn a_schema_is_self_contained_and_without_prose() {
        let schema = schema_of::<Volume>().to_value().to_string();
        assert!(!schema.contains("$ref"));
        assert!(!schema.contains("\"description\":\""));
        assert!(schema.contains("x-kubernetes-list-type"));
    }
}
