//! A built-in kind as data: what it is called, how it behaves, and the few functions in which it differs from others.

use jiff::Timestamp;
use seaworthy_schema::{Cause, names};
use serde_json::Value;

use crate::object::reach::Reach;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::Verb;
use crate::response::status::Failure;
use crate::response::table;

/// A kind that the server knows without a definition.
pub struct Kind {
    /// The API group, empty for the core group.
    pub group: &'static str,
    /// The version; built-in kinds have one.
    pub version: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name for one.
    pub singular: &'static str,
    /// The name in manifests.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
    /// What people type.
    pub short_names: &'static [&'static str],
    /// `all` and its like.
    pub categories: &'static [&'static str],
    /// What can be done.
    pub verbs: &'static [Verb],
    /// What lives below an object.
    pub subresources: &'static [Subresource],
    /// The schema's name in the OpenAPI data.
    pub definition: &'static str,
    /// What its names look like; the answer is what is wrong.
    pub name_rule: fn(&str) -> Vec<String>,
    /// How it differs from the plainest kind.
    pub ways: Ways,
    /// Fields that selectors may name beside `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [Selectable],
    /// Fills in what the client left out.
    pub defaults: fn(&mut Object),
    /// Brings the object into the state in which this write may leave it: drops what is not the writer's to set. The
    /// second argument is the stored object, none on creation.
    pub prepare: fn(&mut Object, Option<&Object>, Part),
    /// Adds what follows from other objects, or refuses the write because of them.
    pub complete: Complete,
    /// What is wrong with the object, given the stored one on an update.
    pub validate: fn(&Object, Option<&Object>, Part) -> Vec<Cause>,
    /// What whoever wrote an object that breaks no rule should know all the same, given the stored one on an update.
    pub advice: fn(&Object, Option<&Object>, Part) -> Vec<String>,
    /// What the kind does to an object whose deletion begins, beside marking it.
    pub begin_deletion: fn(&mut Object),
    /// The seconds that an object needs to wind up, unless who deletes it says otherwise; none if there is nothing to
    /// wind up, whatever they say.
    pub winding_up: fn(&Object) -> Option<i64>,
    /// Whether something beside `metadata.finalizers` holds an object that is on its way out.
    pub is_held: fn(&Object) -> bool,
    /// What `kubectl get` shows beside the name.
    pub columns: &'static [Column],
    /// The cells of those columns, the name included.
    pub cells: fn(&Object, Timestamp) -> Vec<Value>,
    /// What everybody who uses the kind is told, empty for nothing.
    pub warning: &'static str,
    /// For a kind whose objects are those of another one under other names.
    pub kept_as: Option<&'static KeptAs>,
    /// For a kind that is answered and never stored: the answer to an object that was sent.
    pub review: Option<Review>,
}

/// Adds to an object what follows from others; the last argument is the stored object, none on creation.
pub type Complete = fn(&Call, &mut Object, Option<&Object>) -> Result<(), Failure>;

/// The answer to a question that was sent.
pub type Review = fn(&Call, Object) -> Result<Object, Failure>;

/// A kind whose objects are stored as another kind, which calls some of their fields differently.
pub struct KeptAs {
    /// The kind that is stored.
    pub kind: &'static Kind,
    /// Top-level fields: the name here, the name there.
    pub renamed: &'static [(&'static str, &'static str)],
}

impl KeptAs {
    /// The object as it is stored.
    pub fn kept(&self, object: &Object, api_version: &str) -> Object {
        self.turned(object, api_version, |(own, kept)| (own, kept))
    }

    /// A stored object as this kind shows it.
    pub fn shown(&self, object: &Object, api_version: &str) -> Object {
        self.turned(object, api_version, |(own, kept)| (kept, own))
    }

