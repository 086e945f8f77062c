//! The built-in kinds, one file a kind or a family of kinds, and the list of all of them.

mod admission_policy;
mod config_map;
mod container_rules;
mod daemon_set;
pub mod definition;
pub mod definitions;
mod deployment;
mod disruption_budget;
mod endpoints;
mod event;
mod job;
mod lease;
pub mod namespace;
mod node;
mod placement_rules;
mod pod;
mod pod_company;
mod pod_rules;
mod pod_spec;
pub mod priority_class;
pub mod rbac;
pub mod review;
mod runtime_class;
mod secret;
mod security_rules;
mod service;
mod service_account;
mod service_rules;
mod variable_rules;
mod volume_rules;
pub mod workload;
mod zeros;

use crate::kind::Kind;

/// Every built-in kind. Where two kinds share their objects, the one that is stored comes first.
pub static KINDS: &[&Kind] = &[
    &admission_policy::VALIDATING_ADMISSION_POLICY,
    &admission_policy::VALIDATING_ADMISSION_POLICY_BINDING,
    &config_map::CONFIG_MAP,
    &daemon_set::DAEMON_SET,
    &definition::CUSTOM_RESOURCE_DEFINITION,
    &deployment::DEPLOYMENT,
    &disruption_budget::POD_DISRUPTION_BUDGET,
    &endpoints::ENDPOINTS,
    &endpoints::ENDPOINT_SLICE,
    &event::EVENT,
    &event::NEW_EVENT,
    &job::JOB,
    &lease::LEASE,
    &namespace::NAMESPACE,
    &node::NODE,
    &pod::POD,
    &priority_class::PRIORITY_CLASS,
    &rbac::CLUSTER_ROLE,
    &rbac::CLUSTER_ROLE_BINDING,
    &rbac::ROLE,
    &rbac::ROLE_BINDING,
    &review::LOCAL_SUBJECT_ACCESS_REVIEW,
    &review::SELF_SUBJECT_ACCESS_REVIEW,
    &review::SELF_SUBJECT_REVIEW,
    &review::SELF_SUBJECT_RULES_REVIEW,
    &review::SUBJECT_ACCESS_REVIEW,
    &review::TOKEN_REVIEW,
    &runtime_class::RUNTIME_CLASS,
    &secret::SECRET,
    &service::SERVICE,
    &service_account::SERVICE_ACCOUNT,
];
