//! Reading and writing an object loses nothing, whatever a newer upstream has put into it.
//!
//! The objects are made from our own schemas, so every field of every kind takes part, and unknown keys are put
//! everywhere.

mod generate;
mod kinds;
mod manifests;

use std::collections::BTreeMap;

use generate::{Generator, Wild};
use kinds::Kind;
use proptest::prelude::*;
use seaworthy_api::crds;
use serde_json::Value;

struct Sample {
    kind: Kind,
    schema: Value,
}

/// Every version of every definition, with the type that reads it.
fn samples() -> Vec<Sample> {
    let mut kinds: BTreeMap<(String, String), Kind> =
        kinds::all().into_iter().map(|kind| ((kind.crd.clone(), kind.version.clone()), kind)).collect();
    let mut samples = Vec::new();
    for crd in crds::all() {
        let name = crd.metadata.name.clone().unwrap();
        for version in crd.spec.versions {
            let kind = kinds
                .remove(&(name.clone(), version.name.clone()))
                .unwrap_or_else(|| panic!("{name} {} is missing in tests/lossless/kinds.rs", version.name));
            let schema = version.schema.unwrap().open_api_v3_schema.unwrap();
            samples.push(Sample { kind, schema: serde_json::to_value(schema).unwrap() });
        }
    }
    assert!(kinds.is_empty(), "no definition has {:?}", kinds.keys());
    samples
}

/// Where two values differ first, for a message that a person can read.
fn first_difference(path: &str, left: &Value, right: &Value) -> Option<String> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
            keys.filter_map(|key| {
                let path = format!("{path}.{key}");
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => first_difference(&path, left, right),
                    (left, right) => Some(format!("{path}: read {left:?}, written {right:?}")),
                }
            })
            .next()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .find_map(|(index, (left, right))| first_difference(&format!("{path}[{index}]"), left, right)),
        (left, right) if left == right => None,
        (left, right) => Some(format!("{path}: read {left}, written {right}")),
    }
}

fn check(kind: &Kind, read: Value, write: fn(Value) -> Result<Value, String>) -> Result<(), TestCaseError> {
    let written = write(read.clone())
        .map_err(|error| TestCaseError::fail(format!("{} {}: {error}\n{read}", kind.crd, kind.version)))?;
    match first_difference("", &read, &written) {
        None => Ok(()),
        Some(difference) => Err(TestCaseError::fail(format!("{} {}: {difference}\n{read}", kind.crd, kind.version))),
    }
}

/// A failure prints its seed, which is the whole input; no file needs to remember it.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn a_typed_object_keeps_every_unknown_key_of_spec_and_status() {
    let samples = samples();
    proptest!(config(), |(seed: u64)| {
        for sample in &samples {
            let mut generator = Generator::new(seed, Wild::UNKNOWN_KEYS);
            let object = generator.object(&sample.kind, &sample.schema);
            check(&sample.kind, object, sample.kind.typed)?;
        }
    });
}

#[test]
fn a_lossless_object_keeps_everything() {
    let samples = samples();
    proptest!(config(), |(seed: u64)| {
        for sample in &samples {
            let mut generator = Generator::new(seed, Wild::EVERYTHING);
            let object = generator.object(&sample.kind, &sample.schema);
            check(&sample.kind, object, sample.kind.lossless)?;
        }
    });
}

/// What is broken is refused with an error that names the object; what is accepted is still kept.
#[test]
fn a_broken_object_is_refused_or_kept() {
    let samples = samples();
    let mut refused = 0;
    let mut kept = 0;
    for seed in 0..200 {
        for sample in &samples {
            let mut generator = Generator::new(seed, Wild::EVERYTHING);
            let mut object = generator.object(&sample.kind, &sample.schema);
            generator.damage(&mut object);
            match (sample.kind.lossless)(object.clone()) {
                Ok(written) => {
                    assert_eq!(first_difference("", &object, &written), None, "{object}");
                    kept += 1;
                }
                Err(error) => {
                    assert!(error.contains(&sample.kind.kind) || error.contains("object"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 100 && kept > 100, "{refused} refused, {kept} kept");
}

/// The properties above would hold trivially if nothing unknown were ever generated.
#[test]
fn generated_objects_have_unknown_keys_at_every_depth() {
    fn depths(depth: usize, value: &Value, found: &mut Vec<usize>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            if key.starts_with(generate::UNKNOWN_KEY) {
                found.push(depth);
            }
            depths(depth + 1, value, found);
        }
        for item in value.as_array().into_iter().flatten() {
            depths(depth + 1, item, found);
        }
    }
    let mut found = Vec::new();
    for sample in samples() {
        for seed in 0..20 {
            let object = Generator::new(seed, Wild::EVERYTHING).object(&sample.kind, &sample.schema);
            depths(0, &object, &mut found);
        }
    }
    for depth in 0..6 {
        assert!(found.contains(&depth), "no unknown key at depth {depth}");
    }
}
