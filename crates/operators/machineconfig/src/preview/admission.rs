//! Admission: validates manifests against the definitions of their kinds, as the API server would.
//!
//! - A manifest that would be refused is left out of the preview.
//! - What the API drops, such as an unknown field, is dropped here too.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use crate::protection::policy::{NAME, deletion_refusal};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig};
use seaworthy_api::meta::is_object;
use seaworthy_api::vocabulary::machineconfiguration::{RENDERED_PREFIX, annotation};
use seaworthy_api::{machineconfiguration, operator};
use seaworthy_generate::edit;
use seaworthy_ignition::path::{Path, Step};
use seaworthy_ignition::spelling;
use seaworthy_schema::{Cause, CustomResource, Document, NodeId, Pruning, Reason, Schema, apply_defaults};
use seaworthy_values::names;
use serde_json::Value;

/// An objection of the API to a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionIssue {
    /// Kind and name.
    pub object: String,
    /// The path of the field; empty for the object as a whole.
    pub path: String,
    /// What was found, and what is accepted.
    pub message: String,
    pub effect: Effect,
}

/// The consequence of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The API refuses the object.
    Refused,
    /// The API accepts the object, and the controllers revert the change.
    Reverted,
    /// The API drops the field, and accepts the rest.
    Dropped,
}

impl AdmissionIssue {
    /// Whether the object as a whole has no effect.
    pub fn is_refusal(&self) -> bool {
        self.effect != Effect::Dropped
    }
}

impl fmt::Display for AdmissionIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdmissionIssue { object, path, message, effect } = self;
        let path_suffix = if path.is_empty() { String::new() } else { format!(", {path}") };
        let what = match effect {
            Effect::Refused => "the API refuses it",
            Effect::Reverted => {
                "the API accepts it, because the cluster has no protection policy, and the controllers revert it at once"
            }
            Effect::Dropped => "kubectl refuses it, and for other clients the API drops it",
        };
        write!(f, "{object}{path_suffix}: {message}; {what}")
    }
}

/// Validates objects against the definitions of their kinds.
pub struct Admission {
    /// By group and kind, for each version.
    kinds: BTreeMap<(String, String), BTreeMap<String, VersionSchema>>,
    /// Whether objects of the controllers are protected from changes.
    protects: bool,
    /// Whether the protection policy refuses such changes; else the controllers revert them.
    has_policy: bool,
}

/// The schema of one version of a kind. It is parsed on first use: most commands need few kinds.
struct VersionSchema {
    text: Value,
    read: OnceLock<(Document, NodeId)>,
}

impl VersionSchema {
    fn schema(&self) -> Schema<'_> {
        let (document, root) = self.read.get_or_init(|| Document::of_custom_resource(&self.text));
        document.at(*root)
    }
}

impl Admission {
    /// For changes of a cluster, with the definitions of this operator alone.
    pub fn of_changes() -> Admission {
        Admission { protects: true, ..Admission::of_state() }
    }

    /// For changes of this cluster, which may have the protection policy or not. It is assumed to if that cannot be read.
    #[must_use]
    pub async fn for_changes_to(self, client: &Client) -> Admission {
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
        let has_policy = bindings.get_opt(NAME).await.map_or(true, |found| found.is_some());
        Admission { has_policy, protects: true, ..self }
    }

    /// For the state of a cluster, with the definitions of this operator alone.
    pub fn of_state() -> Admission {
        let own = machineconfiguration::definitions().into_iter().chain(operator::definitions());
        Admission::of_definitions(own)
    }

