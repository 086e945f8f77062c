//! Merging of an applied configuration into a live object.

use seaworthy_schema::ListKind;
use serde_json::{Map, Value};

use crate::list_key::ListKey;
use crate::object_type::{ObjectType, SchemaPosition, Shape};

/// The live object with everything that the configuration sets. Nothing is taken away but `metadata.managedFields`,
/// which is long and rewritten in the end.
pub(crate) fn merge(kind: &ObjectType<'_>, live: &Value, config: &Value) -> Value {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) => {
            Value::Object(merge_maps(kind.root(), live, config, Skip::InMetadata))
        }
        _ => merge_values(kind.root(), live, config),
    }
}

/// What of the live object is not taken over.
#[derive(Clone, Copy, PartialEq)]
enum Skip {
    Nothing,
    InMetadata,
    ManagedFields,
}

/// Elsewhere a value that only one side has is taken as it is, so here both have one.
fn merge_values(place: SchemaPosition<'_>, live: &Value, config: &Value) -> Value {
    match place.shape(config) {
        Shape::Scalar => config.clone(),
        Shape::List => {
            let items = |side: &'_ Value| side.as_array().is_some_and(|items| !items.is_empty());
            if *place.list() == ListKind::Atomic || !(items(live) || items(config)) {
                return config.clone();
            }
            match (live.as_array(), config.as_array()) {
                (Some(live), Some(config)) => Value::Array(merge_lists(place, live, config)),
                (Some(live), None) => Value::Array(live.clone()),
                (None, _) => config.clone(),
            }
        }
        Shape::Map => {
            let fields = |side: &'_ Value| side.as_object().is_some_and(|fields| !fields.is_empty());
            if place.is_whole_map() || !(fields(live) || fields(config)) {
                return config.clone();
            }
            match (live.as_object(), config.as_object()) {
                (Some(live), Some(config)) => Value::Object(merge_maps(place, live, config, Skip::Nothing)),
                // Null instead of an object sets nothing, so what is live stays.
                (Some(live), None) => Value::Object(live.clone()),
                (None, _) => config.clone(),
            }
        }
    }
}

fn merge_maps(
    place: SchemaPosition<'_>,
    live: &Map<String, Value>,
    config: &Map<String, Value>,
    skip: Skip,
) -> Map<String, Value> {
    let field = |name: &str, live: &Value| match (config.get(name), place.field(name)) {
        (Some(Value::Object(config)), Some((place, _)))
            if skip == Skip::InMetadata && name == "metadata" && !place.is_whole_map() =>
        {
            let empty = Map::new();
            Value::Object(merge_maps(place, live.as_object().unwrap_or(&empty), config, Skip::ManagedFields))
        }
        (Some(config), Some((place, _))) => merge_values(place, live, config),
        (Some(config), None) => config.clone(),
        (None, _) => live.clone(),
    };
    let mut fields: Map<String, Value> = live
        .iter()
        .filter(|(name, _)| skip != Skip::ManagedFields || *name != "managedFields")
        .map(|(name, value)| (name.clone(), field(name, value)))
        .collect();
    for (name, value) in config.iter().filter(|(name, _)| !live.contains_key(*name)) {
        fields.insert(name.clone(), value.clone());
    }
    fields
}

/// What an element of the configuration meets in the live list.
#[derive(Clone, Copy, PartialEq)]
enum LiveMatch {
    Nothing,
    One(usize),
    /// Several with the same key: none of them can be merged with.
    Several,
}

/// Merges elements with the same key. Those that both lists have come in the order of the configuration; those that
/// only the live list has keep their place among their neighbours as well as that allows.
fn merge_lists(place: SchemaPosition<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let (config_of_live, live_of_config) = matches(place, live, config);
    let merged_element = |at: usize| match live_of_config[at] {
        LiveMatch::One(index) => merge_values(place.items(), &live[index], &config[at]),
        LiveMatch::Nothing | LiveMatch::Several => config[at].clone(),
    };
    let mut shared = (0..config.len()).filter(|at| live_of_config[*at] != LiveMatch::Nothing).peekable();
    let mut is_merged = vec![false; config.len()];
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < config.len() {
        if left < live.len() && right < config.len() {
            let partner = config_of_live[left];
            if partner == Some(right) {
                is_merged[right] = true;
                out.push(merged_element(right));
                left += 1;
                right += 1;
                shared.next();
                continue;
            }
            // One that both have, but not the next one in the configuration's order: it comes later.
            if partner.is_some() && shared.peek().is_some_and(|next| Some(*next) != partner) {
                left += 1;
                continue;
            }
        }
        if left < live.len() {
            match config_of_live[left] {
                None => {
                    out.push(live[left].clone());
                    left += 1;
                    continue;
                }
                Some(partner) if is_merged[partner] => left += 1,
                Some(_) => {}
            }
        }
        if right < config.len() {
            is_merged[right] = true;
            out.push(merged_element(right));
            shared.next_if_eq(&right);
            right += 1;
        }
    }
    out
}

