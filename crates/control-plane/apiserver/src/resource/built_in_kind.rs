//! Built-in kinds as data: names, behaviour, and the functions in which a kind differs from others.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::Verb;
use crate::response::status::Failure;
use crate::response::table;

/// A kind that the server serves without a definition.
pub struct BuiltInKind {
    /// The API group, empty for the core group.
    pub group: &'static str,
    /// Built-in kinds have one version.
    pub version: &'static str,
    /// The plural name, in paths.
    pub plural: &'static str,
    pub singular: &'static str,
    /// The name in manifests, `kind`.
    pub kind: &'static str,
    pub is_namespaced: bool,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// `all` and its like.
    pub categories: &'static [&'static str],
    /// The supported verbs.
    pub verbs: &'static [Verb],
    pub subresources: &'static [Subresource],
    /// The schema's name in the OpenAPI data.
    pub definition: &'static str,
    /// Validates names; returns the problems.
    pub name_rule: fn(&str) -> Vec<String>,
    pub behaviour: KindBehaviour,
    /// Fields that selectors may name beside `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [SelectableField],
    /// Sets default values.
    pub defaults: fn(&mut Object),
    /// Drops changes that this write may not make. The second argument is the stored object, none on creation.
    pub prepare: fn(&mut Object, Option<&Object>, ObjectPart),
    /// Mutating admission: sets fields that depend on other objects, or refuses the write because of them.
    pub mutate: Mutate,
    /// Validates the object, given the stored one on an update.
    pub validate: fn(&Object, Option<&Object>, ObjectPart) -> Vec<Cause>,
    /// Warnings for the author of a valid object, given the stored one on an update.
    pub warnings: fn(&Object, Option<&Object>, ObjectPart) -> Vec<String>,
    /// Changes an object when its deletion begins, beside the deletion time.
    pub begin_deletion: fn(&mut Object),
    /// The default grace period in seconds, which a deletion may override; none if the object is deleted at once in any
    /// case.
    pub default_grace_seconds: fn(&Object) -> Option<i64>,
    /// Whether something beside `metadata.finalizers` keeps a deleted object.
    pub blocks_deletion: fn(&Object) -> bool,
    /// The columns of `kubectl get`.
    pub columns: &'static [TableColumn],
    /// The cells of those columns.
    pub cells: fn(&Object, Timestamp) -> Vec<Value>,
    /// Warning for all requests of the kind, empty for none.
    pub deprecation_warning: &'static str,
    /// For a kind whose objects are stored as another kind.
    pub stored_as: Option<&'static StoredAs>,
    /// For a review kind, which is answered and never stored: computes the answer.
    pub review: Option<Review>,
}

/// Mutating admission of a kind; the last argument is the stored object, none on creation.
pub type Mutate = fn(&Call, &mut Object, Option<&Object>) -> Result<(), Failure>;

/// Computes the answer of a review.
pub type Review = fn(&Call, Object) -> Result<Object, Failure>;

/// Storage of a kind as another kind, which names some fields differently.
pub struct StoredAs {
    pub kind: &'static BuiltInKind,
    /// Top-level fields: the name in this kind, the name in the stored kind.
    pub renamed: &'static [(&'static str, &'static str)],
}

impl StoredAs {
    pub fn to_stored(&self, object: &Object, api_version: &str) -> Object {
        self.convert(object, api_version, |(own, kept)| (own, kept))
    }

    pub fn to_served(&self, object: &Object, api_version: &str) -> Object {
        self.convert(object, api_version, |(own, kept)| (kept, own))
    }

    fn convert<'k>(
        &'k self,
        object: &Object,
        api_version: &str,
        direction: impl Fn((&'k str, &'k str)) -> (&'k str, &'k str),
    ) -> Object {
        let renamed = |key: &str| {
            let mut pairs = self.renamed.iter().map(|pair| direction(*pair));
            pairs.find(|(from, _)| *from == key).map(|(_, to)| to.to_owned())
        };
        // Empty texts are dropped: they may be required in one of the two kinds and optional in the other.
        let filled = object.iter().filter(|(_, value)| **value != "");
        let converted = filled.map(|(key, value)| (renamed(key).unwrap_or_else(|| key.clone()), value.clone()));
        let mut converted: Object = converted.collect();
        converted.insert("apiVersion".to_owned(), api_version.into());
        converted
    }
}

