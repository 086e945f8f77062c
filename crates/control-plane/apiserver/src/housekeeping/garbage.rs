//! The garbage collector's rules: what becomes of an object when its owners go.
//!
//! The rules are those of the real one. They are decided here, from what is known of an object and its owners; who
//! depends on whom is kept in [`kinship`](super::kinship), and the changes are made by the [`hand`](super::hand).

use seaworthy_store::{Key, Store};

use crate::object::meta::{FOREGROUND, ORPHAN};
use crate::request::options::Propagation;
use crate::resource::registry::Registry;

use super::kinship::Kinship;
use super::ties::{Owner, Parting, Ties};

/// How it stands with an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is there, and its dependents may rely on it.
    Solid,
    /// It is not there, or another object has its name.
    Absent,
    /// It is there and waits for its dependents to go.
    Waiting,
    /// It is there and wants its dependents to forget it.
    Orphaning,
    /// Nobody can say: its kind is not served.
    Unknown,
    /// Nobody can say: it has a namespace, and the dependent has none.
    Misplaced,
}

/// Why an object is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It has no owner.
    Free,
    /// All its owners are there.
    Owned,
    /// It is on its way out already.
    Leaving,
    /// It has an owner whose kind is not served.
    UnknownKind {
        /// Group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// It has no namespace, and an owner that has one: nobody knows which.
    NamespacedOwner {
        /// The owner's kind.
        kind: String,
        /// The owner's name.
        name: String,
    },
}

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as it is.
    Leave(Reason),
    /// It stays, without these references.
    Loosen(Vec<Owner>),
    /// No owner waits for it any more.
    Unblock,
    /// It goes.
    Delete(Propagation),
}

/// What is known of an object beside its metadata.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// How it stands with each of its owners, in the order of the references.
    pub owners: &'a [Standing],
    /// Whether anything depends on it.
    pub has_dependents: bool,
    /// Whether it waits for itself.
    pub is_in_circle: bool,
}

/// Decides what becomes of an object.
pub fn decide(ties: &Ties, situation: Situation<'_>) -> Verdict {
    let owners = ties.owners();
    let of = |wanted: &[Standing]| -> Vec<Owner> {
        let standings = owners.iter().zip(situation.owners);
        standings.filter(|(_, standing)| wanted.contains(standing)).map(|(owner, _)| owner.clone()).collect()
    };
    if owners.is_empty() {
        return Verdict::Leave(Reason::Free);
    }
    let orphaned = of(&[Standing::Orphaning]);
    if ties.is_deleting() {
        return match ties.parting() {
            _ if !orphaned.is_empty() => Verdict::Loosen(orphaned),
            // Differs: every circle of waiting objects is cut, not only those that are seen while they come about,
            // because an object in one that was not would never go.
            Some(Parting::Foreground) if situation.is_in_circle && owners.iter().any(Owner::blocks) => Verdict::Unblock,
            _ => Verdict::Leave(Reason::Leaving),
        };
    }
    if !orphaned.is_empty() {
        // In one go: without the orphaning owner, an absent one would take the object along.
        return Verdict::Loosen(of(&[Standing::Orphaning, Standing::Absent, Standing::Waiting]));
    }
    if let Some(Owner { api_version, kind, .. }) = of(&[Standing::Unknown]).into_iter().next() {
        return Verdict::Leave(Reason::UnknownKind { api_version, kind });
    }
    if let Some(Owner { kind, name, .. }) = of(&[Standing::Misplaced]).into_iter().next() {
        return Verdict::Leave(Reason::NamespacedOwner { kind, name });
    }
    let lost = of(&[Standing::Absent, Standing::Waiting]);
    if situation.owners.contains(&Standing::Solid) {
        return if lost.is_empty() { Verdict::Leave(Reason::Owned) } else { Verdict::Loosen(lost) };
    }
    let is_waited_for = situation.owners.contains(&Standing::Waiting);
    Verdict::Delete(if is_waited_for && situation.has_dependents {
        Propagation::Foreground
    } else if ties.is_held_by(ORPHAN) {
        Propagation::Orphan
    } else if ties.is_held_by(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    })
}

