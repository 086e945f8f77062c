//! Manifests: merges a manifest into the live object, as `kubectl apply` does.
//!
//! - Maps are merged, a list replaces a list, and `null` removes a field. Server-side apply uses the schema too: lists whose
//!   items have keys are merged, and maps such as selectors may be replaced as a whole. An object is applied that way if it was
//!   before; otherwise on the client's side, which is kubectl's default.
//! - What was applied before and is not in the manifest any more is removed. Client-side apply keeps a record of that in an
//!   annotation, server-side apply in `metadata.managedFields`; without either, nothing is removed.

use std::sync::LazyLock;

use k8s_openapi::jiff::Timestamp;
use seaworthy_change::to_second;
use seaworthy_fields::{ApplyError, ObjectType, Writer};
use seaworthy_schema::{Document, NodeId, Schema};
use serde_json::{Map, Value, json};

/// The annotation in which client-side apply records the manifest.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const FIELD_MANAGER: &str = "kubectl";

/// The metadata of an existing object that a manifest may set. The rest is set by the API.
const APPLIED_METADATA: [&str; 6] = ["name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"];

/// The schema of object metadata, as far as lists in it are merged.
static METADATA_SCHEMA: LazyLock<(Document, NodeId)> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    Document::of_custom_resource(&json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "ownerReferences": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "items": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"uid": text},
                },
            },
        },
    }))
});

/// A manifest with the schema of its kind.
pub(super) struct Manifest<'m> {
    pub json: &'m Value,
    /// `None` for kinds of others: their lists are replaced as a whole.
    pub schema: Option<Schema<'m>>,
    /// JSON pointers of the fields that controllers set, whatever a manifest has there.
    pub controlled_fields: Vec<&'static str>,
    pub now: Timestamp,
}

impl Manifest<'_> {
    /// The result of applying the manifest to the live object.
    ///
    /// Differs: conflicts with other field managers are ignored, because client-side apply has none and server-side apply
    /// only requires `--force-conflicts`; the result is the same.
    pub(super) fn apply_to(&self, live: &Value) -> Result<Value, ApplyError> {
        let controlled: Vec<&str> =
            self.controlled_fields.iter().copied().filter(|field| live.pointer(field).is_some()).collect();
        let applied_fields = |object: &Value| {
            let mut applied = applied_fields(object);
            controlled.iter().for_each(|field| remove_field(&mut applied, field));
            applied
        };
        let (mut live, mut config) = (live.clone(), applied_fields(self.json));
        if let Some(last) = last_applied(&live) {
            remove_dropped_fields(&mut live, &applied_fields(&last), &with_annotations(&config));
        }
        remove_nulls(Some(&mut live), &mut config);
        self.apply(Some(&live), &config)
    }

    /// The field ownership after the manifest has created its object, so that a second one removes what only the first one
    /// has. `None` for a manifest that was read from a cluster: it was not applied.
    pub(super) fn ownership(&self) -> Option<Value> {
        let metadata = self.json.get("metadata")?;
        if ["uid", "resourceVersion", "managedFields"].iter().any(|key| metadata.get(key).is_some()) {
            return None;
        }
        // An object that does not match its schema is refused anyway.
        let made = self.apply(None, &applied_fields(self.json)).ok()?;
        made.pointer("/metadata/managedFields").cloned()
    }

    fn apply(&self, live: Option<&Value>, config: &Value) -> Result<Value, ApplyError> {
        let api_version = config.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let time = to_second(self.now).to_string();
        let by = |kind: ObjectType<'_>| {
            let writer = Writer { kind, api_version, subresource: "", ignored: None, versions: None };
            writer.apply(live, config, FIELD_MANAGER, true, &time)
        };
        let (document, root) = &*METADATA_SCHEMA;
        let schema = self.schema.filter(|_| live.is_none_or(is_applied_by_server));
        let typed = schema.map(|schema| by(ObjectType::custom(schema, document.at(*root))));
        // An object that does not match the schema is merged without it, so that the API's objection can be reported.
        typed.and_then(Result::ok).map_or_else(|| by(ObjectType::unknown()), Ok)
    }
}

/// Removes the field at a JSON pointer.
fn remove_field(object: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.remove(key);
    }
}

/// The fields of an object that a manifest may set.
fn applied_fields(object: &Value) -> Value {
    let mut applied = object.clone();
    let Some(fields) = applied.as_object_mut() else { return applied };
    fields.remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| APPLIED_METADATA.contains(&key.as_str()));
        match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) => drop(annotations.remove(LAST_APPLIED)),
            // Client-side apply always writes one annotation, so it never removes those of others.
            Some(Value::Null) => drop(metadata.remove("annotations")),
            _ => {}
        }
    }
    applied
}

/// A manifest as client-side apply sends it: with annotations, because it records the manifest there.
fn with_annotations(config: &Value) -> Value {
    let mut config = config.clone();
    if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("annotations").or_insert_with(|| json!({}));
    }
    config
}

