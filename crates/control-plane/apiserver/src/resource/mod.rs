//! Served resources: one version of a kind, built in or defined by a user.

pub mod built_in_kind;
pub mod custom;
pub mod registry;
pub mod version_set;

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use seaworthy_schema::{Cause, Schema, ValidationResult};
use seaworthy_store::{Body, Record};
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::schemas;
use crate::object::{self, Metadata, Object};
use crate::request::Verb;
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, Review, StoredAs, SubresourceAction,
};
use crate::resource::custom::CustomKind;
use crate::response::status::GroupResource;

/// One version of a kind.
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: Arc<str>,
    pub version: Arc<str>,
    /// The plural name, in paths.
    pub plural: Arc<str>,
    pub singular: Arc<str>,
    /// The name in manifests, `kind`.
    pub kind: Arc<str>,
    /// The kind of lists.
    pub list_kind: Arc<str>,
    pub is_namespaced: bool,
    /// Short names for kubectl.
    pub short_names: Vec<Arc<str>>,
    /// `all` and its like.
    pub categories: Vec<Arc<str>>,
    /// The supported verbs.
    pub verbs: &'static [Verb],
    /// The resource name in the store. All versions of a kind share it.
    pub storage: Arc<str>,
    /// `apiVersion` of its objects.
    pub api_version: Arc<str>,
    /// The first bytes of stored objects in this version.
    pub prefix: Box<[u8]>,
    pub origin: Origin,
}

/// The origin of a resource.
pub enum Origin {
    /// A built-in kind.
    BuiltIn(&'static BuiltInKind),
    /// A kind of a CustomResourceDefinition.
    Custom(Arc<CustomKind>),
}

/// A subresource, resolved for one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedSubresource {
    pub name: &'static str,
    /// Group, version and kind of what is sent and answered.
    pub kind: (Arc<str>, Arc<str>, Arc<str>),
    /// Whether that is not the parent's kind.
    pub is_foreign: bool,
    /// The supported verbs.
    pub verbs: &'static [Verb],
    pub action: SubresourceAction,
}

impl Resource {
    /// The resource of a built-in kind.
    pub fn built_in(kind: &'static BuiltInKind) -> Resource {
        let kept = kind.stored_as.map_or(kind, |stored_as| stored_as.kind);
        let group = if kept.group.is_empty() { "core" } else { kept.group };
        let prefix = |kind: &BuiltInKind| -> Box<[u8]> {
            object::prefix(&api_version(kind.group, kind.version), kind.kind).into_bytes().into()
        };
        Resource {
            group: kind.group.into(),
            version: kind.version.into(),
            plural: kind.plural.into(),
            singular: kind.singular.into(),
            kind: kind.kind.into(),
            list_kind: kind.list_kind().into(),
            is_namespaced: kind.is_namespaced,
            short_names: kind.short_names.iter().map(|name| (*name).into()).collect(),
            categories: kind.categories.iter().map(|name| (*name).into()).collect(),
            verbs: kind.verbs,
            storage: format!("{group}/{}", kept.plural).into(),
            api_version: api_version(kind.group, kind.version).into(),
            prefix: prefix(kind),
            origin: Origin::BuiltIn(kind),
        }
    }

