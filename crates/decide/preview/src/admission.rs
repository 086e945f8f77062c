//! Admission: validates manifests against the definitions of their kinds, as the API server would, and against the rules of
//! operators.
//!
//! - A manifest that would be refused is left out of the preview.
//! - What the API drops, such as an unknown field, is dropped here too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use seaworthy_change::{ObjectRef, group_and_kind};
use seaworthy_ignition::path::{Path, Step};
use seaworthy_ignition::spelling;
use seaworthy_schema::{Cause, CustomResource, Document, NodeId, Pruning, Reason, Schema, apply_defaults};
use seaworthy_values::api_version::group_and_version;
use seaworthy_values::names;
use serde_json::Value;

/// What an operator does not accept from a manifest, beside what the definition of its kind says.
///
/// It is about changes of a cluster. A dump of a cluster may contain what only controllers write.
pub trait AdmissionRule: Send + Sync {
    /// The name that the admission policy which refuses such changes shares with its binding. A cluster enforces it if it has both;
    /// otherwise the controllers revert such changes.
    fn policy(&self) -> &'static str;

    /// Why an object may not be written, as a message; `old` is the object as it was.
    fn refusal(&self, object: &Value, old: Option<&Value>) -> Option<String> {
        let (_, _) = (object, old);
        None
    }

    /// Why an object may not be deleted, as a message, in a cluster that has the policy or does not.
    fn deletion_refusal(&self, old: &Value, has_policy: bool) -> Option<String> {
        let (_, _) = (old, has_policy);
        None
    }

    /// JSON pointers of the fields of such an object that the controllers set, whatever a manifest has there.
    fn controlled_fields(&self, object: &Value) -> &'static [&'static str] {
        let _ = object;
        &[]
    }

    /// Whether such an object may lack required fields where it is not for a cluster.
    fn may_be_partial(&self, object: &Value) -> bool {
        let _ = object;
        false
    }
}

/// An objection of the API to a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionIssue {
    pub object: ObjectRef,
    /// The path of the field; empty for the object as a whole.
    pub path: String,
    /// What was found, and what is accepted.
    pub message: String,
    pub effect: Effect,
    /// The admission policy with this rule, if it is one of an operator.
    pub policy: Option<&'static str>,
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
    /// An object that the API refuses.
    pub fn refused(object: ObjectRef, path: &str, message: String) -> AdmissionIssue {
        AdmissionIssue { object, path: path.to_owned(), message, effect: Effect::Refused, policy: None }
    }

    /// The object, for users.
    pub fn subject(&self) -> String {
        match self.object.name.as_str() {
            "" => format!("{} without a name", self.object.resource),
            _ => self.object.to_string(),
        }
    }

    /// Whether the object as a whole has no effect.
    pub fn is_refusal(&self) -> bool {
        self.effect != Effect::Dropped
    }
}

impl fmt::Display for AdmissionIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdmissionIssue { path, message, effect, policy, .. } = self;
        let path_suffix = if path.is_empty() { String::new() } else { format!(", {path}") };
        write!(f, "{}{path_suffix}: {message}; ", self.subject())?;
        match (effect, policy) {
            (Effect::Refused, _) => f.write_str("the API refuses it"),
            (Effect::Reverted, Some(policy)) => write!(
                f,
                "the API accepts it, because the cluster does not enforce the admission policy {policy}, and the controllers \
                 revert it at once"
            ),
            (Effect::Reverted, None) => f.write_str("the API accepts it, and the controllers revert it at once"),
            (Effect::Dropped, _) => f.write_str("kubectl refuses it, and for other clients the API drops it"),
        }
    }
}

/// Validates objects against the definitions of their kinds and the rules of operators.
pub struct Admission {
    /// By group and kind, for each version.
    kinds: BTreeMap<(String, String), BTreeMap<String, VersionSchema>>,
    rules: Vec<Box<dyn AdmissionRule>>,
    /// Whether the objects are changes of a cluster, to which the rules apply.
    is_of_changes: bool,
    /// The policies that the cluster does not enforce.
    absent_policies: BTreeSet<&'static str>,
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
    /// For the state of a cluster. It may contain objects of the controllers, such as rendered MachineConfigs.
    pub fn of(
        definitions: impl IntoIterator<Item = CustomResourceDefinition>,
        rules: Vec<Box<dyn AdmissionRule>>,
    ) -> Admission {
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
        Admission { kinds, rules, is_of_changes: false, absent_policies: BTreeSet::new() }
    }

    /// For changes of a cluster, which enforces the policies of all rules.
    #[must_use]
    pub fn for_changes(self) -> Admission {
        Admission { is_of_changes: true, ..self }
    }

