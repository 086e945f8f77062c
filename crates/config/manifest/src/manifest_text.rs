//! Manifest text: the content of one file, and the JSON or YAML documents in it.

use std::cell::Cell;
use std::sync::OnceLock;

use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::path::{Path, Step};
use seaworthy_ignition::problem::is_about_key;
use seaworthy_ignition::{locate, locate_key};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::{items, parse_error, yaml};

/// How many values one text may hold: sixteen times what the largest sensible fleet has.
const MAX_VALUES: usize = 16_000_000;

/// A text that manifests come in.
#[derive(Debug)]
pub struct ManifestText {
    /// The file's name, or `standard input`.
    pub name: String,
    content: String,
    /// Set when a text that looks like JSON turned out to be YAML.
    is_yaml: OnceLock<()>,
    /// Positions of all values of a YAML text; computed when first needed.
    spanned: OnceLock<Vec<SpannedNode>>,
}

impl ManifestText {
    /// Takes the bytes of a text.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, String> {
        match String::from_utf8(bytes) {
            Ok(content) => {
                Ok(ManifestText { name: name.to_owned(), content, is_yaml: OnceLock::new(), spanned: OnceLock::new() })
            }
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                if let Some(what) = format_hint(&bytes) {
                    return Err(format!("{name} is {what}"));
                }
                let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
                Err(format!(
                    "{name}:{line}: byte {valid} (0x{:02x}) is not UTF-8; manifests are UTF-8 texts",
                    bytes.get(valid).copied().unwrap_or_default()
                ))
            }
        }
    }

    /// The text without a byte order mark.
    pub fn content(&self) -> &str {
        self.content.strip_prefix('\u{feff}').unwrap_or(&self.content)
    }

    /// Whether the text is JSON: YAML manifests never start with a bracket in practice.
    pub fn is_json(&self) -> bool {
        self.is_yaml.get().is_none() && self.content().trim_start().starts_with(['{', '['])
    }

    /// The documents of the text with their places in it; empty ones are left out.
    pub fn documents(&self) -> Result<Vec<(usize, Node<'_>)>, String> {
        let documents = match self.is_json() {
            true => self.json().or_else(|error| self.separated_json().ok_or(error)),
            false => self.yaml(),
        }?;
        Ok(documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()).collect())
    }

    fn json(&self) -> Result<Vec<Node<'_>>, String> {
        let content = self.content();
        // A value takes some seventy bytes of memory however short its text is, so their number is bounded too. There are
        // no more of them than commas and opening brackets; those inside strings are counted in vain.
        let counts = |byte: &u8| u8::from(matches!(byte, b',' | b'[' | b'{'));
        // A sum of one byte for each piece that cannot exceed it: the compiler counts many bytes at once.
        let count = |piece: &[u8]| usize::from(piece.iter().map(counts).sum::<u8>());
        if content.len() > MAX_VALUES && content.as_bytes().chunks(255).map(count).sum::<usize>() > MAX_VALUES {
            return Err(format!("{}: more than {MAX_VALUES} values in one file; split it", self.name));
        }
        if let Some(list) = items::read(content) {
            return Ok(vec![list]);
        }
        let mut documents = Vec::new();
        for document in serde_json::Deserializer::from_str(content).into_iter::<Node<'_>>() {
            documents.push(document.map_err(|error| {
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                let error = parse_error::explain_json(content, error.line(), error.column(), message);
                self.located(error.line, error.column, &error.message)
            })?);
        }
        Ok(documents)
    }

    /// JSON documents with `---` between them, which YAML is too.
    fn separated_json(&self) -> Option<Vec<Node<'_>>> {
        if !self.content().contains("\n---") {
            return None;
        }
        let documents = self.yaml().ok()?;
        self.is_yaml.get_or_init(|| ());
        Some(documents)
    }

    fn yaml(&self) -> Result<Vec<Node<'_>>, String> {
        let content = self.content();
        if let Some(at) = content.find('\0') {
            let line = content[..at].matches('\n').count() + 1;
            return Err(format!("{}:{line}: NUL character; manifests are text files", self.name));
        }
        serde_saphyr::from_multiple_with_options::<Owned>(content, yaml::options(content.len()))
            .map(|documents| documents.into_iter().map(|document| document.0).collect())
            .map_err(|error| {
                let bare = error.without_snippet();
                let (line, column) = bare.location().map_or((0, 0), |location| (location.line(), location.column()));
                let message = yaml::message(bare);
                let error = parse_error::explain_yaml(content, line as usize, column as usize, &message);
                self.located(error.line, error.column, &error.message)
            })
    }

    /// `file:line:column: message` about a value of a document, and the line with a mark.
    pub fn error_at(&self, document: usize, path: &Path, budget: &Cell<usize>, message: &str) -> String {
        match self.locate(document, path, EntryPart::Value, budget) {
            Some((line, column)) => self.located(line, column, message),
            None => format!("{}: document {}: {message}", self.name, document + 1),
        }
    }

    /// `file:line:column: message`, and the line with a mark.
    fn located(&self, line: usize, column: usize, message: &str) -> String {
        if line == 0 {
            return format!("{}: {message}", self.name);
        }
        let mut text = format!("{}:{line}:{column}: {message}", self.name);
        if let Some(snippet) = self.snippet(line, column) {
            text.push('\n');
            text.push_str(&snippet);
        }
        text
    }

    /// A line of the text with a mark below a column.
    pub fn snippet(&self, line: usize, column: usize) -> Option<String> {
        const MAX_SHOWN_CHARS: usize = 100;
        // What is missing at the end is reported behind it: then the last line is shown, marked at its end.
        let (nth, content) = self.content().lines().enumerate().take(line).last()?;
        let (line, column) = if nth + 1 == line { (line, column) } else { (nth + 1, usize::MAX) };
        // Of a long line the part around the column is shown.
        let column = if column == usize::MAX { content.chars().count() + 1 } else { column.max(1) };
        let start = column.saturating_sub(MAX_SHOWN_CHARS / 2);
        let part = content.chars().skip(start).take(MAX_SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c });
        let part: String = part.collect();
        let mark = " ".repeat(column - 1 - start.min(column - 1));
        Some(format!("{line:>6} | {}\n       | {mark}^", part.trim_end()))
    }

    /// Line and column of a path in a document, counted from 1.
    ///
    /// Each look costs a pass over the text, so `budget` is what is left of the bytes that may be passed over.
    pub fn locate(
        &self,
        document: usize,
        path: &Path,
        part: EntryPart,
        budget: &Cell<usize>,
    ) -> Option<(usize, usize)> {
        if self.is_json() {
            // Of several JSON documents in one text only the first is looked at: nearly every text has one.
            budget.set(budget.get().checked_sub(self.content().len())?);
            let locate = if part == EntryPart::Key { locate_key } else { locate };
            let position = (document == 0).then(|| locate(self.content(), path))?;
            return Some((position.line, position.column));
        }
        let documents = self.spanned.get_or_init(|| {
            let content = self.content();
            serde_saphyr::from_multiple_with_options::<SpannedNode>(content, yaml::options(content.len()))
                .unwrap_or_default()
        });
        let mut node = documents.get(document)?;
        let mut location = node.0.referenced;
        for step in &path.0 {
            let next = match (step, &node.0.value) {
                (Step::Key(key), SpannedValue::Map(map)) => {
                    map.iter().find(|(name, _)| name.value == *key).map(|(name, node)| (Some(name), node))
                }
                (Step::Index(index), SpannedValue::List(list)) => list.get(*index).map(|node| (None, node)),
                _ => None,
            };
            let Some((key, next)) = next else {
                location = node.0.referenced;
                break;
            };
            location = match key {
                Some(key) if part == EntryPart::Key => key.referenced,
                _ => next.0.referenced,
            };
            node = next;
        }
        (location.line() > 0).then(|| (location.line() as usize, location.column() as usize))
    }
}

