//! Base MachineConfigs of the platform, generated from templates and the ControllerConfig: every node has them.
//!
//! - For each of the roles `master` and `worker`: `00-<role>`, `01-<role>-kubelet`, `01-<role>-container-runtime`.
//! - They are written as a whole or not at all: a template that fails leaves all of them as they are.
//! - What is edited or deleted is restored by the next decision.

mod pools;
mod template;
mod templates;
mod variables;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
use seaworthy_api::machineconfiguration::controller_config::ControllerConfigCondition as Condition;
use seaworthy_api::machineconfiguration::kubelet_config::TlsSecurityProfile;
use seaworthy_api::machineconfiguration::{ControllerConfig, ControllerConfigStatus, MachineConfig, MachineConfigPool};
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::machineconfiguration::{
    ControllerConfigCondition as Type, MASTER, MachineConfigEvent, TemplateReason, WORKER, annotation,
};
use seaworthy_change::{Change, Event, ObjectRef, Purpose, Stage};
use serde::Serialize;

use crate::edit;
use crate::generated::{self, name_of, updated_to};
use crate::kubelet::{self, KUBELET_CONF};

pub use pools::built_in_pools;
pub use template::TemplateError;
pub use templates::Templates;

/// The roles that have a base of their own.
pub const ROLES: [&str; 2] = [MASTER, WORKER];

/// What the message of a failure begins with; upstream's words.
const FAILED: &str = "failed to syncing ";

/// The field manager that the base is written under.
pub const MANAGER: &str = "seaworthy-base";

/// Everything that the decision may look at.
pub struct BaseInputs<'a> {
    /// The ControllerConfig.
    pub controller_config: &'a ControllerConfig,
    pub templates: &'a Templates,
    /// The TLS profile of the cluster, if it has one.
    pub cluster_tls: Option<&'a TlsSecurityProfile>,
    /// All pools.
    pub pools: &'a [Arc<MachineConfigPool>],
    /// Built-in pools that were deleted, as they were, by name: they are created again like that.
    pub deleted_pools: &'a BTreeMap<String, MachineConfigPool>,
    /// All MachineConfigs; rendered ones may be left out.
    pub machine_configs: &'a [Arc<MachineConfig>],
    /// The build of the running controller.
    pub build: &'a str,
    /// The time, for conditions.
    pub now: Time,
}

/// What was found about the base.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BaseReport {
    /// What is wrong with the templates or the ControllerConfig; nothing when all is well.
    pub problems: Vec<String>,
    /// The MachineConfigs of others that have a name of the base. While there is one, the base is left as it is.
    pub taken: Vec<String>,
    /// The MachineConfigs whose field managers are not known and matter: whose they are, or who has edited them. The
    /// decision is to be made again with these objects as the API has them.
    pub unattributed: Vec<String>,
}

/// What to write, and what was found.
pub type BaseDecision = seaworthy_change::Decision<'static, BaseReport>;

