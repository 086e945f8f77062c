//! Sets of fields: trees of path elements, sorted at every level.
//!
//! A field can be in a set without what is below it, and the other way round: `.spec.size` being owned says nothing
//! about `.spec`.

use std::cmp::Ordering;
use std::fmt;

use crate::path::{PathElement, display_path};

/// Fields of an object, each known by its path.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Set {
    entries: Vec<Entry>,
}

/// One step down: whether the path that ends here is in the set, and what is below. One of the two is always so.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    pub(crate) is_member: bool,
    pub(crate) below: Set,
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl Set {
    /// A set of paths that are made of field names.
    pub fn of_fields<'p>(paths: impl IntoIterator<Item = &'p [&'p str]>) -> Set {
        let mut set = Set::default();
        for path in paths {
            set.insert(path.iter().map(|name| PathElement::field(name)));
        }
        set
    }

    /// Takes entries in any order, each element at most once; empty ones are dropped.
    pub(crate) fn of_entries(mut entries: Vec<Entry>) -> Set {
        entries.retain(|entry| !entry.is_empty());
        if !entries.is_sorted_by(|left, right| left.element < right.element) {
            entries.sort_by(|left, right| left.element.cmp(&right.element));
            entries.dedup_by(|later, earlier| {
                let is_same = later.element == earlier.element;
                if is_same {
                    earlier.is_member |= later.is_member;
                    earlier.below = std::mem::take(&mut earlier.below).union(std::mem::take(&mut later.below));
                }
                is_same
            });
        }
        Set { entries }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether no field is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many fields are in it.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.is_member) + entry.below.len()).sum()
    }

    /// Adds the field at a path. No manager owns an object as a whole, so an empty path adds nothing.
    pub fn insert(&mut self, path: impl IntoIterator<Item = PathElement>) {
        let mut path = path.into_iter().peekable();
        let mut set = self;
        while let Some(element) = path.next() {
            let entry = set.entry(element);
            entry.is_member |= path.peek().is_none();
            set = &mut entry.below;
        }
    }

    /// The entry of an element, made if need be. The caller must not leave it empty.
    fn entry(&mut self, element: PathElement) -> &mut Entry {
        let place = match self.find(&element) {
            Ok(place) => place,
            Err(place) => {
                self.entries.insert(place, Entry { element, is_member: false, below: Set::default() });
                place
            }
        };
        &mut self.entries[place]
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.element.cmp(element))
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&Entry> {
        self.find(element).ok().map(|place| &self.entries[place])
    }

    /// The entry of a field name, without building an element for it.
    pub(crate) fn get_field(&self, name: &str) -> Option<&Entry> {
        let place = self.entries.binary_search_by(|entry| match &entry.element {
            PathElement::Field(field) => (**field).cmp(name),
            _ => Ordering::Greater,
        });
        place.ok().map(|place| &self.entries[place])
    }

    /// Whether the field at a path is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.get(element) {
                Some(entry) => set = &entry.below,
                None => return false,
            }
        }
        set.get(last).is_some_and(|entry| entry.is_member)
    }

    /// What is below an element, seen from there.
    pub fn below(&self, element: &PathElement) -> Option<&Set> {
        self.get(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// The paths, parents before what is below them.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::with_capacity(self.len());
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    /// All members of a level come before anything below, as in conflict messages.
    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for entry in self.entries.iter().filter(|entry| entry.is_member) {
            paths.push(prefix.iter().chain([&entry.element]).cloned().collect());
        }
        for entry in self.entries.iter().filter(|entry| !entry.below.is_empty()) {
            prefix.push(entry.element.clone());
            entry.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// What is in either.
    pub fn union(self, other: Set) -> Set {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut entries = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        let (mut left, mut right) = (self.entries.into_iter().peekable(), other.entries.into_iter().peekable());
        while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
            match first.element.cmp(&second.element) {
                Ordering::Less => entries.extend(left.next()),
                Ordering::Greater => entries.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(first), Some(second)) = (left.next(), right.next()) {
                        entries.push(Entry {
                            element: first.element,
                            is_member: first.is_member || second.is_member,
                            below: first.below.union(second.below),
                        });
                    }
                }
            }
        }
        entries.extend(left);
        entries.extend(right);
        Set { entries }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Set) -> Set {
        let mut entries = Vec::new();
        for (entry, theirs) in self.joined(other) {
            let Some(theirs) = theirs else { continue };
            let both = Entry {
                element: entry.element.clone(),
                is_member: entry.is_member && theirs.is_member,
                below: entry.below.intersection(&theirs.below),
            };
            if !both.is_empty() {
                entries.push(both);
            }
        }
        Set { entries }
    }

    /// What is here and not there. A parent that is there takes nothing below it away.
    pub fn difference(self, other: &Set) -> Set {
        self.without(other, false)
    }

    /// What is neither there nor below something that is there.
    pub fn recursive_difference(self, other: &Set) -> Set {
        self.without(other, true)
    }

    fn without(mut self, other: &Set, recursively: bool) -> Set {
        if other.is_empty() {
            return self;
        }
        let mut theirs = other.entries.iter().peekable();
        self.entries.retain_mut(|entry| {
            while theirs.next_if(|theirs| theirs.element < entry.element).is_some() {}
            let Some(theirs) = theirs.next_if(|theirs| theirs.element == entry.element) else { return true };
            if recursively && theirs.is_member {
                return false;
            }
            entry.is_member &= !theirs.is_member;
            entry.below = std::mem::take(&mut entry.below).without(&theirs.below, recursively);
            !entry.is_empty()
        });
        self
    }

    /// What is there too, and what is below something that is there.
    pub fn keep_under(self, prefixes: &Set) -> Set {
        let kept = self.entries.into_iter().filter_map(|mut entry| {
            let prefix = prefixes.get(&entry.element)?;
            if !prefix.is_member {
                entry.is_member = false;
                entry.below = entry.below.keep_under(&prefix.below);
            }
            (!entry.is_empty()).then_some(entry)
        });
        Set { entries: kept.collect() }
    }

    /// Whether all of this is there too.
    pub fn is_subset(&self, other: &Set) -> bool {
        self.joined(other).all(|(entry, theirs)| {
            theirs.is_some_and(|theirs| (!entry.is_member || theirs.is_member) && entry.below.is_subset(&theirs.below))
        })
    }

    /// Without the fields that have others below them.
    pub fn leaves(&self) -> Set {
        let leaves = self.entries.iter().map(|entry| Entry {
            element: entry.element.clone(),
            is_member: entry.is_member && entry.below.is_empty(),
            below: entry.below.leaves(),
        });
        Set { entries: leaves.filter(|entry| !entry.is_empty()).collect() }
    }

    /// Each entry here with the one of the same element there.
    fn joined<'s>(&'s self, other: &'s Set) -> impl Iterator<Item = (&'s Entry, Option<&'s Entry>)> {
        let mut theirs = other.entries.iter().peekable();
        self.entries.iter().map(move |entry| {
            while theirs.next_if(|theirs| theirs.element < entry.element).is_some() {}
            (entry, theirs.next_if(|theirs| theirs.element == entry.element))
        })
    }
}

