//! Comparison of two objects, field by field.

use std::cmp::Ordering;

use seaworthy_schema::ListKind;
use serde_json::{Map, Value};

use crate::list_key::ListKey;
use crate::object_type::{ObjectType, SchemaPosition, Shape};
use crate::path::{PathElement, same};
use crate::set::{Entry, Set};

/// The fields in which one object differs from another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// In the old one only.
    pub removed: Set,
    /// In both, with different values.
    pub modified: Set,
    /// In the new one only.
    pub added: Set,
}

impl Comparison {
    /// Compares two objects of a type.
    pub fn of(kind: &ObjectType<'_>, old: &Value, new: &Value) -> Comparison {
        compare(kind.root(), Some(old), Some(new), 0).below.into_comparison()
    }

    /// Without these fields and all that is below them.
    pub fn without(self, fields: &Set) -> Comparison {
        Comparison {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

/// What became of one value.
#[derive(Default)]
struct Change {
    is_removed: bool,
    is_modified: bool,
    is_added: bool,
    below: Changes,
}

/// What became of the values below one.
#[derive(Default)]
struct Changes {
    removed: Vec<Entry>,
    modified: Vec<Entry>,
    added: Vec<Entry>,
}

impl Changes {
    fn push(&mut self, element: impl FnOnce() -> PathElement, change: Change) {
        let Comparison { removed, modified, added } = change.below.into_comparison();
        let mut sides = [
            (&mut self.removed, change.is_removed, removed),
            (&mut self.modified, change.is_modified, modified),
            (&mut self.added, change.is_added, added),
        ];
        let mut changed = sides.iter_mut().filter(|(_, is_member, below)| *is_member || !below.is_empty()).peekable();
        if changed.peek().is_none() {
            return;
        }
        let element = element();
        for (entries, is_member, below) in changed {
            entries.push(Entry { element: element.clone(), is_member: *is_member, below: std::mem::take(below) });
        }
    }

    fn append(&mut self, other: Changes) {
        self.removed.extend(other.removed);
        self.modified.extend(other.modified);
        self.added.extend(other.added);
    }

    fn into_comparison(self) -> Comparison {
        Comparison {
            removed: Set::of_entries(self.removed),
            modified: Set::of_entries(self.modified),
            added: Set::of_entries(self.added),
        }
    }
}

/// Down to which level values are first looked at as a whole. Most of them are equal, which is found out faster that
/// way; further down it would be the same values over and over again.
const MAX_WHOLE_LEVEL: usize = 4;

/// Compares the values at one position. A side that has nothing there is none; one that has null is not.
fn compare(place: SchemaPosition<'_>, old: Option<&Value>, new: Option<&Value>, level: usize) -> Change {
    let mut change = match (old, new) {
        (None, None) => return Change::default(),
        (Some(old), Some(new)) if level < MAX_WHOLE_LEVEL && old == new => return Change::default(),
        (Some(only), None) | (None, Some(only)) => compare_as(place, place.shape(only), old, new, level),
        (Some(before), Some(after)) => {
            let (was, is) = (place.shape(before), place.shape(after));
            // Null takes any shape, so beside a value it counts as a change of shape.
            let changes_shape = place.only_shape().is_none() && (was != is || before.is_null() != after.is_null());
            let mut change = compare_as(place, is, old, new, level);
            if changes_shape {
                let other = compare_as(place, was, old, new, level);
                change.is_modified |= other.is_modified;
                change.below.append(other.below);
            }
            change
        }
    };
    change.is_added |= old.is_none();
    change.is_removed |= new.is_none();
    change
}

/// Compares as values of one shape. What does not have it counts as empty.
fn compare_as(
    place: SchemaPosition<'_>,
    shape: Shape,
    old: Option<&Value>,
    new: Option<&Value>,
    level: usize,
) -> Change {
    match shape {
        Shape::Scalar => whole(old, new),
        Shape::List => compare_lists(place, items_of(old), items_of(new), level).unwrap_or_else(|| whole(old, new)),
        Shape::Map => {
            let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let is_empty = |side: Option<&Map<String, Value>>| side.is_none_or(Map::is_empty);
            if place.is_whole_map() || (is_empty(before) && is_empty(after)) {
                return whole(old, new);
            }
            Change { below: compare_maps(place, before, after, level), ..Change::default() }
        }
    }
}

fn items_of(side: Option<&Value>) -> &[Value] {
    side.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn whole(old: Option<&Value>, new: Option<&Value>) -> Change {
    let is_modified = matches!((old, new), (Some(old), Some(new)) if !same(old, new));
    Change { is_modified, ..Change::default() }
}

fn compare_maps(
    place: SchemaPosition<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    level: usize,
) -> Changes {
    let mut changes = Changes::default();
    let mut visit = |name: &str| {
        let lacks = |side: Option<&Map<String, Value>>| side.is_some_and(|fields| !fields.contains_key(name));
        let (old_lacks, new_lacks) = (lacks(old), lacks(new));
        let implicit_value = if old_lacks || new_lacks { place.implicit_value(name) } else { None };
        let before = old.and_then(|fields| fields.get(name)).or(implicit_value.filter(|_| old_lacks));
        let after = new.and_then(|fields| fields.get(name)).or(implicit_value.filter(|_| new_lacks));
        if let Some((below, _)) = place.field(name) {
            changes.push(|| PathElement::field(name), compare(below, before, after, level + 1));
        }
    };
    for name in old.into_iter().flat_map(Map::keys) {
        visit(name);
    }
    for name in new.into_iter().flat_map(Map::keys).filter(|name| old.is_none_or(|old| !old.contains_key(*name))) {
        visit(name);
    }
    changes
}

/// None for a list that has one owner or that is empty on both sides.
fn compare_lists(place: SchemaPosition<'_>, old: &[Value], new: &[Value], level: usize) -> Option<Change> {
    if *place.list() == ListKind::Atomic || (old.is_empty() && new.is_empty()) {
        return None;
    }
    let (old, new) = (sorted(place, old), sorted(place, new));
    let (mut old, mut new) = (&old[..], &new[..]);
    let mut change = Change::default();
    while let Some(key) = first_key(old, new) {
        let (before, rest) = old.split_at(old.iter().take_while(|(other, _)| other == key).count());
        let (after, more) = new.split_at(new.iter().take_while(|(other, _)| other == key).count());
        change.below.push(|| key.to_element(), compare_elements(place.items(), before, after, level + 1));
        (old, new) = (rest, more);
    }
    Some(change)
}

fn sorted<'v>(place: SchemaPosition<'v>, items: &'v [Value]) -> Vec<(ListKey<'v>, &'v Value)> {
    let mut keyed = ListKey::of_all(place, items);
    keyed.sort_by(|left, right| left.0.cmp(&right.0));
    keyed
}

fn first_key<'k, 'v>(
    old: &'k [(ListKey<'v>, &'v Value)],
    new: &'k [(ListKey<'v>, &'v Value)],
) -> Option<&'k ListKey<'v>> {
    match (old.first(), new.first()) {
        (None, None) => None,
        (Some((key, _)), None) | (None, Some((key, _))) => Some(key),
        (Some((old, _)), Some((new, _))) => Some(if old.cmp(new) == Ordering::Greater { new } else { old }),
    }
}

/// Compares the elements of one key: usually one on either side. More than one are a single value together, and one
/// that becomes several, or the other way round, is taken away and added.
fn compare_elements(
    place: SchemaPosition<'_>,
    old: &[(ListKey<'_>, &Value)],
    new: &[(ListKey<'_>, &Value)],
    level: usize,
) -> Change {
    match (old, new) {
        ([] | [_], [] | [_]) => compare(place, old.first().map(|old| old.1), new.first().map(|new| new.1), level),
        ([_, _, ..], [_, _, ..]) => Change {
            is_modified: old.len() != new.len() || !old.iter().zip(new).all(|(old, new)| same(old.1, new.1)),
            ..Change::default()
        },
        ([_, _, ..], _) => {
            let change = new.first().map(|new| compare(place, None, Some(new.1), level)).unwrap_or_default();
            Change { is_removed: true, ..change }
        }
        (_, _) => {
            let change = old.first().map(|old| compare(place, Some(old.1), None, level)).unwrap_or_default();
            Change { is_added: true, ..change }
        }
    }
}