    /// For the state of a cluster with these definitions. It may contain objects of the controllers, such as rendered
    /// MachineConfigs.
    pub fn of_definitions(definitions: impl IntoIterator<Item = CustomResourceDefinition>) -> Admission {
        let mut kinds: BTreeMap<(String, String), BTreeMap<String, VersionSchema>> = BTreeMap::new();
        for definition in definitions {
            let (spec, group) = (&definition.spec, definition.spec.group.clone());
            let versions = kinds.entry((group, spec.names.kind.clone())).or_default();
            for version in &spec.versions {
                let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
                let schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default();
                versions.insert(version.name.clone(), VersionSchema { text: schema, read: OnceLock::new() });
            }
        }
        Admission { kinds, protects: false, has_policy: true }
    }

    /// The schema of an object's kind in its version; `None` for kinds of others.
    pub(super) fn schema(&self, object: &Value) -> Option<Schema<'_>> {
        let (group, version) = object.get("apiVersion")?.as_str()?.split_once('/')?;
        let versions = self.kinds.get(&(group.to_owned(), object.get("kind")?.as_str()?.to_owned()))?;
        versions.get(version).map(VersionSchema::schema)
    }

    /// Changes an object to what the API would store, and returns the API's objections. `old` is the object as it was. The
    /// status is left alone: the API accepts it from controllers only.
    pub fn validate(&self, object: &mut Value, old: Option<&Value>) -> Vec<AdmissionIssue> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let issue = |path: &str, message: String, effect: Effect| AdmissionIssue {
            object: format!("{kind} {name}"),
            path: path.to_owned(),
            message,
            effect,
        };
        let Some(versions) = self.kinds.get(&(group.to_owned(), kind.clone())) else { return Vec::new() };
        let Some(version_schema) = versions.get(version) else {
            let known: Vec<String> = versions.keys().map(|version| format!("{group}/{version}")).collect();
            let message = format!("{api_version:?} has no such kind; accepted: {}", known.join(", "));
            return vec![issue("apiVersion", message, Effect::Refused)];
        };
        if let Some(message) = self.protection(object, old, &name).filter(|_| is_object::<MachineConfig>(object)) {
            let effect = if self.has_policy { Effect::Refused } else { Effect::Reverted };
            return vec![issue("", message, effect)];
        }
        let schema = version_schema.schema();
        let status = object.as_object_mut().and_then(|object| object.remove("status"));
        let dropped = Pruning { metadata: None }.object(schema, object);
        let mut issues: Vec<AdmissionIssue> = dropped
            .iter()
            .map(|path| {
                let hint = match nearest(&version_schema.text, path) {
                    Some(near) => format!(" (did you mean {near:?}?)"),
                    None => "; check its spelling and its parent field".to_owned(),
                };
                issue(path, format!("the kind has no such field{hint}"), Effect::Dropped)
            })
            .collect();
        apply_defaults(schema, object);
        let old = old.map(|old| {
            let mut old = old.clone();
            old.as_object_mut().map(|old| old.remove("status"));
            old
        });
        let validator = CustomResource { schema, scale: None };
        let verdict = validator.mistakes(object, old.as_ref(), metadata_mistakes(object));
        // Without a cluster, a ControllerConfig mostly has only the fields that rendering reads.
        let is_partial = !self.protects && is_object::<ControllerConfig>(object);
        let counts = |cause: &&Cause| !(is_partial && cause.reason == Reason::Required);
        // A cause without a field only reports that there may be more.
        let mistakes = verdict.mistakes.iter().filter(|cause| cause.field != "<nil>").filter(counts);
        issues.extend(mistakes.map(|cause| {
            // The API reports the type that it found; users look for the value that they wrote.
            let found = Some(cause).filter(|cause| cause.reason == Reason::TypeInvalid);
            let found = found.and_then(|cause| value_at(object, &Path::parse(&cause.field))).map(Value::to_string);
            let found =
                found.filter(|found| !cause.message.contains(found.as_str()) && found.len() <= MAX_SHOWN_VALUE_BYTES);
            let message = found.map_or(cause.message.clone(), |found| format!("{}; found {found}", cause.message));
            issue(&cause.field, message, Effect::Refused)
        }));
        if let (Some(status), Some(object)) = (status, object.as_object_mut()) {
            object.insert("status".to_owned(), status);
        }
        issues
    }

    /// The API's objection to a deletion.
    pub fn validate_deletion(&self, old: &Value) -> Option<AdmissionIssue> {
        let name = old.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let message = if is_object::<MachineConfig>(old) {
            self.protection(&Value::Null, Some(old), name)?
        } else if is_object::<ControllerConfig>(old) && !self.has_policy {
            // Without the policy it is deleted for good, and the base with it.
            return None;
        } else {
            deletion_refusal(old).filter(|_| self.protects)?
        };
        let kind = old.get("kind").and_then(Value::as_str).unwrap_or_default();
        let effect = if self.has_policy { Effect::Refused } else { Effect::Reverted };
        Some(AdmissionIssue { object: format!("{kind} {name}"), path: String::new(), message, effect })
    }

    /// Why only the controllers may write this MachineConfig, with the message of the protection policy.
    fn protection(&self, object: &Value, old: Option<&Value>, name: &str) -> Option<String> {
        let subject = old.unwrap_or(object);
        let made_by = subject
            .get("metadata")?
            .get("annotations")
            .and_then(|annotations| annotations.get(annotation::GENERATED_BY_CONTROLLER_VERSION.as_str())?.as_str());
        let is_rendered = name.starts_with(RENDERED_PREFIX);
        let is_kept = is_rendered || made_by.is_some_and(|build| !build.is_empty());
        if !self.protects || !is_kept || old.is_some_and(|old| keeps_content(old, object)) {
            return None;
        }
        // What does not have the form of metadata must not hide what the object is.
        let owners = subject["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owners = owners.filter_map(|owner| serde_json::from_value(owner.clone()).ok()).collect::<Vec<_>>();
        let instead = edit::instead(is_rendered, &owners);
        Some(format!("it is managed by Seaworthy: {instead}"))
    }
}

