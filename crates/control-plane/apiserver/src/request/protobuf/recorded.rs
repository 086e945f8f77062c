//! Recorded protobuf bodies: Kubernetes' own library wrote the protobuf and the JSON of the same objects.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::table::{FieldType, Message, MessageTable, Repetition};
use super::wire::{Reader, Wire};
use super::{Envelope, decode};

#[derive(Deserialize)]
struct Pair {
    protobuf: String,
    json: Value,
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn pairs() -> Vec<Pair> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protobuf");
    let mut pairs = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(&path).unwrap();
            pairs.extend(text.lines().map(|line| serde_json::from_str::<Pair>(line).unwrap()));
        }
    }
    pairs
}

/// Without nulls: they are lists and times that are not there, which protobuf cannot say.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn every_object_is_the_one_that_json_says() {
    let pairs = pairs();
    assert!(pairs.len() > 100, "{} recorded pairs", pairs.len());
    for Pair { protobuf, json } in pairs {
        let decoded = decode(&unhex(&protobuf)).unwrap();
        let expected = without_nulls(json);
        assert_eq!(without_nulls(decoded), expected);
    }
}

/// Notes which fields of which messages lie in these bytes.
fn note<'t>(table: &'t MessageTable, message: &'t Message, bytes: &[u8], seen: &mut BTreeSet<(&'t str, u32)>) {
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next().unwrap() {
        let field = message.field(number).unwrap_or_else(|| panic!("{} has no field {number}", message.name));
        seen.insert((message.name, number));
        if let (FieldType::Message(at), Wire::Bytes(bytes)) = (field.kind, wire) {
            let inner = table.message(at).unwrap();
            match field.repetition {
                Repetition::One | Repetition::List => note(table, inner, bytes, seen),
                Repetition::Map => {
                    let mut entry = Reader::new(bytes);
                    while let Some((number, wire)) = entry.next().unwrap() {
                        if let (2, Wire::Bytes(bytes)) = (number, wire) {
                            note(table, inner, bytes, seen);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_field_of_the_table_is_recorded() {
    let table = MessageTable::committed();
    let mut seen = BTreeSet::new();
    for Pair { protobuf, .. } in pairs() {
        let bytes = unhex(&protobuf);
        let envelope = Envelope::open(&bytes).unwrap();
        note(table, table.message_of(&envelope.api_version, &envelope.kind).unwrap(), envelope.raw, &mut seen);
    }
    let all = table.messages().iter();
    let all = all.flat_map(|message| message.fields.iter().map(|field| (message.name, field.number)));
    let missing: Vec<_> = all.filter(|field| !seen.contains(field)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn half_an_object_is_none_and_changed_bytes_never_panic() {
    for Pair { protobuf, .. } in pairs() {
        let bytes = unhex(&protobuf);
        let whole = decode(&bytes).unwrap();
        // Steps that are no multiple of anything, so that long objects are not tried at every byte.
        let step = 1 + bytes.len() / 31;
        for at in (0..bytes.len()).step_by(step) {
            if let Ok(part) = decode(&bytes[..at]) {
                // The end of the names and the end of the object are ends of a message, too.
                let is_bare = part.as_object().unwrap().len() == 2;
                assert!(is_bare || part == whole, "{at} bytes of {}", bytes.len());
            }
            for flip in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let _ = decode(&changed);
            }
        }
    }
}
