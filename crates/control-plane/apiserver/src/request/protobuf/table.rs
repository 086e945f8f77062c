//! Which field of a message is which field of its JSON: the data that `cargo xtask protobuf` makes.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The messages of all built-in kinds.
pub struct Table {
    kinds: HashMap<(&'static str, &'static str), usize>,
    messages: Vec<Message>,
}

/// The key that the items of a message that is a list are kept at while it is read.
pub const ITEMS: &str = "items";

/// A message.
pub struct Message {
    /// Group, version and name.
    pub name: &'static str,
    /// What it is in JSON.
    pub form: Form,
    /// Its fields, by rising number.
    pub fields: Vec<Field>,
}

/// What a message is in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An object with its fields.
    Object,
    /// The list that its first field is.
    List,
    /// The value of its last field.
    Choice,
}

/// A field of a message.
pub struct Field {
    /// Its number on the wire.
    pub number: u32,
    /// Its key in JSON; none if its own fields lie beside it.
    pub name: Option<&'static str>,
    /// How often it comes.
    pub repetition: Repetition,
    /// What it is.
    pub kind: Kind,
    /// Whether its zero is left out of JSON.
    pub omits_zero: bool,
}

/// How often a field comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// Once.
    One,
    /// Any number of times.
    List,
    /// Any number of times, each with a key.
    Map,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Bytes: base64 in JSON.
    Bytes,
    /// A truth value.
    Bool,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// A number with a fraction.
    Double,
    /// A time to the second.
    Time,
    /// A time to the microsecond.
    MicroTime,
    /// An amount: text in JSON.
    Quantity,
    /// A number or text.
    IntOrString,
    /// JSON in bytes.
    Json,
    /// A message, by its place in the table.
    Message(usize),
}

impl Table {
    /// The table of this build.
    pub fn committed() -> &'static Table {
        static TABLE: LazyLock<Table> = LazyLock::new(|| {
            // The text is part of the program, and a test reads it.
            #[allow(clippy::expect_used)]
            Table::parse(include_str!("../../../data/protobuf.txt")).expect("data/protobuf.txt is well formed")
        });
        &TABLE
    }

    /// The message of a kind.
    pub fn message_of(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let found = [api_version, "*"].into_iter().find_map(|version| self.kinds.get(&(version, kind)));
        found.and_then(|&at| self.messages.get(at))
    }

    /// The message at a place that [`Kind::Message`] names.
    pub fn message(&self, at: usize) -> Option<&Message> {
        self.messages.get(at)
    }

    /// All messages.
    #[cfg(test)]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Reads the text; the line that is not understood is the error.
    fn parse(text: &'static str) -> Result<Table, &'static str> {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let named = lines().filter_map(|line| {
            let mut words = line.split(' ');
            matches!(words.next(), Some("message" | "list" | "choice")).then(|| words.next()).flatten()
        });
        let places: HashMap<&str, usize> = named.enumerate().map(|(at, name)| (name, at)).collect();
        let mut table = Table { kinds: HashMap::new(), messages: Vec::with_capacity(places.len()) };
        for line in lines() {
            let words: Vec<&'static str> = line.split(' ').collect();
            let message = |name, form, fields| Message { name, form, fields };
            match *words {
                ["kind", version, kind, name] => {
                    table.kinds.insert((version, kind), *places.get(name).ok_or(line)?);
                }
                ["message", name] => table.messages.push(message(name, Form::Object, Vec::new())),
                ["choice", name] => table.messages.push(message(name, Form::Choice, Vec::new())),
                ["list", name, kind] => {
                    let kind = Kind::parse(kind, &places).ok_or(line)?;
                    let only =
                        Field { number: 1, name: Some(ITEMS), repetition: Repetition::List, kind, omits_zero: false };
                    table.messages.push(message(name, Form::List, vec![only]));
                }
                ["", number, name, kind] => {
                    let field = Field::parse(number, name, kind, &places).ok_or(line)?;
                    table.messages.last_mut().ok_or(line)?.fields.push(field);
                }
                _ => return Err(line),
            }
        }
        Ok(table)
    }
}

impl Message {
    /// The field with this number.
    pub fn field(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(at)
    }
}

impl Field {
    fn parse(number: &str, name: &'static str, kind: &str, places: &HashMap<&str, usize>) -> Option<Field> {
        let (kind, omits_zero) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
        let (repetition, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
            (Some(kind), _) => (Repetition::List, kind),
            (_, Some(kind)) => (Repetition::Map, kind),
            _ => (Repetition::One, kind),
        };
        let name = (name != ".").then_some(name);
        Some(Field { number: number.parse().ok()?, name, repetition, kind: Kind::parse(kind, places)?, omits_zero })
    }
}

impl Kind {
    fn parse(word: &str, places: &HashMap<&str, usize>) -> Option<Kind> {
        Some(match word {
            "string" => Kind::Text,
            "bytes" => Kind::Bytes,
            "bool" => Kind::Bool,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "double" => Kind::Double,
            "time" => Kind::Time,
            "micro-time" => Kind::MicroTime,
            "quantity" => Kind::Quantity,
            "int-or-string" => Kind::IntOrString,
            "json" => Kind::Json,
            message => Kind::Message(*places.get(message)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_table_is_well_formed() {
        let table = Table::committed();
        for message in &table.messages {
            assert!(message.fields.is_sorted_by(|a, b| a.number < b.number), "{}", message.name);
            for field in message.fields.iter().filter(|field| field.name.is_none() && message.form == Form::Object) {
                let beside = match field.kind {
                    Kind::Message(at) => table.message(at).map(|message| message.form),
                    _ => None,
                };
                assert_eq!(beside, Some(Form::Object), "{} {}", message.name, field.number);
            }
        }
    }

    #[test]
    fn fields_beside_others_have_names_of_their_own() {
        fn keys<'t>(table: &'t Table, message: &'t Message, found: &mut Vec<&'t str>) {
            for field in &message.fields {
                match (field.name, field.kind) {
                    (Some(name), _) => found.push(name),
                    (None, Kind::Message(at)) => keys(table, table.message(at).unwrap(), found),
                    (None, _) => {}
                }
            }
        }
        let table = Table::committed();
        for message in table.messages.iter().filter(|message| message.form == Form::Object) {
            let mut found = Vec::new();
            keys(table, message, &mut found);
            let all = found.len();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), all, "{}", message.name);
        }
    }

    #[test]
    fn line_that_is_not_understood_is_named() {
        assert_eq!(Table::parse("message a\n 1 b word\n").err(), Some(" 1 b word"));
        assert_eq!(Table::parse(" 1 b string\n").err(), Some(" 1 b string"));
        assert_eq!(Table::parse("kind v1 Boat a\n").err(), Some("kind v1 Boat a"));
    }
}
