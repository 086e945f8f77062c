//! A resource that is served: one version of a kind, built in or defined by a user.

pub mod custom;
pub mod family;
pub mod kind;
pub mod registry;

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use seaworthy_schema::{Cause, Schema, Verdict, names};
use seaworthy_store::Record;
use serde_json::Value;

use crate::builtin::schemas;
use crate::object::{self, Encoded, Metadata, Object};
use crate::request::Verb;
use crate::resource::custom::Custom;
use crate::resource::kind::{Deed, Generation, KeptAs, Kind, Part, Review, Ways};
use crate::response::status::Named;

/// One version of a kind.
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: Arc<str>,
    /// The version.
    pub version: Arc<str>,
    /// The name in paths.
    pub plural: Arc<str>,
    /// The name for one.
    pub singular: Arc<str>,
    /// The name in manifests.
    pub kind: Arc<str>,
    /// The name of lists in answers.
    pub list_kind: Arc<str>,
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
    /// What people type.
    pub short_names: Vec<Arc<str>>,
    /// `all` and its like.
    pub categories: Vec<Arc<str>>,
    /// What can be done.
    pub verbs: &'static [Verb],
    /// Where the store keeps its objects. All versions of a kind share it.
    pub storage: Arc<str>,
    /// What `apiVersion` says in objects of this version.
    pub api_version: Arc<str>,
    /// What objects of this version begin with.
    pub prefix: Box<[u8]>,
    /// Whose idea it was.
    pub origin: Origin,
}

/// Where a resource comes from.
pub enum Origin {
    /// The server knows it.
    BuiltIn(&'static Kind),
    /// A CustomResourceDefinition says so.
    Custom(Arc<Custom>),
}

/// Something below an object, as discovery shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    /// Its name in the path.
    pub name: &'static str,
    /// Group, version and kind of what is sent and answered.
    pub kind: (Arc<str>, Arc<str>, Arc<str>),
    /// Whether that is not the parent's own.
    pub is_foreign: bool,
    /// What can be done.
    pub verbs: &'static [Verb],
    /// What it does.
    pub deed: Deed,
}

impl Resource {
    /// The resource of a built-in kind.
    pub fn built_in(kind: &'static Kind) -> Resource {
        let kept = kind.kept_as.map_or(kind, |kept_as| kept_as.kind);
        let group = if kept.group.is_empty() { "core" } else { kept.group };
        let prefix = |kind: &Kind| -> Box<[u8]> {
            object::prefix(&api_version(kind.group, kind.version), kind.kind).into_bytes().into()
        };
        Resource {
            group: kind.group.into(),
            version: kind.version.into(),
            plural: kind.plural.into(),
            singular: kind.singular.into(),
            kind: kind.kind.into(),
            list_kind: format!("{}List", kind.kind).into(),
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

    /// Whether users defined it.
    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom(_))
    }

