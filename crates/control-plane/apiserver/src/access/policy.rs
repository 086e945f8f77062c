//! Access policy: decides from roles and bindings whether a user may do what a request asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::selector::LabelSelector;

use super::identity::Identity;
use super::missing_rules::MissingRules;
use super::rule::PolicyRule;

/// A request for access: a verb on a resource, or on a non-resource path.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessRequest<'a> {
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

/// The rules of a Role or ClusterRole.
#[derive(Debug, Clone, Default)]
pub struct Role {
    rules: Vec<PolicyRule>,
    /// Matched by the selectors of aggregated roles.
    labels: Object,
    /// The selectors of an aggregated role.
    selectors: Vec<LabelSelector>,
}

/// The subject of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// By user name.
    User(String),
    /// By group.
    Group(String),
    /// A service account, by namespace and name.
    Account(String, String),
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Debug, Clone)]
pub struct RoleBinding {
    name: String,
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    /// Whether the role is a ClusterRole.
    to_cluster_role: bool,
    role: String,
    subjects: Vec<Subject>,
}

/// All roles and bindings, indexed for decisions.
///
/// One change replaces one entry; the others are not read again. A copy, which is made while a request still uses the
/// old state, copies pointers.
#[derive(Debug, Default, Clone)]
pub struct AccessPolicy {
    cluster_roles: HashMap<String, Arc<Role>>,
    roles: HashMap<(String, String), Arc<Role>>,
    cluster_bindings: BTreeMap<String, Arc<RoleBinding>>,
    /// By namespace and name.
    bindings: HashMap<String, BTreeMap<String, Arc<RoleBinding>>>,
    /// The aggregated cluster roles.
    aggregated_roles: BTreeMap<String, Arc<Role>>,
}

impl Role {
    /// Reads a Role or ClusterRole.
    pub fn read(object: &Object) -> Role {
        let rules = object.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let selectors = object.list("aggregationRule.clusterRoleSelectors");
        Role {
            rules: rules.iter().map(PolicyRule::read).collect(),
            labels: object.metadata().map("labels").cloned().unwrap_or_default(),
            selectors: selectors.iter().filter_map(LabelSelector::of_object).collect(),
        }
    }

    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }
}

impl RoleBinding {
    /// Reads a RoleBinding or ClusterRoleBinding.
    pub fn read(object: &Object) -> RoleBinding {
        let reference = |key: &str| {
            let value = object.get("roleRef").and_then(|reference| reference.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let subjects = object.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let own_namespace = object.namespace();
        RoleBinding {
            name: object.name().to_owned(),
            namespace: own_namespace.to_owned(),
            to_cluster_role: reference("kind") == "ClusterRole",
            role: reference("name"),
            subjects: subjects.iter().filter_map(|subject| Subject::read(subject, own_namespace)).collect(),
        }
    }

    fn applies_to(&self, identity: &Identity) -> bool {
        self.subject(identity).is_some()
    }

    /// The subject that the user matches.
    fn subject(&self, identity: &Identity) -> Option<&Subject> {
        self.subjects.iter().find(|subject| match subject {
            Subject::User(name) => *name == identity.user,
            Subject::Group(name) => identity.is_in(name),
            Subject::Account(namespace, name) => {
                let rest = identity.user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                rest == Some((namespace.as_str(), name.as_str()))
            }
        })
    }

    /// The reason of a decision, as kube-apiserver words it.
    fn described(&self, subject: &Subject) -> String {
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.name.clone()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let role = if self.to_cluster_role { "ClusterRole" } else { "Role" };
        let to = match subject {
            Subject::User(name) => format!("User {name:?}"),
            Subject::Group(name) => format!("Group {name:?}"),
            Subject::Account(namespace, name) => format!("ServiceAccount {:?}", format!("{name}/{namespace}")),
        };
        format!("RBAC: allowed by {kind} {name:?} of {role} {:?} to {to}", self.role)
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
                Some(Subject::Account(namespace.to_owned(), text("name").to_owned()))
            }
            _ => None,
        }
    }
}

impl AccessPolicy {
    /// Stores the present state of a role or binding, by the plural name of its kind; none if it is deleted. Returns
    /// whether that may change aggregated cluster roles.
    pub fn set(&mut self, plural: &str, namespace: &str, name: &str, object: Option<&Object>) -> bool {
        match plural {
            "clusterroles" => return self.set_cluster_role(name, object),
            "roles" => {
                let key = (namespace.to_owned(), name.to_owned());
                match object {
                    Some(object) => self.roles.insert(key, Arc::new(Role::read(object))),
                    None => self.roles.remove(&key),
                };
            }
            "clusterrolebindings" => note(&mut self.cluster_bindings, name, object),
            "rolebindings" => {
                let own = self.bindings.entry(namespace.to_owned()).or_default();
                note(own, name, object);
                if own.is_empty() {
                    self.bindings.remove(namespace);
                }
            }
            _ => {}
        }
        false
    }