impl BuiltInKind {
    /// Defaults: namespaced, all verbs, no validation beyond the schema, and the columns name and age. Names and schema
    /// are set by each kind.
    pub const BASE: BuiltInKind = BuiltInKind {
        group: "",
        version: "v1",
        plural: "",
        singular: "",
        kind: "",
        is_namespaced: true,
        short_names: &[],
        categories: &[],
        verbs: ALL_VERBS,
        subresources: &[],
        definition: "",
        name_rule: names::dns_subdomain,
        behaviour: KindBehaviour::PLAIN,
        selectable: &[],
        defaults: no_defaults,
        prepare: no_preparation,
        mutate: |_, _, _| Ok(()),
        validate: no_rules,
        warnings: |_, _, _| Vec::new(),
        begin_deletion: |_| {},
        default_grace_seconds: |_| None,
        blocks_deletion: |_| false,
        columns: &[TableColumn::NAME, TableColumn::AGE],
        cells: name_and_age,
        deprecation_warning: "",
        stored_as: None,
        review: None,
    };

    /// The kind of its lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }
}

/// The part of an object that a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectPart {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of a namespace.
    Finalize,
}

/// A subresource of a built-in kind.
#[derive(Debug, Clone)]
pub struct Subresource {
    pub name: &'static str,
    /// The kind of request and answer: group, version, kind. Empty group and version mean the parent's.
    pub kind: (&'static str, &'static str, &'static str),
    /// The supported verbs.
    pub verbs: &'static [Verb],
    pub action: SubresourceAction,
}

/// The action of a subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubresourceAction {
    /// Reads and writes a part of the object, as `/status` does.
    ReadWrite,
    /// Binds a pod to a node.
    Bind,
    /// Deletes a pod if its disruption budgets allow it.
    Evict,
    /// Issues a token for a service account.
    CreateToken,
    /// Reads and sets the number of replicas.
    Scale(ScalePaths),
}

/// Paths of the scale fields in an object: keys separated by dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// The desired number.
    pub spec_replicas: std::borrow::Cow<'static, str>,
    /// The present number.
    pub status_replicas: std::borrow::Cow<'static, str>,
    /// The selector: a text, or a label selector. Empty for none.
    pub selector: std::borrow::Cow<'static, str>,
}

impl ScalePaths {
    /// The paths of a definition's scale subresource.
    pub fn of_custom(scale: &seaworthy_schema::Scale) -> ScalePaths {
        // Definitions write paths with a dot before them.
        let path = |path: &str| path.trim_start_matches('.').to_owned().into();
        ScalePaths {
            spec_replicas: path(&scale.spec_replicas),
            status_replicas: path(&scale.status_replicas),
            selector: path(scale.selector.as_deref().unwrap_or_default()),
        }
    }
}

/// Behaviour in which kinds differ.
#[derive(Debug, Clone, Copy)]
pub struct KindBehaviour {
    /// Whether an update without a resourceVersion replaces the object unconditionally.
    pub updates_unconditionally: bool,
    /// Whether an update of a missing object creates it.
    pub creates_on_update: bool,
    /// Whether a deletion answers the object instead of a Status.
    pub answers_deleted: bool,
    pub generation: GenerationPolicy,
    /// Whether field selectors may name the namespace; most cluster-scoped kinds allow it too.
    pub selects_namespace: bool,
    /// Whether deletion is graceful, as for pods and namespaces: the object is marked before it is removed.
    pub is_graceful: bool,
    /// Whether a deletion request increments `metadata.generation`.
    pub counts_deletion: bool,
}

/// What `metadata.generation` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPolicy {
    /// Nothing: the kind has no generation.
    None,
    /// Changes to anything but `metadata` and `status`.
    SpecChanges,
    /// These, and changes of labels.
    SpecAndLabelChanges,
    /// Nothing: it is 1 and stays so.
    AlwaysOne,
}