    /// How messages name the resource.
    pub fn named(&self) -> Named<'_> {
        Named { group: &self.group, word: &self.plural }
    }

    /// How messages name the kind.
    pub fn named_kind(&self) -> Named<'_> {
        // A kind that is stored as another one is judged as that one.
        Named { group: self.kept_as().map_or(&self.group, |kept_as| kept_as.kind.group), word: &self.kind }
    }

    /// How it behaves.
    pub fn ways(&self) -> Ways {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.ways,
            Origin::Custom(_) => Ways { updates_unconditionally: false, generation: Generation::Wishes, ..Ways::PLAIN },
        }
    }

    /// The revision before which it did not exist: nobody can have seen anything of it then.
    pub fn history_begins(&self) -> u64 {
        match &self.origin {
            Origin::BuiltIn(_) => 0,
            Origin::Custom(custom) => custom.history_begins,
        }
    }

    /// Whether its definition is on its way out.
    pub fn is_terminating(&self) -> bool {
        matches!(&self.origin, Origin::Custom(custom) if custom.is_terminating)
    }

    /// Whether it is the version in which objects are stored.
    pub fn is_stored_version(&self) -> bool {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.kept_as.is_none(),
            Origin::Custom(custom) => custom.family.is_stored(custom.form),
        }
    }

    /// Its schema.
    pub fn schema(&self) -> Option<Schema<'_>> {
        match &self.origin {
            Origin::BuiltIn(kind) => schemas::of(kind),
            Origin::Custom(custom) => Some(custom.schema()),
        }
    }

    /// What lives below its objects.
    pub fn below(&self) -> Vec<Below> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.subresources.iter().map(|below| self.known(below)).collect(),
            Origin::Custom(custom) => custom.below(self),
        }
    }

    fn known(&self, below: &crate::resource::kind::Subresource) -> Below {
        let (group, version, kind) = below.kind;
        let is_foreign = !kind.is_empty();
        let kind = match is_foreign {
            true => (group.into(), version.into(), kind.into()),
            false => (self.group.clone(), self.version.clone(), self.kind.clone()),
        };
        let is_foreign = is_foreign && !group.is_empty();
        Below { name: below.name, kind, is_foreign, verbs: below.verbs, deed: below.deed.clone() }
    }

    /// What its names look like; the answer is what is wrong.
    pub fn name_problems(&self, name: &str) -> Vec<String> {
        match &self.origin {
            Origin::BuiltIn(kind) => (kind.name_rule)(name),
            Origin::Custom(_) => names::dns_subdomain(name),
        }
    }

    /// The value of a field that selectors may name; none if they may not.
    pub fn selectable(&self, object: &Object, label: &str) -> Option<String> {
        match label {
            "metadata.name" => return Some(object.name().to_owned()),
            "metadata.namespace" => return Some(object.namespace().to_owned()),
            _ => {}
        }
        match &self.origin {
            Origin::BuiltIn(kind) => {
                kind.selectable.iter().find(|field| field.label == label).map(|field| field.value(object))
            }
            Origin::Custom(custom) => custom.selectable(object, label),
        }
    }

    /// The fields that selectors may name beside name and namespace.
    pub fn selectable_labels(&self) -> Vec<&str> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.selectable.iter().map(|field| field.label).collect(),
            Origin::Custom(custom) => custom.selectable_labels(),
        }
    }

    /// The rules of the kind, beside what is wrong with the object's metadata.
    pub fn judge(&self, object: &Object, old: Option<&Object>, part: Part, mut metadata: Vec<Cause>) -> Verdict {
        match &self.origin {
            Origin::BuiltIn(kind) => {
                metadata.extend((kind.validate)(object, old, part));
                Verdict { mistakes: metadata, warnings: Vec::new() }
            }
            Origin::Custom(custom) => custom.judge(object, old, part, metadata),
        }
    }

    /// What whoever wrote an object that breaks no rule should know all the same.
    pub fn advice(&self, object: &Object, old: Option<&Object>, part: Part) -> Vec<String> {
        match &self.origin {
            Origin::BuiltIn(kind) => (kind.advice)(object, old, part),
            Origin::Custom(custom) => custom.advice(object, old, part),
        }
    }

    /// Whether a top-level field is part of what users want, and not of what is reported.
    pub fn is_wish(&self, key: &str) -> bool {
        match key {
            "metadata" | "kind" | "apiVersion" => false,
            "status" => matches!(&self.origin, Origin::Custom(custom) if !custom.has_status()),
            _ => true,
        }
    }

    /// Brings an object into the state in which this write may leave it.
    pub fn prepare(&self, object: &mut Object, old: Option<&Object>, part: Part) {
        match &self.origin {
            Origin::BuiltIn(kind) => {
                (kind.prepare)(object, old, part);
                schemas::materialise_status(kind, object);
            }
            Origin::Custom(custom) => custom.prepare(object, old, part),
        }
    }

    /// Fills in what the client left out, in an object that was sent or in one that an apply made.
    pub fn fill_defaults(&self, object: &mut Object, is_applied: bool) {
        match &self.origin {
            Origin::BuiltIn(kind) => {
                schemas::materialise(kind, object);
                (kind.defaults)(object);
            }
            Origin::Custom(custom) => custom.fill_defaults(object, is_applied),
        }
    }

    /// What everybody who uses it is told.
    pub fn warning(&self) -> Option<&str> {
        match &self.origin {
            Origin::BuiltIn(kind) => Some(kind.warning).filter(|warning| !warning.is_empty()),
            Origin::Custom(custom) => custom.warning.as_deref(),
        }
    }

    /// For a kind that is answered and never stored: how.
    pub fn review(&self) -> Option<Review> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.review,
            Origin::Custom(_) => None,
        }
    }

    /// An object of this resource as the store keeps it.
    pub fn encode(&self, object: &Object) -> Encoded {
        match self.kept_as() {
            Some(kept_as) => {
                let version = api_version(kept_as.kind.group, kept_as.kind.version);
                object::encode(&kept_as.kept(object, &version))
            }
            None => match &self.origin {
                Origin::Custom(custom) if !custom.family.is_stored(custom.form) => {
                    object::encode(&custom.family.kept(object.clone()))
                }
                _ => object::encode(object),
            },
        }
    }

    /// Whether a stored object is what readers in this version get, as it is.
    pub fn is_ready(&self, body: &Bytes) -> bool {
        match &self.origin {
            Origin::BuiltIn(_) => body.starts_with(&self.prefix),
            Origin::Custom(custom) => custom.family.is_ready(custom.form, body),
        }
    }

    /// An object as it reads once it is stored: in another version than its own it may lose fields.
    pub fn as_if_stored(&self, object: Object) -> Object {
        match &self.origin {
            Origin::Custom(custom) if !custom.family.is_stored(custom.form) => {
                custom.family.shown(custom.form, custom.family.kept(object))
            }
            _ => object,
        }
    }

    /// Whether storing an object changes nothing; none if the comparison of what is served says so too, because it is
    /// what is stored.
    pub fn is_stored_already(&self, object: &Object, stored: &Record) -> Option<bool> {
        let Origin::Custom(custom) = &self.origin else { return None };
        let stored = stored.body();
        if custom.family.is_stored(custom.form) && self.is_ready(&stored) {
            return None;
        }
        let mut next = custom.family.kept(object.clone());
        let mut stored: Object = serde_json::from_slice(&stored).unwrap_or_default();
        for object in [&mut next, &mut stored] {
            object.metadata_mut().remove("resourceVersion");
        }
        Some(next == stored)
    }

    /// For a kind whose objects are those of another one under other names.
    pub fn kept_as(&self) -> Option<&'static KeptAs> {
        match &self.origin {
            Origin::BuiltIn(kind) => kind.kept_as,
            Origin::Custom(_) => None,
        }
    }

    /// What a kind does to an object whose deletion begins, beside marking it.
    pub fn begin_deletion(&self, object: &mut Object) {
        if let Origin::BuiltIn(kind) = &self.origin {
            (kind.begin_deletion)(object);
        }
    }

    /// The seconds that an object needs to wind up; none if there is nothing to wind up.
    pub fn winding_up(&self, object: &Object) -> Option<i64> {
        match &self.origin {
            Origin::BuiltIn(kind) => (kind.winding_up)(object),
            Origin::Custom(_) => None,
        }
    }

    /// Whether nothing holds an object that is on its way out.
    pub fn may_go(&self, object: &Object) -> bool {
        let is_held = matches!(&self.origin, Origin::BuiltIn(kind) if (kind.is_held)(object));
        let has_time = object.metadata().get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) > 0;
        object.finalizers().next().is_none() && !is_held && !has_time
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
