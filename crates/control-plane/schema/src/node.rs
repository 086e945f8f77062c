//! Schema nodes: the keywords of one schema.

use serde_json::Value;

use crate::document::NodeId;
use crate::pattern::Pattern;

/// The type of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `{…}`, with declared properties or as a map.
    Object,
    /// `[…]`.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

/// Properties that are allowed beside the declared ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Additional {
    /// The schema does not say: keys that are not declared are unknown.
    #[default]
    Unspecified,
    /// `additionalProperties: true`.
    Anything,
    /// `additionalProperties: false`.
    Nothing,
    /// A map whose values all look like this.
    Described(NodeId),
}

/// How two writers share a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListKind {
    /// One owner for the whole.
    #[default]
    Atomic,
    /// Each scalar is its own element, at most once.
    Set,
    /// Elements are identified by the values of these keys.
    Map(Box<[Box<str>]>),
}

/// How two writers share an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapKind {
    /// Each key has its own owner.
    #[default]
    Granular,
    /// One owner for the whole.
    Atomic,
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patching {
    /// Elements or keys are merged rather than replaced.
    pub merges: bool,
    /// Keys that the patch does not name are dropped, `retainKeys`.
    pub retains_keys: bool,
    /// The key that identifies elements of a merged list; none for lists of scalars.
    pub merge_key: Option<Box<str>>,
}

/// Bounds of a value. Few schemas have any, so they are kept apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// `minimum`, and whether it is itself excluded.
    pub minimum: Option<(serde_json::Number, bool)>,
    /// `maximum`, and whether it is itself excluded.
    pub maximum: Option<(serde_json::Number, bool)>,
    /// `multipleOf`.
    pub multiple_of: Option<serde_json::Number>,
    /// `minLength`, in characters.
    pub min_length: Option<i64>,
    /// `maxLength`, in characters.
    pub max_length: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `pattern`.
    pub pattern: Option<Pattern>,
}

/// Schemas combined by logic. They only check; they never shape a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Logic {
    /// All must hold.
    pub all_of: Box<[NodeId]>,
    /// At least one must hold.
    pub any_of: Box<[NodeId]>,
    /// Exactly one must hold.
    pub one_of: Box<[NodeId]>,
    /// Must not hold.
    pub not: Option<NodeId>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The expression.
    pub rule: Box<str>,
    /// What to say when it is false.
    pub message: Option<Box<str>>,
    /// An expression that computes what to say.
    pub message_expression: Option<Box<str>>,
    /// `FieldValueInvalid` and its like.
    pub reason: Option<Box<str>>,
    /// The field to blame, relative to the schema's own place.
    pub field_path: Option<Box<str>>,
    /// Whether `oldSelf` is an optional value, so that the rule runs on creation too.
    pub optional_old_self: Option<bool>,
}

/// One schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// `type`; none for anything and for `x-kubernetes-int-or-string`. A built-in quantity, which is text or any
    /// number, is a number that [is also text](Node::is_int_or_string).
    pub kind: Option<Type>,
    /// `format`, as written.
    pub format: Option<Box<str>>,
    /// `nullable`.
    pub nullable: bool,
    /// `properties`, sorted by name.
    pub(crate) properties: Box<[(Box<str>, NodeId)]>,
    /// `additionalProperties`.
    pub additional: Additional,
    /// `items`.
    pub(crate) items: Option<NodeId>,
    /// `required`, as written.
    pub required: Box<[Box<str>]>,
    /// `default`.
    pub default: Option<Value>,
    /// `enum`; empty when there is none.
    pub allowed: Box<[Value]>,
    /// Bounds, where there are any.
    pub limits: Option<Box<Limits>>,
    /// `allOf` and its like, where there are any.
    pub(crate) logic: Option<Box<Logic>>,
    /// `x-kubernetes-list-type` and its keys.
    pub list: ListKind,
    /// `x-kubernetes-map-type`.
    pub map: MapKind,
    /// `x-kubernetes-patch-strategy` and its key, where a strategic merge patch is more than replacing.
    pub patching: Option<Box<Patching>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserves_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub is_embedded: bool,
    /// `x-kubernetes-int-or-string`, or a built-in type that is the same.
    pub is_int_or_string: bool,
    /// `x-kubernetes-validations`.
    pub rules: Box<[Rule]>,
    /// Whether there are rules here or further inside.
    pub(crate) has_rules: bool,
    /// Whether there are sets or keyed lists here or further inside.
    pub(crate) has_keyed: bool,
    /// Whether there are embedded resources here or further inside.
    pub has_embedded: bool,
}

impl Node {
    /// The names of the types that a value may have; none for anything.
    pub(crate) fn types(&self) -> &'static [&'static str] {
        match self.kind {
            Some(Type::Number) if self.is_int_or_string => &["number", "string"],
            _ if self.is_int_or_string => &["integer", "string"],
            None => &[],
            Some(Type::Object) => &["object"],
            Some(Type::Array) => &["array"],
            Some(Type::String) => &["string"],
            Some(Type::Integer) => &["integer"],
            Some(Type::Number) => &["number"],
            Some(Type::Boolean) => &["boolean"],
        }
    }

    /// Whether keys that are not declared are nevertheless allowed to stay.
    pub fn takes_any_key(&self) -> bool {
        self.preserves_unknown || matches!(self.additional, Additional::Anything | Additional::Described(_))
    }
}