    fn turned<'k>(
        &'k self,
        object: &Object,
        api_version: &str,
        direction: impl Fn((&'k str, &'k str)) -> (&'k str, &'k str),
    ) -> Object {
        let renamed = |key: &str| {
            let mut pairs = self.renamed.iter().map(|pair| direction(*pair));
            pairs.find(|(from, _)| *from == key).map(|(_, to)| to.to_owned())
        };
        // What is empty and may be missing in one of the two is missing in it.
        let said = object.iter().filter(|(_, value)| **value != "");
        let turned = said.map(|(key, value)| (renamed(key).unwrap_or_else(|| key.clone()), value.clone()));
        let mut turned: Object = turned.collect();
        turned.insert("apiVersion".to_owned(), api_version.into());
        turned
    }
}

impl Kind {
    /// What most kinds are like: they live in a namespace, can do everything, have no rules beyond their schema, and
    /// show their name and age. Names and schema are each kind's own.
    pub const BASE: Kind = Kind {
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
        ways: Ways::PLAIN,
        selectable: &[],
        defaults: no_defaults,
        prepare: no_preparation,
        complete: |_, _, _| Ok(()),
        validate: no_rules,
        advice: |_, _, _| Vec::new(),
        begin_deletion: |_| {},
        winding_up: |_| None,
        is_held: |_| false,
        columns: &[Column::NAME, Column::AGE],
        cells: name_and_age,
        warning: "",
        kept_as: None,
        review: None,
    };
}

/// The part of an object that a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of a namespace.
    Finalize,
}

/// Something below an object.
#[derive(Debug, Clone)]
pub struct Subresource {
    /// Its name in the path.
    pub name: &'static str,
    /// The kind of what is sent and answered: group, version, kind. Empty group and version mean the parent's own.
    pub kind: (&'static str, &'static str, &'static str),
    /// What can be done.
    pub verbs: &'static [Verb],
    /// What it does.
    pub deed: Deed,
}

/// What a subresource does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// It reads and writes a part of the object, as `/status` does.
    Part,
    /// It puts a pod on a node.
    Bind,
    /// It deletes a pod if its disruption budgets allow it.
    Evict,
    /// It makes a token for a service account.
    Token,
    /// It shows and sets how many there should be.
    Scale(Replicas),
}

/// Where an object keeps its number of replicas: paths of keys with dots between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    /// How many there should be.
    pub wanted: std::borrow::Cow<'static, str>,
    /// How many there are.
    pub found: std::borrow::Cow<'static, str>,
    /// The selector of what is counted: a text, or a label selector. Empty for none.
    pub selector: std::borrow::Cow<'static, str>,
}

impl Replicas {
    /// Where a definition says they are.
    pub fn of_custom(scale: &seaworthy_schema::Scale) -> Replicas {
        // Definitions write paths with a dot before them.
        let path = |path: &str| path.trim_start_matches('.').to_owned().into();
        Replicas {
            wanted: path(&scale.spec_replicas),
            found: path(&scale.status_replicas),
            selector: path(scale.selector.as_deref().unwrap_or_default()),
        }
    }
}

/// How a kind behaves where kinds differ.
#[derive(Debug, Clone, Copy)]
pub struct Ways {
    /// Whether an update without a revision replaces whatever is there.
    pub updates_unconditionally: bool,
    /// Whether an update of something missing creates it.
    pub creates_on_update: bool,
    /// Whether a deletion answers the object rather than a status.
    pub answers_deleted: bool,
    /// What `metadata.generation` counts.
    pub generation: Generation,
    /// Whether selectors may name the namespace; most kinds allow it even where there is none.
    pub selects_namespace: bool,
    /// Whether deletion takes time, as that of a pod or a namespace does: the object is marked before it goes.
    pub is_graceful: bool,
    /// Whether the beginning of a deletion counts for `metadata.generation`.
    pub counts_deletion: bool,
}

/// What `metadata.generation` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Nothing: the kind has no generation.
    None,
    /// Changes to anything but `metadata` and `status`.
    Wishes,
    /// These, and changes to the labels.
    WishesAndLabels,
    /// Nothing: it is 1 and stays so.
    One,
}

