//! Requests: HTTP requests from changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use seaworthy_change::{Action, ObjectRef};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::write_error::WriteVerb;

/// The verb of an action, for messages and metrics.
pub fn verb(action: &Action) -> WriteVerb {
    match action {
        Action::Apply(_) | Action::ApplyStatus(_) => WriteVerb::Apply,
        Action::Create(_) => WriteVerb::Create,
        Action::Replace(_) => WriteVerb::Replace,
        Action::Patch(_) | Action::PatchStatus(_) => WriteVerb::Patch,
        Action::Delete => WriteVerb::Delete,
        Action::Evict => WriteVerb::Evict,
        Action::Emit(_) => WriteVerb::Create,
    }
}

/// The request that performs this action on the object as `manager`. The error names what the change lacks.
pub fn build(object: &ObjectRef, action: &Action, manager: &str) -> Result<http::Request<Vec<u8>>, String> {
    let ObjectRef { resource, namespace, name, .. } = object;
    if name.is_empty() || resource.kind.is_empty() {
        return Err("it has no name or no kind".to_owned());
    }
    if resource.is_namespaced && namespace.is_none() {
        return Err("it has no namespace".to_owned());
    }
    let request = Request::new(resource.path(namespace.as_deref()));
    let post = PostParams { dry_run: false, field_manager: Some(manager.to_owned()) };
    // Forced: a field that a controller owns is the controller's, whichever manager wrote it last.
    let apply = PatchParams::apply(manager).force();
    let merge = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let built = match action {
        Action::Apply(body) => request.patch(name, &apply, &Patch::Apply(object_body(body)?)),
        Action::ApplyStatus(body) => {
            request.patch_subresource("status", name, &apply, &Patch::Apply(object_body(body)?))
        }
        Action::Create(body) => request.create(&post, bytes(object_body(body)?)?),
        Action::Replace(body) => request.replace(name, &post, bytes(&at_revision(object, object_body(body)?))?),
        Action::Patch(patch) => request.patch(name, &merge, &Patch::Merge(at_revision(object, object_body(patch)?))),
        Action::PatchStatus(patch) => {
            request.patch_subresource("status", name, &merge, &Patch::Merge(at_revision(object, object_body(patch)?)))
        }
        Action::Delete => {
            let preconditions = Preconditions { uid: object.uid.clone(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
            request.delete(name, &params)
        }
        Action::Evict => {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": namespace},
                "deleteOptions": {"preconditions": {"uid": object.uid}},
            });
            request.create_subresource("eviction", name, &post, bytes(&eviction)?)
        }
        Action::Emit(_) => return Err("an event is not written as a change".to_owned()),
    };
    built.map_err(|error| error.to_string())
}

fn object_body(body: &Value) -> Result<&Map<String, Value>, String> {
    body.as_object().ok_or_else(|| format!("its body is not an object: {body}"))
}

fn bytes(body: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(body).map_err(|error| error.to_string())
}

/// The body, bound to the resource version that was decided on. All but the metadata is borrowed: it may be a whole rendered
/// MachineConfig.
fn at_revision<'a>(object: &ObjectRef, body: &'a Map<String, Value>) -> BTreeMap<&'a str, Cow<'a, Value>> {
    let mut body: BTreeMap<_, _> = body.iter().map(|(key, value)| (key.as_str(), Cow::Borrowed(value))).collect();
    if let Some(revision) = &object.resource_version {
        let metadata = body.entry("metadata").or_insert_with(|| Cow::Owned(json!({})));
        if let Value::Object(metadata) = metadata.to_mut() {
            metadata.insert("resourceVersion".to_owned(), json!(revision));
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    fn node(name: &str) -> ObjectRef {
        ObjectRef { resource_version: Some("7".to_owned()), ..ObjectRef::named::<Node>(name) }
    }

    #[test]
    fn patch_is_bound_to_the_resource_version_that_was_decided_on() {
        let request = build(&node("w1"), &Action::Patch(json!({"spec": {"unschedulable": true}})), "test").unwrap();
        assert_eq!(request.uri().path(), "/api/v1/nodes/w1");
        assert!(request.uri().query().unwrap_or_default().contains("fieldManager=test"));
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(body, json!({"metadata": {"resourceVersion": "7"}, "spec": {"unschedulable": true}}));
    }

    #[test]
    fn eviction_is_bound_to_the_uid_of_the_pod() {
        let pod = ObjectRef {
            namespace: Some("shop".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectRef::named::<Pod>("db-1")
        };
        let request = build(&pod, &Action::Evict, "test").unwrap();
        assert_eq!(request.uri().path(), "/api/v1/namespaces/shop/pods/db-1/eviction");
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(body["deleteOptions"]["preconditions"]["uid"], "u");
    }

    #[test]
    fn change_that_cannot_be_sent_is_an_error() {
        assert!(build(&node(""), &Action::Delete, "test").is_err());
        assert!(build(&ObjectRef::named::<Pod>("p"), &Action::Evict, "test").unwrap_err().contains("namespace"));
        assert!(build(&node("w1"), &Action::Create(Value::Null), "test").unwrap_err().contains("not an object"));
    }
}
