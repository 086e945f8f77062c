//! Protobuf messages decoded into JSON.

use serde_json::{Map, Value};

use super::error::ProtobufError;
use super::table::{FieldType, ITEMS, JsonForm, Message, MessageTable, ProtobufField, Repetition};
use super::well_known::{self, ValueError};
use super::wire::{self, Reader, Wire};

/// The deepest nesting of messages. Schemas of definitions nest, within the limit of JSON here.
pub const MAX_DEPTH: usize = 100;
/// The most messages of an object. A message takes two bytes in the body and hundreds of times that in memory.
pub const MAX_MESSAGES: usize = 200_000;

/// Decodes the messages of one object.
pub struct Decoder<'t> {
    table: &'t MessageTable,
    depth: usize,
    messages: usize,
}

/// The message and field of a value, for errors.
#[derive(Clone, Copy)]
struct FieldContext<'t> {
    message: &'t Message,
    field: &'t ProtobufField,
}

impl FieldContext<'_> {
    fn wire_type(self) -> ProtobufError {
        ProtobufError::WireType { message: self.message.name.to_owned(), number: self.field.number }
    }

    fn value_error(self, value_error: ValueError) -> ProtobufError {
        match value_error {
            ValueError::Bytes(error) => error,
            ValueError::Value(why) => {
                ProtobufError::Value { message: self.message.name.to_owned(), number: self.field.number, why }
            }
        }
    }
}

