//! The platform's own MachineConfigs, from templates and the ControllerConfig: what every node has before anybody asks
//! for anything.
//!
//! - For each of the roles `master` and `worker`: `00-<role>`, `01-<role>-kubelet`, `01-<role>-container-runtime`.
//! - They are written as a whole or not at all: a template that fails leaves all of them as they are.
//! - What is edited or deleted is restored by the next decision.

mod pools;
mod template;
mod templates;
mod variables;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
use seaworthy_api::machineconfiguration::controller_config::ControllerConfigCondition as Condition;
use seaworthy_api::machineconfiguration::kubelet_config::TlsSecurityProfile;
use seaworthy_api::machineconfiguration::{ControllerConfig, ControllerConfigStatus, MachineConfig, MachineConfigPool};
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::machineconfiguration::{
    ControllerConfigCondition as Type, MASTER, TemplateReason, WORKER, annotation,
};
use serde::Serialize;

use crate::envelope::{self, brought_to, name_of};
use crate::kubelet::{self, KUBELET_CONF};
use crate::write::Write;

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
pub struct Inputs<'a> {
    /// The ControllerConfig.
    pub controller_config: &'a ControllerConfig,
    /// The templates.
    pub templates: &'a Templates,
    /// The TLS profile of the cluster, if it has one.
    pub cluster_tls: Option<&'a TlsSecurityProfile>,
    /// All pools.
    pub pools: &'a [Arc<MachineConfigPool>],
    /// All MachineConfigs; rendered ones may be left out.
    pub machine_configs: &'a [Arc<MachineConfig>],
    /// The build of the running controller.
    pub build: &'a str,
    /// The time, for conditions.
    pub now: Time,
}

/// What to write, and what became of each MachineConfig.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The writes, in the order in which they are to be done.
    pub writes: Vec<Write>,
    /// What is wrong with the templates or the ControllerConfig; nothing when all is well.
    pub problems: Vec<String>,
    /// The MachineConfigs of others that have a name of the base. While there is one, the base is left as it is.
    pub taken: Vec<String>,
}

/// Decides about the base.
pub fn desired(inputs: &Inputs<'_>) -> Decision {
    if inputs.controller_config.metadata.deletion_timestamp.is_some() {
        return Decision { writes: Vec::new(), problems: Vec::new(), taken: Vec::new() };
    }
    let mut writes = pools::writes(inputs.pools);
    let mut problems = Vec::new();
    let mut taken = Vec::new();
    match machine_configs(inputs.controller_config, inputs.templates, inputs.cluster_tls, inputs.build) {
        Ok(wanted) => {
            let find = |name: &str| inputs.machine_configs.iter().find(|found| name_of(&found.metadata) == name);
            // Differs: upstream writes over whatever has the name, because nobody else is expected to use it; here it may
            // be all that somebody has of what their machines run.
            let foreign = wanted.iter().filter_map(|wanted| find(name_of(&wanted.metadata)));
            let foreign = foreign.filter(|found| !is_of_platform(&found.metadata));
            taken.extend(foreign.map(|found| name_of(&found.metadata).to_owned()));
            problems.extend(taken.iter().map(|name| taken_message(name)));
            let write = |wanted: MachineConfig| match find(name_of(&wanted.metadata)) {
                None => Some(Write::Create(wanted)),
                Some(existing) => brought_to(existing, &wanted).map(Write::Update),
            };
            if taken.is_empty() {
                writes.extend(wanted.into_iter().filter_map(write));
            }
        }
        Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
    }
    let reason = match (problems.is_empty(), taken.is_empty()) {
        (true, _) => TemplateReason::AsExpected,
        (false, true) => TemplateReason::TemplateFailed,
        (false, false) => TemplateReason::NameTaken,
    };
    writes.extend(status(inputs, reason, &problems).map(Write::ControllerConfigStatus));
    Decision { writes, problems, taken }
}

/// Whether a MachineConfig with a name of the base was made by a controller, of this program or of the upstream.
fn is_of_platform(metadata: &ObjectMeta) -> bool {
    let is_made = annotation::GENERATED_BY_CONTROLLER_VERSION.of(metadata).is_some_and(|build| !build.is_empty());
    // Whoever replaces an object as a whole may leave out what says where it comes from; who wrote which field stays known.
    let is_ours = |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(MANAGER);
    is_made
        || envelope::owners(metadata, "ControllerConfig").next().is_some()
        || metadata.managed_fields.iter().flatten().any(is_ours)
}

/// What to do about a name that is taken.
pub fn taken_message(name: &str) -> String {
    format!(
        "MachineConfig {name} is somebody's own, and the platform needs its name; nothing is written over it, and no pool is \
         rendered anew meanwhile. Save it under a name that sorts later, such as 50-own-{name} (`kubectl get mc {name} -o \
         yaml`), then `kubectl delete mc {name}`"
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
                    let owner = envelope::owner("ControllerConfig", &controller_config.metadata);
                    let config = envelope::config(&files, &units);
                    made.push(envelope::machine_config(&name, role, build, owner, config));
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
    let mut told = Vec::new();
    errors.retain(|error| {
        let is_new = !told.contains(error);
        told.push(error.clone());
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
fn status(inputs: &Inputs<'_>, reason: TemplateReason, problems: &[String]) -> Option<ControllerConfigStatus> {
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