/// One path per line.
impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths().iter().map(|path| display_path(path))).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Few different elements, so that sets meet.
    fn element() -> impl Strategy<Value = PathElement> {
        prop_oneof![
            (0..4u8).prop_map(|number| PathElement::field(&format!("f{number}"))),
            (0..3i64).prop_map(|number| PathElement::key([("name", json!(format!("n{number}")))])),
            (0..2i64).prop_map(|number| PathElement::key([("a", json!(number)), ("b", json!(true))])),
            (0..3i64).prop_map(|number| PathElement::value(json!(number))),
            (0..2i64).prop_map(PathElement::Index),
        ]
    }

    pub(crate) fn any_set() -> impl Strategy<Value = Set> {
        prop::collection::vec(prop::collection::vec(element(), 1..4), 0..12).prop_map(|paths| {
            let mut set = Set::default();
            for path in paths {
                set.insert(path);
            }
            set
        })
    }

    fn paths(set: &Set) -> std::collections::BTreeSet<Vec<PathElement>> {
        set.paths().into_iter().collect()
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets_of_paths(left in any_set(), right in any_set()) {
            let (l, r) = (paths(&left), paths(&right));
            prop_assert_eq!(paths(&left.clone().union(right.clone())), l.union(&r).cloned().collect());
            prop_assert_eq!(paths(&left.intersection(&right)), l.intersection(&r).cloned().collect());
            prop_assert_eq!(paths(&left.clone().difference(&right)), l.difference(&r).cloned().collect());
            prop_assert_eq!(left.is_subset(&right), l.is_subset(&r));
            prop_assert_eq!(left.len(), l.len());
        }

        #[test]
        fn recursive_operations_look_at_prefixes(left in any_set(), right in any_set()) {
            let (l, r) = (paths(&left), paths(&right));
            let covered = |path: &Vec<PathElement>| (1..=path.len()).any(|end| r.contains(&path[..end]));
            let (under, rest): (std::collections::BTreeSet<_>, _) = l.into_iter().partition(covered);
            prop_assert_eq!(paths(&left.clone().recursive_difference(&right)), rest);
            prop_assert_eq!(paths(&left.keep_under(&right)), under);
        }

        #[test]
        fn union_does_not_care_about_order_and_the_empty_set(left in any_set(), right in any_set()) {
            prop_assert_eq!(left.clone().union(right.clone()), right.union(left.clone()));
            prop_assert_eq!(left.clone().union(Set::default()), left);
        }

        #[test]
        fn equal_paths_are_equal_sets(set in any_set()) {
            let mut again = Set::default();
            for path in set.paths().into_iter().rev() {
                prop_assert!(set.has(&path));
                again.insert(path);
            }
            prop_assert_eq!(again, set);
        }

        #[test]
        fn leaves_are_the_members_with_nothing_below(set in any_set()) {
            let all = paths(&set);
            let leaf = |path: &&Vec<PathElement>| !all.iter().any(|other| other.len() > path.len() && other.starts_with(path));
            prop_assert_eq!(paths(&set.leaves()), all.iter().filter(leaf).cloned().collect());
        }
    }

    #[test]
    fn no_manager_owns_the_whole_object() {
        let mut set = Set::default();
        set.insert([]);
        assert!(set.is_empty());
        assert!(!set.has(&[]));
    }
}
