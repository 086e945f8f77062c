//! Messages of a `generated.proto`, as Kubernetes' generator writes it: one field per line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// The messages of a package.
pub struct Definitions {
    /// Fields by message, by rising number.
    pub messages: BTreeMap<String, Vec<Field>>,
}

/// A field of a message.
#[derive(Debug, PartialEq)]
pub struct Field {
    /// Its number on the wire.
    pub number: u32,
    /// Its name in the proto file.
    pub name: String,
    /// The full name of a message, or the word for a scalar.
    pub kind: String,
    /// How often it may come.
    pub repetition: Repetition,
}

/// How often a field may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// Once.
    One,
    /// Any number of times.
    List,
    /// Any number of times, each with a key that is text.
    Map,
}

impl Definitions {
    /// Reads a file. Messages without a package in their name belong to `package`.
    pub fn read(path: &Path, package: &str) -> Result<Definitions> {
        let text = fs::read_to_string(path).with_context(|| {
            format!("cannot read {}: `go mod download` brings a module into the cache", path.display())
        })?;
        Definitions::parse(&text, package).with_context(|| format!("{} is not understood", path.display()))
    }

    fn parse(text: &str, package: &str) -> Result<Definitions> {
        let mut messages: BTreeMap<String, Vec<Field>> = BTreeMap::new();
        let mut current: Option<(String, Vec<Field>)> = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
            if let Some(name) = line.strip_prefix("message ") {
                let Some(name) = name.strip_suffix(" {") else { bail!("message without a brace: {line}") };
                if current.replace((name.to_owned(), Vec::new())).is_some() {
                    bail!("message inside a message: {line}");
                }
            } else if let Some((_, fields)) = &mut current
                && line != "}"
            {
                fields.push(field(line, package)?);
            } else if let Some((name, mut fields)) = current.take() {
                fields.sort_by_key(|field| field.number);
                messages.insert(name, fields);
            }
        }
        Ok(Definitions { messages })
    }
}

fn field(line: &str, package: &str) -> Result<Field> {
    let (declared, number) = line
        .strip_suffix(';')
        .and_then(|line| line.split_once(" = "))
        .with_context(|| format!("neither a field nor the end of a message: {line}"))?;
    let (kind, name) = declared.rsplit_once(' ').with_context(|| format!("field without a type: {line}"))?;
    let (repetition, kind) = if let Some(kind) = kind.strip_prefix("optional ") {
        (Repetition::One, kind)
    } else if let Some(kind) = kind.strip_prefix("repeated ") {
        (Repetition::List, kind)
    } else if let Some(kind) = kind.strip_prefix("map<string, ").and_then(|kind| kind.strip_suffix('>')) {
        (Repetition::Map, kind)
    } else {
        bail!("a field that is neither optional, repeated nor a map from text: {line}");
    };
    let kind = match kind {
        "bool" | "bytes" | "double" | "int32" | "int64" | "string" => kind.to_owned(),
        other => match other.strip_prefix('.') {
            Some(full) => full.to_owned(),
            None if other.starts_with(|letter: char| letter.is_ascii_uppercase()) => format!("{package}.{other}"),
            None => bail!("a scalar that the server does not read: {line}"),
        },
    };
    let number = number.parse().with_context(|| format!("field without a number: {line}"))?;
    Ok(Field { number, name: name.to_owned(), kind, repetition })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_numbers_types_and_repetition() {
        let text = "package a.v1;\n\nmessage Boat {\n  // its name;\n  map<string, .b.Sail> sails = 7;\n\n  \
                    repeated Mast masts = 2;\n  optional string name = 1;\n}\n\nmessage Mast {\n}\n";
        let messages = Definitions::parse(text, "a.v1").unwrap().messages;
        let fields: Vec<String> = messages["Boat"]
            .iter()
            .map(|field| format!("{} {} {} {:?}", field.number, field.name, field.kind, field.repetition))
            .collect();
        assert_eq!(fields, ["1 name string One", "2 masts a.v1.Mast List", "7 sails b.Sail Map"]);
        assert!(messages["Mast"].is_empty());
    }

    #[test]
    fn what_the_server_does_not_read_is_an_error() {
        for line in ["optional sint32 a = 1;", "map<int32, string> a = 1;", "oneof a {", "string a = 1;"] {
            assert!(Definitions::parse(&format!("message A {{\n{line}\n}}\n"), "a").is_err(), "{line}");
        }
    }
}
