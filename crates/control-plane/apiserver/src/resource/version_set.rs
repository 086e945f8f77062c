//! Versions of a custom kind, served or not: objects are stored in one of them and read in any.
//!
//! Conversion changes `apiVersion` and nothing else. What makes versions differ is their schemas: an object is stored
//! as the stored version knows it, filled with that version's defaults when it is read, and then shown as the version
//! of the request knows it. So a field that only another version has is neither stored nor shown.

use bytes::Bytes;
use seaworthy_fields::{ObjectType, ReplicasPaths, Set, Versions};
use seaworthy_schema::{Document, NodeId, Pruning, Schema, drop_nulls, fill};
use serde_json::Value;

use crate::builtin::schemas;
use crate::object::{self, Object};
use crate::resource::api_version;

pub struct VersionSet {
    versions: Vec<KindVersion>,
    stored: usize,
    /// The definition's generation: another one means other schemas.
    generation: i64,
    /// The revision from which on objects were written by these schemas.
    since: u64,
}

struct KindVersion {
    api_version: String,
    prefix: Box<[u8]>,
    /// The path of the number of replicas.
    replicas: Option<Vec<String>>,
    document: Document,
    root: NodeId,
}

impl KindVersion {
    fn schema(&self) -> Schema<'_> {
        self.document.at(self.root)
    }
}

/// The index of a version in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionIndex(usize);

impl VersionSet {
    /// Reads a definition's `spec`. `written` is the revision of the definition; `before` is the previous set.
    pub fn read(spec: &Value, generation: i64, written: u64, before: Option<&VersionSet>) -> VersionSet {
        let text = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let listed = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let versions = listed.iter().map(|version| {
            let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
            let api_version = api_version(text("/group"), name);
            let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
            let (document, root) = Document::of_custom_resource(schema);
            let prefix = object::prefix(&api_version, text("/names/kind")).into_bytes().into();
            let replicas = version.pointer("/subresources/scale/specReplicasPath").and_then(Value::as_str);
            let replicas = replicas.map(|path| path.trim_start_matches('.').split('.').map(str::to_owned).collect());
            KindVersion { api_version, prefix, replicas, document, root }
        });
        let is_stored = |version: &Value| version.get("storage").and_then(Value::as_bool).unwrap_or(false);
        VersionSet {
            versions: versions.collect(),
            stored: listed.iter().position(is_stored).unwrap_or(0),
            generation,
            since: before.filter(|before| before.generation == generation).map_or(written, |before| before.since),
        }
    }

    /// The index of a version in the definition's list.
    pub fn index(&self, at: usize) -> VersionIndex {
        VersionIndex(at)
    }

    pub fn schema(&self, index: VersionIndex) -> Schema<'_> {
        self.versions[index.0].schema()
    }

    /// The path of the number of replicas in each version.
    pub fn replicas_paths(&self) -> ReplicasPaths {
        self.versions.iter().map(|version| (version.api_version.clone(), version.replicas.clone())).collect()
    }

    /// Whether a stored object is served in this version byte for byte.
    pub fn is_served_as_stored(&self, index: VersionIndex, body: &Bytes) -> bool {
        body.starts_with(&self.versions[index.0].prefix) && object::revision_of(body).is_some_and(|at| at > self.since)
    }

    /// Whether writes in this version are stored in it.
    pub fn is_stored(&self, index: VersionIndex) -> bool {
        index.0 == self.stored
    }

    /// A stored object converted to this version.
    pub fn to_served(&self, index: VersionIndex, mut stored: Object) -> Object {
        let api_version = stored.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        // An object of a removed version is read in the stored version.
        let own =
            self.versions.iter().find(|own| own.api_version == api_version).unwrap_or(&self.versions[self.stored]);
        stored = with_schema(own.schema(), stored, |schema, value| {
            Pruning::default().object(schema, value);
            drop_nulls(Some(schema), value);
            fill(schema, value);
        });
        self.converted(&self.versions[index.0], stored)
    }

    /// An object converted for the store. Defaults are filled in, so that the bytes can be served as they are.
    pub fn to_stored(&self, object: Object) -> Object {
        let version = &self.versions[self.stored];
        with_schema(version.schema(), self.converted(version, object), fill)
    }

    fn converted(&self, version: &KindVersion, mut object: Object) -> Object {
        object.insert("apiVersion".to_owned(), version.api_version.as_str().into());
        with_schema(version.schema(), object, |schema, value| {
            Pruning::default().object(schema, value);
            drop_nulls(Some(schema), value);
        })
    }
}

fn with_schema(schema: Schema<'_>, object: Object, change: impl FnOnce(Schema<'_>, &mut Value)) -> Object {
    let mut value = Value::Object(object);
    change(schema, &mut value);
    object::into_fields(value)
}

/// Versions for `managedFields`. Fields are compared without pruning, as the real server does: an object with fields
/// that another version lacks does not conform to that one.
impl Versions for VersionSet {
    fn kind(&self, api_version: &str) -> Option<(ObjectType<'_>, Option<&Set>)> {
        let version = self.versions.iter().find(|version| version.api_version == api_version)?;
        Some((object_type(version.schema()), None))
    }

    fn refusal(&self, api_version: &str) -> Option<String> {
        let is_known = self.versions.iter().any(|version| version.api_version == api_version);
        (!is_known).then(|| format!("request to convert CR to an invalid group/version: {api_version}"))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut converted = object.clone();
        converted.as_object_mut()?.insert("apiVersion".to_owned(), api_version.into());
        Some(converted)
    }
}

/// The schema by which the fields of a custom resource are distinguished.
pub fn object_type(schema: Schema<'_>) -> ObjectType<'_> {
    match schemas::object_meta() {
        Some(metadata) => ObjectType::custom(schema, metadata),
        None => ObjectType::unknown(),
    }
}