    fn set_cluster_role(&mut self, name: &str, object: Option<&Object>) -> bool {
        let role = object.map(|object| Arc::new(Role::read(object)));
        let before = match &role {
            Some(role) => self.cluster_roles.insert(name.to_owned(), role.clone()),
            None => self.cluster_roles.remove(name),
        };
        let was_made = self.aggregated_roles.remove(name).is_some();
        if let Some(role) = role.as_ref().filter(|role| !role.selectors.is_empty()) {
            self.aggregated_roles.insert(name.to_owned(), role.clone());
        }
        let is_part = |part: &Arc<Role>| {
            let label = |key: &str| part.labels.get(key).and_then(Value::as_str);
            self.aggregated_roles.values().flat_map(|whole| &whole.selectors).any(|selector| selector.matches(label))
        };
        was_made || self.aggregated_roles.contains_key(name) || before.iter().chain(&role).any(is_part)
    }

    /// Whether the user may do that.
    pub fn allows(&self, identity: &Identity, request: &AccessRequest<'_>) -> bool {
        identity.is_master() || self.rules_for(identity, request.namespace).any(|rule| rule.allows(request))
    }

    /// Whether the user may do that, and why: the role that allows it and its binding. No reason is given for members
    /// of `system:masters`.
    pub fn decision(&self, identity: &Identity, request: &AccessRequest<'_>) -> (bool, Option<String>) {
        if identity.is_master() {
            return (true, None);
        }
        let own = self.bindings.get(request.namespace).into_iter().flat_map(BTreeMap::values);
        let reason = self.cluster_bindings.values().chain(own).find_map(|binding| {
            let subject = binding.subject(identity)?;
            let role = self.bound(binding, request.namespace)?;
            role.rules.iter().any(|rule| rule.allows(request)).then(|| binding.described(subject))
        });
        (reason.is_some(), reason)
    }

    /// The rules that a user holds in a namespace; with an empty one, those that hold everywhere.
    pub fn rules_for<'p>(&'p self, identity: &'p Identity, namespace: &'p str) -> impl Iterator<Item = &'p PolicyRule> {
        let everywhere = self.cluster_bindings.values().filter(|binding| binding.applies_to(identity));
        let everywhere = everywhere.filter_map(|binding| self.role(true, "", &binding.role));
        let here = self.bindings.get(namespace).into_iter().flat_map(BTreeMap::values);
        let here = here.filter(|binding| binding.applies_to(identity));
        let here = here.filter_map(move |binding| self.bound(binding, namespace));
        everywhere.chain(here).flat_map(Role::rules)
    }

    /// The role behind a reference, if there is one.
    pub fn role(&self, is_cluster_role: bool, namespace: &str, name: &str) -> Option<&Role> {
        if is_cluster_role {
            return self.cluster_roles.get(name).map(|role| &**role);
        }
        self.roles.get(&(namespace.to_owned(), name.to_owned())).map(|role| &**role)
    }

    fn bound(&self, binding: &RoleBinding, namespace: &str) -> Option<&Role> {
        self.role(binding.to_cluster_role, namespace, &binding.role)
    }

    /// The parts of these rules that the user does not have and thus may not grant.
    pub fn missing_rules(&self, identity: &Identity, namespace: &str, wanted: &[PolicyRule]) -> MissingRules {
        if identity.is_master() {
            return MissingRules::default();
        }
        MissingRules::between(self.rules_for(identity, namespace), wanted)
    }
}

fn note(bindings: &mut BTreeMap<String, Arc<RoleBinding>>, name: &str, object: Option<&Object>) {
    match object {
        Some(object) => bindings.insert(name.to_owned(), Arc::new(RoleBinding::read(object))),
        None => bindings.remove(name),
    };
}

