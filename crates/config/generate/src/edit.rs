//! Edits of what controllers keep: users' changes that are reverted, and the events that report them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use seaworthy_api::field_manager::last_editor;
use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig};
use seaworthy_api::meta::is_owner;
use seaworthy_api::vocabulary::machineconfiguration::{MachineConfigEvent, RENDERED_PREFIX, annotation};
use seaworthy_change::{Change, Event, ObjectRef};

use crate::generated::name_of;

/// Whether a user may have edited an object that the same build wants to be otherwise, and its field managers, which would
/// name the user, are not known: caches leave them out.
pub fn needs_field_managers(existing: &MachineConfig, wanted: &MachineConfig) -> bool {
    let build =
        |object: &MachineConfig| annotation::GENERATED_BY_CONTROLLER_VERSION.of(&object.metadata).map(str::to_owned);
    existing.metadata.managed_fields.is_none() && existing.spec != wanted.spec && build(existing) == build(wanted)
}

/// The event for an edit that is reverted, if a user has edited the spec.
pub fn reverted(existing: &MachineConfig) -> Option<Change> {
    let editor = last_editor(&existing.metadata, "/f:spec")?;
    let message = format!("edited by {editor}; the edit was reverted: {}", instead_of(&existing.metadata));
    Some(event(existing, message))
}

/// The event for an edit that is reverted where no field manager is known to have made it.
pub fn reverted_by_unknown(existing: &MachineConfig) -> Change {
    event(existing, format!("edited; the edit was reverted: {}", instead_of(&existing.metadata)))
}

/// The event for an object that was deleted and created again.
pub fn recreated(object: &MachineConfig) -> Change {
    event(object, format!("deleted and created again: {}", instead_of(&object.metadata)))
}

fn event(object: &MachineConfig, message: String) -> Change {
    let reason = MachineConfigEvent::EditReverted.as_str();
    let about = ObjectRef { uid: None, ..ObjectRef::of(object) };
    Change::emit(about, Event { is_warning: true, reason, message, related: None })
}

fn instead_of(metadata: &ObjectMeta) -> String {
    instead(name_of(metadata).starts_with(RENDERED_PREFIX), metadata.owner_references.as_deref().unwrap_or_default())
}

/// What to change instead of a MachineConfig, as the policy words it that refuses such edits where it is in force.
pub fn instead(is_rendered: bool, owners: &[OwnerReference]) -> String {
    let is_settings =
        |owner: &&OwnerReference| is_owner::<KubeletConfig>(owner) || is_owner::<ContainerRuntimeConfig>(owner);
    match owners.iter().find(is_settings) {
        _ if is_rendered => {
            "it is rendered from the MachineConfigs of its pool; create or change one of those".to_owned()
        }
        Some(owner) => format!("it is generated from {} {}; change that", owner.kind, owner.name),
        None => "it is part of the platform; create a MachineConfig of your own, with the label \
                 machineconfiguration.openshift.io/role and a name that sorts after it"
            .to_owned(),
    }
}
