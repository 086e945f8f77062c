//! Namespace deletion: deletes the content, pods first, and reports in conditions what remains.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use seaworthy_store::{EventKind, Key, Store};
use serde_json::{Value, json};

use crate::object::{Metadata, Object};
use crate::resource::registry::Registry;

use super::owner_refs::OwnerRefs;
use super::work_queue::WorkItem;

pub const NAMESPACES: &str = "core/namespaces";

const PODS: &str = "core/pods";

/// Terminating namespaces and the keys of their content.
#[derive(Debug, Default)]
pub struct TerminatingNamespaces {
    members: HashMap<Arc<str>, BTreeSet<Key>>,
}

/// An object in a terminating namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub key: Key,
    pub uid: String,
    /// Plural and group, as messages name them.
    pub kind: String,
    pub finalizers: Vec<String>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
}

/// The next step of a namespace deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum NamespaceStep {
    /// Nothing: the namespace is not terminating, or not held by this finalizer.
    Forget,
    Delete(Vec<Member>),
    /// All remaining objects are being deleted: wait for them.
    Wait,
    /// It is empty: remove the finalizer.
    Finalize,
}

impl TerminatingNamespaces {
    /// Processes an event. Returns the namespace that must be checked because of it.
    pub fn follow(
        &mut self,
        key: &Key,
        kind: EventKind,
        is_terminating: bool,
        list: impl Fn() -> Vec<Key>,
    ) -> Option<WorkItem> {
        if &*key.resource == NAMESPACES {
            if kind == EventKind::Deleted || !is_terminating {
                self.members.remove(&key.name);
                return None;
            }
            self.members.entry(key.name.clone()).or_insert_with(|| list().into_iter().collect());
            return Some(WorkItem::Namespace(key.name.clone()));
        }
        let members = self.members.get_mut(&key.namespace)?;
        let is_relevant = match kind {
            EventKind::Created => members.insert(key.clone()),
            EventKind::Updated => {
                members.insert(key.clone());
                false
            }
            // Irrelevant while content remains; otherwise each deleted object would cause a check of all others.
            EventKind::Deleted => {
                members.remove(key);
                members.is_empty() || (&*key.resource == PODS && !has_pods(members))
            }
        };
        is_relevant.then(|| WorkItem::Namespace(key.namespace.clone()))
    }

    /// The content of a namespace whose kinds are served.
    pub fn members(&self, name: &str, store: &Store, registry: &Registry) -> Vec<Member> {
        members(self.members.get(name).into_iter().flatten().cloned(), store, registry)
    }
}

/// The objects at these keys that exist and are served.
pub fn members(keys: impl IntoIterator<Item = Key>, store: &Store, registry: &Registry) -> Vec<Member> {
    let members = keys.into_iter().filter_map(|key| {
        let resource = registry.of_storage(&key.resource)?;
        let owner_refs = OwnerRefs::of(&*store.get(&key)?);
        Some(Member {
            key,
            kind: format!("{}.{}", resource.plural, resource.group),
            is_terminating: owner_refs.is_deleting(),
            finalizers: owner_refs.finalizers().to_vec(),
            uid: owner_refs.uid,
        })
    });
    members.collect()
}

fn has_pods(members: &BTreeSet<Key>) -> bool {
    members.range(Key::new(PODS, "", "")..).next().is_some_and(|key| &*key.resource == PODS)
}

/// The keys of everything in a namespace.
pub fn content(name: &str, store: &Store, registry: &Registry) -> Vec<Key> {
    let resources = registry.stored().filter(|resource| resource.is_namespaced);
    let records = resources.flat_map(|resource| store.list(&resource.storage, Some(name)).records);
    records.map(|record| record.key.clone()).collect()
}

/// Decides the next step from the content of a namespace.
pub fn decide(namespace: &Object, finalizer: &str, members: &[Member]) -> NamespaceStep {
    let held = namespace.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    let is_held = held.into_iter().flatten().any(|name| name == finalizer);
    if !namespace.is_deleting() || !is_held {
        return NamespaceStep::Forget;
    }
    if members.is_empty() {
        return NamespaceStep::Finalize;
    }
    // Pods are deleted first, so that they keep what they depend on.
    let has_pods = members.iter().any(|member| &*member.key.resource == PODS);
    let next = members.iter().filter(|member| !has_pods || &*member.key.resource == PODS);
    let next: Vec<Member> = next.filter(|member| !member.is_terminating).cloned().collect();
    if next.is_empty() { NamespaceStep::Wait } else { NamespaceStep::Delete(next) }
}