/// Decides about the base.
pub fn desired(inputs: &BaseInputs<'_>) -> BaseDecision {
    if inputs.controller_config.metadata.deletion_timestamp.is_some() {
        return BaseDecision::nothing(BaseReport::default());
    }
    let mut changes = pools::changes(inputs.pools, inputs.deleted_pools);
    let (mut problems, mut taken, mut unattributed) = (Vec::new(), Vec::new(), Vec::new());
    // What is created for the first time was not deleted by a user.
    let is_restored = is_complete(inputs.controller_config);
    match machine_configs(inputs.controller_config, inputs.templates, inputs.cluster_tls, inputs.build) {
        Ok(wanted) => {
            let find = |name: &str| inputs.machine_configs.iter().find(|found| name_of(&found.metadata) == name);
            // Differs: upstream writes over whatever has the name, because no other client is expected to use it; here it
            // may be a user's only copy of the configuration of their machines.
            let foreign = wanted.iter().filter_map(|wanted| find(name_of(&wanted.metadata)));
            let foreign = foreign.filter(|found| !is_of_platform(&found.metadata));
            taken.extend(foreign.map(|found| name_of(&found.metadata).to_owned()));
            problems.extend(taken.iter().map(|name| taken_message(name)));
            let is_unknown = |name: &&String| find(name).is_some_and(|found| found.metadata.managed_fields.is_none());
            unattributed.extend(taken.iter().filter(is_unknown).cloned());
            for wanted in wanted.into_iter().filter(|_| taken.is_empty()) {
                match find(name_of(&wanted.metadata)) {
                    None => {
                        changes.push(Change::create(&wanted));
                        changes.extend(is_restored.then(|| edit::recreated(&wanted)));
                    }
                    Some(existing) => {
                        if edit::needs_field_managers(existing, &wanted) {
                            unattributed.push(name_of(&wanted.metadata).to_owned());
                        }
                        if let Some(update) = updated_to(existing, &wanted) {
                            changes.push(Change::replace(&update));
                            changes.extend(edit::reverted(existing));
                        }
                    }
                }
            }
        }
        Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
    }
    let reason = match (problems.is_empty(), taken.is_empty()) {
        (true, _) => TemplateReason::AsExpected,
        (false, true) => TemplateReason::TemplateFailed,
        (false, false) => TemplateReason::NameTaken,
    };
    let object = ObjectRef::of(inputs.controller_config);
    if let Some(status) = status(inputs, reason, &problems) {
        changes.push(Change::patch_status(object, status));
        changes.extend(taken.iter().map(|name| {
            let (reason, message) = (MachineConfigEvent::NameTaken.as_str(), taken_message(name));
            let event = Event { is_warning: true, reason, message, related: None };
            Change::emit(ObjectRef::named::<MachineConfig>(name), event)
        }));
    }
    // Each event follows its write: what is written is not written again, so an event that waited for later writes could be lost.
    let stages = [Stage::sequence(Purpose::Write, changes)].into_iter().filter(|stage| !stage.is_empty()).collect();
    BaseDecision { stages, report: BaseReport { problems, taken, unattributed }, recheck: None }
}

/// Whether a MachineConfig with a name of the base was made by a controller, of this program or of the upstream.
fn is_of_platform(metadata: &ObjectMeta) -> bool {
    let is_made = annotation::GENERATED_BY_CONTROLLER_VERSION.of(metadata).is_some_and(|build| !build.is_empty());
    // A client that replaces an object as a whole may leave out the annotation of its origin; the field managers remain.
    let is_ours = |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(MANAGER);
    is_made
        || generated::owners::<ControllerConfig>(metadata).next().is_some()
        || metadata.managed_fields.iter().flatten().any(is_ours)
}

/// What to do about a name that is taken.
pub fn taken_message(name: &str) -> String {
    format!(
        "MachineConfig {name} was not generated by the controllers, and the platform needs its name; it is not overwritten, \
         and no pool is rendered until it is deleted. Save it under a name that sorts later, such as 50-own-{name} (`kubectl \
         get mc {name} -o yaml`), then `kubectl delete mc {name}`"
    )
}

/// What is wrong with the base, if it cannot be made, without upstream's words before it.
pub fn failure(controller_config: &ControllerConfig) -> Option<&str> {
    let mut conditions = controller_config.status.as_ref()?.conditions.iter().flatten();
    let is_failing = |found: &&Condition| {
        found.type_ == Type::TemplateControllerFailing.as_str() && found.status == ConditionStatus::True.as_str()
    };
    let message = conditions.find(is_failing)?.message.as_deref().unwrap_or_default();
    Some(message.strip_prefix(FAILED).and_then(|rest| rest.split_once(": ")).map_or(message, |(_, why)| why))
}

