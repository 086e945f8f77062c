//! Built-in kinds: one file per kind or family of kinds, in a folder per API group, and the list of all of them.
//!
//! `rules/` has the validation rules that several kinds share, `schemas/` the OpenAPI schemas of all of them.

pub mod apps;
pub mod core;
pub mod custom_resource_definition;
pub mod policy;
pub mod rbac;
mod rules;
pub mod scheduling;
pub mod schemas;

use crate::resource::built_in_kind::BuiltInKind;

/// Whether a plural name of a group belongs to a built-in kind, in any version.
pub fn is_built_in(group: &str, plural: &str) -> bool {
    KINDS.iter().any(|kind| kind.group == group && kind.plural == plural)
}

/// Every built-in kind. Where two kinds share their objects, the one that is stored comes first.
pub static KINDS: &[&BuiltInKind] = &[
    &policy::admission_policy::VALIDATING_ADMISSION_POLICY,
    &policy::admission_policy::VALIDATING_ADMISSION_POLICY_BINDING,
    &core::config_map::CONFIG_MAP,
    &apps::daemon_set::DAEMON_SET,
    &custom_resource_definition::CUSTOM_RESOURCE_DEFINITION,
    &apps::deployment::DEPLOYMENT,
    &policy::disruption_budget::POD_DISRUPTION_BUDGET,
    &core::endpoints::ENDPOINTS,
    &core::endpoints::ENDPOINT_SLICE,
    &core::event::EVENT,
    &core::event::NEW_EVENT,
    &apps::job::JOB,
    &scheduling::lease::LEASE,
    &core::namespace::NAMESPACE,
    &core::node::NODE,
    &core::pod::POD,
    &scheduling::priority_class::PRIORITY_CLASS,
    &rbac::role::CLUSTER_ROLE,
    &rbac::role::CLUSTER_ROLE_BINDING,
    &rbac::role::ROLE,
    &rbac::role::ROLE_BINDING,
    &rbac::review::LOCAL_SUBJECT_ACCESS_REVIEW,
    &rbac::review::SELF_SUBJECT_ACCESS_REVIEW,
    &rbac::review::SELF_SUBJECT_REVIEW,
    &rbac::review::SELF_SUBJECT_RULES_REVIEW,
    &rbac::review::SUBJECT_ACCESS_REVIEW,
    &rbac::review::TOKEN_REVIEW,
    &scheduling::runtime_class::RUNTIME_CLASS,
    &core::secret::SECRET,
    &core::service::SERVICE,
    &core::service_account::SERVICE_ACCOUNT,
];
