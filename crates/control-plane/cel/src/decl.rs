//! Declarations: types of data from an OpenAPI schema, with the sizes that bound an expression's cost.

use std::sync::Arc;

use serde_json::Value;

use crate::escape::escape;
use crate::types::Type;

/// The largest request, in bytes: what bounds data for which the schema sets no limit.
pub const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The longest name of an object.
const MAX_NAME: u64 = 253;

/// The declaration of a piece of data.
#[derive(Debug, Clone)]
pub struct Decl {
    kind: DeclKind,
    nullable: bool,
    max_elements: u64,
    min_size: u64,
}

/// What a declaration describes.
#[derive(Debug, Clone)]
pub enum DeclKind {
    Bool,
    Int,
    /// A number.
    Double,
    String,
    /// A string that is base64.
    Bytes,
    /// A string that is a date, with a time unless it is the `date` format.
    Timestamp {
        /// Whether it is a day without a time.
        day: bool,
    },
    /// A string that is a duration.
    Duration,
    /// An integer or a string; expressions see `dyn`.
    IntOrString,
    /// Data without a schema; expressions see `dyn`.
    Dyn,
    List {
        items: Arc<Decl>,
        /// What identifies an item.
        uniqueness: ListType,
    },
    /// A map with string keys.
    Map(Arc<Decl>),
    Object(Arc<ObjectDecl>),
}

/// The list types of Kubernetes: they decide what `==` and `+` mean for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// A list as it is.
    Atomic,
    /// Items are unique, order does not matter to equality.
    Set,
    /// Items are unique by these fields, order does not matter to equality.
    Keys(Vec<String>),
}

/// An object's name and fields.
#[derive(Debug)]
pub struct ObjectDecl {
    name: String,
    /// Sorted by name: found faster than by hash in the few fields objects have.
    fields: Vec<FieldDecl>,
    /// Names with a schema that expressions cannot reach.
    hidden: Vec<String>,
}

/// A field of an object.
#[derive(Debug, Clone)]
pub struct FieldDecl {
    /// Its name in the data.
    pub name: String,
    /// Its name in expressions.
    pub ident: String,
    /// What it holds.
    pub decl: Decl,
}

impl ObjectDecl {
    /// An object type with these fields, by their names in the data. Names that cannot be written are left out.
    pub fn new(name: impl Into<String>, fields: impl IntoIterator<Item = (String, Decl)>) -> Self {
        let mut object = ObjectDecl { name: name.into(), fields: Vec::new(), hidden: Vec::new() };
        for (name, decl) in fields {
            match escape(&name) {
                Some(ident) => object.fields.push(FieldDecl { name, ident, decl }),
                None => object.hidden.push(name),
            }
        }
        object.fields.sort_by(|one, two| one.name.cmp(&two.name));
        object
    }

    /// The name of the type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The field an identifier names.
    pub fn field(&self, ident: &str) -> Option<&FieldDecl> {
        self.fields.iter().find(|field| field.ident == ident)
    }

    /// The field the data calls `name`.
    pub(crate) fn by_name(&self, name: &str) -> Option<&FieldDecl> {
        self.fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok().map(|index| &self.fields[index])
    }

    /// Whether the data may hold `name`, reachable or not.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.by_name(name).is_some() || self.hidden.iter().any(|hidden| hidden == name)
    }
}

impl Decl {
    /// A declaration without limits.
    pub fn new(kind: DeclKind) -> Self {
        let (max_elements, min_size) = match &kind {
            DeclKind::Bool => (0, 4),
            DeclKind::Int | DeclKind::Double => (0, 1),
            DeclKind::String | DeclKind::Bytes => (MAX_REQUEST_BYTES - 2, 2),
            DeclKind::Timestamp { day: true } => (12, 12),
            DeclKind::Timestamp { day: false } => (32, 21),
            DeclKind::Duration => (32, 3),
            DeclKind::IntOrString => (MAX_REQUEST_BYTES - 2, 1),
            DeclKind::Dyn => (0, 1),
            DeclKind::List { items, .. } => ((MAX_REQUEST_BYTES - 2) / (items.min_size + 1), 2),
            DeclKind::Map(values) => ((MAX_REQUEST_BYTES - 2) / (values.min_size + 6), 2),
            DeclKind::Object(_) => (0, 2),
        };
        Decl { kind, nullable: false, max_elements, min_size }
    }

