//! Nobody grants what they do not have: who writes a role must hold its rules, who binds one must hold them too.
//!
//! The verbs `escalate` on roles and `bind` on the role that is bound allow it all the same.

use serde_json::Value;

use crate::access::{Action, Role, Rule};
use crate::builtin::rbac::{GROUP, everything};
use crate::call::Call;
use crate::object::{Metadata, Object};
use crate::reach::Reach;
use crate::status::{Failure, Named};

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
    let is_same = |key: &str| old.is_some_and(|old| old.get(key) == object.get(key));
    if is_same("rules") && is_same("aggregationRule") {
        return Ok(());
    }
    let may_escalate = Action {
        verb: "escalate",
        group: GROUP,
        resource: &call.resource.plural,
        namespace: &call.path.namespace,
        // Of the path: whoever may escalate one role may change it, not make it.
        name: &call.path.name,
        ..Action::default()
    };
    if call.server.policy().allows(&call.identity, &may_escalate) {
        return Ok(());
    }
    let mut rules = Role::read(object).rules().to_vec();
    if object.get("aggregationRule").is_some() {
        // Whoever it takes rules from may have any.
        rules.extend(everything().as_array().into_iter().flatten().map(Rule::read));
    }
    check_rules(call, object.name(), &rules)
}

fn check_binding(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    let is_same = |key: &str| old.is_some_and(|old| old.get(key) == object.get(key));
    if is_same("roleRef") && is_same("subjects") {
        return Ok(());
    }
    let (kind, name) = (object.text("roleRef.kind"), object.text("roleRef.name"));
    let is_cluster_role = kind == "ClusterRole";
    let resource = if is_cluster_role { "clusterroles" } else { "roles" };
    let policy = call.server.policy();
    let namespace = &call.path.namespace;
    let may_bind = Action { verb: "bind", group: GROUP, resource, namespace, name, ..Action::default() };
    if policy.allows(&call.identity, &may_bind) {
        return Ok(());
    }
    match policy.role(is_cluster_role, namespace, name) {
        Some(role) => check_rules(call, object.name(), role.rules()),
        None => Err(Failure::not_found(Named { group: GROUP, word: resource }, name)),
    }
}

fn check_rules(call: &Call, name: &str, rules: &[Rule]) -> Result<(), Failure> {
    let missing = call.server.policy().not_held(&call.identity, &call.path.namespace, rules);
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
    Err(Failure::forbidden(call.resource.named(), name, &why))
}
