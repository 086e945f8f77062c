//! Privilege escalation: the author of a role must hold its rules, and so must the author of a binding.
//!
//! Every change is checked, also one of labels: they decide which aggregated roles a ClusterRole becomes part of. The
//! verbs `escalate` on roles and `bind` on the bound role lift the check.

use serde_json::Value;

use crate::access::{AccessRequest, PolicyRule, Role};
use crate::builtin::rbac::role::{GROUP, everything, excess_rules};
use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::response::status::Failure;
use crate::server::RBAC;

/// The last line of a list of missing rules that is too long, or that takes too long to compare.
const CUT_OFF: &str = "the comparison ended here because the rules have too many combinations of verbs, groups, \
    resources and names: grant them in several smaller roles, or as a user with the verb escalate on roles and bind on \
    the bound role";

/// Checks a write to a role or a binding; other kinds pass.
///
/// What is stored decides, not the kind's name: whatever is written where roles are read grants rights.
pub fn check(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    if call.identity.is_master() {
        return Ok(());
    }
    match call.resource.storage.strip_prefix(RBAC) {
        Some("roles" | "clusterroles") => check_role(call, object, old),
        Some("rolebindings" | "clusterrolebindings") => check_binding(call, object, old),
        _ => Ok(()),
    }
}

fn check_role(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    if old.is_some_and(|old| is_cleanup_only(object, old)) {
        return Ok(());
    }
    let may_escalate = AccessRequest {
        verb: "escalate",
        group: GROUP,
        resource: &call.resource.plural,
        namespace: &call.path.namespace,
        // The name in the path: `escalate` on one role allows to change it, not to create it.
        name: &call.path.name,
        ..AccessRequest::default()
    };
    if call.server.policy().allows(&call.identity, &may_escalate) {
        return Ok(());
    }
    // Before the rules are compared: the answer to too many of them is that, not a list of those that are missing.
    if let Some(cause) = excess_rules(object, old) {
        return Err(Failure::invalid(call.resource.group_kind(), object.name(), vec![cause]));
    }
    check_rules(call, object.name(), Role::read(object).rules())?;
    if is_aggregated(object) || old.is_some_and(is_aggregated) {
        // An aggregation rule can collect any rule, and removing one fixes what was collected.
        let all: Vec<PolicyRule> = everything().as_array().into_iter().flatten().map(PolicyRule::read).collect();
        if !call.server.policy().missing_rules(&call.identity, &call.path.namespace, &all).is_empty() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(Failure::forbidden(call.resource.group_resource(), object.name(), why));
        }
    }
    Ok(())
}

fn check_binding(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    if old.is_some_and(|old| is_cleanup_only(object, old)) {
        return Ok(());
    }
    let (kind, name) = (object.text("roleRef.kind"), object.text("roleRef.name"));
    let is_cluster_role = kind == "ClusterRole";
    let resource = if is_cluster_role { "clusterroles" } else { "roles" };
    let policy = call.server.policy();
    let namespace = &call.path.namespace;
    let may_bind = AccessRequest { verb: "bind", group: GROUP, resource, namespace, name, ..AccessRequest::default() };
    if policy.allows(&call.identity, &may_bind) {
        return Ok(());
    }
    match policy.role(is_cluster_role, namespace, name) {
        Some(role) => check_rules(call, object.name(), role.rules()),
        None => Err(Failure::not_found(call.resource.group_resource(), name)),
    }
}

/// Whether a change touches only what garbage collection needs to delete the object: its finalizers and owners.
fn is_cleanup_only(object: &Object, old: &Object) -> bool {
    let without = |object: &Object| {
        let mut object = object.clone();
        let metadata = object.metadata_mut();
        for field in ["finalizers", "ownerReferences", "managedFields"] {
            metadata.remove(field);
        }
        object
    };
    without(object) == without(old)
}

/// Whether a role takes its rules from others.
fn is_aggregated(role: &Object) -> bool {
    role.get("aggregationRule").is_some_and(|rule| !rule.list("clusterRoleSelectors").is_empty())
}

/// Differs: the real server compares and lists everything, because it sets no limit to what a check may cost. Here the
/// comparison has an end, and what it did not reach counts as missing.
fn check_rules(call: &Call, name: &str, rules: &[PolicyRule]) -> Result<(), Failure> {
    let missing = call.server.policy().missing_rules(&call.identity, &call.path.namespace, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> =
        call.identity.groups.iter().map(|group| Value::from(group.as_str()).to_string()).collect();
    let mut lines = Vec::from_iter(missing.listed);
    if missing.is_cut_off {
        lines.push(CUT_OFF.to_owned());
    }
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        call.identity.user,
        groups.join(" "),
        lines.join("\n")
    );
    Err(Failure::forbidden(call.resource.group_resource(), name, &why))
}
