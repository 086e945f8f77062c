//! JSON that only looks like a config.

use proptest::prelude::*;
use proptest::sample::select;
use seaworthy_ignition::Version;
use seaworthy_ignition::schema::{CONFIG, FieldType, Object};
use serde_json::{Value, json};

use super::blocks::Json;
use super::{Variety, config};

/// Any JSON at all, biased towards what a config looks like: its keys, with values of the wrong kind.
pub fn anything() -> Json {
    let keys: Vec<&'static str> = known_keys();
    let text = prop_oneof![
        select(vec![
            "3.5.0",
            "3.0.0",
            "3.2.0",
            "2.0.0",
            "2.2.0",
            "3.6.0",
            "",
            "/a",
            "a.service",
            "x.conf",
            "data:,x",
            "http://h/%zz",
            "root",
            "core",
            "gzip",
            "[Unit]\nA=b"
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        end_of_range(),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(7, 64, 6, move |inner| {
        let key = prop_oneof![9 => select(keys.clone()).prop_map(str::to_owned), 1 => "\\PC{0,4}"];
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            4 => prop::collection::btree_map(key, inner, 0..7).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let versions = select(vec!["2.0.0", "2.1.0", "2.2.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0"]);
    (tree, prop::option::weighted(0.9, versions))
        .prop_map(|(mut tree, version)| {
            if let (Some(map), Some(version)) = (tree.as_object_mut(), version) {
                let ignition = map.entry("ignition").or_insert_with(|| json!({}));
                if !ignition.is_object() {
                    *ignition = json!({});
                }
                ignition["version"] = version.into();
            }
            tree
        })
        .boxed()
}

/// Numbers with which arithmetic goes wrong.
fn end_of_range() -> impl Strategy<Value = Value> {
    select(vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX]).prop_map(Value::from)
}

fn known_keys() -> Vec<&'static str> {
    fn walk(object: &Object, keys: &mut Vec<&'static str>) {
        for field in object.fields {
            if !keys.contains(&field.name) {
                keys.push(field.name);
            }
            match &field.kind {
                FieldType::Object(object) => walk(object, keys),
                FieldType::List(list) => {
                    if let FieldType::Object(object) = &list.item {
                        walk(object, keys);
                    }
                }
                _ => {}
            }
        }
    }
    let mut keys =
        vec!["networkd", "create", "mount", "filesystem", "enable", "Files", "FILES", "Storage", "PATH", "Users"];
    walk(&CONFIG, &mut keys);
    keys
}

/// A config whose structure is right and whose values are chosen without regard to the rules: some are valid.
pub fn mutated(version: Version) -> Json {
    let other = prop_oneof![3 => anything(), 1 => end_of_range()];
    (config(version, Variety::ALL), other, any::<prop::sample::Index>())
        .prop_map(|(mut config, other, at)| {
            let mut count = count(&config);
            let mut target = at.index(count);
            count = 0;
            replace(&mut config, &mut target, &mut count, &other);
            config
        })
        .boxed()
}

fn count(json: &Value) -> usize {
    1 + match json {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

fn replace(json: &mut Value, target: &mut usize, seen: &mut usize, other: &Value) {
    *seen += 1;
    if *seen == *target {
        *json = other.clone();
        return;
    }
    match json {
        Value::Array(list) => list.iter_mut().for_each(|item| replace(item, target, seen, other)),
        Value::Object(map) => map.values_mut().for_each(|item| replace(item, target, seen, other)),
        _ => {}
    }
}

/// A valid config in which one key is given once more, with the same value and in another case.
pub fn spelled_twice(version: Version) -> Json {
    (config(version, Variety::ALL), any::<prop::sample::Index>(), any::<bool>())
        .prop_map(|(mut config, at, both_wrong)| {
            let mut target = at.index(keys(&config));
            spell(&mut config, &mut target, both_wrong);
            config
        })
        .boxed()
}

fn keys(json: &Value) -> usize {
    match json {
        Value::Array(list) => list.iter().map(keys).sum(),
        Value::Object(map) => map.len() + map.values().map(keys).sum::<usize>(),
        _ => 0,
    }
}

/// Gives the key with that number another spelling as well; `false` when it lies further on.
fn spell(json: &mut Value, target: &mut usize, both_wrong: bool) -> bool {
    match json {
        Value::Array(list) => list.iter_mut().any(|item| spell(item, target, both_wrong)),
        Value::Object(map) if *target < map.len() => {
            let (key, value) = map.iter().nth(*target).map(|(key, value)| (key.clone(), value.clone())).unwrap();
            if both_wrong {
                map.remove(&key);
                let (first, rest) = key.split_at(1);
                map.insert(format!("{}{rest}", first.to_uppercase()), value.clone());
            }
            map.insert(key.to_uppercase(), value);
            true
        }
        Value::Object(map) => {
            *target -= map.len();
            map.values_mut().any(|value| spell(value, target, both_wrong))
        }
        _ => false,
    }
}
