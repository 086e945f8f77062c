//! Garbage collector's rules: what happens to an object whose owners are deleted.
//!
//! The rules are those of kube-controller-manager. They are decided here, from the state of an object and its owners;
//! [`owner_graph`](super::owner_graph) knows the dependents, and [`executor`](super::executor) applies the changes.

use seaworthy_store::{Key, Store};

use crate::object::meta::{FOREGROUND, ORPHAN};
use crate::request::options::Propagation;
use crate::resource::registry::Registry;

use super::owner_graph::OwnerGraph;
use super::owner_refs::{DeletionMode, OwnerReference, OwnerRefs};

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// It exists and is not waiting for its dependents.
    Present,
    /// It does not exist, or another object has its name.
    Absent,
    /// It is being deleted in the foreground.
    WaitingForDependents,
    /// It is being deleted and orphans its dependents.
    Orphaning,
    /// Unknown: its kind is not served.
    Unknown,
    /// Unresolvable: the owner is namespaced, the dependent is cluster-scoped.
    Misplaced,
}

/// Why an object is left unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveReason {
    Free,
    /// All owners exist.
    Owned,
    /// It is being deleted already.
    Terminating,
    UnknownKind {
        api_version: String,
        kind: String,
    },
    /// It is cluster-scoped with a namespaced owner, which cannot be resolved.
    NamespacedOwner {
        kind: String,
        name: String,
    },
}

/// What to do with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GarbageDecision {
    Leave(LeaveReason),
    /// Remove these owner references.
    RemoveOwners(Vec<OwnerReference>),
    /// Let no owner wait for it any more.
    Unblock,
    Delete(Propagation),
}

/// The dependency state of an object, beside its metadata.
#[derive(Debug, Clone, Copy)]
pub struct DependencyState<'a> {
    /// The state of each owner, in the order of the references.
    pub owners: &'a [OwnerState],
    pub has_dependents: bool,
    /// Whether it waits for itself through a cycle of owners.
    pub is_in_cycle: bool,
}

/// Decides what to do with an object.
pub fn decide(owner_refs: &OwnerRefs, state: DependencyState<'_>) -> GarbageDecision {
    let owners = owner_refs.owners();
    let of = |wanted: &[OwnerState]| -> Vec<OwnerReference> {
        let states = owners.iter().zip(state.owners);
        states.filter(|(_, owner_state)| wanted.contains(owner_state)).map(|(owner, _)| owner.clone()).collect()
    };
    if owners.is_empty() {
        return GarbageDecision::Leave(LeaveReason::Free);
    }
    let orphaned = of(&[OwnerState::Orphaning]);
    if owner_refs.is_deleting() {
        return match owner_refs.deletion_mode() {
            _ if !orphaned.is_empty() => GarbageDecision::RemoveOwners(orphaned),
            // Differs: every cycle of waiting objects is broken, not only those that are noticed while they form,
            // because an object in a cycle that was not noticed would never be deleted.
            Some(DeletionMode::Foreground) if state.is_in_cycle && owners.iter().any(OwnerReference::blocks) => {
                GarbageDecision::Unblock
            }
            _ => GarbageDecision::Leave(LeaveReason::Terminating),
        };
    }
    if !orphaned.is_empty() {
        // In one write: without the orphaning owner, an absent owner would cause the deletion of the object.
        return GarbageDecision::RemoveOwners(of(&[
            OwnerState::Orphaning,
            OwnerState::Absent,
            OwnerState::WaitingForDependents,
        ]));
    }
    if let Some(OwnerReference { api_version, kind, .. }) = of(&[OwnerState::Unknown]).into_iter().next() {
        return GarbageDecision::Leave(LeaveReason::UnknownKind { api_version, kind });
    }
    if let Some(OwnerReference { kind, name, .. }) = of(&[OwnerState::Misplaced]).into_iter().next() {
        return GarbageDecision::Leave(LeaveReason::NamespacedOwner { kind, name });
    }
    let lost = of(&[OwnerState::Absent, OwnerState::WaitingForDependents]);
    if state.owners.contains(&OwnerState::Present) {
        return if lost.is_empty() {
            GarbageDecision::Leave(LeaveReason::Owned)
        } else {
            GarbageDecision::RemoveOwners(lost)
        };
    }
    let is_waited_for = state.owners.contains(&OwnerState::WaitingForDependents);
    GarbageDecision::Delete(if is_waited_for && state.has_dependents {
        Propagation::Foreground
    } else if owner_refs.is_held_by(ORPHAN) {
        Propagation::Orphan
    } else if owner_refs.is_held_by(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    })
}

