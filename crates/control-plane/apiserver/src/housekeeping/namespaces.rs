//! The end of a namespace: everything in it goes, pods before all else, and it says what is still there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use seaworthy_store::{EventKind, Key, Store};
use serde_json::{Value, json};

use crate::object::{Metadata, Object};
use crate::resource::registry::Registry;

use super::ties::Ties;
use super::work::Work;

/// Where namespaces are stored.
pub const NAMESPACES: &str = "core/namespaces";

/// Where pods are stored.
const PODS: &str = "core/pods";

/// Namespaces that are on their way out, and what is in them.
#[derive(Debug, Default)]
pub struct Leaving {
    members: HashMap<Arc<str>, BTreeSet<Key>>,
}

/// An object in a namespace that is on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Where it is.
    pub key: Key,
    /// Its identity.
    pub uid: String,
    /// Plural and group, as messages name them.
    pub kind: String,
    /// What holds it.
    pub finalizers: Vec<String>,
    /// Whether it was told to go.
    pub is_leaving: bool,
}

/// What to do about a namespace.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing: it is not, or no longer, held by its content.
    Forget,
    /// Delete these.
    Delete(Vec<Member>),
    /// All that is left was told to go: wait for it.
    Wait,
    /// It is empty: let it go.
    Finalize,
}

impl Leaving {
    /// Follows an event, and says whether to look at a namespace because of it.
    pub fn follow(
        &mut self,
        key: &Key,
        kind: EventKind,
        is_leaving: bool,
        list: impl Fn() -> Vec<Key>,
    ) -> Option<Work> {
        if &*key.resource == NAMESPACES {
            if kind == EventKind::Deleted || !is_leaving {
                self.members.remove(&key.name);
                return None;
            }
            self.members.entry(key.name.clone()).or_insert_with(|| list().into_iter().collect());
            return Some(Work::Namespace(key.name.clone()));
        }
        let members = self.members.get_mut(&key.namespace)?;
        let is_news = match kind {
            EventKind::Created => members.insert(key.clone()),
            EventKind::Updated => {
                members.insert(key.clone());
                false
            }
            // While something is left that is no news; else every object that goes would have the others looked at.
            EventKind::Deleted => {
                members.remove(key);
                members.is_empty() || (&*key.resource == PODS && !has_pods(members))
            }
        };
        is_news.then(|| Work::Namespace(key.namespace.clone()))
    }

    /// What is in a namespace, as far as it is served.
    pub fn members(&self, name: &str, store: &Store, registry: &Registry) -> Vec<Member> {
        members(self.members.get(name).into_iter().flatten().cloned(), store, registry)
    }
}