    /// With a bound on characters, items or entries.
    pub fn at_most(mut self, elements: u64) -> Self {
        self.max_elements = elements;
        self
    }

    /// With the smallest size it can have as JSON, in bytes.
    pub fn at_least(mut self, bytes: u64) -> Self {
        self.min_size = bytes;
        self
    }

    /// Allowing `null`.
    pub fn nullable(mut self, nullable: bool) -> Self {
        self.nullable = nullable;
        self
    }

    /// What is declared.
    pub fn kind(&self) -> &DeclKind {
        &self.kind
    }

    pub(crate) fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// The most characters, items or entries.
    pub fn max_elements(&self) -> u64 {
        self.max_elements
    }

    /// The smallest size as JSON, in bytes.
    pub fn min_size(&self) -> u64 {
        self.min_size
    }

    /// How often data of this declaration fits into one request: the factor by which a rule below an unbounded list
    /// or map may be evaluated.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_size + 1)
    }

    /// The type expressions see.
    pub fn ty(&self) -> Type {
        match &self.kind {
            DeclKind::Bool => Type::Bool,
            DeclKind::Int => Type::Int,
            DeclKind::Double => Type::Double,
            DeclKind::String => Type::String,
            DeclKind::Bytes => Type::Bytes,
            DeclKind::Timestamp { .. } => Type::Timestamp,
            DeclKind::Duration => Type::Duration,
            DeclKind::IntOrString | DeclKind::Dyn => Type::Dyn,
            DeclKind::List { items, .. } => Type::list(items.ty()),
            DeclKind::Map(values) => Type::map(Type::String, values.ty()),
            DeclKind::Object(object) => Type::Object(Arc::clone(object)),
        }
    }

    /// The declaration of a structural schema (the JSON of a CustomResourceDefinition's `openAPIV3Schema` or a part of
    /// it), or nothing when expressions cannot see data of it. `name` is the name of the object type; `resource` says
    /// whether it is the root of a resource, which always has its type and some of its metadata.
    pub fn from_schema(schema: &Value, name: &str, resource: bool) -> Option<Decl> {
        let nullable = flag(schema, "nullable");
        Self::of_schema(schema, name, resource).map(|decl| decl.nullable(nullable))
    }

    fn of_schema(schema: &Value, name: &str, resource: bool) -> Option<Decl> {
        let bound = |key: &str| schema.get(key).and_then(Value::as_i64).map(|value| value.max(0) as u64);
        // A character takes up to four bytes, and requests are bounded in bytes.
        let in_bytes = |length: u64| length.saturating_mul(4);
        if flag(schema, "x-kubernetes-int-or-string") {
            let decl = Decl::new(DeclKind::IntOrString);
            return Some(match bound("maxLength") {
                Some(length) => decl.at_most(in_bytes(length)),
                None => decl,
            });
        }
        let bounded = |decl: Decl, key: &str| match bound(key) {
            Some(elements) => decl.at_most(elements),
            None => decl,
        };
        match schema.get("type").and_then(Value::as_str)? {
            "boolean" => Some(Decl::new(DeclKind::Bool)),
            "integer" => Some(Decl::new(DeclKind::Int)),
            "number" => Some(Decl::new(DeclKind::Double)),
            "string" => Some(match schema.get("format").and_then(Value::as_str) {
                Some("byte") => bounded(Decl::new(DeclKind::Bytes), "maxLength"),
                Some("duration") => Decl::new(DeclKind::Duration),
                Some("date") => Decl::new(DeclKind::Timestamp { day: true }),
                Some("date-time") => Decl::new(DeclKind::Timestamp { day: false }),
                _ => {
                    let decl = Decl::new(DeclKind::String);
                    let longest = schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty());
                    match (bound("maxLength"), longest) {
                        (Some(length), _) => decl.at_most(in_bytes(length)),
                        (None, Some(values)) => decl
                            .at_most(values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0) as u64),
                        (None, None) => decl,
                    }
                }
            }),
            "array" => {
                let items = schema.get("items")?;
                let items = Decl::from_schema(items, &format!("{name}.@idx"), embedded(items))?;
                let keys = || schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let uniqueness = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                    Some("set") => ListType::Set,
                    Some("map") => ListType::Keys(
                        keys().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
                    ),
                    _ => ListType::Atomic,
                };
                Some(bounded(Decl::new(DeclKind::List { items: Arc::new(items), uniqueness }), "maxItems"))
            }
            "object" => {
                if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                    let values = Decl::from_schema(values, &format!("{name}.@elem"), embedded(values))?;
                    return Some(bounded(Decl::new(DeclKind::Map(Arc::new(values))), "maxProperties"));
                }
                Some(Self::object(schema, name, resource))
            }
            _ => None,
        }
    }

    fn object(schema: &Value, name: &str, resource: bool) -> Decl {
        // A schema that spells out type and metadata itself is taken at its word.
        let resource = resource && !has_type_and_metadata(schema);
        let mut properties: Vec<(String, Option<Decl>)> = Vec::new();
        let mut min_size = 2;
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if resource && matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                continue;
            }
            let ident = escape(key).unwrap_or_else(|| key.clone());
            let decl = Decl::from_schema(property, &format!("{name}.{ident}"), embedded(property));
            if let Some(decl) = &decl
                && required.contains(&key.as_str())
                && property.get("default").is_none_or(Value::is_null)
            {
                min_size += key.len() as u64 + decl.min_size + 4;
            }
            properties.push((key.clone(), decl));
        }
        if resource {
            let string = || Decl::new(DeclKind::String);
            let capped = |key: &str, most: u64| {
                let path = format!("/properties/metadata/properties/{key}/maxLength");
                let length = schema.pointer(&path).and_then(Value::as_u64).map_or(most, |length| length.min(most));
                (key.to_owned(), string().at_most(length * 4))
            };
            let fields = [capped("name", MAX_NAME), capped("generateName", MAX_NAME - 1)];
            let metadata = ObjectDecl::new(format!("{name}.metadata"), fields);
            properties.push(("kind".to_owned(), Some(string())));
            properties.push(("apiVersion".to_owned(), Some(string())));
            properties.push(("metadata".to_owned(), Some(Decl::new(DeclKind::Object(Arc::new(metadata))))));
            for key in ["kind", "apiVersion", "metadata"].into_iter().filter(|key| required.contains(key)) {
                min_size += key.len() as u64 + 2 + 4;
            }
        }
        let (seen, hidden): (Vec<_>, Vec<_>) = properties.into_iter().partition(|(_, decl)| decl.is_some());
        let mut object = ObjectDecl::new(name, seen.into_iter().filter_map(|(key, decl)| decl.map(|decl| (key, decl))));
        object.hidden.extend(hidden.into_iter().map(|(key, _)| key));
        Decl::new(DeclKind::Object(Arc::new(object))).at_least(min_size)
    }
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn has_type_and_metadata(schema: &Value) -> bool {
    let has = |path: &str, ty: &str| schema.pointer(path).and_then(Value::as_str) == Some(ty);
    has("/properties/kind/type", "string")
        && has("/properties/apiVersion/type", "string")
        && has("/properties/metadata/type", "object")
        && has("/properties/metadata/properties/name/type", "string")
        && has("/properties/metadata/properties/generateName/type", "string")
}

fn embedded(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}