impl Ways {
    /// The plainest kind: a ConfigMap.
    pub const PLAIN: Ways = Ways {
        updates_unconditionally: true,
        creates_on_update: false,
        answers_deleted: false,
        generation: Generation::None,
        selects_namespace: true,
        is_graceful: false,
        counts_deletion: true,
    };
}

/// A field that selectors may name.
#[derive(Debug, Clone, Copy)]
pub struct Selectable {
    /// What the selector calls it.
    pub label: &'static str,
    /// Where it is in the stored object: a path of keys with dots between them.
    pub at: &'static str,
    /// What an object has that does not say it.
    pub otherwise: &'static str,
}

impl Selectable {
    /// A text that the selector calls by its path.
    pub const fn text(path: &'static str) -> Selectable {
        Selectable { label: path, at: path, otherwise: "" }
    }

    /// Its value in a stored object.
    pub fn value(&self, object: &Object) -> String {
        match object.at(self.at) {
            Some(Value::String(text)) if !text.is_empty() => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
            _ => self.otherwise.to_owned(),
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The JSON type.
    pub kind: &'static str,
    /// `name` for the first one.
    pub format: &'static str,
    /// What it is about.
    pub description: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i64,
}

impl Column {
    /// The first column of every table.
    pub const NAME: Column =
        Column { name: "Name", kind: "string", format: "name", description: "The object's name.", priority: 0 };
    /// The last column of most.
    pub const AGE: Column = Column {
        name: "Age",
        kind: "string",
        format: "",
        description: "How long ago the object was created.",
        priority: 0,
    };

    /// A column that is always shown.
    pub const fn shown(name: &'static str, description: &'static str) -> Column {
        Column { name, kind: "string", format: "", description, priority: 0 }
    }

    /// A column of numbers.
    pub const fn count(name: &'static str, description: &'static str) -> Column {
        Column { name, kind: "integer", format: "", description, priority: 0 }
    }

    /// A column of times.
    pub const fn date(name: &'static str, description: &'static str) -> Column {
        Column { name, kind: "date", format: "", description, priority: 0 }
    }

    /// A column of the wide form.
    pub const fn wide(name: &'static str, description: &'static str) -> Column {
        Column { name, kind: "string", format: "", description, priority: 1 }
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
pub const PART_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// The subresource in which a kind reports.
pub const STATUS: Subresource = Subresource { name: "status", kind: ("", "", ""), verbs: PART_VERBS, deed: Deed::Part };

/// The cells of [`Column::NAME`] and [`Column::AGE`].
pub fn name_and_age(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), table::age(object, now)]
}

/// For kinds that have no defaults.
pub fn no_defaults(_: &mut Object) {}

/// For kinds of which every part is the writer's.
pub fn no_preparation(_: &mut Object, _: Option<&Object>, _: Part) {}

/// For kinds without rules of their own.
pub fn no_rules(_: &Object, _: Option<&Object>, _: Part) -> Vec<Cause> {
    Vec::new()
}

/// A write to the object keeps the stored status, a write to the status keeps everything else but what labels and
/// annotations the writer sets.
pub fn keep_parts_apart(object: &mut Object, old: Option<&Object>, part: Part) {
    let Some(old) = old else {
        return;
    };
    match part {
        Part::Main => restore(object, old, |key| key == "status"),
        Part::Status => restore(object, old, |key| !matches!(key, "status" | "metadata" | "kind" | "apiVersion")),
        Part::Finalize => {}
    }
}

/// A new object begins without a status.
pub fn keep_parts_apart_from_the_start(object: &mut Object, old: Option<&Object>, part: Part) {
    if old.is_none() {
        object.remove("status");
    }
    keep_parts_apart(object, old, part);
}

fn restore(object: &mut Object, old: &Object, is_kept: impl Fn(&str) -> bool) {
    object.retain(|key, _| !is_kept(key) || old.contains_key(key));
    for (key, value) in old.iter().filter(|(key, _)| is_kept(key)) {
        object.insert(key.clone(), value.clone());
    }
}
