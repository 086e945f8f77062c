//! Protection rule: what the protection policy refuses, for previews of manifests.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::meta::is_object;
use seaworthy_api::vocabulary::machineconfiguration::{RENDERED_PREFIX, annotation};
use seaworthy_generate::edit;
use seaworthy_preview::AdmissionRule;
use serde_json::Value;

use super::policy::{NAME, deletion_refusal};

/// What the protection policy refuses, with its messages.
pub struct ProtectionRule;

impl AdmissionRule for ProtectionRule {
    fn policy(&self) -> &'static str {
        NAME
    }

    fn refusal(&self, object: &Value, old: Option<&Value>) -> Option<String> {
        protection(object, old).filter(|_| is_object::<MachineConfig>(object))
    }

    fn deletion_refusal(&self, old: &Value, has_policy: bool) -> Option<String> {
        if is_object::<MachineConfig>(old) {
            protection(&Value::Null, Some(old))
        } else if is_object::<ControllerConfig>(old) && !has_policy {
            // Without the policy it is deleted for good, and the base with it.
            None
        } else {
            deletion_refusal(old)
        }
    }

    fn controlled_fields(&self, object: &Value) -> &'static [&'static str] {
        // The render controller owns it.
        if is_object::<MachineConfigPool>(object) { &["/spec/configuration"] } else { &[] }
    }

    fn may_be_partial(&self, object: &Value) -> bool {
        // Without a cluster, it mostly has only the fields that rendering reads.
        is_object::<ControllerConfig>(object)
    }
}

/// Why only the controllers may write this MachineConfig.
fn protection(object: &Value, old: Option<&Value>) -> Option<String> {
    let subject = old.unwrap_or(object);
    let metadata = subject.get("metadata")?;
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    let is_rendered = name.starts_with(RENDERED_PREFIX);
    let is_kept = is_rendered || made_by(subject).is_some();
    if !is_kept || old.is_some_and(|old| keeps_content(old, object)) {
        return None;
    }
    // What does not have the form of metadata must not hide what the object is.
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let owners = owners.filter_map(|owner| serde_json::from_value(owner.clone()).ok()).collect::<Vec<_>>();
    Some(format!("it is managed by Seaworthy: {}", edit::instead(is_rendered, &owners)))
}

/// The build that has generated an object.
fn made_by(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?;
    let build = annotations.get(annotation::GENERATED_BY_CONTROLLER_VERSION.as_str())?.as_str();
    build.filter(|build| !build.is_empty())
}

/// Whether an edit leaves alone what controllers read: the spec, and the labels, annotation and owners that mark an object as
/// generated and select its pool.
fn keeps_content(old: &Value, new: &Value) -> bool {
    fn labels(of: &Value) -> BTreeMap<&str, &Value> {
        let all = of.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let ours = all.filter(|(key, _)| key.starts_with("machineconfiguration.openshift.io/"));
        ours.map(|(key, value)| (key.as_str(), value)).collect()
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

#[cfg(test)]
pub(crate) mod tests {
    use seaworthy_api::vocabulary::machineconfiguration::label::ROLE;
    use seaworthy_change::ObjectRef;
    use seaworthy_preview::{Admission, AdmissionIssue, Effect};
    use serde_json::json;

    use super::*;
    use crate::operator::definitions;

    /// The admission of this operator's kinds.
    pub(crate) fn admission() -> Admission {
        Admission::of(definitions(), vec![Box::new(ProtectionRule)])
    }

    fn object(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
    }

    fn without_policy() -> Admission {
        admission().for_changes().without_policies([NAME])
    }

    fn validate(admission: &Admission, object: &Value, old: Option<&Value>) -> Vec<AdmissionIssue> {
        admission.validate(&ObjectRef::named::<MachineConfig>("a"), &mut object.clone(), old)
    }

    #[test]
    fn deletion_of_the_controller_config_and_of_built_in_pools_is_refused_or_reverted() {
        let named = |kind: &str, name: &str, labels: Value| {
            let mut object = object(kind, json!({}));
            object["metadata"] = json!({"name": name, "labels": labels});
            object
        };
        let built_in = json!({"machineconfiguration.openshift.io/mco-built-in": ""});
        let issue = |admission: Admission, object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap();
            admission.validate_deletion(&ObjectRef::named::<MachineConfigPool>(name), object)
        };
        let effect = |admission: Admission, object: &Value| issue(admission, object).map(|issue| issue.effect);
        let config = named("ControllerConfig", "machine-config-controller", json!({}));
        assert_eq!(effect(admission().for_changes(), &config), Some(Effect::Refused));
        assert_eq!(effect(without_policy(), &config), None, "it is deleted");
        for name in ["master", "worker"] {
            let pool = named("MachineConfigPool", name, built_in.clone());
            assert_eq!(effect(admission().for_changes(), &pool), Some(Effect::Refused));
            assert_eq!(effect(without_policy(), &pool), Some(Effect::Reverted));
            assert_eq!(effect(admission(), &pool), None);
            let message = issue(admission().for_changes(), &pool).unwrap().to_string();
            let way_out = format!("seaworthy rollout pause {name}. To change it, edit it; the API refuses it");
            assert!(
                message.starts_with(&format!("MachineConfigPool {name}: it is built in"))
                    && message.ends_with(&way_out),
                "{message}"
            );
        }
        for pool in [named("MachineConfigPool", "infra", built_in), named("MachineConfigPool", "worker", json!({}))] {
            assert_eq!(effect(admission().for_changes(), &pool), None, "{pool}");
        }
    }

    #[test]
    fn generated_objects_are_protected_in_changes_and_accepted_in_a_state() {
        let changes = admission().for_changes();
        let mut rendered = object("MachineConfig", json!({"fips": true}));
        rendered["metadata"]["name"] = json!("rendered-worker-1");
        assert_eq!(validate(&changes, &rendered, None)[0].effect, Effect::Refused);
        assert_eq!(validate(&without_policy(), &rendered, None)[0].effect, Effect::Reverted);
        assert!(validate(&admission(), &rendered, None).is_empty());
        rendered["metadata"]["annotations"] = json!({"a": 1});
        let found = validate(&changes, &rendered, None);
        assert!(
            found[0].message.contains("it is rendered from"),
            "also with an annotation that is no string: {found:#?}"
        );
        let mut base = object("MachineConfig", json!({"fips": true}));
        let key = annotation::GENERATED_BY_CONTROLLER_VERSION.as_str();
        base["metadata"]["annotations"] = json!({key: "seaworthy-1"});
        let mut edited = base.clone();
        edited["spec"]["fips"] = json!(false);
        let found = validate(&changes, &edited, Some(&base));
        assert!(found[0].message.contains("create a MachineConfig of your own"), "{found:#?}");
        assert!(validate(&changes, &base, Some(&base)).is_empty(), "nothing changes");
        for (place, value) in [("annotations", json!({})), ("labels", json!({ROLE.as_str(): "a"}))] {
            let mut edited = base.clone();
            edited["metadata"][place] = value;
            assert!(!validate(&changes, &edited, Some(&base)).is_empty(), "{place}");
        }
        let mut noted = base.clone();
        noted["metadata"]["labels"] = json!({"team": "a"});
        assert!(validate(&changes, &noted, Some(&base)).is_empty(), "a label of a user");
    }
}