/// The objects at these keys, as far as they are there and served.
pub fn members(keys: impl IntoIterator<Item = Key>, store: &Store, registry: &Registry) -> Vec<Member> {
    let members = keys.into_iter().filter_map(|key| {
        let resource = registry.of_storage(&key.resource)?;
        let ties = Ties::of(&*store.get(&key)?);
        Some(Member {
            key,
            kind: format!("{}.{}", resource.plural, resource.group),
            is_leaving: ties.is_deleting(),
            finalizers: ties.finalizers().to_vec(),
            uid: ties.uid,
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

/// Decides what to do about a namespace, given what is in it.
pub fn decide(namespace: &Object, finalizer: &str, members: &[Member]) -> Step {
    let held = namespace.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    let is_held = held.into_iter().flatten().any(|name| name == finalizer);
    if !namespace.is_deleting() || !is_held {
        return Step::Forget;
    }
    if members.is_empty() {
        return Step::Finalize;
    }
    // Pods go first, so that nothing they need is taken from under them.
    let has_pods = members.iter().any(|member| &*member.key.resource == PODS);
    let next = members.iter().filter(|member| !has_pods || &*member.key.resource == PODS);
    let next: Vec<Member> = next.filter(|member| !member.is_leaving).cloned().collect();
    if next.is_empty() { Step::Wait } else { Step::Delete(next) }
}

/// The conditions that tell what is left; none if the namespace says that already.
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

/// What there is to say: type, whether it is bad, reason, message.
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
        // These two tell of kinds that cannot be listed, of which there are none here: all are in one process.
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

    fn member(resource: &str, name: &str, finalizers: &[&str], is_leaving: bool) -> Member {
        let plural = resource.split('/').next_back().unwrap();
        Member {
            key: Key::new(resource, "n", name),
            uid: name.to_owned(),
            kind: format!("{plural}."),
            finalizers: finalizers.iter().map(|name| (*name).to_owned()).collect(),
            is_leaving,
        }
    }

    fn namespace(is_leaving: bool, finalizers: &[&str]) -> Object {
        let mut object = json!({"metadata": {"name": "n"}, "spec": {"finalizers": finalizers}, "status": {}});
        if is_leaving {
            object["metadata"]["deletionTimestamp"] = "t".into();
        }
        object.as_object().unwrap().clone()
    }

    #[rstest]
    #[case::in_use(namespace(false, &[FINALIZER]), Step::Forget)]
    #[case::held_by_others(namespace(true, &["example.com/other"]), Step::Forget)]
    #[case::empty(namespace(true, &["example.com/other", FINALIZER]), Step::Finalize)]
    fn namespace_goes_when_it_is_empty(#[case] namespace: Object, #[case] wanted: Step) {
        assert_eq!(decide(&namespace, FINALIZER, &[]), wanted);
    }

    #[test]
    fn pods_go_before_everything_else() {
        let (pod, secret) = (member("core/pods", "p", &[], false), member("core/secrets", "s", &[], false));
        let going = namespace(true, &[FINALIZER]);
        let step = |members: &[Member]| decide(&going, FINALIZER, members);
        assert_eq!(step(&[pod.clone(), secret.clone()]), Step::Delete(vec![pod]));
        assert_eq!(step(&[member("core/pods", "p", &[], true), secret.clone()]), Step::Wait);
        assert_eq!(step(std::slice::from_ref(&secret)), Step::Delete(vec![secret]));
    }

    #[test]
    fn object_is_told_to_go_once() {
        let members = [member("core/secrets", "s", &["example.com/hold"], true)];
        assert_eq!(decide(&namespace(true, &[FINALIZER]), FINALIZER, &members), Step::Wait);
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
    fn report_that_says_nothing_new_is_none_and_time_moves_only_with_the_status() {
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
        let mut leaving = Leaving::default();
        let (own, a, b) = (Key::new(NAMESPACES, "", "n"), Key::new("x/y", "n", "a"), Key::new("x/y", "n", "b"));
        let list = || vec![a.clone()];
        let looked = Some(Work::Namespace("n".into()));
        assert_eq!(leaving.follow(&a, EventKind::Created, false, list), None);
        assert_eq!(leaving.follow(&own, EventKind::Updated, true, list), looked);
        assert_eq!(leaving.follow(&b, EventKind::Created, false, list), looked);
        assert_eq!(leaving.follow(&b, EventKind::Updated, true, list), None);
        assert_eq!(leaving.follow(&a, EventKind::Deleted, true, list), None);
        assert_eq!(leaving.follow(&b, EventKind::Deleted, true, list), looked);
        assert_eq!(leaving.follow(&own, EventKind::Deleted, true, list), None);
        assert_eq!(leaving.follow(&b, EventKind::Created, false, list), None);
    }

    #[test]
    fn rest_of_a_namespace_is_looked_at_when_the_last_pod_is_gone() {
        let mut leaving = Leaving::default();
        let (own, pod) = (Key::new(NAMESPACES, "", "n"), Key::new("core/pods", "n", "p"));
        let list = || vec![pod.clone(), Key::new("core/configmaps", "n", "c"), Key::new("x/y", "n", "a")];
        leaving.follow(&own, EventKind::Updated, true, list);
        assert_eq!(leaving.follow(&pod, EventKind::Deleted, true, list), Some(Work::Namespace("n".into())));
    }
}
