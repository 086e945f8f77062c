//! Privilege escalation: the author of a role must hold its rules, and so must the author of a binding.
//!
//! Every change is checked, also one of labels: they decide which aggregated roles a ClusterRole becomes part of. The
//! verbs `escalate` on roles and `bind` on the bound role lift the check.

use serde_json::Value;

use crate::access::{AccessRequest, PolicyRule, Role};
use crate::builtin::rbac::role::{GROUP, everything};
use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::response::status::Failure;

/// Checks a write to a role or a binding; other kinds pass.
pub fn check(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    if *call.resource.group != *GROUP || call.identity.is_master() {
        return Ok(());
    }
    match &*call.resource.kind {
        "Role" | "ClusterRole" => check_role(call, object, old),
        "RoleBinding" | "ClusterRoleBinding" => check_binding(call, object, old),
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

fn check_rules(call: &Call, name: &str, rules: &[PolicyRule]) -> Result<(), Failure> {
    let missing = call.server.policy().missing_rules(&call.identity, &call.path.namespace, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> =
        call.identity.groups.iter().map(|group| Value::from(group.as_str()).to_string()).collect();
    let rules: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        call.identity.user,
        groups.join(" "),
        rules.join("\n")
    );
    Err(Failure::forbidden(call.resource.group_resource(), name, &why))
}
