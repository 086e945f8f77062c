//! What somebody has changed by hand although controllers keep it: put back, and said so to whoever looks at the object.

use std::cmp::Ordering;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{MachineConfigEvent, PoolEvent};
use seaworthy_runtime::{Events, Gravity};

use crate::making::targeted;

/// What the field managers of all controllers begin with.
const MANAGERS: &str = "seaworthy-";

/// Who changed the spec of an object last, in the words of the API (`kubectl-edit`), if it was none of the controllers.
pub fn editor(object: &MachineConfig) -> Option<&str> {
    last_hand(&object.metadata, "/f:spec")
}

/// Who changed this field of an object last, if it was none of the controllers.
fn last_hand<'a>(metadata: &'a ObjectMeta, field: &str) -> Option<&'a str> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let is_ours = |entry: &ManagedFieldsEntry| entry.manager.as_deref().unwrap_or_default().starts_with(MANAGERS);
    // Times have seconds: of two in the same one the person came after the controller that made the object.
    let order = |a: &&ManagedFieldsEntry, b: &&ManagedFieldsEntry| -> Ordering {
        let time = |entry: &ManagedFieldsEntry| entry.time.as_ref().map(|time| time.0);
        time(a).cmp(&time(b)).then_with(|| is_ours(b).cmp(&is_ours(a)))
    };
    let is_in_it =
        |entry: &&ManagedFieldsEntry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(field).is_some());
    let last = entries.iter().filter(is_in_it).max_by(order)?;
    (!is_ours(last)).then(|| last.manager.as_deref().unwrap_or("somebody"))
}

/// Says that an edit was put back: in the log, and on the object.
pub async fn tell_put_back(events: &Events, edited: &MachineConfig) {
    let by = editor(edited).unwrap_or("somebody");
    let message = format!("edited by {by}, and put back: {}", instead(edited));
    events.tell(edited, Gravity::Warning, MachineConfigEvent::PutBack.as_str(), message).await;
}

/// Says that somebody else's target of a pool was put back, if that is whose it was: in the log, and on the pool.
pub async fn tell_target_put_back(events: &Events, edited: &MachineConfigPool) {
    let Some(by) = last_hand(&edited.metadata, "/f:spec/f:configuration") else { return };
    let (pool, found) = (edited.name_any(), targeted(edited).unwrap_or_default());
    let message = format!(
        "spec.configuration.name was set to {found:?} by {by}, and put back: it follows from the MachineConfigs of the pool; \
         change those, or go back to an earlier one with: seaworthy rollout undo {pool} --to NAME"
    );
    events.tell(edited, Gravity::Warning, PoolEvent::PutBack.as_str(), message).await;
}

/// Says that something was deleted and made again: in the log, and on the new object.
pub async fn tell_made_again(events: &Events, made: &MachineConfig) {
    let message = format!("deleted, and made again: {}", instead(made));
    events.tell(made, Gravity::Warning, MachineConfigEvent::PutBack.as_str(), message).await;
}

/// What to write instead, as the policy says it that keeps hands off where it is in force.
pub fn instead(object: &MachineConfig) -> String {
    let owners = object.owner_references();
    let owner = owners.iter().find(|owner| ["KubeletConfig", "ContainerRuntimeConfig"].contains(&owner.kind.as_str()));
    match owner {
        _ if crate::writes::is_rendered(object) => {
            "it is rendered from the MachineConfigs of its pool; create or change one of those".to_owned()
        }
        Some(owner) => format!("it is made from {} {}; change that", owner.kind, owner.name),
        None => "it is part of the platform; create a MachineConfig of your own, with the label \
                 machineconfiguration.openshift.io/role and a name that sorts after it"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(by: &[(&str, &str, Value)]) -> MachineConfig {
        let fields: Vec<Value> = by
            .iter()
            .map(|(manager, second, fields)| {
                json!({"manager": manager, "operation": "Update", "time": format!("2026-01-01T00:00:{second}Z"),
                       "fieldsType": "FieldsV1", "fieldsV1": fields})
            })
            .collect();
        let metadata = json!({"name": "00-worker", "managedFields": fields});
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": metadata, "spec": {},
        }))
        .unwrap()
    }

    #[test]
    fn the_last_hand_in_the_spec_is_named_unless_it_is_a_controller() {
        let (spec, labels) = (json!({"f:spec": {}}), json!({"f:metadata": {}}));
        let ours = ("seaworthy-base", "05", spec.clone());
        assert_eq!(editor(&written(&[ours.clone(), ("kubectl-edit", "05", spec.clone())])), Some("kubectl-edit"));
        assert_eq!(editor(&written(&[("kubectl-edit", "04", spec.clone()), ours.clone()])), None);
        assert_eq!(editor(&written(&[ours, ("kubectl-label", "09", labels)])), None);
        assert_eq!(editor(&written(&[])), None);
    }
}
