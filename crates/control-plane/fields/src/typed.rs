//! Typed walks: whether an object fits its schema, and which fields it sets.

use std::fmt;

use seaworthy_schema::ListKind;
use serde_json::{Map, Value};

use crate::list_key::ListKey;
use crate::object_type::{ObjectType, Scalar, SchemaPosition, Shape};
use crate::path::{PathElement, shown_number};
use crate::set::{Entry, Set};

/// What does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeError {
    /// Where, as in `.spec.ports`; empty for the object itself.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

/// Everything in an object that does not fit its schema, in the real server's words. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TypeErrors(pub Vec<TypeError>);

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}");
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// Whether two elements of a list may have the same key: never in what is applied, but old data may have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Checks that an object can be walked by its schema. This is no validation: it finds what would make ownership
/// meaningless, such as a list where an object is expected. `metadata.managedFields` is read elsewhere.
pub(crate) fn check(kind: &ObjectType<'_>, object: &Value, duplicates: Duplicates) -> Result<(), TypeErrors> {
    let mut checker = Checker { duplicates, errors: Vec::new() };
    match object {
        Value::Object(fields) => checker.check_map(kind.root(), fields, Level::Object),
        other => checker.check(kind.root(), other),
    }
    if checker.errors.is_empty() { Ok(()) } else { Err(TypeErrors(checker.errors)) }
}

/// The level of a map, as far as that matters.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
    Elsewhere,
}

struct Checker {
    duplicates: Duplicates,
    errors: Vec<TypeError>,
}

impl Checker {
    fn error(&mut self, message: String) {
        self.errors.push(TypeError { path: String::new(), message });
    }

    /// Checks something below, and puts its step before the paths of what was found there.
    fn below(&mut self, step: impl FnOnce() -> String, place: SchemaPosition<'_>, value: &Value) {
        self.within(step, |checker| checker.check(place, value));
    }

    fn within(&mut self, step: impl FnOnce() -> String, check: impl FnOnce(&mut Checker)) {
        let before = self.errors.len();
        check(self);
        if self.errors.len() > before {
            let step = step();
            for error in &mut self.errors[before..] {
                error.path.insert_str(0, &step);
            }
        }
    }

    fn check(&mut self, place: SchemaPosition<'_>, value: &Value) {
        match (place.shape(value), value) {
            (_, Value::Null) => {}
            (Shape::Map, Value::Object(fields)) => self.check_map(place, fields, Level::Elsewhere),
            (Shape::Map, other) => self.error(format!("expected map, got &{{{}}}", printed(other))),
            (Shape::List, Value::Array(items)) => self.check_list(place, items),
            (Shape::List, other) => self.error(format!("expected list, got &{{{}}}", printed(other))),
            (Shape::Scalar, scalar) => self.check_scalar(place.scalar(), scalar),
        }
    }

    fn check_map(&mut self, place: SchemaPosition<'_>, fields: &Map<String, Value>, level: Level) {
        for (name, value) in fields {
            if level == Level::Metadata && name == "managedFields" {
                continue;
            }
            let step = || format!(".{name}");
            match (place.field(name), value) {
                (Some((metadata, _)), Value::Object(fields)) if level == Level::Object && name == "metadata" => {
                    self.within(step, |checker| checker.check_map(metadata, fields, Level::Metadata));
                }
                (Some((place, _)), value) => self.below(step, place, value),
                (None, _) => {
                    let message = "field not declared in schema".to_owned();
                    return self.errors.push(TypeError { path: step(), message });
                }
            }
        }
    }

    fn check_list(&mut self, place: SchemaPosition<'_>, items: &[Value]) {
        let is_atomic = *place.list() == ListKind::Atomic;
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if is_atomic {
                self.below(|| format!("[{index}]"), place.items(), item);
                continue;
            }
            let key = match ListKey::of(place, item) {
                Ok(key) => key,
                Err(reason) => return self.error(format!("element {index}: {reason}")),
            };
            if self.duplicates == Duplicates::Allowed {
                self.below(|| key.to_element().to_string(), place.items(), item);
                continue;
            }
            if seen.contains(&key) {
                self.error(format!("duplicate entries for key {}", key.to_element()));
            }
            self.below(|| key.to_element().to_string(), place.items(), item);
            seen.insert(key);
        }
    }

    fn check_scalar(&mut self, scalar: Scalar, value: &Value) {
        let fits = match scalar {
            Scalar::Number => value.is_number(),
            Scalar::String => value.is_string(),
            Scalar::Boolean => value.is_boolean(),
            Scalar::Any => !value.is_object() && !value.is_array(),
        };
        if fits {
            return;
        }
        let value = match scalar {
            Scalar::Number => format!("expected numeric (int or float), got {}", type_name(value)),
            Scalar::String => {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", printed_as_code(value))
            }
            Scalar::Boolean => format!("expected boolean, got &{{{}}}", printed(value)),
            Scalar::Any => format!("expected any scalar, got &{{{}}}", printed(value)),
        };
        self.error(value);
    }
}