/// The known field with the spelling nearest to an unknown one.
fn nearest(schema: &Value, unknown: &str) -> Option<String> {
    let path = Path::parse(unknown);
    let (Step::Key(key), parents) = path.0.split_last()? else { return None };
    let parent = parents.iter().try_fold(schema, |schema, step| match step {
        Step::Key(key) => schema.get("properties")?.get(key.as_str()),
        Step::Index(_) => schema.get("items"),
    })?;
    let known = parent.get("properties")?.as_object()?;
    spelling::nearest(key, known.keys().map(String::as_str)).map(str::to_owned)
}

/// Whether an edit leaves alone what controllers read: the spec, and the labels, annotation and owners that mark an object as
/// generated and select its pool.
fn keeps_content(old: &Value, new: &Value) -> bool {
    fn labels(of: &Value) -> BTreeMap<&str, &Value> {
        let all = of.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let ours = all.filter(|(key, _)| key.starts_with("machineconfiguration.openshift.io/"));
        ours.map(|(key, value)| (key.as_str(), value)).collect()
    }
    fn made_by(of: &Value) -> Option<&str> {
        let annotations = of.pointer("/metadata/annotations")?;
        let build = annotations.get(annotation::GENERATED_BY_CONTROLLER_VERSION.as_str())?.as_str();
        build.filter(|build| !build.is_empty())
    }
    fn owners(of: &Value) -> Vec<&Value> {
        let all = of.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        all.filter(|owner| owner["controller"] == true).map(|owner| &owner["uid"]).collect()
    }
    old.get("spec") == new.get("spec")
        && labels(old) == labels(new)
        && made_by(old) == made_by(new)
        && owners(old) == owners(new)
}

/// A longer value is not repeated in a message.
const MAX_SHOWN_VALUE_BYTES: usize = 60;

/// The value at a path.
fn value_at<'v>(value: &'v Value, path: &Path) -> Option<&'v Value> {
    path.0.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