/// How it stands with an owner of the object at `key`.
pub fn standing(store: &Store, registry: &Registry, kinship: &Kinship, key: &Key, owner: &Owner) -> Standing {
    if kinship.is_gone(&owner.uid) {
        return Standing::Absent;
    }
    let Some(resource) = registry.of_kind(&owner.api_version, &owner.kind) else { return Standing::Unknown };
    if resource.is_namespaced && key.namespace.is_empty() {
        return Standing::Misplaced;
    }
    let namespace = if resource.is_namespaced { key.namespace.clone() } else { "".into() };
    let Some(found) = store.get(&Key::new(resource.storage.clone(), namespace, owner.name.as_str())) else {
        return Standing::Absent;
    };
    let ties = Ties::of(&found);
    match ties.parting() {
        _ if ties.uid != owner.uid => Standing::Absent,
        Some(Parting::Foreground) => Standing::Waiting,
        Some(Parting::Orphan) => Standing::Orphaning,
        None => Standing::Solid,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::super::ties::tests::ties;
    use super::Standing::{Absent, Misplaced, Orphaning, Solid, Unknown, Waiting};
    use super::*;

    /// An object with owners `0`, `1` and so on.
    fn owned(count: usize, more: Value) -> Ties {
        let owners: Vec<Value> = (0..count)
            .map(|at| json!({"apiVersion": "v1", "kind": "K", "name": at.to_string(), "uid": at.to_string()}))
            .collect();
        let mut metadata = json!({"uid": "own", "ownerReferences": owners});
        for (key, value) in more.as_object().unwrap() {
            metadata[key] = value.clone();
        }
        ties(metadata)
    }

    fn verdict(ties: &Ties, owners: &[Standing], has_dependents: bool) -> Verdict {
        decide(ties, Situation { owners, has_dependents, is_in_circle: false })
    }

    #[rstest]
    #[case::all_there(&[Solid, Solid], Verdict::Leave(Reason::Owned))]
    #[case::one_is_gone(&[Absent], Verdict::Delete(Propagation::Background))]
    #[case::all_are_gone(&[Absent, Absent], Verdict::Delete(Propagation::Background))]
    #[case::one_of_them_waits(&[Absent, Waiting], Verdict::Delete(Propagation::Background))]
    #[case::one_is_not_served(
        &[Absent, Unknown],
        Verdict::Leave(Reason::UnknownKind { api_version: "v1".to_owned(), kind: "K".to_owned() })
    )]
    #[case::one_has_a_namespace(
        &[Absent, Misplaced],
        Verdict::Leave(Reason::NamespacedOwner { kind: "K".to_owned(), name: "1".to_owned() })
    )]
    fn object_goes_when_no_owner_is_left(#[case] owners: &[Standing], #[case] wanted: Verdict) {
        assert_eq!(verdict(&owned(owners.len(), json!({})), owners, false), wanted);
    }

    #[rstest]
    #[case::gone(&[Solid, Absent], &[1])]
    #[case::waits(&[Waiting, Solid], &[0])]
    #[case::both(&[Waiting, Solid, Absent], &[0, 2])]
    #[case::orphans(&[Orphaning], &[0])]
    #[case::orphans_and_gone(&[Absent, Orphaning], &[0, 1])]
    #[case::orphans_and_unknown(&[Unknown, Orphaning], &[1])]
    #[case::orphans_and_solid(&[Solid, Orphaning], &[1])]
    fn object_loses_the_owners_on_which_it_cannot_rely(#[case] owners: &[Standing], #[case] lost: &[usize]) {
        let object = owned(owners.len(), json!({}));
        let lost = lost.iter().map(|at| object.owners()[*at].clone()).collect();
        assert_eq!(verdict(&object, owners, true), Verdict::Loosen(lost));
    }

    #[rstest]
    #[case::nothing(json!({}), false, Propagation::Background)]
    #[case::own_orphans(json!({"finalizers": ["orphan"]}), false, Propagation::Orphan)]
    #[case::own_foreground(json!({"finalizers": ["foregroundDeletion"]}), false, Propagation::Foreground)]
    #[case::dependents(json!({}), true, Propagation::Foreground)]
    fn object_that_is_waited_for_goes_as_it_must(
        #[case] more: Value,
        #[case] has_dependents: bool,
        #[case] wanted: Propagation,
    ) {
        assert_eq!(verdict(&owned(1, more), &[Waiting], has_dependents), Verdict::Delete(wanted));
    }

    #[test]
    fn dependents_of_an_object_whose_owner_is_gone_are_not_waited_for() {
        assert_eq!(verdict(&owned(1, json!({})), &[Absent], true), Verdict::Delete(Propagation::Background));
    }

    #[test]
    fn object_on_its_way_out_is_left_alone_but_still_forgets_an_orphaning_owner() {
        let leaving = owned(2, json!({"deletionTimestamp": "t", "finalizers": ["example.com/hold"]}));
        assert_eq!(verdict(&leaving, &[Absent, Absent], true), Verdict::Leave(Reason::Leaving));
        let lost = vec![leaving.owners()[1].clone()];
        assert_eq!(verdict(&leaving, &[Absent, Orphaning], true), Verdict::Loosen(lost));
    }

    #[test]
    fn circle_is_cut_at_an_object_that_blocks() {
        let mut metadata = json!({
            "uid": "own", "deletionTimestamp": "t", "finalizers": ["foregroundDeletion"],
            "ownerReferences": [{"uid": "o", "blockOwnerDeletion": true}],
        });
        let cut = |metadata: &Value| {
            decide(&ties(metadata.clone()), Situation { owners: &[Waiting], has_dependents: true, is_in_circle: true })
        };
        assert_eq!(cut(&metadata), Verdict::Unblock);
        metadata["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
        assert_eq!(cut(&metadata), Verdict::Leave(Reason::Leaving));
    }

    #[test]
    fn object_without_owners_is_free() {
        assert_eq!(verdict(&owned(0, json!({})), &[], true), Verdict::Leave(Reason::Free));
    }
}