/// The conditions that report the remaining content; none if they are up to date.
pub fn report(namespace: &Object, members: &[Member], failures: &[String], now: &str) -> Option<Value> {
    let old = namespace.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let old = old.cloned().unwrap_or_default();
    let mut next = old.clone();
    for (kind, is_bad, reason, message) in findings(members, failures) {
        let status = if is_bad { "True" } else { "False" };
        let condition = |time: &Value| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time});
        match next.iter_mut().find(|known| known["type"] == kind) {
            None => next.push(condition(&now.into())),
            Some(known) if known["status"] == status => *known = condition(&known["lastTransitionTime"]),
            Some(known) => *known = condition(&now.into()),
        }
    }
    (next != old).then(|| next.into())
}

/// The conditions: type, whether it is a problem, reason, message.
fn findings(members: &[Member], failures: &[String]) -> [(&'static str, bool, &'static str, String); 5] {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members {
        *kinds.entry(&member.kind).or_default() += 1;
        for name in &member.finalizers {
            *finalizers.entry(name).or_default() += 1;
        }
    }
    let counts = |counted: &BTreeMap<&str, usize>, word: &str| {
        let counted = counted.iter().map(|(name, count)| format!("{name} {word} {count} resource instances"));
        counted.collect::<Vec<_>>().join(", ")
    };
    let failed = match failures {
        [] => ("ContentDeleted", "All content successfully deleted, may be waiting on finalization".to_owned()),
        some => {
            let why = format!("Failed to delete all resource types, {} remaining: {}", some.len(), some.join(", "));
            ("ContentDeletionFailed", why)
        }
    };
    let remaining = match members.is_empty() {
        true => ("ContentRemoved", "All content successfully removed".to_owned()),
        false => ("SomeResourcesRemain", format!("Some resources are remaining: {}", counts(&kinds, "has"))),
    };
    let held = match finalizers.is_empty() {
        true => ("ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned()),
        false => (
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", counts(&finalizers, "in")),
        ),
    };
    [
        // These two report kinds that cannot be listed. There are none: all kinds are in one process.
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        ("NamespaceDeletionContentFailure", !failures.is_empty(), failed.0, failed.1),
        ("NamespaceContentRemaining", !members.is_empty(), remaining.0, remaining.1),
        ("NamespaceFinalizersRemaining", !finalizers.is_empty(), held.0, held.1),
    ]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const FINALIZER: &str = "kubernetes";

    fn member(resource: &str, name: &str, finalizers: &[&str], is_terminating: bool) -> Member {
        let plural = resource.split('/').next_back().unwrap();
        Member {
            key: Key::new(resource, "n", name),
            uid: name.to_owned(),
            kind: format!("{plural}."),
            finalizers: finalizers.iter().map(|name| (*name).to_owned()).collect(),
            is_terminating,
        }
    }

    fn namespace(is_terminating: bool, finalizers: &[&str]) -> Object {
        let mut object = json!({"metadata": {"name": "n"}, "spec": {"finalizers": finalizers}, "status": {}});
        if is_terminating {
            object["metadata"]["deletionTimestamp"] = "t".into();
        }
        object.as_object().unwrap().clone()
    }

    #[rstest]
    #[case::in_use(namespace(false, &[FINALIZER]), NamespaceStep::Forget)]
    #[case::held_by_others(namespace(true, &["example.com/other"]), NamespaceStep::Forget)]
    #[case::empty(namespace(true, &["example.com/other", FINALIZER]), NamespaceStep::Finalize)]
    fn namespace_goes_when_it_is_empty(#[case] namespace: Object, #[case] wanted: NamespaceStep) {
        assert_eq!(decide(&namespace, FINALIZER, &[]), wanted);
    }

    #[test]
    fn pods_go_before_everything_else() {
        let (pod, secret) = (member("core/pods", "p", &[], false), member("core/secrets", "s", &[], false));
        let going = namespace(true, &[FINALIZER]);
        let step = |members: &[Member]| decide(&going, FINALIZER, members);
        assert_eq!(step(&[pod.clone(), secret.clone()]), NamespaceStep::Delete(vec![pod]));
        assert_eq!(step(&[member("core/pods", "p", &[], true), secret.clone()]), NamespaceStep::Wait);
        assert_eq!(step(std::slice::from_ref(&secret)), NamespaceStep::Delete(vec![secret]));
    }

    #[test]
    fn object_is_deleted_once() {
        let members = [member("core/secrets", "s", &["example.com/hold"], true)];
        assert_eq!(decide(&namespace(true, &[FINALIZER]), FINALIZER, &members), NamespaceStep::Wait);
    }

    fn condition(conditions: &Value, kind: &str) -> (String, String, String) {
        let found = conditions.as_array().unwrap().iter().find(|condition| condition["type"] == kind).unwrap();
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    #[test]
    fn report_counts_what_is_left_and_what_holds_it() {
        let members = [
            member("core/secrets", "a", &["example.com/a", "example.com/b"], true),
            member("core/secrets", "b", &["example.com/a"], true),
            member("core/configmaps", "c", &[], true),
        ];
        let conditions = report(&namespace(true, &[FINALIZER]), &members, &["no".to_owned()], "t0").unwrap();
        assert_eq!(conditions.as_array().unwrap().len(), 5);
        let (status, reason, message) = condition(&conditions, "NamespaceContentRemaining");
        assert_eq!((status.as_str(), reason.as_str()), ("True", "SomeResourcesRemain"));
        assert_eq!(
            message,
            "Some resources are remaining: configmaps. has 1 resource instances, secrets. has 2 resource instances"
        );
        let (_, _, message) = condition(&conditions, "NamespaceFinalizersRemaining");
        assert_eq!(
            message,
            "Some content in the namespace has finalizers remaining: example.com/a in 2 resource instances, \
             example.com/b in 1 resource instances"
        );
        let (status, _, message) = condition(&conditions, "NamespaceDeletionContentFailure");
        assert_eq!((status.as_str(), message.ends_with("1 remaining: no")), ("True", true));
    }

    #[test]
    fn report_without_a_change_is_none_and_time_moves_only_with_the_status() {
        let mut object = namespace(true, &[FINALIZER]);
        let members = [member("core/secrets", "a", &[], true)];
        let first = report(&object, &members, &[], "t0").unwrap();
        object["status"] = json!({"conditions": first});
        assert_eq!(report(&object, &members, &[], "t1"), None);
        let more = [members[0].clone(), member("core/secrets", "b", &[], true)];
        let second = report(&object, &more, &[], "t1").unwrap();
        let time = |conditions: &Value| conditions[3]["lastTransitionTime"].clone();
        assert_eq!(time(&second), "t0");
        object["status"] = json!({"conditions": second});
        assert_eq!(time(&report(&object, &[], &[], "t2").unwrap()), "t2");
    }

    #[test]
    fn namespace_is_looked_at_when_it_begins_to_go_when_it_gets_something_and_when_it_is_empty() {
        let mut terminating = TerminatingNamespaces::default();
        let (own, a, b) = (Key::new(NAMESPACES, "", "n"), Key::new("x/y", "n", "a"), Key::new("x/y", "n", "b"));
        let list = || vec![a.clone()];
        let looked = Some(WorkItem::Namespace("n".into()));
        assert_eq!(terminating.follow(&a, EventKind::Created, false, list), None);
        assert_eq!(terminating.follow(&own, EventKind::Updated, true, list), looked);
        assert_eq!(terminating.follow(&b, EventKind::Created, false, list), looked);
        assert_eq!(terminating.follow(&b, EventKind::Updated, true, list), None);
        assert_eq!(terminating.follow(&a, EventKind::Deleted, true, list), None);
        assert_eq!(terminating.follow(&b, EventKind::Deleted, true, list), looked);
        assert_eq!(terminating.follow(&own, EventKind::Deleted, true, list), None);
        assert_eq!(terminating.follow(&b, EventKind::Created, false, list), None);
    }

    #[test]
    fn rest_of_a_namespace_is_looked_at_when_the_last_pod_is_gone() {
        let mut terminating = TerminatingNamespaces::default();
        let (own, pod) = (Key::new(NAMESPACES, "", "n"), Key::new("core/pods", "n", "p"));
        let list = || vec![pod.clone(), Key::new("core/configmaps", "n", "c"), Key::new("x/y", "n", "a")];
        terminating.follow(&own, EventKind::Updated, true, list);
        assert_eq!(terminating.follow(&pod, EventKind::Deleted, true, list), Some(WorkItem::Namespace("n".into())));
    }
}