    /// Whether it is defined by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom(_))
    }

    /// Group and plural name, for messages.
    pub fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.plural }
    }

    /// Group and kind, for messages.
    pub fn group_kind(&self) -> GroupResource<'_> {
        // A kind that is stored as another one has the group of that one in messages.
        GroupResource {
            group: self.stored_as().map_or(&self.group, |stored_as| stored_as.kind.group),
            resource: &self.kind,
        }
    }

    pub fn behaviour(&self) -> KindBehaviour {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.behaviour,
            Origin::Custom(_) => KindBehaviour {
                updates_unconditionally: false,
                generation: GenerationPolicy::SpecChanges,
                ..KindBehaviour::PLAIN
            },
        }
    }

    /// The revision that created it: watches cannot start before it.
    pub fn history_begins(&self) -> u64 {
        match &self.origin {
            Origin::BuiltIn(_) => 0,
            Origin::Custom(custom) => custom.history_begins,
        }
    }

    /// Whether its definition is being deleted.
    pub fn is_terminating(&self) -> bool {
        matches!(&self.origin, Origin::Custom(custom) if custom.is_terminating)
    }

    /// Whether it is the version in which objects are stored.
    pub fn is_stored_version(&self) -> bool {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.stored_as.is_none(),
            Origin::Custom(custom) => custom.versions.is_stored(custom.index),
        }
    }

    pub fn schema(&self) -> Option<Schema<'_>> {
        match &self.origin {
            Origin::BuiltIn(kind) => schemas::of(kind),
            Origin::Custom(custom) => Some(custom.schema()),
        }
    }

    /// Whether it has the status subresource.
    pub fn has_status(&self) -> bool {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.subresources.iter().any(|subresource| subresource.name == "status"),
            Origin::Custom(custom) => custom.has_status(),
        }
    }

    pub fn subresources(&self) -> Vec<ServedSubresource> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.subresources.iter().map(|subresource| self.resolve(subresource)).collect(),
            Origin::Custom(custom) => custom.subresources(self),
        }
    }

    fn resolve(&self, subresource: &crate::resource::built_in_kind::Subresource) -> ServedSubresource {
        let (group, version, kind) = subresource.kind;
        let is_foreign = !kind.is_empty();
        let kind = match is_foreign {
            true => (group.into(), version.into(), kind.into()),
            false => (self.group.clone(), self.version.clone(), self.kind.clone()),
        };
        let is_foreign = is_foreign && !group.is_empty();
        ServedSubresource {
            name: subresource.name,
            kind,
            is_foreign,
            verbs: subresource.verbs,
            action: subresource.action.clone(),
        }
    }

    /// Validates a name; returns the problems.
    pub fn name_problems(&self, name: &str) -> Vec<String> {
        match &self.origin {
            Origin::BuiltIn(kind) => (kind.name_rule)(name),
            Origin::Custom(_) => names::dns_subdomain(name),
        }
    }

    /// The value of a selectable field; none if it is not selectable.
    pub fn selectable(&self, object: &Value, label: &str) -> Option<String> {
        match label {
            "metadata.name" => return Some(object.name().to_owned()),
            "metadata.namespace" => return Some(object.namespace().to_owned()),
            _ => {}
        }
        match &self.origin {
            Origin::BuiltIn(kind) => kind
                .selectable
                .iter()
                .find(|field| field.label == label)
                .map(|field| field.value(object::fields(object))),
            Origin::Custom(custom) => custom.selectable(object, label),
        }
    }

    /// The names of the selectable fields beside name and namespace.
    pub fn selectable_labels(&self) -> Vec<&str> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.selectable.iter().map(|field| field.label).collect(),
            Origin::Custom(custom) => custom.selectable_labels(),
        }
    }

    /// Validates an object. `metadata` has the problems of its metadata.
    pub fn validate(
        &self,
        object: &Value,
        old: Option<&Value>,
        part: ObjectPart,
        mut metadata: Vec<Cause>,
    ) -> ValidationResult {
        match &self.origin {
            Origin::BuiltIn(kind) => {
                metadata.extend((kind.validate)(object::fields(object), old.map(object::fields), part));
                ValidationResult { mistakes: metadata, warnings: Vec::new() }
            }
            Origin::Custom(custom) => custom.validate(object, old, part, metadata),
        }
    }

    /// Warnings for the author of a valid object.
    pub fn warnings(&self, object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<String> {
        match &self.origin {
            Origin::BuiltIn(kind) => (kind.warnings)(object, old, part),
            Origin::Custom(custom) => custom.warnings(object, old, part),
        }
    }

    /// Whether a top-level field is desired state, not status.
    pub fn is_desired_state(&self, key: &str) -> bool {
        match key {
            "metadata" | "kind" | "apiVersion" => false,
            "status" => matches!(&self.origin, Origin::Custom(custom) if !custom.has_status()),
            _ => true,
        }
    }

    /// Drops changes that this write may not make.
    pub fn prepare(&self, object: &mut Object, old: Option<&Object>, part: ObjectPart) {
        match &self.origin {
            Origin::BuiltIn(kind) => {
                (kind.prepare)(object, old, part);
                schemas::materialise_status(kind, object);
            }
            Origin::Custom(custom) => custom.prepare(object, old, part),
        }
    }

    /// Sets default values. `is_applied`: the object is the result of an apply.
    pub fn fill_defaults(&self, object: &mut Object, is_applied: bool) {
        match &self.origin {
            Origin::BuiltIn(kind) => {
                schemas::materialise(kind, object);
                (kind.defaults)(object);
            }
            Origin::Custom(custom) => custom.fill_defaults(object, is_applied),
        }
    }

    /// Warning for all requests.
    pub fn deprecation_warning(&self) -> Option<&str> {
        match &self.origin {
            Origin::BuiltIn(kind) => Some(kind.deprecation_warning).filter(|text| !text.is_empty()),
            Origin::Custom(custom) => custom.deprecation_warning.as_deref(),
        }
    }

    /// For a review kind: computes the answer.
    pub fn review(&self) -> Option<Review> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.review,
            Origin::Custom(_) => None,
        }
    }

    /// Encodes an object for the store.
    pub fn encode(&self, object: &Object) -> Body {
        match self.stored_as() {
            Some(stored_as) => {
                let version = api_version(stored_as.kind.group, stored_as.kind.version);
                object::encode(&stored_as.to_stored(object, &version))
            }
            None => match &self.origin {
                Origin::Custom(custom) if !custom.versions.is_stored(custom.index) => {
                    object::encode(&custom.versions.to_stored(object.clone()))
                }
                _ => object::encode(object),
            },
        }
    }

    /// Whether a stored object is served in this version byte for byte.
    pub fn is_served_as_stored(&self, body: &Bytes) -> bool {
        match &self.origin {
            Origin::BuiltIn(_) => body.starts_with(&self.prefix),
            Origin::Custom(custom) => custom.versions.is_served_as_stored(custom.index, body),
        }
    }

    /// An object as it is served after being stored: storage in another version may drop fields.
    pub fn as_if_stored(&self, object: Object) -> Object {
        match &self.origin {
            Origin::Custom(custom) if !custom.versions.is_stored(custom.index) => {
                custom.versions.to_served(custom.index, custom.versions.to_stored(object))
            }
            _ => object,
        }
    }

    /// Whether storing an object changes nothing; none if a comparison in the served version is sufficient, because the
    /// object is stored in that version.
    pub fn is_stored_already(&self, object: &Object, stored: &Record) -> Option<bool> {
        let Origin::Custom(custom) = &self.origin else { return None };
        let stored = stored.body();
        if custom.versions.is_stored(custom.index) && self.is_served_as_stored(&stored) {
            return None;
        }
        let mut next = custom.versions.to_stored(object.clone());
        let mut stored: Object = serde_json::from_slice(&stored).unwrap_or_default();
        for object in [&mut next, &mut stored] {
            object.metadata_mut().remove("resourceVersion");
        }
        Some(next == stored)
    }

    /// For a kind whose objects are stored as another kind.
    pub fn stored_as(&self) -> Option<&'static StoredAs> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.stored_as,
            Origin::Custom(_) => None,
        }
    }

    /// Changes an object when its deletion begins, beside the deletion time.
    pub fn begin_deletion(&self, object: &mut Object) {
        if let Origin::BuiltIn(kind) = &self.origin {
            (kind.begin_deletion)(object);
        }
    }

    /// The default grace period in seconds; none if the object is deleted at once.
    pub fn default_grace_seconds(&self, object: &Object) -> Option<i64> {
        match &self.origin {
            Origin::BuiltIn(kind) => (kind.default_grace_seconds)(object),
            Origin::Custom(_) => None,
        }
    }

    /// Whether a deleted object can be removed: no finalizers, no grace period left.
    pub fn is_removable(&self, object: &Object) -> bool {
        let blocks_deletion = matches!(&self.origin, Origin::BuiltIn(kind) if (kind.blocks_deletion)(object));
        let has_time = object.metadata().get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) > 0;
        object.finalizers().next().is_none() && !blocks_deletion && !has_time
    }

    /// The columns of its table.
    pub fn columns(&self) -> Vec<Value> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.columns.iter().map(crate::response::table::column).collect(),
            Origin::Custom(custom) => custom.columns(),
        }
    }

    /// One row of its table.
    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        match &self.origin {
            Origin::BuiltIn(kind) => (kind.cells)(object, now),
            Origin::Custom(custom) => custom.cells(object, now),
        }
    }
}

/// `v1`, or `apps/v1`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
