//! The decision: may this user do that? Roles and bindings in, yes or no out.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::object::{Metadata, Object};

use super::identity::Identity;
use super::rule::Rule;

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Action<'a> {
    /// `get`, `list`, …
    pub verb: &'a str,
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for all namespaces and for kinds that live in none.
    pub namespace: &'a str,
    /// Empty for a collection.
    pub name: &'a str,
    /// A path outside the resources; everything but the verb is empty then.
    pub path: Option<&'a str>,
}

/// A role: rules under a name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Role {
    rules: Arc<[Rule]>,
}

/// Who is given a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// By user name.
    User(String),
    /// By group.
    Group(String),
}

/// A role given to subjects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Binding {
    /// Whether the role is a ClusterRole.
    to_cluster_role: bool,
    role: Arc<str>,
    subjects: Arc<[Subject]>,
}

/// All roles and bindings, ready to be asked.
#[derive(Debug, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, Role>,
    roles: HashMap<(String, String), Role>,
    cluster_bindings: Vec<Binding>,
    /// By namespace.
    bindings: HashMap<String, Vec<Binding>>,
}

impl Role {
    /// Reads a Role or ClusterRole.
    pub fn read(object: &Object) -> Role {
        let rules = object.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Role { rules: rules.iter().map(Rule::read).collect() }
    }

    /// Its rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

impl Binding {
    /// Reads a RoleBinding or ClusterRoleBinding.
    pub fn read(object: &Object) -> Binding {
        let reference = |key: &str| {
            let value = object.get("roleRef").and_then(|reference| reference.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let subjects = object.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let own_namespace = object.namespace();
        Binding {
            to_cluster_role: reference("kind") == "ClusterRole",
            role: reference("name").into(),
            subjects: subjects.iter().filter_map(|subject| Subject::read(subject, own_namespace)).collect(),
        }
    }

    fn concerns(&self, identity: &Identity) -> bool {
        self.subjects.iter().any(|subject| match subject {
            Subject::User(name) => *name == identity.user,
            Subject::Group(name) => identity.is_in(name),
        })
    }
}

impl Subject {
    fn read(subject: &Value, own_namespace: &str) -> Option<Subject> {
        let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("kind") {
            "User" => Some(Subject::User(text("name").to_owned())),
            "Group" => Some(Subject::Group(text("name").to_owned())),
            "ServiceAccount" => {
                let namespace = if text("namespace").is_empty() { own_namespace } else { text("namespace") };
                Some(Subject::User(format!("system:serviceaccount:{namespace}:{}", text("name"))))
            }
            _ => None,
        }
    }
}

impl Policy {
    /// Adds a ClusterRole.
    pub fn add_cluster_role(&mut self, name: &str, role: Role) {
        self.cluster_roles.insert(name.to_owned(), role);
    }

    /// Adds a Role.
    pub fn add_role(&mut self, namespace: &str, name: &str, role: Role) {
        self.roles.insert((namespace.to_owned(), name.to_owned()), role);
    }

    /// Adds a ClusterRoleBinding.
    pub fn add_cluster_binding(&mut self, binding: Binding) {
        self.cluster_bindings.push(binding);
    }

    /// Adds a RoleBinding.
    pub fn add_binding(&mut self, namespace: &str, binding: Binding) {
        self.bindings.entry(namespace.to_owned()).or_default().push(binding);
    }

    /// Whether the user may do that.
    pub fn allows(&self, identity: &Identity, action: &Action<'_>) -> bool {
        identity.is_master() || self.held(identity, action.namespace).any(|rule| rule.allows(action))
    }

    /// The rules that a user holds in a namespace; with an empty one, those that hold everywhere.
    pub fn held<'p>(&'p self, identity: &'p Identity, namespace: &'p str) -> impl Iterator<Item = &'p Rule> {
        let everywhere = self.cluster_bindings.iter().filter(|binding| binding.concerns(identity));
        let everywhere = everywhere.filter_map(|binding| self.cluster_roles.get(&*binding.role));
        let here = self.bindings.get(namespace).into_iter().flatten().filter(|binding| binding.concerns(identity));
        let here = here.filter_map(move |binding| self.bound(binding, namespace));
        everywhere.chain(here).flat_map(Role::rules)
    }

    /// The role behind a reference, if there is one.
    pub fn role(&self, is_cluster_role: bool, namespace: &str, name: &str) -> Option<&Role> {
        if is_cluster_role {
            return self.cluster_roles.get(name);
        }
        self.roles.get(&(namespace.to_owned(), name.to_owned()))
    }

    fn bound(&self, binding: &Binding, namespace: &str) -> Option<&Role> {
        self.role(binding.to_cluster_role, namespace, &binding.role)
    }