/// The format of bytes that are not a manifest, if it is recognized, and what to do about it.
fn format_hint(bytes: &[u8]) -> Option<&'static str> {
    const SAMPLE_BYTES: usize = 8192;
    Some(match bytes {
        [0x1f, 0x8b, ..] => "gzip-compressed; decompress it first, for example with `gunzip`",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "encoded as UTF-16; save it as UTF-8",
        [b'P', b'K', 3, 4, ..] => "a zip archive; extract it first",
        bytes if bytes.iter().take(SAMPLE_BYTES).any(|byte| *byte == 0) => "binary data; manifests are UTF-8 texts",
        _ => return None,
    })
}

/// The part of an entry that is located.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPart {
    /// The key itself, for a misspelt one.
    Key,
    Value,
}

impl EntryPart {
    /// The part that findings of a code are about.
    pub fn of_finding(code: &str) -> Self {
        if is_about_key(code) { EntryPart::Key } else { EntryPart::Value }
    }
}

/// A tree with strings of its own: a YAML text is decoded, so little of it could be borrowed.
struct Owned(Node<'static>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Node::deserialize(deserializer).map(|node| Owned(node.into_owned()))
    }
}

/// A YAML value with its position.
#[derive(Debug)]
struct SpannedNode(Spanned<SpannedValue>);

#[derive(Debug)]
enum SpannedValue {
    Scalar,
    List(Vec<SpannedNode>),
    Map(Vec<(Spanned<String>, SpannedNode)>),
}

impl<'de> Deserialize<'de> for SpannedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(SpannedNode)
    }
}

impl<'de> Deserialize<'de> for SpannedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyVisitor;
        impl<'de> Visitor<'de> for AnyVisitor {
            type Value = SpannedValue;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("any value")
            }
            fn visit_unit<E: de::Error>(self) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Scalar)
            }
            fn visit_bool<E: de::Error>(self, _: bool) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Scalar)
            }
            fn visit_i64<E: de::Error>(self, _: i64) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Scalar)
            }
            fn visit_u64<E: de::Error>(self, _: u64) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Scalar)
            }
            fn visit_f64<E: de::Error>(self, _: f64) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Scalar)
            }
            fn visit_str<E: de::Error>(self, _: &str) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Scalar)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<SpannedValue, A::Error> {
                let mut list = Vec::new();
                while let Some(node) = seq.next_element()? {
                    list.push(node);
                }
                Ok(SpannedValue::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<SpannedValue, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = access.next_entry()? {
                    map.push(entry);
                }
                Ok(SpannedValue::Map(map))
            }
        }
        deserializer.deserialize_any(AnyVisitor)
    }
}

/// Whether a document is one that manifests come in.
pub fn is_object(document: &Node<'_>) -> bool {
    matches!(document.value, Value::Map(_))
}