/// For each live element its counterpart in the configuration, and the other way round.
fn matches(place: SchemaPosition<'_>, live: &[Value], config: &[Value]) -> (Vec<Option<usize>>, Vec<LiveMatch>) {
    let sorted = |items: &'_ [Value]| -> Vec<usize> { (0..items.len()).collect() };
    let keys = |items| -> Vec<Option<ListKey<'_>>> {
        let items: &[Value] = items;
        items.iter().map(|item| ListKey::of(place, item).ok()).collect()
    };
    let (live_keys, config_keys) = (keys(live), keys(config));
    let mut by_key = sorted(config);
    by_key.sort_by(|left, right| config_keys[*left].cmp(&config_keys[*right]));
    let mut config_of_live = vec![None; live.len()];
    let mut live_of_config = vec![LiveMatch::Nothing; config.len()];
    for (index, key) in live_keys.iter().enumerate().filter(|(_, key)| key.is_some()) {
        let Ok(found) = by_key.binary_search_by(|at| config_keys[*at].cmp(key)) else { continue };
        let at = by_key[found];
        config_of_live[index] = Some(at);
        live_of_config[at] = match live_of_config[at] {
            LiveMatch::Nothing => LiveMatch::One(index),
            LiveMatch::One(_) | LiveMatch::Several => LiveMatch::Several,
        };
    }
    (config_of_live, live_of_config)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use seaworthy_schema::Document;
    use serde_json::json;

    use super::*;

    fn merged(live: Value, config: Value) -> Value {
        let (document, root) = Document::of_custom_resource(&json!({"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "port": {"type": "integer"}, "tag": {"type": "string"}
                }}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        }}));
        merge(&ObjectType::built_in(document.at(root)), &live, &config)
    }

    #[rstest]
    #[case::kept_and_added("ab", "c", "abc")]
    #[case::configured_order_wins("abc", "cb", "acb")]
    #[case::new_one_in_between("ab", "axb", "axb")]
    #[case::new_one_first("ab", "xa", "xab")]
    #[case::moved_behind_what_only_lives("abc", "ca", "bca")]
    #[case::nothing_configured("ab", "", "ab")]
    #[case::nothing_live("", "ab", "ab")]
    fn order_of_a_merged_list(#[case] live: &str, #[case] config: &str, #[case] wanted: &str) {
        let tags = |text: &str| json!({"tags": text.chars().map(String::from).collect::<Vec<_>>()});
        assert_eq!(merged(tags(live), tags(config)), tags(wanted));
    }

    #[test]
    fn elements_with_the_same_key_are_merged() {
        let live = json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]});
        assert_eq!(
            merged(live, json!({"ports": [{"name": "b", "tag": "x"}]})),
            json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2, "tag": "x"}]})
        );
    }

    #[test]
    fn what_has_one_owner_is_replaced() {
        let live = json!({"plain": ["a"], "whole": {"a": "1"}, "free": {"a": [1], "b": 1}});
        assert_eq!(
            merged(live, json!({"plain": ["b"], "whole": {"b": "2"}, "free": {"a": [2]}})),
            json!({"plain": ["b"], "whole": {"b": "2"}, "free": {"a": [2], "b": 1}})
        );
    }

    #[test]
    fn null_takes_no_object_and_no_shared_list_away() {
        let live = json!({"tags": ["a"], "free": {"a": 1}, "plain": ["a"]});
        assert_eq!(
            merged(live, json!({"tags": null, "free": null, "plain": null})),
            json!({"tags": ["a"], "free": {"a": 1}, "plain": null})
        );
    }
}