    /// For a cluster that does not enforce these policies.
    #[must_use]
    pub fn without_policies(mut self, absent: impl IntoIterator<Item = &'static str>) -> Admission {
        self.absent_policies.extend(absent);
        self
    }

    /// The policies of the rules, by the name that each shares with its binding.
    pub fn policies(&self) -> BTreeSet<&'static str> {
        self.rules.iter().map(|rule| rule.policy()).collect()
    }

    /// The schema of an object's kind in its version; `None` for kinds of others.
    pub(crate) fn schema(&self, object: &Value) -> Option<Schema<'_>> {
        let (group, kind) = group_and_kind(object);
        let (_, version) = group_and_version(object.get("apiVersion")?.as_str()?);
        let versions = self.kinds.get(&(group.to_owned(), kind.to_owned()))?;
        versions.get(version).map(VersionSchema::schema)
    }

    /// JSON pointers of the fields that controllers set, whatever this manifest has there.
    pub(crate) fn controlled_fields(&self, object: &Value) -> Vec<&'static str> {
        self.rules.iter().flat_map(|rule| rule.controlled_fields(object)).copied().collect()
    }

    /// Changes an object to what the API would store, and returns the API's objections. `old` is the object as it was. The
    /// status is left alone: the API accepts it from controllers only.
    pub fn validate(&self, subject: &ObjectRef, object: &mut Value, old: Option<&Value>) -> Vec<AdmissionIssue> {
        let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = group_and_kind(object).1.to_owned();
        let (group, version) = group_and_version(&api_version);
        let issue = |path: &str, message: String, effect: Effect| AdmissionIssue {
            object: subject.clone(),
            path: path.to_owned(),
            message,
            effect,
            policy: None,
        };
        let Some(versions) = self.kinds.get(&(group.to_owned(), kind)) else { return Vec::new() };
        let Some(version_schema) = versions.get(version) else {
            let known: Vec<String> = versions.keys().map(|version| format!("{group}/{version}")).collect();
            let message = format!("{api_version:?} has no such kind; expected one of {}", known.join(", "));
            return vec![issue("apiVersion", message, Effect::Refused)];
        };
        let refusal = |rule: &dyn AdmissionRule| {
            let issue = issue("", rule.refusal(object, old)?, self.effect_of(rule));
            Some(AdmissionIssue { policy: Some(rule.policy()), ..issue })
        };
        if let Some(issue) = self.rules_of_changes().find_map(refusal) {
            return vec![issue];
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
        let is_partial = !self.is_of_changes && self.rules.iter().any(|rule| rule.may_be_partial(object));
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
    pub fn validate_deletion(&self, subject: &ObjectRef, old: &Value) -> Option<AdmissionIssue> {
        self.rules_of_changes().find_map(|rule| {
            let effect = self.effect_of(rule);
            let message = rule.deletion_refusal(old, effect == Effect::Refused)?;
            let policy = Some(rule.policy());
            Some(AdmissionIssue { object: subject.clone(), path: String::new(), message, effect, policy })
        })
    }

    fn rules_of_changes(&self) -> impl Iterator<Item = &dyn AdmissionRule> {
        self.rules.iter().filter(|_| self.is_of_changes).map(|rule| &**rule)
    }

    fn effect_of(&self, rule: &dyn AdmissionRule) -> Effect {
        if self.absent_policies.contains(rule.policy()) { Effect::Reverted } else { Effect::Refused }
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
    use seaworthy_api::machineconfiguration::{self, MachineConfigPool};
    use seaworthy_change::ResourceNames;
    use seaworthy_change::ResourceType;
    use serde_json::json;

    use super::*;

    fn object(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
    }

    /// Pools named `kept` are kept as they are.
    struct Keeper;

    impl AdmissionRule for Keeper {
        fn policy(&self) -> &'static str {
            "keeper"
        }

        fn refusal(&self, object: &Value, _: Option<&Value>) -> Option<String> {
            (object["metadata"]["name"] == "kept").then(|| "it is kept".to_owned())
        }

        fn deletion_refusal(&self, old: &Value, has_policy: bool) -> Option<String> {
            self.refusal(old, None).filter(|_| has_policy)
        }

        fn may_be_partial(&self, object: &Value) -> bool {
            object["kind"] == "ControllerConfig"
        }
    }

    fn admission() -> Admission {
        Admission::of(machineconfiguration::definitions(), vec![Box::new(Keeper)])
    }

    fn validate(admission: &Admission, object: &mut Value) -> Vec<AdmissionIssue> {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let resource = ResourceType::new(ResourceNames { kind: kind.into(), ..ResourceNames::default() });
        let subject = ObjectRef { resource, name: "a".to_owned(), ..ObjectRef::default() };
        let found = admission.validate(&subject, object, None);
        assert!(found.iter().all(|issue| issue.object == subject), "{found:#?}");
        found
    }

    #[rstest]
    #[case::pids_limit("ContainerRuntimeConfig", json!({"containerRuntimeConfig": {"pidsLimit": 19}}), "spec.containerRuntimeConfig.pidsLimit")]
    #[case::log_level("ContainerRuntimeConfig", json!({"containerRuntimeConfig": {"logLevel": "loud"}}), "spec.containerRuntimeConfig.logLevel")]
    #[case::budget("MachineConfigPool", json!({"maxUnavailable": "50 percent"}), "spec.maxUnavailable")]
    #[case::kind_of_value("MachineConfigPool", json!({"paused": "yes"}), "spec.paused")]
    #[case::kernel_type("MachineConfig", json!({"kernelArguments": "nosmt"}), "spec.kernelArguments")]
    fn mistakes_are_refused_with_their_path(#[case] kind: &str, #[case] spec: Value, #[case] path: &str) {
        let found = validate(&admission().for_changes(), &mut object(kind, spec));
        assert!(found.iter().any(|issue| issue.is_refusal() && issue.path == path), "{found:#?}");
    }

    #[test]
    fn value_of_the_wrong_type_is_shown_as_written() {
        let found = validate(&admission(), &mut object("MachineConfigPool", json!({"paused": "lots"})));
        assert!(found[0].message.ends_with("; found \"lots\""), "{found:#?}");
    }

    #[test]
    fn unknown_field_is_dropped_and_reported() {
        let mut pool = object("MachineConfigPool", json!({"maxUnavailabel": 2}));
        let found = validate(&admission(), &mut pool);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((found[0].path.as_str(), found[0].effect), ("spec.maxUnavailabel", Effect::Dropped));
        assert!(found[0].message.ends_with("(did you mean \"maxUnavailable\"?)"), "{found:#?}");
        assert!(pool["spec"].get("maxUnavailabel").is_none());
    }

    #[test]
    fn names_labels_and_unknown_versions_are_refused() {
        let mut pool = object("MachineConfigPool", json!({}));
        pool["metadata"] = json!({"name": "Big_Pool", "labels": {"a": "b c"}});
        let found = validate(&admission(), &mut pool);
        let paths: Vec<&str> = found.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["metadata.name", "metadata.labels"], "{found:#?}");
        pool["apiVersion"] = json!("machineconfiguration.openshift.io/v9");
        let found = validate(&admission(), &mut pool);
        assert!(found[0].message.contains("machineconfiguration.openshift.io/v1"), "{found:#?}");
    }

    #[test]
    fn partial_object_is_accepted_where_there_is_no_cluster() {
        let partial = object("ControllerConfig", json!({"osImageURL": ""}));
        assert_eq!(validate(&admission(), &mut partial.clone()), []);
        let found = validate(&admission().for_changes(), &mut partial.clone());
        assert!(!found.is_empty() && found.iter().all(AdmissionIssue::is_refusal));
        let wrong = object("ControllerConfig", json!({"osImageURL": 5}));
        assert!(!validate(&admission(), &mut wrong.clone()).is_empty());
    }

    #[test]
    fn rules_apply_to_changes_of_a_cluster_and_are_enforced_where_it_has_their_policy() {
        let mut kept = object("MachineConfigPool", json!({}));
        kept["metadata"]["name"] = json!("kept");
        let bare = || admission().for_changes().without_policies(["keeper"]);
        let effects = |found: Vec<AdmissionIssue>| found.iter().map(|issue| issue.effect).collect::<Vec<_>>();
        assert_eq!(effects(validate(&admission(), &mut kept.clone())), []);
        assert_eq!(effects(validate(&admission().for_changes(), &mut kept.clone())), [Effect::Refused]);
        let reverted = validate(&bare(), &mut kept.clone());
        let message = "MachineConfigPool a: it is kept; the API accepts it, because the cluster does not enforce the admission policy \
            keeper, and the controllers revert it at once";
        assert_eq!(reverted[0].to_string(), message);
        assert_eq!(effects(reverted), [Effect::Reverted]);
        let subject = ObjectRef::named::<MachineConfigPool>("kept");
        let issue = admission().for_changes().validate_deletion(&subject, &kept).unwrap();
        assert_eq!(issue.to_string(), "MachineConfigPool kept: it is kept; the API refuses it");
        assert_eq!(bare().validate_deletion(&subject, &kept), None);
        assert_eq!(admission().validate_deletion(&subject, &kept), None);
        assert_eq!(admission().policies(), BTreeSet::from(["keeper"]));
    }
}