/// The MachineConfigs of all roles, in the order of their names.
pub fn machine_configs(
    controller_config: &ControllerConfig,
    templates: &Templates,
    cluster_tls: Option<&TlsSecurityProfile>,
    build: &str,
) -> Result<Vec<MachineConfig>, Vec<TemplateError>> {
    let mut errors = templates.misplaced();
    let mut made = Vec::new();
    for role in ROLES {
        let variables = match variables::variables(role, controller_config, cluster_tls) {
            Ok(variables) => variables,
            Err(found) => {
                errors.extend(found);
                continue;
            }
        };
        for (folder, number, ending) in templates::PARTS {
            match templates.part(role, folder, &variables) {
                Ok((mut files, units)) => {
                    // As a KubeletConfig's controller writes it, so that a KubeletConfig changes what it says and not every line.
                    for file in files.iter_mut().filter(|file| file.path == KUBELET_CONF) {
                        file.content = kubelet::as_written(&file.content);
                    }
                    let name = format!("{number}-{role}{ending}");
                    let owner = generated::owner::<ControllerConfig>(&controller_config.metadata);
                    let config = generated::config(&files, &units);
                    made.push(generated::machine_config(&name, role, build, owner, config));
                }
                Err(found) => errors.extend(found),
            }
        }
    }
    if errors.is_empty() {
        made.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        return Ok(made);
    }
    // What is common to all roles is wrong in all of them.
    let mut reported = Vec::new();
    errors.retain(|error| {
        let is_new = !reported.contains(error);
        reported.push(error.clone());
        is_new
    });
    Err(errors)
}

/// The names of the MachineConfigs of a role.
pub fn names(role: &str) -> impl Iterator<Item = String> {
    templates::PARTS.into_iter().map(move |(_, number, ending)| format!("{number}-{role}{ending}"))
}

/// Whether the base MachineConfigs are those of the ControllerConfig as it is now.
pub fn is_complete(controller_config: &ControllerConfig) -> bool {
    let Some(status) = &controller_config.status else { return false };
    let is_true = |kind: Type| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|condition| condition.type_ == kind.as_str() && condition.status == "True")
    };
    status.observed_generation == controller_config.metadata.generation
        && is_true(Type::TemplateControllerCompleted)
        && !is_true(Type::TemplateControllerRunning)
        && !is_true(Type::TemplateControllerFailing)
}

/// The status after the decision; `None` if it says the same already.
fn status(inputs: &BaseInputs<'_>, reason: TemplateReason, problems: &[String]) -> Option<ControllerConfigStatus> {
    let generation = inputs.controller_config.metadata.generation;
    let towards = format!("towards ({}) generation using controller version {}", generation.unwrap_or(0), inputs.build);
    let done = format!("sync completed {towards}");
    let is_well = problems.is_empty();
    let failed = format!("{FAILED}{towards}: {}", problems.join("; "));
    let message = if is_well { &done } else { &failed };
    let old = inputs.controller_config.status.clone().unwrap_or_default();
    let mut new = ControllerConfigStatus { observed_generation: generation, ..old.clone() };
    let conditions = new.conditions.get_or_insert_default();
    // Differs: upstream leaves reasons empty, and the old message where the status does not change.
    for (kind, is_true) in [
        (Type::TemplateControllerRunning, false),
        (Type::TemplateControllerCompleted, is_well),
        (Type::TemplateControllerFailing, !is_well),
    ] {
        let status = if is_true { "True" } else { "False" };
        let mut made = Condition {
            last_transition_time: Some(inputs.now.clone()),
            message: Some(message.clone()),
            reason: Some(reason.as_str().to_owned()),
            status: status.to_owned(),
            type_: kind.as_str().to_owned(),
            unknown: <_>::default(),
        };
        match conditions.iter_mut().find(|condition| condition.type_ == kind.as_str()) {
            None => conditions.push(made),
            Some(known) => {
                if known.status == status && known.last_transition_time.is_some() {
                    made.last_transition_time.clone_from(&known.last_transition_time);
                }
                *known = made;
            }
        }
    }
    (new != old || inputs.controller_config.status.is_none()).then_some(new)
}
