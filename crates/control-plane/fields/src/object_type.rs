//! Object types: the schema that a walk through an object follows, and how managers share the value at each position.

use seaworthy_schema::{Additional, ListKind, MapKind, Schema, Type};
use serde_json::Value;

/// What is known about the type of an object.
#[derive(Clone, Copy)]
pub struct ObjectType<'a> {
    schema: Option<Schema<'a>>,
    metadata: Option<Schema<'a>>,
    is_built_in: bool,
}

impl<'a> ObjectType<'a> {
    /// A built-in kind. Its objects always have the parts that the schema gives an empty default, written or not, so
    /// that writing something into `.spec` does not own `.spec` itself.
    pub fn built_in(schema: Schema<'a>) -> ObjectType<'a> {
        ObjectType { schema: Some(schema), metadata: None, is_built_in: true }
    }

    /// A custom resource: its own schema, and the schema of the metadata of all objects, which its definition only
    /// hints at.
    pub fn custom(schema: Schema<'a>, metadata: Schema<'a>) -> ObjectType<'a> {
        ObjectType { schema: Some(schema), metadata: Some(metadata), is_built_in: false }
    }

    /// Nothing is known: every key of an object has its own owner, every list has one.
    pub fn unknown() -> ObjectType<'static> {
        ObjectType { schema: None, metadata: None, is_built_in: false }
    }

    pub(crate) fn root(&self) -> SchemaPosition<'a> {
        let what = match self.schema {
            Some(schema) => Typing::Schema(schema),
            None => Typing::Deduced,
        };
        SchemaPosition {
            what,
            metadata: self.metadata,
            is_built_in: self.is_built_in,
            preserves_unknown: false,
            is_resource: self.schema.is_some(),
        }
    }
}

/// A value's position in the schema.
#[derive(Clone, Copy)]
pub(crate) struct SchemaPosition<'a> {
    what: Typing<'a>,
    metadata: Option<Schema<'a>>,
    is_built_in: bool,
    /// Inherited: below a schema that keeps unknown fields, all schemas do.
    preserves_unknown: bool,
    /// The object itself or one that is embedded in it: it has a version, a kind and metadata, declared or not.
    is_resource: bool,
}

#[derive(Clone, Copy)]
enum Typing<'a> {
    Schema(Schema<'a>),
    /// Whatever the value is: objects by key, lists as a whole.
    Deduced,
    /// Whatever the value is, as a whole.
    Whole,
    /// A string.
    Text,
}

/// How a value is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Map,
    List,
    Scalar,
}

/// Which scalars are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    String,
    Boolean,
    Any,
}

impl<'a> SchemaPosition<'a> {
    fn at(self, what: Typing<'a>) -> SchemaPosition<'a> {
        let (preserves_unknown, is_resource) = match what {
            Typing::Schema(schema) => (self.preserves_unknown || schema.preserves_unknown, schema.is_embedded),
            _ => (false, false),
        };
        SchemaPosition { what, preserves_unknown, is_resource, ..self }
    }

    /// The place of a key, and whether it is declared by name; none if no such key may be there.
    pub(crate) fn field(self, name: &str) -> Option<(SchemaPosition<'a>, bool)> {
        let schema = match self.what {
            Typing::Schema(schema) => schema,
            Typing::Deduced | Typing::Whole => return Some((self, false)),
            Typing::Text => return None,
        };
        if self.is_resource && name == "metadata" && self.metadata.is_some() {
            let metadata = self.metadata.map_or(Typing::Deduced, Typing::Schema);
            return Some((SchemaPosition { preserves_unknown: false, ..self }.at(metadata), true));
        }
        if let Some(property) = schema.property(name) {
            return Some((self.at(Typing::Schema(property)), true));
        }
        if self.is_resource {
            match name {
                "apiVersion" | "kind" => return Some((self.at(Typing::Text), true)),
                "metadata" => return Some((self.at(Typing::Deduced), true)),
                _ => {}
            }
        }
        let is_free_form = schema.properties().len() == 0 && !self.is_resource;
        match schema.additional {
            Additional::Described(_) => schema.additional().map(|values| (self.at(Typing::Schema(values)), false)),
            Additional::Anything => Some((self.at(Typing::Deduced), false)),
            Additional::Unspecified if is_free_form || self.preserves_unknown || schema.preserves_unknown => {
                Some((self.at(Typing::Deduced), false))
            }
            Additional::Unspecified | Additional::Nothing => None,
        }
    }

    /// The place of a list's elements.
    pub(crate) fn items(self) -> SchemaPosition<'a> {
        match self.what {
            Typing::Schema(schema) => match schema.items() {
                Some(items) => self.at(Typing::Schema(items)),
                None => self.at(Typing::Whole),
            },
            _ => self.at(Typing::Whole),
        }
    }

