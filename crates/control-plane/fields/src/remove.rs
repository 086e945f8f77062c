//! Removal of fields from an object.

use seaworthy_schema::ListKind;
use serde_json::{Map, Value};

use crate::list_key::ListKey;
use crate::object_type::{ObjectType, SchemaPosition, Shape};
use crate::set::{Entry, Set};

/// The object without these fields. A field goes with all that is below it; what has nothing left becomes null.
pub(crate) fn remove(kind: &ObjectType<'_>, object: Value, fields: &Set) -> Value {
    if fields.is_empty() { object } else { remove_below(kind.root(), object, fields) }
}

fn remove_below(place: SchemaPosition<'_>, value: Value, fields: &Set) -> Value {
    match (place.shape(&value), value) {
        (Shape::Scalar, value) => value,
        (Shape::List, Value::Array(items)) if *place.list() != ListKind::Atomic => {
            let items: Vec<Value> = items.into_iter().filter_map(|item| remove_item(place, item, fields)).collect();
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
        (Shape::Map, Value::Object(map)) if !place.is_whole_map() => {
            let map: Map<String, Value> = map
                .into_iter()
                .filter_map(|(name, value)| {
                    let below = place.field(&name).map(|(place, _)| place);
                    let value = remove_entry(fields.get_field(&name), value, below)?;
                    Some((name, value))
                })
                .collect();
            if map.is_empty() { Value::Null } else { Value::Object(map) }
        }
        (Shape::List | Shape::Map, _) => Value::Null,
    }
}

fn remove_item(list: SchemaPosition<'_>, item: Value, fields: &Set) -> Option<Value> {
    let element = ListKey::of(list, &item).ok().map(|key| key.to_element());
    let entry = element.and_then(|element| fields.get(&element));
    remove_entry(entry, item, Some(list.items()))
}

fn remove_entry(entry: Option<&Entry>, value: Value, place: Option<SchemaPosition<'_>>) -> Option<Value> {
    match (entry, place) {
        (Some(entry), _) if entry.is_member => None,
        (Some(entry), Some(place)) if !entry.below.is_empty() => Some(remove_below(place, value, &entry.below)),
        _ => Some(value),
    }
}
