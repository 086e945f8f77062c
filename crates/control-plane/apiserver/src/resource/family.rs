//! All versions of a kind that a definition describes, served or not: objects are stored in one of them and read in any.
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

/// All versions of a kind.
pub struct Family {
    forms: Vec<Form>,
    stored: usize,
    /// The definition's generation: another one means other schemas.
    generation: i64,
    /// The revision from which on objects were written by these schemas.
    since: u64,
}

/// One version.
struct Form {
    api_version: String,
    prefix: Box<[u8]>,
    /// Where the number of a scale is.
    replicas: Option<Vec<String>>,
    document: Document,
    root: NodeId,
}

impl Form {
    fn schema(&self) -> Schema<'_> {
        self.document.at(self.root)
    }
}

/// A version of a family, by its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormId(usize);

impl Family {
    /// Reads a definition's `spec`. `written` is the revision of the definition; `before` is the family as it was.
    pub fn read(spec: &Value, generation: i64, written: u64, before: Option<&Family>) -> Family {
        let text = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let versions = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let forms = versions.iter().map(|version| {
            let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
            let api_version = api_version(text("/group"), name);
            let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
            let (document, root) = Document::of_custom_resource(schema);
            let prefix = object::prefix(&api_version, text("/names/kind")).into_bytes().into();
            let replicas = version.pointer("/subresources/scale/specReplicasPath").and_then(Value::as_str);
            let replicas = replicas.map(|path| path.trim_start_matches('.').split('.').map(str::to_owned).collect());
            Form { api_version, prefix, replicas, document, root }
        });
        let is_stored = |version: &Value| version.get("storage").and_then(Value::as_bool).unwrap_or(false);
        Family {
            forms: forms.collect(),
            stored: versions.iter().position(is_stored).unwrap_or(0),
            generation,
            since: before.filter(|before| before.generation == generation).map_or(written, |before| before.since),
        }
    }

    /// The version at a place of the definition's list.
    pub fn form(&self, at: usize) -> FormId {
        FormId(at)
    }

    /// A version's schema.
    pub fn schema(&self, form: FormId) -> Schema<'_> {
        self.forms[form.0].schema()
    }

    /// Where the number of a scale is in each version.
    pub fn replicas_paths(&self) -> ReplicasPaths {
        self.forms.iter().map(|form| (form.api_version.clone(), form.replicas.clone())).collect()
    }

    /// Whether a stored object is what its readers in this version get, as it is.
    pub fn is_ready(&self, form: FormId, body: &Bytes) -> bool {
        body.starts_with(&self.forms[form.0].prefix) && object::revision_of(body).is_some_and(|at| at > self.since)
    }

    /// Whether writes in this version are stored in it.
    pub fn is_stored(&self, form: FormId) -> bool {
        form.0 == self.stored
    }

    /// A stored object as readers in this version get it.
    pub fn shown(&self, form: FormId, mut stored: Object) -> Object {
        let api_version = stored.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        // An object of a version that is gone is read as if it had been stored today.
        let own = self.forms.iter().find(|own| own.api_version == api_version).unwrap_or(&self.forms[self.stored]);
        stored = with_schema(own.schema(), stored, |schema, value| {
            Pruning::default().object(schema, value);
            drop_nulls(Some(schema), value);
            fill(schema, value);
        });
        self.converted(&self.forms[form.0], stored)
    }

    /// An object as it is stored. What its readers would be filled in is there at once: so the bytes are ready.
    pub fn kept(&self, object: Object) -> Object {
        let form = &self.forms[self.stored];
        with_schema(form.schema(), self.converted(form, object), fill)
    }

    fn converted(&self, form: &Form, mut object: Object) -> Object {
        object.insert("apiVersion".to_owned(), form.api_version.as_str().into());
        with_schema(form.schema(), object, |schema, value| {
            Pruning::default().object(schema, value);
            drop_nulls(Some(schema), value);
        })
    }
}

fn with_schema(schema: Schema<'_>, object: Object, change: impl FnOnce(Schema<'_>, &mut Value)) -> Object {
    let mut value = Value::Object(object);
    change(schema, &mut value);
    match value {
        Value::Object(object) => object,
        // An object stays one, whatever is dropped or filled in.
        _ => Object::new(),
    }
}

/// The versions of managers. Their fields are compared without dropping anything, as the real server does: an object
/// with fields that another version lacks does not fit that one.
impl Versions for Family {
    fn kind(&self, api_version: &str) -> Option<(ObjectType<'_>, Option<&Set>)> {
        let form = self.forms.iter().find(|form| form.api_version == api_version)?;
        Some((object_type(form.schema()), None))
    }

    fn refusal(&self, api_version: &str) -> Option<String> {
        let is_known = self.forms.iter().any(|form| form.api_version == api_version);
        (!is_known).then(|| format!("request to convert CR to an invalid group/version: {api_version}"))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut converted = object.clone();
        converted.as_object_mut()?.insert("apiVersion".to_owned(), api_version.into());
        Some(converted)
    }
}

/// The type by which fields of a custom resource are told apart.
pub fn object_type(schema: Schema<'_>) -> ObjectType<'_> {
    match schemas::object_meta() {
        Some(metadata) => ObjectType::custom(schema, metadata),
        None => ObjectType::unknown(),
    }
}