    /// What a built-in kind has in place of a key that is not there: an empty part, or nothing at all where the key
    /// is required.
    pub(crate) fn implicit_value(self, name: &str) -> Option<&'a Value> {
        const NOTHING: &Value = &Value::Null;
        let Typing::Schema(schema) = self.what else { return None };
        if !self.is_built_in {
            return None;
        }
        let property = schema.property(name)?;
        match &property.node().default {
            Some(default) => is_zero(default).then_some(default),
            None => schema.node().required.iter().any(|required| **required == *name).then_some(NOTHING),
        }
    }

    /// The value that a key of a list's elements has when it is not written.
    pub(crate) fn key_default(self, name: &str) -> Option<&'a Value> {
        let Typing::Schema(schema) = self.what else { return None };
        schema.property(name)?.node().default.as_ref().filter(|default| !default.is_null())
    }

    /// How writers share a list.
    pub(crate) fn list(self) -> &'a ListKind {
        match self.what {
            Typing::Schema(schema) => &schema.node().list,
            _ => &ListKind::Atomic,
        }
    }

    /// Whether an object here has one owner.
    pub(crate) fn is_whole_map(self) -> bool {
        match self.what {
            Typing::Schema(schema) => schema.map == MapKind::Atomic,
            Typing::Whole => true,
            Typing::Deduced | Typing::Text => false,
        }
    }

    /// Whether objects here have no declared fields and values of no declared type.
    pub(crate) fn is_free_form_map(self) -> bool {
        let Typing::Schema(schema) = self.what else { return true };
        let values_are_free = match schema.additional {
            Additional::Described(_) => {
                schema.additional().is_some_and(|values| values.kind.is_none() && !values.is_int_or_string)
            }
            _ => true,
        };
        values_are_free && schema.properties().len() == 0 && !self.is_resource
    }

    pub(crate) fn scalar(self) -> Scalar {
        match self.what {
            Typing::Text => Scalar::String,
            Typing::Schema(schema) => match schema.kind {
                // Amounts with a unit are numbers or texts.
                _ if schema.is_int_or_string => Scalar::Any,
                Some(Type::Integer | Type::Number) => Scalar::Number,
                Some(Type::Boolean) => Scalar::Boolean,
                // Formats like date-time and int-or-string say that the text is something else underneath.
                Some(Type::String) if matches!(schema.format.as_deref(), None | Some("" | "byte")) => Scalar::String,
                _ => Scalar::Any,
            },
            Typing::Deduced | Typing::Whole => Scalar::Any,
        }
    }

    /// The only shape that values here have; none if any is fine.
    pub(crate) fn only_shape(self) -> Option<Shape> {
        match self.what {
            Typing::Text => Some(Shape::Scalar),
            Typing::Deduced | Typing::Whole => None,
            // Of a custom resource only validation knows that nothing else will do.
            Typing::Schema(schema) if schema.is_int_or_string && self.is_built_in => Some(Shape::Scalar),
            Typing::Schema(schema) => match schema.kind? {
                Type::Object => Some(Shape::Map),
                Type::Array => Some(Shape::List),
                Type::String | Type::Integer | Type::Number | Type::Boolean => Some(Shape::Scalar),
            },
        }
    }

    /// How a value is walked here: as the schema says, or as the value is where the schema takes anything.
    pub(crate) fn shape(self, value: &Value) -> Shape {
        self.only_shape().unwrap_or(match value {
            Value::Object(_) | Value::Null => Shape::Map,
            Value::Array(_) => Shape::List,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Shape::Scalar,
        })
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
