//! Written objects: what a decision has written so far, so that its later changes of the same objects build on that.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::change::Action;
use crate::decision::Purpose;
use crate::object::ObjectRef;

/// The identity of an object, and its resource version after a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectVersion {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// The objects that a decision has written so far. The applier and the performance in memory follow the same rules.
#[derive(Debug, Default)]
pub struct WrittenObjects(BTreeMap<ObjectRef, ObjectVersion>);

impl WrittenObjects {
    /// The object as the decision last wrote it. An order is given at exactly the revision that was reserved, or not at all:
    /// another process counts it as given by that revision.
    pub fn current(&self, object: &ObjectRef, purpose: Purpose) -> ObjectRef {
        let Some(found) = self.0.get(&object.key()) else { return object.clone() };
        let written = found.resource_version.as_ref().filter(|_| purpose != Purpose::Order);
        ObjectRef {
            uid: object.uid.clone().or_else(|| found.uid.clone()),
            resource_version: written.or(object.resource_version.as_ref()).cloned(),
            ..object.clone()
        }
    }

    /// Records a write. Only the revision of one that would have been refused if the object had changed is one that later
    /// changes may build on: after an unbound write, a change bound to the state that was decided on must still be refused.
    pub fn record(&mut self, action: &Action, sent: &ObjectRef, version: ObjectVersion) {
        let is_bound = match action {
            Action::Create(_) => true,
            Action::Apply(body) | Action::ApplyStatus(body) => {
                body.pointer("/metadata/resourceVersion").is_some_and(|revision| !revision.is_null())
            }
            _ => sent.resource_version.is_some(),
        };
        let found = self.0.entry(sent.key()).or_default();
        found.uid = version.uid;
        if is_bound {
            found.resource_version = version.resource_version;
        }
    }
}

/// What must be true of an object for the API to make a change of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Preconditions<'c> {
    pub uid: Option<&'c str>,
    pub resource_version: Option<&'c str>,
}

impl<'c> Preconditions<'c> {
    /// Of a change as the applier sends it: a deletion is bound by the uid, a patch and a replacement by the resource version,
    /// and each body by what it says itself.
    pub(crate) fn of(object: &'c ObjectRef, action: &'c Action) -> Preconditions<'c> {
        let of_body = |body: &'c Value| {
            let text = |key: &str| body.get("metadata")?.get(key)?.as_str().filter(|text| !text.is_empty());
            Preconditions { uid: text("uid"), resource_version: text("resourceVersion") }
        };
        match action {
            Action::Delete | Action::Evict => Preconditions { uid: object.uid.as_deref(), resource_version: None },
            Action::Replace(body) | Action::Patch(body) | Action::PatchStatus(body) => {
                let of_body = of_body(body);
                let resource_version = object.resource_version.as_deref().or(of_body.resource_version);
                Preconditions { resource_version, ..of_body }
            }
            Action::Apply(body) | Action::ApplyStatus(body) => of_body(body),
            Action::Create(_) | Action::Emit(_) => Preconditions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    fn node(resource_version: Option<&str>) -> ObjectRef {
        ObjectRef { resource_version: resource_version.map(str::to_owned), ..ObjectRef::named::<Node>("w1") }
    }

    /// The revision that a change of the node is bound to, which was decided on at `decided`, after this write left revision 7.
    fn bound_after(action: Action, sent: Option<&str>, decided: Option<&str>, purpose: Purpose) -> Option<String> {
        let mut written = WrittenObjects::default();
        let version = ObjectVersion { uid: Some("u".to_owned()), resource_version: Some("7".to_owned()) };
        written.record(&action, &node(sent), version);
        let current = written.current(&node(decided), purpose);
        assert_eq!(current.uid.as_deref(), Some("u"));
        current.resource_version
    }

    #[test]
    fn later_change_builds_on_a_write_that_was_bound_to_what_was_decided_on() {
        let patch = || Action::Patch(json!({}));
        assert_eq!(bound_after(patch(), Some("5"), Some("5"), Purpose::Status).as_deref(), Some("7"));
        assert_eq!(bound_after(Action::Create(json!({})), None, None, Purpose::Write).as_deref(), Some("7"));
    }

    #[test]
    fn order_is_given_at_the_revision_that_was_reserved_or_not_at_all() {
        let fence = Action::Patch(json!({}));
        assert_eq!(bound_after(fence, Some("5"), Some("5"), Purpose::Order).as_deref(), Some("5"));
    }

    #[test]
    fn unbound_write_hides_no_change_of_another_writer_from_a_later_bound_one() {
        let apply = || Action::Apply(json!({"metadata": {"name": "w1"}}));
        assert_eq!(bound_after(apply(), None, Some("5"), Purpose::Status).as_deref(), Some("5"));
        assert_eq!(bound_after(apply(), None, None, Purpose::Status), None);
    }
}