    /// What of these rules the user does not hold and thus may not grant, in pieces.
    pub fn not_held(&self, identity: &Identity, namespace: &str, wanted: &[Rule]) -> Vec<Rule> {
        if identity.is_master() {
            return Vec::new();
        }
        let held: Vec<Rule> = self.held(identity, namespace).cloned().collect();
        Rule::missing(&held, wanted)
    }
}

/// The sentence for a refusal.
impl Action<'_> {
    /// `User "ann" cannot list resource "pods" in API group "" in the namespace "a"`.
    pub fn refusal(&self, identity: &Identity) -> String {
        let Action { verb, group, resource, subresource, namespace, .. } = self;
        let user = &identity.user;
        if let Some(path) = self.path {
            return format!("User {user:?} cannot {verb} path {path:?}");
        }
        let below = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        let place = match *namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        format!("User {user:?} cannot {verb} resource \"{resource}{below}\" in API group {group:?} {place}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn policy() -> Policy {
        let mut policy = Policy::default();
        let reader = json!({"rules": [
            {"apiGroups": [""], "resources": ["configmaps", "pods/log"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]}
        ]});
        policy.add_role("a", "reader", Role::read(&object(reader)));
        let pilot = json!({"rules": [
            {"apiGroups": ["g"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["*/status"], "verbs": ["patch"]},
            {"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}
        ]});
        policy.add_cluster_role("pilot", Role::read(&object(pilot)));
        policy.add_binding(
            "a",
            Binding::read(&object(json!({
                "metadata": {"namespace": "a"},
                "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "mate"}, {"kind": "Group", "name": "crew"}]
            }))),
        );
        policy.add_cluster_binding(Binding::read(&object(json!({
            "roleRef": {"kind": "ClusterRole", "name": "pilot"}, "subjects": [{"kind": "User", "name": "ann"}]
        }))));
        policy
    }

    fn mate() -> Identity {
        Identity::service_account("a", "mate", "u")
    }

    fn ann() -> Identity {
        Identity::authenticated("ann", [])
    }

    fn on<'a>(verb: &'a str, resource: &'a str, namespace: &'a str) -> Action<'a> {
        Action { verb, resource, namespace, ..Action::default() }
    }

    #[rstest]
    #[case(mate(), on("list", "configmaps", "a"), true)]
    #[case(mate(), on("list", "configmaps", "b"), false)]
    #[case(mate(), on("list", "configmaps", ""), false)]
    #[case(mate(), on("create", "configmaps", "a"), false)]
    #[case(mate(), on("get", "pods", "a"), false)]
    #[case(mate(), Action { subresource: "log", ..on("get", "pods", "a") }, true)]
    #[case(mate(), Action { name: "one", ..on("get", "secrets", "a") }, true)]
    #[case(mate(), Action { name: "two", ..on("get", "secrets", "a") }, false)]
    #[case(Identity::authenticated("x", ["crew".to_owned()]), on("get", "configmaps", "a"), true)]
    #[case(ann(), Action { group: "g", subresource: "status", ..on("patch", "widgets", "z") }, true)]
    #[case(ann(), Action { subresource: "status", ..on("patch", "nodes", "") }, true)]
    #[case(ann(), on("patch", "nodes", ""), false)]
    #[case(ann(), Action { verb: "get", path: Some("/logs/x"), ..Action::default() }, true)]
    #[case(ann(), Action { verb: "get", path: Some("/metrics/x"), ..Action::default() }, false)]
    #[case(Identity::anonymous(), on("get", "configmaps", "a"), false)]
    #[case(Identity::authenticated("root", ["system:masters".to_owned()]), on("delete", "nodes", ""), true)]
    fn rules_bound_to_the_user_decide(#[case] who: Identity, #[case] action: Action<'_>, #[case] allowed: bool) {
        assert_eq!(policy().allows(&who, &action), allowed);
    }

    #[test]
    fn nobody_grants_what_they_do_not_hold() {
        let rule = |value: Value| vec![Rule::read(&value)];
        let same = rule(json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}));
        assert!(policy().not_held(&mate(), "a", &same).is_empty());
        let more = rule(json!({"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]}));
        let missing = policy().not_held(&mate(), "a", &more);
        let said: Vec<String> = missing.iter().map(ToString::to_string).collect();
        assert_eq!(said, [r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#]);
    }

    #[test]
    fn a_named_right_does_not_cover_a_nameless_one() {
        let named = Rule::read(
            &json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]}),
        );
        let any = Rule::read(&json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}));
        assert_eq!(Rule::missing(std::slice::from_ref(&named), std::slice::from_ref(&any)).len(), 1);
        assert!(Rule::missing(&[any], &[named]).is_empty());
    }

    #[test]
    fn refusal_names_user_verb_resource_and_place() {
        let action = Action { subresource: "status", ..on("get", "pods", "a") };
        assert_eq!(
            action.refusal(&ann()),
            r#"User "ann" cannot get resource "pods/status" in API group "" in the namespace "a""#
        );
    }
}