/// Mistakes in an object's name and labels.
fn metadata_mistakes(object: &Value) -> Vec<Cause> {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    let mut causes: Vec<Cause> =
        names::dns_subdomain(name).iter().map(|why| Cause::invalid("metadata.name", name, why)).collect();
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        causes.extend(names::qualified_name(key).iter().map(|why| Cause::invalid("metadata.labels", key, why)));
        let Some(value) = value.as_str() else {
            causes.push(Cause::invalid(
                format!("metadata.labels[{key}]"),
                value,
                "must be a string; put it into quotes",
            ));
            continue;
        };
        causes.extend(names::label_value(value).iter().map(|why| Cause::invalid("metadata.labels", value, why)));
    }
    causes
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use seaworthy_api::vocabulary::machineconfiguration::label::ROLE;
    use serde_json::json;

    use super::*;

    fn object(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
    }

    #[rstest]
    #[case::pids_limit("ContainerRuntimeConfig", json!({"containerRuntimeConfig": {"pidsLimit": 19}}), "spec.containerRuntimeConfig.pidsLimit")]
    #[case::log_level("ContainerRuntimeConfig", json!({"containerRuntimeConfig": {"logLevel": "loud"}}), "spec.containerRuntimeConfig.logLevel")]
    #[case::budget("MachineConfigPool", json!({"maxUnavailable": "50 percent"}), "spec.maxUnavailable")]
    #[case::kind_of_value("MachineConfigPool", json!({"paused": "yes"}), "spec.paused")]
    #[case::kernel_type("MachineConfig", json!({"kernelArguments": "nosmt"}), "spec.kernelArguments")]
    fn mistakes_are_refused_with_their_path(#[case] kind: &str, #[case] spec: Value, #[case] path: &str) {
        let found = Admission::of_changes().validate(&mut object(kind, spec), None);
        assert!(found.iter().any(|issue| issue.is_refusal() && issue.path == path), "{found:#?}");
        assert!(found.iter().all(|issue| issue.object == format!("{kind} a")), "{found:#?}");
    }

    #[test]
    fn value_of_the_wrong_type_is_shown_as_written() {
        let found = Admission::of_changes().validate(&mut object("MachineConfigPool", json!({"paused": "lots"})), None);
        assert!(found[0].message.ends_with("; found \"lots\""), "{found:#?}");
    }

    #[test]
    fn unknown_field_is_dropped_and_reported() {
        let mut pool = object("MachineConfigPool", json!({"maxUnavailabel": 2}));
        let found = Admission::of_changes().validate(&mut pool, None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((found[0].path.as_str(), found[0].effect), ("spec.maxUnavailabel", Effect::Dropped));
        assert!(found[0].message.ends_with("(did you mean \"maxUnavailable\"?)"), "{found:#?}");
        assert!(pool["spec"].get("maxUnavailabel").is_none());
    }

    #[test]
    fn names_labels_and_unknown_versions_are_refused() {
        let mut pool = object("MachineConfigPool", json!({}));
        pool["metadata"] = json!({"name": "Big_Pool", "labels": {"a": "b c"}});
        let found = Admission::of_changes().validate(&mut pool, None);
        let paths: Vec<&str> = found.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["metadata.name", "metadata.labels"], "{found:#?}");
        pool["apiVersion"] = json!("machineconfiguration.openshift.io/v9");
        let found = Admission::of_changes().validate(&mut pool, None);
        assert!(found[0].message.contains("machineconfiguration.openshift.io/v1"), "{found:#?}");
    }

    #[test]
    fn controller_config_may_be_partial_where_there_is_no_cluster() {
        let partial = object("ControllerConfig", json!({"osImageURL": ""}));
        assert!(Admission::of_state().validate(&mut partial.clone(), None).is_empty());
        let found = Admission::of_changes().validate(&mut partial.clone(), None);
        assert!(found.iter().all(|issue| issue.is_refusal()));
        assert!(!Admission::of_changes().validate(&mut partial.clone(), None).is_empty());
        let wrong = object("ControllerConfig", json!({"osImageURL": 5}));
        assert!(!Admission::of_state().validate(&mut wrong.clone(), None).is_empty());
    }

    #[test]
    fn deletion_of_the_controller_config_and_of_built_in_pools_is_refused_or_reverted() {
        let named = |kind: &str, name: &str, labels: Value| {
            let mut object = object(kind, json!({}));
            object["metadata"] = json!({"name": name, "labels": labels});
            object
        };
        let built_in = json!({"machineconfiguration.openshift.io/mco-built-in": ""});
        let bare = Admission { has_policy: false, ..Admission::of_changes() };
        let effect =
            |admission: &Admission, object: &Value| admission.validate_deletion(object).map(|issue| issue.effect);
        let config = named("ControllerConfig", "machine-config-controller", json!({}));
        assert_eq!(effect(&Admission::of_changes(), &config), Some(Effect::Refused));
        assert_eq!(effect(&bare, &config), None, "it is deleted");
        for name in ["master", "worker"] {
            let pool = named("MachineConfigPool", name, built_in.clone());
            assert_eq!(effect(&Admission::of_changes(), &pool), Some(Effect::Refused));
            assert_eq!(effect(&bare, &pool), Some(Effect::Reverted));
            assert_eq!(effect(&Admission::of_state(), &pool), None);
            let message = Admission::of_changes().validate_deletion(&pool).unwrap().to_string();
            let way_out = format!("seaworthy rollout pause {name}. To change it, edit it; the API refuses it");
            assert!(
                message.starts_with(&format!("MachineConfigPool {name}: it is built in"))
                    && message.ends_with(&way_out),
                "{message}"
            );
        }
        for pool in [named("MachineConfigPool", "infra", built_in), named("MachineConfigPool", "worker", json!({}))] {
            assert_eq!(effect(&Admission::of_changes(), &pool), None, "{pool}");
        }
    }

    #[test]
    fn generated_objects_are_protected_in_changes_and_accepted_in_a_state() {
        let mut rendered = object("MachineConfig", json!({"fips": true}));
        rendered["metadata"]["name"] = json!("rendered-worker-1");
        assert_eq!(Admission::of_changes().validate(&mut rendered.clone(), None)[0].effect, Effect::Refused);
        let bare = Admission { has_policy: false, ..Admission::of_changes() };
        assert_eq!(bare.validate(&mut rendered.clone(), None)[0].effect, Effect::Reverted);
        assert!(Admission::of_state().validate(&mut rendered.clone(), None).is_empty());
        rendered["metadata"]["annotations"] = json!({"a": 1});
        let found = Admission::of_changes().validate(&mut rendered.clone(), None);
        assert!(
            found[0].message.contains("it is rendered from"),
            "also with an annotation that is no string: {found:#?}"
        );
        let mut base = object("MachineConfig", json!({"fips": true}));
        let key = annotation::GENERATED_BY_CONTROLLER_VERSION.as_str();
        base["metadata"]["annotations"] = json!({key: "seaworthy-1"});
        let mut edited = base.clone();
        edited["spec"]["fips"] = json!(false);
        let found = Admission::of_changes().validate(&mut edited, Some(&base));
        assert!(found[0].message.contains("create a MachineConfig of your own"), "{found:#?}");
        assert!(Admission::of_changes().validate(&mut base.clone(), Some(&base)).is_empty(), "nothing changes");
        for (place, value) in [("annotations", json!({})), ("labels", json!({ROLE.as_str(): "a"}))] {
            let mut edited = base.clone();
            edited["metadata"][place] = value;
            assert!(!Admission::of_changes().validate(&mut edited, Some(&base)).is_empty(), "{place}");
        }
        let mut noted = base.clone();
        noted["metadata"]["labels"] = json!({"team": "a"});
        assert!(Admission::of_changes().validate(&mut noted, Some(&base)).is_empty(), "a label of a user");
    }
}
