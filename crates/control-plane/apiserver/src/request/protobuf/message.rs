//! One message after the other, into JSON.

use serde_json::{Map, Value};

use super::fault::Fault;
use super::special::{self, Unfit};
use super::table::{Field, Form, ITEMS, Kind, Message, Repetition, Table};
use super::wire::{self, Reader, Wire};

/// How deep messages may nest. Definitions of schemas do, within the limit that JSON has here.
pub const DEPTH: usize = 100;
/// How many messages an object may have. Two bytes make one, and a message in memory is hundreds of times that.
pub const MESSAGES: usize = 200_000;

/// Reads the messages of one object.
pub struct Decoder<'t> {
    table: &'t Table,
    depth: usize,
    messages: usize,
}

/// What a value belongs to.
#[derive(Clone, Copy)]
struct Place<'t> {
    message: &'t Message,
    field: &'t Field,
}

impl Place<'_> {
    fn wire_type(self) -> Fault {
        Fault::WireType { message: self.message.name.to_owned(), number: self.field.number }
    }

    fn unfit(self, unfit: Unfit) -> Fault {
        match unfit {
            Unfit::Bytes(fault) => fault,
            Unfit::Value(why) => Fault::Value { message: self.message.name.to_owned(), number: self.field.number, why },
        }
    }
}

impl<'t> Decoder<'t> {
    /// A decoder that has read nothing.
    pub fn new(table: &'t Table) -> Decoder<'t> {
        Decoder { table, depth: 0, messages: 0 }
    }

    /// Adds a message's fields to an object.
    pub fn fill(&mut self, object: &mut Map<String, Value>, message: &'t Message, bytes: &[u8]) -> Result<(), Fault> {
        self.depth += 1;
        self.messages += 1;
        if self.depth > DEPTH {
            return Err(Fault::TooDeep);
        }
        if self.messages > MESSAGES {
            return Err(Fault::TooMany);
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            // Fields that are newer than the table are passed over.
            let Some(field) = message.field(number) else { continue };
            let place = Place { message, field };
            match (field.name, field.repetition) {
                (Some(name), Repetition::One) => self.one(object, name, place, wire)?,
                (Some(name), Repetition::List) => {
                    self.list(entry(object, name, Value::Array(Vec::new())), place, wire)?
                }
                (Some(name), Repetition::Map) => {
                    self.map(entry(object, name, Value::Object(Map::new())), place, wire)?
                }
                (None, _) => self.beside(object, place, wire)?,
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// A field that comes once. Of several the last counts, and messages are merged.
    fn one(
        &mut self,
        object: &mut Map<String, Value>,
        name: &str,
        place: Place<'t>,
        wire: Wire<'_>,
    ) -> Result<(), Fault> {
        let value = match (place.field.kind, wire) {
            (Kind::Message(at), Wire::Bytes(bytes)) => {
                let earlier = object.remove(name);
                self.message(at, earlier, place, bytes)?
            }
            (_, wire) => self.value(place, wire)?,
        };
        if value.is_null() || place.field.omits_zero && is_zero(&value) {
            object.remove(name);
        } else {
            object.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// One more item, or several numbers at once.
    fn list(&mut self, list: &mut Value, place: Place<'t>, wire: Wire<'_>) -> Result<(), Fault> {
        let Value::Array(items) = list else { return Err(place.wire_type()) };
        let is_number = matches!(place.field.kind, Kind::Bool | Kind::Int32 | Kind::Int64);
        match wire {
            Wire::Bytes(bytes) if is_number => {
                let mut reader = Reader::new(bytes);
                while let Some(number) = reader.next_packed()? {
                    items.push(self.value(place, Wire::Varint(number))?);
                }
            }
            wire => items.push(self.value(place, wire)?),
        }
        Ok(())
    }

    /// One more entry: a message with a key and a value, each of which may be missing when it is zero.
    fn map(&mut self, map: &mut Value, place: Place<'t>, wire: Wire<'_>) -> Result<(), Fault> {
        let (Value::Object(map), Wire::Bytes(bytes)) = (map, wire) else { return Err(place.wire_type()) };
        // Only messages, text and bytes are in maps: nothing written is the zero of each.
        let (mut key, mut value) = (String::new(), Wire::Bytes(b""));
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            match (number, wire) {
                (1, Wire::Bytes(text)) => {
                    let fault = || Fault::Utf8 { message: place.message.name.to_owned(), number: place.field.number };
                    key = wire::text(text).ok_or_else(fault)?;
                }
                (1, _) => return Err(place.wire_type()),
                (2, wire) => value = wire,
                _ => {}
            }
        }
        let value = self.value(place, value)?;
        map.insert(key, value);
        Ok(())
    }

    /// A message whose fields lie beside it.
    fn beside(&mut self, object: &mut Map<String, Value>, place: Place<'t>, wire: Wire<'_>) -> Result<(), Fault> {
        match (place.field.kind, wire) {
            (Kind::Message(at), Wire::Bytes(bytes)) => {
                let inner = self.table.message(at).ok_or_else(|| place.wire_type())?;
                self.fill(object, inner, bytes)
            }
            _ => Err(place.wire_type()),
        }
    }

    fn value(&mut self, place: Place<'t>, wire: Wire<'_>) -> Result<Value, Fault> {
        let unfit = |unfit| place.unfit(unfit);
        match (place.field.kind, wire) {
            (Kind::Bool, Wire::Varint(number)) => Ok((number != 0).into()),
            // Numbers of 32 bits are written with 64 and cut.
            (Kind::Int32, Wire::Varint(number)) => Ok((number as i32).into()),
            (Kind::Int64, Wire::Varint(number)) => Ok(number.cast_signed().into()),
            (Kind::Double, Wire::Fixed64(bits)) => special::double(bits).map_err(unfit),
            (Kind::Text, Wire::Bytes(bytes)) => {
                let fault = || Fault::Utf8 { message: place.message.name.to_owned(), number: place.field.number };
                wire::text(bytes).map(Value::String).ok_or_else(fault)
            }
            (Kind::Bytes, Wire::Bytes(bytes)) => Ok(special::bytes(bytes)),
            (Kind::Time, Wire::Bytes(bytes)) => special::time(bytes).map_err(unfit),
            (Kind::MicroTime, Wire::Bytes(bytes)) => special::micro_time(bytes).map_err(unfit),
            (Kind::Quantity, Wire::Bytes(bytes)) => special::quantity(bytes).map_err(unfit),
            (Kind::IntOrString, Wire::Bytes(bytes)) => special::int_or_string(bytes).map_err(unfit),
            (Kind::Json, Wire::Bytes(bytes)) => special::json(bytes).map_err(unfit),
            (Kind::Message(at), Wire::Bytes(bytes)) => self.message(at, None, place, bytes),
            _ => Err(place.wire_type()),
        }
    }

    /// A message in the form that it has in JSON; `earlier` is what was read of it before.
    fn message(&mut self, at: usize, earlier: Option<Value>, place: Place<'t>, bytes: &[u8]) -> Result<Value, Fault> {
        let message = self.table.message(at).ok_or_else(|| place.wire_type())?;
        let mut object = match (message.form, earlier) {
            (Form::Object, Some(Value::Object(object))) => object,
            _ => Map::new(),
        };
        self.fill(&mut object, message, bytes)?;
        Ok(match message.form {
            Form::Object => Value::Object(object),
            Form::List => object.remove(ITEMS).unwrap_or_else(|| Value::Array(Vec::new())),
            Form::Choice => {
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
