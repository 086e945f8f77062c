//! Reconciliation of stored field sets with a schema that has changed since they were stored.
//!
//! What was owned field by field and now has one owner is owned as a whole by everyone who owned a part of it.

use seaworthy_schema::ListKind;

use crate::object_type::{ObjectType, SchemaPosition, Shape};
use crate::path::PathElement;
use crate::set::{Entry, Set};

/// The set as it is under this schema; none if nothing changes, which is nearly always so.
pub(crate) fn reconcile(set: &Set, kind: &ObjectType<'_>) -> Option<Set> {
    reconcile_below(set, kind.root())
}

fn reconcile_below(set: &Set, place: SchemaPosition<'_>) -> Option<Set> {
    let below = |entry: &Entry| -> Option<Entry> {
        let place = place_of(place, &entry.element)?;
        let is_leaf = entry.is_member && entry.below.is_empty();
        if !is_leaf && has_one_owner(place, &entry.below) {
            return Some(Entry { element: entry.element.clone(), is_member: true, below: Set::default() });
        }
        Some(Entry { below: reconcile_below(&entry.below, place)?, ..entry.clone() })
    };
    let changes: Vec<(usize, Entry)> =
        set.entries().iter().enumerate().filter_map(|(index, entry)| Some((index, below(entry)?))).collect();
    if changes.is_empty() {
        return None;
    }
    let mut entries = set.entries().to_vec();
    for (index, entry) in changes {
        entries[index] = entry;
    }
    Some(Set::of_entries(entries))
}

fn place_of<'a>(place: SchemaPosition<'a>, element: &PathElement) -> Option<SchemaPosition<'a>> {
    match place.only_shape() {
        Some(Shape::Scalar) => None,
        Some(Shape::List) if *place.list() != ListKind::Atomic => Some(place.items()),
        Some(Shape::Map) if !place.is_whole_map() && !place.is_free_form_map() => match element {
            PathElement::Field(name) => place.field(name).map(|(place, _)| place),
            _ => None,
        },
        _ => None,
    }
}

fn has_one_owner(place: SchemaPosition<'_>, below: &Set) -> bool {
    match place.only_shape() {
        Some(Shape::List) => *place.list() == ListKind::Atomic,
        Some(Shape::Map) => place.is_whole_map() && !place.is_free_form_map() && !below.is_empty(),
        Some(Shape::Scalar) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use seaworthy_schema::Document;
    use serde_json::{Value, json};

    use super::*;

    fn reconciled(schema: Value, stored: Value) -> Option<Value> {
        let (document, root) = Document::of_custom_resource(&schema);
        let set = Set::decode(&stored).unwrap();
        reconcile(&set, &ObjectType::built_in(document.at(root))).map(|set| set.encode())
    }

    fn with_spec(spec: Value) -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": spec}}}})
    }

    #[test]
    fn parts_of_what_now_has_one_owner_become_the_whole() {
        let map = with_spec(json!({"type": "object", "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}}}));
        let stored = json!({"f:spec": {"f:x": {".": {}, "f:a": {}}, "f:y": {}}});
        assert_eq!(reconciled(map, stored), Some(json!({"f:spec": {"f:x": {}, "f:y": {}}})));

        let list = with_spec(json!({"type": "array", "items": {"type": "string"}}));
        let stored = json!({"f:spec": {"f:x": {"v:\"a\"": {}}}});
        assert_eq!(reconciled(list, stored), Some(json!({"f:spec": {"f:x": {}}})));
    }

    #[test]
    fn what_fits_the_schema_stays() {
        let list = with_spec(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}));
        assert_eq!(reconciled(list, json!({"f:spec": {"f:x": {"v:\"a\"": {}}}})), None);
        let atomic = with_spec(json!({"type": "array", "items": {"type": "string"}}));
        assert_eq!(reconciled(atomic, json!({"f:spec": {"f:x": {}}})), None);
    }

    #[test]
    fn what_has_parts_now_but_was_one_whole_stays_a_whole() {
        let list = with_spec(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}));
        assert_eq!(reconciled(list, json!({"f:spec": {"f:x": {}}})), None);
    }
}