/// The sentence for a refusal.
impl AccessRequest<'_> {
    /// `User "ann" cannot list resource "pods" in API group "" in the namespace "a"`.
    pub fn refusal(&self, identity: &Identity) -> String {
        let AccessRequest { verb, group, resource, subresource, namespace, .. } = self;
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

    fn policy() -> AccessPolicy {
        let mut policy = AccessPolicy::default();
        let reader = json!({"rules": [
            {"apiGroups": [""], "resources": ["configmaps", "pods/log"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]}
        ]});
        policy.set("roles", "a", "reader", Some(&object(reader)));
        let pilot = json!({"rules": [
            {"apiGroups": ["g"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["*/status"], "verbs": ["patch"]},
            {"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}
        ]});
        policy.set("clusterroles", "", "pilot", Some(&object(pilot)));
        let crew = json!({
            "metadata": {"namespace": "a", "name": "crew"},
            "roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "mate"}, {"kind": "Group", "name": "crew"}]
        });
        policy.set("rolebindings", "a", "crew", Some(&object(crew)));
        let ann = json!({
            "metadata": {"name": "ann"},
            "roleRef": {"kind": "ClusterRole", "name": "pilot"}, "subjects": [{"kind": "User", "name": "ann"}]
        });
        policy.set("clusterrolebindings", "", "ann", Some(&object(ann)));
        policy
    }

    fn mate() -> Identity {
        Identity::service_account("a", "mate", "u")
    }

    fn ann() -> Identity {
        Identity::authenticated("ann", [])
    }

    fn on<'a>(verb: &'a str, resource: &'a str, namespace: &'a str) -> AccessRequest<'a> {
        AccessRequest { verb, resource, namespace, ..AccessRequest::default() }
    }

    #[rstest]
    #[case(mate(), on("list", "configmaps", "a"), true)]
    #[case(mate(), on("list", "configmaps", "b"), false)]
    #[case(mate(), on("list", "configmaps", ""), false)]
    #[case(mate(), on("create", "configmaps", "a"), false)]
    #[case(mate(), on("get", "pods", "a"), false)]
    #[case(mate(), AccessRequest { subresource: "log", ..on("get", "pods", "a") }, true)]
    #[case(mate(), AccessRequest { name: "one", ..on("get", "secrets", "a") }, true)]
    #[case(mate(), AccessRequest { name: "two", ..on("get", "secrets", "a") }, false)]
    #[case(Identity::authenticated("x", ["crew".to_owned()]), on("get", "configmaps", "a"), true)]
    #[case(ann(), AccessRequest { group: "g", subresource: "status", ..on("patch", "widgets", "z") }, true)]
    #[case(ann(), AccessRequest { subresource: "status", ..on("patch", "nodes", "") }, true)]
    #[case(ann(), on("patch", "nodes", ""), false)]
    #[case(ann(), AccessRequest { verb: "get", path: Some("/logs/x"), ..AccessRequest::default() }, true)]
    #[case(ann(), AccessRequest { verb: "get", path: Some("/metrics/x"), ..AccessRequest::default() }, false)]
    #[case(Identity::anonymous(), on("get", "configmaps", "a"), false)]
    #[case(Identity::authenticated("root", ["system:masters".to_owned()]), on("delete", "nodes", ""), true)]
    fn rules_bound_to_the_user_decide(
        #[case] who: Identity,
        #[case] request: AccessRequest<'_>,
        #[case] allowed: bool,
    ) {
        assert_eq!(policy().allows(&who, &request), allowed);
    }

    #[test]
    fn decision_names_the_binding_the_role_and_the_subject() {
        let (allowed, reason) = policy().decision(&mate(), &on("list", "configmaps", "a"));
        let wanted = r#"RBAC: allowed by RoleBinding "crew/a" of Role "reader" to ServiceAccount "mate/a""#;
        assert_eq!((allowed, reason.as_deref()), (true, Some(wanted)));
        assert_eq!(policy().decision(&mate(), &on("create", "configmaps", "a")), (false, None));
    }

    #[test]
    fn binding_that_is_gone_gives_nothing_any_more() {
        let mut policy = policy();
        assert!(policy.allows(&mate(), &on("list", "configmaps", "a")));
        policy.set("rolebindings", "a", "crew", None);
        assert!(!policy.allows(&mate(), &on("list", "configmaps", "a")));
        assert!(policy.bindings.is_empty());
    }

    #[test]
    fn only_parts_and_wholes_concern_roles_that_are_made_of_others() {
        let mut policy = policy();
        let labelled = |to: &str| object(json!({"metadata": {"labels": {"to": to}}}));
        assert!(!policy.set("clusterroles", "", "part", Some(&labelled("x"))));
        let whole = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]}});
        assert!(policy.set("clusterroles", "", "whole", Some(&object(whole))));
        assert!(policy.set("clusterroles", "", "part", Some(&labelled("y"))));
        assert!(!policy.set("clusterroles", "", "part", Some(&labelled("z"))));
        assert!(!policy.set("clusterroles", "", "part", None));
        assert!(policy.set("clusterroles", "", "whole", None));
    }

    #[test]
    fn rules_that_the_user_does_not_have_are_missing() {
        let rule = |value: Value| vec![PolicyRule::read(&value)];
        let same = rule(json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}));
        assert!(policy().missing_rules(&mate(), "a", &same).is_empty());
        let more = rule(json!({"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]}));
        let missing = policy().missing_rules(&mate(), "a", &more);
        assert_eq!(Vec::from_iter(missing.listed), [r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#]);
    }

    #[test]
    fn a_named_right_does_not_cover_a_nameless_one() {
        let named = PolicyRule::read(
            &json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]}),
        );
        let any = PolicyRule::read(&json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}));
        assert_eq!(MissingRules::between([&named], std::slice::from_ref(&any)).listed.len(), 1);
        assert!(MissingRules::between([&any], std::slice::from_ref(&named)).is_empty());
    }

    #[test]
    fn refusal_names_user_verb_resource_and_place() {
        let request = AccessRequest { subresource: "status", ..on("get", "pods", "a") };
        assert_eq!(
            request.refusal(&ann()),
            r#"User "ann" cannot get resource "pods/status" in API group "" in the namespace "a""#
        );
    }
}