/// The manifest that client-side apply applied last.
fn last_applied(live: &Value) -> Option<Value> {
    let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    serde_json::from_str(text).ok()
}

/// Whether an object was written by server-side apply.
fn is_applied_by_server(live: &Value) -> bool {
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    managers.into_iter().any(|entry| entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply")
}

/// Removes what was applied last and is not in the manifest any more.
fn remove_dropped_fields(live: &mut Value, last: &Value, config: &Value) {
    /// The identity of the object; a manifest may leave the namespace to the command line.
    const NAMES: [&str; 4] = ["apiVersion", "kind", "name", "namespace"];
    let (Some(live), Some(last), Some(config)) = (live.as_object_mut(), last.as_object(), config.as_object()) else {
        return;
    };
    for (key, old) in last {
        match config.get(key) {
            None if NAMES.contains(&key.as_str()) => {}
            None => drop(live.remove(key)),
            Some(new) => {
                if let Some(live) = live.get_mut(key) {
                    remove_dropped_fields(live, old, new);
                }
            }
        }
    }
}

/// Removes what the manifest sets to `null`.
fn remove_nulls(live: Option<&mut Value>, config: &mut Value) {
    let Some(config) = config.as_object_mut() else { return };
    let mut nothing = Map::new();
    let live = live.and_then(Value::as_object_mut).unwrap_or(&mut nothing);
    config.retain(|key, value| {
        if value.is_null() {
            live.remove(key);
        }
        !value.is_null()
    });
    for (key, value) in config {
        remove_nulls(live.get_mut(key), value);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use seaworthy_api::{machineconfiguration, operator};

    use super::*;
    use crate::admission::Admission;

    const GROUP: &str = "machineconfiguration.openshift.io/v1";

    fn admission() -> Admission {
        Admission::of(machineconfiguration::definitions().into_iter().chain(operator::definitions()), Vec::new())
    }

    fn pool(spec: &Value) -> Value {
        json!({"apiVersion": GROUP, "kind": "MachineConfigPool", "metadata": {"name": "a"}, "spec": spec})
    }

    fn applied(live: &Value, manifest: &Value) -> Value {
        let (admission, now) = (admission(), Timestamp::UNIX_EPOCH);
        let controlled_fields = vec!["/spec/configuration"];
        Manifest { json: manifest, schema: admission.schema(manifest), controlled_fields, now }.apply_to(live).unwrap()
    }

    fn applied_by_client(live: &Value, last: &Value, manifest: &Value) -> Value {
        let mut live = live.clone();
        live["metadata"]["annotations"][LAST_APPLIED] = last.to_string().into();
        applied(&live, manifest)
    }

    fn selector(role: &str) -> Value {
        json!({"matchLabels": {"role": role}})
    }

    #[rstest]
    #[case::absent(json!({"maxUnavailable": 2}), json!({"machineConfigSelector": selector("a"), "maxUnavailable": 2, "paused": true}))]
    #[case::null(json!({"paused": null}), json!({"machineConfigSelector": selector("a"), "maxUnavailable": 1}))]
    #[case::null_of_nothing(json!({"nodeSelector": {"matchLabels": null}}), json!({"machineConfigSelector": selector("a"), "maxUnavailable": 1, "nodeSelector": {}, "paused": true}))]
    #[case::map(json!({"machineConfigSelector": {"matchLabels": {"b": "c"}}}), json!({"machineConfigSelector": {"matchLabels": {"b": "c", "role": "a"}}, "maxUnavailable": 1, "paused": true}))]
    fn partial_manifest_leaves_other_fields(#[case] manifest: Value, #[case] expected: Value) {
        let live = pool(&json!({"machineConfigSelector": selector("a"), "maxUnavailable": 1, "paused": true}));
        assert_eq!(applied(&live, &pool(&manifest))["spec"], expected);
    }

    /// An object that server-side apply has created.
    fn applied_by_server(config: &Value, by: &str) -> Value {
        let admission = admission();
        let (document, root) = &*METADATA_SCHEMA;
        let kind = ObjectType::custom(admission.schema(config).unwrap(), document.at(*root));
        let api_version = config["apiVersion"].as_str().unwrap();
        let writer = Writer { kind, api_version, subresource: "", ignored: None, versions: None };
        let made = writer.apply(None, config, "kubectl", false, "2026-01-01T00:00:00Z").unwrap();
        writer.apply(Some(&made), config, by, false, "2026-01-01T00:00:00Z").unwrap()
    }

    #[test]
    fn only_server_side_apply_merges_lists_with_keys_and_replaces_selectors() {
        let policy = |paths: [&str; 2]| {
            let file = |path: &str| json!({"path": path, "actions": [{"type": "None"}]});
            json!({
                "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
                "spec": {"nodeDisruptionPolicy": {"files": paths.map(file)}},
            })
        };
        let paths = |object: &Value| {
            let files = object["spec"]["nodeDisruptionPolicy"]["files"].as_array().unwrap().iter();
            files.map(|file| file["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (live, manifest) = (policy(["/a", "/b"]), policy(["/a", "/c"]));
        assert_eq!(paths(&applied(&live, &manifest)), ["/a", "/c"]);
        assert_eq!(paths(&applied_by_client(&live, &live, &manifest)), ["/a", "/c"]);
        assert_eq!(paths(&applied(&applied_by_server(&live, "other"), &manifest)), ["/a", "/b", "/c"]);

        let live = pool(&json!({"machineConfigSelector": selector("a")}));
        let manifest = pool(&json!({"machineConfigSelector": {"matchLabels": {"b": "c"}}}));
        let labels = |object: &Value| object["spec"]["machineConfigSelector"]["matchLabels"].clone();
        assert_eq!(labels(&applied(&live, &manifest)), json!({"b": "c", "role": "a"}));
        assert_eq!(labels(&applied_by_client(&live, &live, &manifest)), json!({"b": "c"}));
        assert_eq!(labels(&applied(&applied_by_server(&live, "other"), &manifest)), json!({"b": "c"}));
    }

    #[rstest]
    #[case::none_then_none(json!({}), json!({}), json!({"pin": "1", "mine": "2"}))]
    #[case::one_that_goes(json!({"annotations": {"mine": "2"}}), json!({}), json!({"pin": "1"}))]
    #[case::null(json!({"annotations": {}}), json!({"annotations": null}), json!({"pin": "1", "mine": "2"}))]
    #[case::another(json!({"annotations": {}}), json!({"annotations": {"new": ""}}), json!({"pin": "1", "mine": "2", "new": ""}))]
    fn client_side_apply_leaves_annotations_of_others(
        #[case] last: Value,
        #[case] manifest: Value,
        #[case] expected: Value,
    ) {
        let with = |metadata: &Value| {
            let mut object = pool(&json!({"maxUnavailable": 1}));
            metadata.as_object().unwrap().iter().for_each(|(key, value)| object["metadata"][key] = value.clone());
            object
        };
        // As kubectl records it: with annotations, whether there are any or not.
        let mut last = with(&last);
        last["metadata"].as_object_mut().unwrap().entry("annotations").or_insert(json!({}));
        let live = with(&json!({"annotations": {"pin": "1", "mine": "2"}}));
        let mut found = applied_by_client(&live, &last, &with(&manifest))["metadata"]["annotations"].clone();
        found.as_object_mut().unwrap().remove(LAST_APPLIED);
        assert_eq!(found, expected);
    }

    #[test]
    fn client_side_apply_removes_what_it_applied_before_and_leaves_the_rest() {
        let last = pool(&json!({"machineConfigSelector": selector("a"), "maxUnavailable": 1}));
        let mut live = pool(&json!({
            "machineConfigSelector": selector("a"), "maxUnavailable": 3, "paused": true,
            "configuration": {"name": "rendered-a-1"},
        }));
        live["metadata"] = json!({"name": "a", "uid": "u", "labels": {"other": ""}});
        let found = applied_by_client(&live, &last, &pool(&json!({"machineConfigSelector": selector("a")})));
        let left =
            json!({"machineConfigSelector": selector("a"), "paused": true, "configuration": {"name": "rendered-a-1"}});
        assert_eq!(found["spec"], left);
        assert_eq!((&found["metadata"]["uid"], &found["metadata"]["labels"]), (&json!("u"), &json!({"other": ""})));
    }

    #[test]
    fn field_that_a_controller_has_set_is_not_applied() {
        let (live, wanted) =
            (json!({"configuration": {"name": "a-1"}}), json!({"configuration": {"name": "a-2"}, "paused": true}));
        assert_eq!(
            applied(&pool(&live), &pool(&wanted))["spec"],
            json!({"configuration": {"name": "a-1"}, "paused": true})
        );
        assert_eq!(applied(&pool(&json!({})), &pool(&wanted))["spec"], wanted);
    }

    #[test]
    fn server_side_apply_removes_what_it_applied_before_unless_another_manager_owns_it() {
        let both = pool(&json!({"maxUnavailable": 1, "paused": true}));
        let paused = pool(&json!({"paused": true}));
        assert_eq!(applied(&applied_by_server(&both, "kubectl"), &paused)["spec"], json!({"paused": true}));
        assert_eq!(applied(&applied_by_server(&both, "other"), &paused)["spec"], both["spec"]);
    }

    #[test]
    fn mistakes_against_the_schema_are_left_for_the_api_to_refuse() {
        let live = pool(&json!({"maxUnavailable": 1}));
        let wrong = pool(&json!({"paused": "yes", "unknown": 1}));
        assert_eq!(applied(&live, &wrong)["spec"], json!({"maxUnavailable": 1, "paused": "yes", "unknown": 1}));
    }
}