/// The state of an owner of the object at `key`.
pub fn owner_state(
    store: &Store,
    registry: &Registry,
    owner_graph: &OwnerGraph,
    key: &Key,
    owner: &OwnerReference,
) -> OwnerState {
    if owner_graph.is_gone(&owner.uid) {
        return OwnerState::Absent;
    }
    let Some(resource) = registry.of_kind(&owner.api_version, &owner.kind) else { return OwnerState::Unknown };
    if resource.is_namespaced && key.namespace.is_empty() {
        return OwnerState::Misplaced;
    }
    let namespace = if resource.is_namespaced { key.namespace.clone() } else { "".into() };
    let Some(found) = store.get(&Key::new(resource.storage.clone(), namespace, owner.name.as_str())) else {
        return OwnerState::Absent;
    };
    let owner_refs = OwnerRefs::of(&found);
    match owner_refs.deletion_mode() {
        _ if owner_refs.uid != owner.uid => OwnerState::Absent,
        Some(DeletionMode::Foreground) => OwnerState::WaitingForDependents,
        Some(DeletionMode::Orphan) => OwnerState::Orphaning,
        None => OwnerState::Present,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::super::owner_refs::tests::owner_refs;
    use super::OwnerState::{Absent, Misplaced, Orphaning, Present, Unknown, WaitingForDependents};
    use super::*;

    /// An object with the owners `0`, `1` and so on.
    fn owned(count: usize, more: Value) -> OwnerRefs {
        let owners: Vec<Value> = (0..count)
            .map(|at| json!({"apiVersion": "v1", "kind": "K", "name": at.to_string(), "uid": at.to_string()}))
            .collect();
        let mut metadata = json!({"uid": "own", "ownerReferences": owners});
        for (key, value) in more.as_object().unwrap() {
            metadata[key] = value.clone();
        }
        owner_refs(metadata)
    }

    fn decision(owner_refs: &OwnerRefs, owners: &[OwnerState], has_dependents: bool) -> GarbageDecision {
        decide(owner_refs, DependencyState { owners, has_dependents, is_in_cycle: false })
    }

    #[rstest]
    #[case::all_there(&[Present, Present], GarbageDecision::Leave(LeaveReason::Owned))]
    #[case::one_is_gone(&[Absent], GarbageDecision::Delete(Propagation::Background))]
    #[case::all_are_gone(&[Absent, Absent], GarbageDecision::Delete(Propagation::Background))]
    #[case::one_of_them_waits(&[Absent, WaitingForDependents], GarbageDecision::Delete(Propagation::Background))]
    #[case::one_is_not_served(
        &[Absent, Unknown],
        GarbageDecision::Leave(LeaveReason::UnknownKind { api_version: "v1".to_owned(), kind: "K".to_owned() })
    )]
    #[case::one_has_a_namespace(
        &[Absent, Misplaced],
        GarbageDecision::Leave(LeaveReason::NamespacedOwner { kind: "K".to_owned(), name: "1".to_owned() })
    )]
    fn object_goes_when_no_owner_is_left(#[case] owners: &[OwnerState], #[case] wanted: GarbageDecision) {
        assert_eq!(decision(&owned(owners.len(), json!({})), owners, false), wanted);
    }

    #[rstest]
    #[case::gone(&[Present, Absent], &[1])]
    #[case::waits(&[WaitingForDependents, Present], &[0])]
    #[case::both(&[WaitingForDependents, Present, Absent], &[0, 2])]
    #[case::orphans(&[Orphaning], &[0])]
    #[case::orphans_and_gone(&[Absent, Orphaning], &[0, 1])]
    #[case::orphans_and_unknown(&[Unknown, Orphaning], &[1])]
    #[case::orphans_and_solid(&[Present, Orphaning], &[1])]
    fn object_loses_the_owners_on_which_it_cannot_rely(#[case] owners: &[OwnerState], #[case] lost: &[usize]) {
        let object = owned(owners.len(), json!({}));
        let lost = lost.iter().map(|at| object.owners()[*at].clone()).collect();
        assert_eq!(decision(&object, owners, true), GarbageDecision::RemoveOwners(lost));
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
        assert_eq!(decision(&owned(1, more), &[WaitingForDependents], has_dependents), GarbageDecision::Delete(wanted));
    }

    #[test]
    fn dependents_of_an_object_whose_owner_is_gone_are_not_waited_for() {
        assert_eq!(decision(&owned(1, json!({})), &[Absent], true), GarbageDecision::Delete(Propagation::Background));
    }

    #[test]
    fn object_on_its_way_out_is_left_alone_but_still_forgets_an_orphaning_owner() {
        let terminating = owned(2, json!({"deletionTimestamp": "t", "finalizers": ["example.com/hold"]}));
        assert_eq!(decision(&terminating, &[Absent, Absent], true), GarbageDecision::Leave(LeaveReason::Terminating));
        let lost = vec![terminating.owners()[1].clone()];
        assert_eq!(decision(&terminating, &[Absent, Orphaning], true), GarbageDecision::RemoveOwners(lost));
    }

    #[test]
    fn circle_is_cut_at_an_object_that_blocks() {
        let mut metadata = json!({
            "uid": "own", "deletionTimestamp": "t", "finalizers": ["foregroundDeletion"],
            "ownerReferences": [{"uid": "o", "blockOwnerDeletion": true}],
        });
        let cut = |metadata: &Value| {
            decide(
                &owner_refs(metadata.clone()),
                DependencyState { owners: &[WaitingForDependents], has_dependents: true, is_in_cycle: true },
            )
        };
        assert_eq!(cut(&metadata), GarbageDecision::Unblock);
        metadata["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
        assert_eq!(cut(&metadata), GarbageDecision::Leave(LeaveReason::Terminating));
    }

    #[test]
    fn object_without_owners_is_free() {
        assert_eq!(decision(&owned(0, json!({})), &[], true), GarbageDecision::Leave(LeaveReason::Free));
    }
}
