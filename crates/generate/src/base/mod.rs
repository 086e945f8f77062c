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

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use seaworthy_api::machineconfiguration::controller_config::ControllerConfigCondition as Condition;
use seaworthy_api::machineconfiguration::kubelet_config::TlsSecurityProfile;
use seaworthy_api::machineconfiguration::{ControllerConfig, ControllerConfigStatus, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{
    ControllerConfigCondition as Type, MASTER, TemplateReason, WORKER,
};
use serde::Serialize;

use crate::envelope::{self, brought_to, name_of};
use crate::write::Write;

pub use pools::built_in_pools;
pub use template::TemplateError;
pub use templates::Templates;

/// The roles that have a base of their own.
pub const ROLES: [&str; 2] = [MASTER, WORKER];

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
}

/// Decides about the base.
pub fn desired(inputs: &Inputs<'_>) -> Decision {
    if inputs.controller_config.metadata.deletion_timestamp.is_some() {
        return Decision { writes: Vec::new(), problems: Vec::new() };
    }
    let mut writes = pools::writes(inputs.pools);
    let mut problems = Vec::new();
    match machine_configs(inputs.controller_config, inputs.templates, inputs.cluster_tls, inputs.build) {
        Ok(wanted) => writes.extend(wanted.into_iter().filter_map(|wanted| {
            let name = name_of(&wanted.metadata);
            let existing = inputs.machine_configs.iter().find(|existing| name_of(&existing.metadata) == name);
            match existing {
                None => Some(Write::Create(wanted)),
                Some(existing) => brought_to(existing, &wanted).map(Write::Update),
            }
        })),
        Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
    }
    writes.extend(status(inputs, &problems).map(Write::ControllerConfigStatus));
    Decision { writes, problems }
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
                Ok((files, units)) => {
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
fn status(inputs: &Inputs<'_>, problems: &[String]) -> Option<ControllerConfigStatus> {
    let generation = inputs.controller_config.metadata.generation;
    let towards = format!("towards ({}) generation using controller version {}", generation.unwrap_or(0), inputs.build);
    let done = format!("sync completed {towards}");
    let is_well = problems.is_empty();
    let failed = format!("failed to syncing {towards}: {}", problems.join("; "));
    let message = if is_well { &done } else { &failed };
    let old = inputs.controller_config.status.clone().unwrap_or_default();
    let mut new = ControllerConfigStatus { observed_generation: generation, ..old.clone() };
    let conditions = new.conditions.get_or_insert_default();
    // Differs: upstream leaves reasons empty, and the old message where the status does not change.
    let reason = if is_well { TemplateReason::AsExpected } else { TemplateReason::TemplateFailed };
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