/// The fields that an object sets: its scalars, its lists and objects with one owner, its empty objects, and every
/// element of a list and key of a map beside what is in it.
pub(crate) fn field_set(kind: &ObjectType<'_>, object: &Value) -> Set {
    fields_of(kind.root(), object).1
}

/// Whether the value itself is a field, and the fields below it.
fn fields_of(place: SchemaPosition<'_>, value: &Value) -> (bool, Set) {
    match (place.shape(value), value) {
        (Shape::Scalar, _) => (true, Set::default()),
        (Shape::List, _) if *place.list() == ListKind::Atomic => (true, Set::default()),
        (Shape::List, Value::Array(items)) => (false, fields_of_list(place, items)),
        (Shape::Map, _) if place.is_whole_map() => (true, Set::default()),
        (Shape::Map, Value::Object(fields)) => {
            let mut entries = Vec::with_capacity(fields.len());
            for (name, value) in fields {
                let Some((place, is_named)) = place.field(name) else { continue };
                let (is_field, below) = fields_of(place, value);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                entries.push(Entry {
                    element: PathElement::field(name),
                    is_member: is_field || is_empty || !is_named,
                    below,
                });
            }
            (false, Set::of_entries(entries))
        }
        (Shape::List | Shape::Map, _) => (false, Set::default()),
    }
}

fn fields_of_list(place: SchemaPosition<'_>, items: &[Value]) -> Set {
    let mut keyed = ListKey::of_all(place, items);
    keyed.sort_by(|left, right| left.0.cmp(&right.0));
    let entries = keyed.chunk_by(|left, right| left.0 == right.0).map(|same| {
        // Elements with the same key are one field together: what is below them cannot be distinguished.
        let below = match same {
            [(_, item)] => fields_of(place.items(), item).1,
            _ => Set::default(),
        };
        Entry { element: same[0].0.to_element(), is_member: true, below }
    });
    Set::of_entries(entries.collect())
}

/// A set in which declared fields with something below are members too.
pub(crate) fn with_named_fields(set: &Set, kind: &ObjectType<'_>) -> Set {
    with_named(set, Some(kind.root()))
}

fn with_named(set: &Set, place: Option<SchemaPosition<'_>>) -> Set {
    let entries = set.entries().iter().map(|entry| {
        let has = |shape| place.filter(|place| place.only_shape().is_none_or(|only| only == shape));
        let (below, is_named) = match &entry.element {
            PathElement::Field(name) => match has(Shape::Map).and_then(|place| place.field(name)) {
                Some((place, is_named)) => (Some(place), is_named),
                None => (None, false),
            },
            PathElement::Key(_) => (has(Shape::List).map(SchemaPosition::items), false),
            PathElement::Value(_) | PathElement::Index(_) => (None, false),
        };
        Entry {
            element: entry.element.clone(),
            is_member: entry.is_member || (is_named && !entry.below.is_empty()),
            below: with_named(&entry.below, below),
        }
    });
    Set::of_entries(entries.collect())
}

/// A value as the real server's messages print it.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => shown_number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => printed_map(fields),
    }
}

/// An object as the real server's messages print it.
pub(crate) fn printed_map(fields: &Map<String, Value>) -> String {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| name.as_str());
    let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("{name}:{}", printed(value))).collect();
    format!("map[{}]", fields.join(" "))
}

fn printed_as_code(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => seaworthy_schema::quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(printed_as_code).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", seaworthy_schema::quoted(name), printed_as_code(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Bool(_) | Value::Number(_) => printed(value),
    }
}

/// A value's type as the real server's messages name it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() || number.is_u64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