impl KindBehaviour {
    /// The behaviour of a ConfigMap.
    pub const PLAIN: KindBehaviour = KindBehaviour {
        updates_unconditionally: true,
        creates_on_update: false,
        answers_deleted: false,
        generation: GenerationPolicy::None,
        selects_namespace: true,
        is_graceful: false,
        counts_deletion: true,
    };
}

/// A field that selectors may name.
#[derive(Debug, Clone, Copy)]
pub struct SelectableField {
    /// The name in selectors.
    pub label: &'static str,
    /// The path in the stored object: keys separated by dots.
    pub path: &'static str,
    /// The value of objects without the field.
    pub default: &'static str,
}

impl SelectableField {
    /// A text field whose selector name is its path.
    pub const fn text(path: &'static str) -> SelectableField {
        SelectableField { label: path, path, default: "" }
    }

    pub fn value(&self, object: &Object) -> String {
        match object.at(self.path) {
            Some(Value::String(text)) if !text.is_empty() => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
            _ => self.default.to_owned(),
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableColumn {
    /// The heading.
    pub name: &'static str,
    /// The JSON type.
    pub kind: &'static str,
    /// `name` for the first one.
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i64,
}

impl TableColumn {
    /// The first column of every table.
    pub const NAME: TableColumn =
        TableColumn { name: "Name", kind: "string", format: "name", description: "The object's name.", priority: 0 };
    /// The last column of most.
    pub const AGE: TableColumn = TableColumn {
        name: "Age",
        kind: "string",
        format: "",
        description: "How long ago the object was created.",
        priority: 0,
    };

    /// A column that is always shown.
    pub const fn text(name: &'static str, description: &'static str) -> TableColumn {
        TableColumn { name, kind: "string", format: "", description, priority: 0 }
    }

    /// A column of numbers.
    pub const fn count(name: &'static str, description: &'static str) -> TableColumn {
        TableColumn { name, kind: "integer", format: "", description, priority: 0 }
    }

    /// A column of times.
    pub const fn date(name: &'static str, description: &'static str) -> TableColumn {
        TableColumn { name, kind: "date", format: "", description, priority: 0 }
    }

    /// A column of the wide form.
    pub const fn wide(name: &'static str, description: &'static str) -> TableColumn {
        TableColumn { name, kind: "string", format: "", description, priority: 1 }
    }
}

/// Every verb of a kind that is stored.
pub const ALL_VERBS: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];

/// The verbs of `/status` and its like.
pub const READ_WRITE_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// The status subresource.
pub const STATUS: Subresource =
    Subresource { name: "status", kind: ("", "", ""), verbs: READ_WRITE_VERBS, action: SubresourceAction::ReadWrite };

/// The cells of [`TableColumn::NAME`] and [`TableColumn::AGE`].
pub fn name_and_age(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), table::age(object, now)]
}

pub fn no_defaults(_: &mut Object) {}

/// For kinds whose fields are all writable.
pub fn no_preparation(_: &mut Object, _: Option<&Object>, _: ObjectPart) {}

/// For kinds without validation of their own.
pub fn no_rules(_: &Object, _: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    Vec::new()
}

/// A write to the object keeps the stored status; a write to the status keeps everything else except metadata.
pub fn isolate_status(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    let Some(old) = old else {
        return;
    };
    match part {
        ObjectPart::Main => restore(object, old, |key| key == "status"),
        ObjectPart::Status => restore(object, old, |key| !matches!(key, "status" | "metadata" | "kind" | "apiVersion")),
        ObjectPart::Finalize => {}
    }
}

/// As [`isolate_status`]; a new object has no status.
pub fn isolate_status_from_creation(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    if old.is_none() {
        object.remove("status");
    }
    isolate_status(object, old, part);
}

fn restore(object: &mut Object, old: &Object, is_kept: impl Fn(&str) -> bool) {
    object.retain(|key, _| !is_kept(key) || old.contains_key(key));
    for (key, value) in old.iter().filter(|(key, _)| is_kept(key)) {
        object.insert(key.clone(), value.clone());
    }
}