impl<'t> Decoder<'t> {
    pub fn new(table: &'t MessageTable) -> Decoder<'t> {
        Decoder { table, depth: 0, messages: 0 }
    }

    /// Decodes the fields of a message into an object.
    pub fn fill(
        &mut self,
        object: &mut Map<String, Value>,
        message: &'t Message,
        bytes: &[u8],
    ) -> Result<(), ProtobufError> {
        self.depth += 1;
        self.messages += 1;
        if self.depth > MAX_DEPTH {
            return Err(ProtobufError::TooDeep);
        }
        if self.messages > MAX_MESSAGES {
            return Err(ProtobufError::TooMany);
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            // Fields that are newer than the table are ignored.
            let Some(field) = message.field(number) else { continue };
            let context = FieldContext { message, field };
            match (field.name, field.repetition) {
                (Some(name), Repetition::One) => self.one(object, name, context, wire)?,
                (Some(name), Repetition::List) => {
                    self.list(entry(object, name, Value::Array(Vec::new())), context, wire)?
                }
                (Some(name), Repetition::Map) => {
                    self.map(entry(object, name, Value::Object(Map::new())), context, wire)?
                }
                (None, _) => self.inline(object, context, wire)?,
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// A singular field. The last of several values counts; messages are merged.
    fn one(
        &mut self,
        object: &mut Map<String, Value>,
        name: &str,
        context: FieldContext<'t>,
        wire: Wire<'_>,
    ) -> Result<(), ProtobufError> {
        let value = match (context.field.kind, wire) {
            (FieldType::Message(at), Wire::Bytes(bytes)) => {
                let earlier = object.remove(name);
                self.message(at, earlier, context, bytes)?
            }
            (_, wire) => self.value(context, wire)?,
        };
        if value.is_null() || context.field.omits_zero && is_zero(&value) {
            object.remove(name);
        } else {
            object.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// An item of a repeated field, or packed numbers.
    fn list(&mut self, list: &mut Value, context: FieldContext<'t>, wire: Wire<'_>) -> Result<(), ProtobufError> {
        let Value::Array(items) = list else { return Err(context.wire_type()) };
        let is_number = matches!(context.field.kind, FieldType::Bool | FieldType::Int32 | FieldType::Int64);
        match wire {
            Wire::Bytes(bytes) if is_number => {
                let mut reader = Reader::new(bytes);
                while let Some(number) = reader.next_packed()? {
                    items.push(self.value(context, Wire::Varint(number))?);
                }
            }
            wire => items.push(self.value(context, wire)?),
        }
        Ok(())
    }

    /// A map entry: a message with a key and a value, each of which may be missing when it is zero.
    fn map(&mut self, map: &mut Value, context: FieldContext<'t>, wire: Wire<'_>) -> Result<(), ProtobufError> {
        let (Value::Object(map), Wire::Bytes(bytes)) = (map, wire) else { return Err(context.wire_type()) };
        // The values of maps are messages, text or bytes: a missing one is empty.
        let (mut key, mut value) = (String::new(), Wire::Bytes(b""));
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            match (number, wire) {
                (1, Wire::Bytes(text)) => {
                    let error = || ProtobufError::Utf8 {
                        message: context.message.name.to_owned(),
                        number: context.field.number,
                    };
                    key = wire::text(text).ok_or_else(error)?;
                }
                (1, _) => return Err(context.wire_type()),
                (2, wire) => value = wire,
                _ => {}
            }
        }
        let value = self.value(context, value)?;
        map.insert(key, value);
        Ok(())
    }

    /// A message whose fields are inlined into its parent.
    fn inline(
        &mut self,
        object: &mut Map<String, Value>,
        context: FieldContext<'t>,
        wire: Wire<'_>,
    ) -> Result<(), ProtobufError> {
        match (context.field.kind, wire) {
            (FieldType::Message(at), Wire::Bytes(bytes)) => {
                let inner = self.table.message(at).ok_or_else(|| context.wire_type())?;
                self.fill(object, inner, bytes)
            }
            _ => Err(context.wire_type()),
        }
    }

    fn value(&mut self, context: FieldContext<'t>, wire: Wire<'_>) -> Result<Value, ProtobufError> {
        let value_error = |value_error| context.value_error(value_error);
        match (context.field.kind, wire) {
            (FieldType::Bool, Wire::Varint(number)) => Ok((number != 0).into()),
            // Numbers of 32 bits are written with 64 and cut.
            (FieldType::Int32, Wire::Varint(number)) => Ok((number as i32).into()),
            (FieldType::Int64, Wire::Varint(number)) => Ok(number.cast_signed().into()),
            (FieldType::Double, Wire::Fixed64(bits)) => well_known::double(bits).map_err(value_error),
            (FieldType::Text, Wire::Bytes(bytes)) => {
                let error =
                    || ProtobufError::Utf8 { message: context.message.name.to_owned(), number: context.field.number };
                wire::text(bytes).map(Value::String).ok_or_else(error)
            }
            (FieldType::Bytes, Wire::Bytes(bytes)) => Ok(well_known::bytes(bytes)),
            (FieldType::Time, Wire::Bytes(bytes)) => well_known::time(bytes).map_err(value_error),
            (FieldType::MicroTime, Wire::Bytes(bytes)) => well_known::micro_time(bytes).map_err(value_error),
            (FieldType::Quantity, Wire::Bytes(bytes)) => well_known::quantity(bytes).map_err(value_error),
            (FieldType::IntOrString, Wire::Bytes(bytes)) => well_known::int_or_string(bytes).map_err(value_error),
            (FieldType::Json, Wire::Bytes(bytes)) => well_known::json(bytes).map_err(value_error),
            (FieldType::Message(at), Wire::Bytes(bytes)) => self.message(at, None, context, bytes),
            _ => Err(context.wire_type()),
        }
    }

    /// A message in its JSON form; `earlier` is an earlier value of the same field.
    fn message(
        &mut self,
        at: usize,
        earlier: Option<Value>,
        context: FieldContext<'t>,
        bytes: &[u8],
    ) -> Result<Value, ProtobufError> {
        let message = self.table.message(at).ok_or_else(|| context.wire_type())?;
        let mut object = match (message.form, earlier) {
            (JsonForm::Object, Some(Value::Object(object))) => object,
            _ => Map::new(),
        };
        self.fill(&mut object, message, bytes)?;
        Ok(match message.form {
            JsonForm::Object => Value::Object(object),
            JsonForm::List => object.remove(ITEMS).unwrap_or_else(|| Value::Array(Vec::new())),
            JsonForm::Choice => {
                let chosen = message.fields.iter().rev().find_map(|field| object.remove(field.name?));
                chosen.unwrap_or(Value::Null)
            }
        })
    }
}

/// The value at a key, which is `empty` if there is none.
fn entry<'o>(object: &'o mut Map<String, Value>, key: &str, empty: Value) -> &'o mut Value {
    object.entry(key).or_insert(empty)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
