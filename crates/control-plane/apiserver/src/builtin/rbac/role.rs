//! Role, ClusterRole and their bindings.

use jiff::Timestamp;
use seaworthy_schema::{Cause, ShownValue};
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::access::PolicyRule;
use crate::builtin::apps::workload::validate_selector;
use crate::object::field_access::{FieldAccess, each_mut, fill, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, KindBehaviour, ObjectPart, TableColumn};
use crate::response::table;

/// The group of these kinds.
pub const GROUP: &str = "rbac.authorization.k8s.io";

const BEHAVIOUR: KindBehaviour = KindBehaviour { creates_on_update: true, ..KindBehaviour::PLAIN };

const ROLE_COLUMNS: &[TableColumn] = &[TableColumn::NAME, TableColumn::date("Created At", "When it was created.")];

const BINDING_COLUMNS: &[TableColumn] = &[
    TableColumn::NAME,
    TableColumn::text("Role", "The role that is given."),
    TableColumn::AGE,
    TableColumn::wide("Users", "The users who have it."),
    TableColumn::wide("Groups", "The groups that have it."),
    TableColumn::wide("ServiceAccounts", "The service accounts that have it."),
];

/// The number of combinations of one verb with one path, or with one group, one resource and at most one name, that the
/// rules of an object may have. The largest roles of distributions have a few thousand. What the author of the role or
/// of its binding holds is compared with all of them, which for this many takes less than a second.
const MAX_COMBINATIONS: usize = 100_000;

/// A role in a namespace.
pub static ROLE: BuiltInKind = BuiltInKind {
    group: GROUP,
    plural: "roles",
    singular: "role",
    kind: "Role",
    definition: "io.k8s.api.rbac.v1.Role",
    name_rule: names::path_segment,
    behaviour: BEHAVIOUR,
    validate: |object, old, _| validate_rules(object, old, true),
    columns: ROLE_COLUMNS,
    cells: role_cells,
    ..BuiltInKind::BASE
};

/// A role for all namespaces, or for bindings in namespaces.
pub static CLUSTER_ROLE: BuiltInKind = BuiltInKind {
    group: GROUP,
    plural: "clusterroles",
    singular: "clusterrole",
    kind: "ClusterRole",
    is_namespaced: false,
    definition: "io.k8s.api.rbac.v1.ClusterRole",
    name_rule: names::path_segment,
    behaviour: BEHAVIOUR,
    validate: validate_cluster_role,
    columns: ROLE_COLUMNS,
    cells: role_cells,
    ..BuiltInKind::BASE
};

/// A role binding in a namespace.
pub static ROLE_BINDING: BuiltInKind = BuiltInKind {
    group: GROUP,
    plural: "rolebindings",
    singular: "rolebinding",
    kind: "RoleBinding",
    definition: "io.k8s.api.rbac.v1.RoleBinding",
    name_rule: names::path_segment,
    behaviour: BEHAVIOUR,
    defaults: fill_binding,
    validate: |object, old, _| validate_binding(object, old, true),
    columns: BINDING_COLUMNS,
    cells: binding_cells,
    ..BuiltInKind::BASE
};

/// A role binding for all namespaces.
pub static CLUSTER_ROLE_BINDING: BuiltInKind = BuiltInKind {
    group: GROUP,
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
    kind: "ClusterRoleBinding",
    is_namespaced: false,
    definition: "io.k8s.api.rbac.v1.ClusterRoleBinding",
    name_rule: names::path_segment,
    behaviour: BEHAVIOUR,
    defaults: fill_binding,
    validate: |object, old, _| validate_binding(object, old, false),
    columns: BINDING_COLUMNS,
    cells: binding_cells,
    ..BuiltInKind::BASE
};

fn validate_cluster_role(object: &Object, old: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let mut causes = validate_rules(object, old, false);
    if let Some(rule) = object.get("aggregationRule") {
        let field = "aggregationRule.clusterRoleSelectors";
        let selectors = rule.list("clusterRoleSelectors");
        if selectors.is_empty() {
            causes.push(Cause::required(
                field,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ));
        }
        for (at, selector) in selectors.iter().enumerate() {
            let problems = validate_selector(Some(selector), &format!("{field}[{at}]"));
            let is_readable = problems.is_empty();
            causes.extend(problems);
            if !is_readable {
                causes.push(Cause::invalid(format!("{field}[{at}]"), &Value::Null, "invalid label selector."));
            }
        }
    }
    causes
}

/// The rules have more combinations than [`MAX_COMBINATIONS`], from the rule on that the cause names.
///
/// Differs: the real server accepts such rules, because its only limit is the size of the object; a few kilobytes of
/// them take all of its memory when it compares them with the rules of their author. Rules that an object has already
/// stay acceptable: an aggregated role may have collected them from several roles.
pub fn excess_rules(object: &Object, old: Option<&Object>) -> Option<Cause> {
    if old.is_some_and(|old| old.get("rules") == object.get("rules")) {
        return None;
    }
    let mut sum: usize = 0;
    for (at, rule) in object.list("rules").iter().enumerate() {
        sum = sum.saturating_add(PolicyRule::read(rule).combinations());
        if sum > MAX_COMBINATIONS {
            let why = format!(
                "the rules up to this one have {sum} combinations of verbs, API groups, resources and names, and at \
                 most {MAX_COMBINATIONS} are accepted: use * for long lists, or several roles"
            );
            return Some(Cause::invalid(format!("rules[{at}]"), ShownValue::OMITTED, &why));
        }
    }
    None
}

fn validate_rules(object: &Object, old: Option<&Object>, is_namespaced: bool) -> Vec<Cause> {
    let mut causes = Vec::from_iter(excess_rules(object, old));
    for (at, rule) in object.list("rules").iter().enumerate() {
        let field = |key: &str| format!("rules[{at}].{key}");
        if rule.list("verbs").is_empty() {
            causes.push(Cause::required(field("verbs"), ""));
        }
        if !rule.list("nonResourceURLs").is_empty() {
            let urls = rule.get("nonResourceURLs").unwrap_or(&Value::Null);
            if is_namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                causes.push(Cause::invalid(field("nonResourceURLs"), urls, why));
            }
            let concerns_resources =
                ["apiGroups", "resources", "resourceNames"].iter().any(|key| !rule.list(key).is_empty());
            if concerns_resources {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                causes.push(Cause::invalid(field("nonResourceURLs"), urls, why));
            }
            continue;
        }
        for (key, why) in [
            ("apiGroups", "resource rules must supply at least one api group"),
            ("resources", "resource rules must supply at least one resource"),
        ] {
            if rule.list(key).is_empty() {
                causes.push(Cause::required(field(key), why));
            }
        }
    }
    causes
}

fn fill_binding(object: &mut Object) {
    if let Some(reference) = map_mut(object, "roleRef").filter(|reference| reference.text("apiGroup").is_empty()) {
        reference.insert("apiGroup".to_owned(), GROUP.into());
    }
    for subject in each_mut(object, "subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn validate_binding(object: &Object, old: Option<&Object>, is_namespaced: bool) -> Vec<Cause> {
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let mut causes = Vec::new();
    let reference = object.get("roleRef").unwrap_or(&Value::Null);
    if reference.text("apiGroup") != GROUP {
        causes.push(Cause::not_supported("roleRef.apiGroup", reference.text("apiGroup"), &[GROUP]));
    }
    if !kinds.contains(&reference.text("kind")) {
        causes.push(Cause::not_supported("roleRef.kind", reference.text("kind"), kinds));
    }
    if reference.text("name").is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    for (at, subject) in object.list("subjects").iter().enumerate() {
        let field = |key: &str| format!("subjects[{at}].{key}");
        let group = subject.text("apiGroup");
        match subject.text("kind") {
            "ServiceAccount" => {
                if !subject.text("name").is_empty() {
                    let name = subject.text("name");
                    let problems = names::dns_subdomain(name);
                    causes.extend(problems.iter().map(|why| Cause::invalid(field("name"), name, why)));
                }
                if !group.is_empty() {
                    causes.push(Cause::not_supported(field("apiGroup"), group, &[""]));
                }
                // In a RoleBinding, the namespace of an account defaults to its own.
                if !is_namespaced && subject.text("namespace").is_empty() {
                    causes.push(Cause::required(field("namespace"), ""));
                }
            }
            "User" | "Group" => {
                if group != GROUP {
                    causes.push(Cause::not_supported(field("apiGroup"), group, &[GROUP]));
                }
            }
            kind => causes.push(Cause::not_supported(field("kind"), kind, &["ServiceAccount", "User", "Group"])),
        }
        if subject.text("name").is_empty() {
            causes.push(Cause::required(field("name"), ""));
        }
    }
    if old.is_some_and(|old| old.get("roleRef") != object.get("roleRef")) {
        causes.push(Cause::invalid("roleRef", reference, "field is immutable"));
    }
    causes
}

fn role_cells(object: &Object, _: Timestamp) -> Vec<Value> {
    vec![object.name().into(), object.meta_text("creationTimestamp").into()]
}

fn binding_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let reference = object.get("roleRef").unwrap_or(&Value::Null);
    let names = |kind: &str| -> Value {
        let subjects = object.list("subjects").iter().filter(|subject| subject.text("kind") == kind);
        let names = subjects.map(|subject| match (kind, subject.text("namespace")) {
            ("ServiceAccount", namespace) => format!("{namespace}/{}", subject.text("name")),
            _ => subject.text("name").to_owned(),
        });
        names.collect::<Vec<_>>().join(", ").into()
    };
    vec![
        object.name().into(),
        format!("{}/{}", reference.text("kind"), reference.text("name")).into(),
        table::age(object, now),
        names("User"),
        names("Group"),
        names("ServiceAccount"),
    ]
}

/// The rules that allow everything: the author of an aggregated role must have them.
pub fn everything() -> Value {
    json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[rstest]
    #[case(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]), &[])]
    #[case(json!([{"apiGroups": [""], "resources": ["pods"]}]), &["rules[0].verbs"])]
    #[case(json!([{"verbs": ["get"]}]), &["rules[0].apiGroups", "rules[0].resources"])]
    #[case(json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}]), &["rules[0].nonResourceURLs"])]
    fn rules_of_a_role_are_complete_and_about_resources(#[case] rules: Value, #[case] fields: &[&str]) {
        let causes = validate_rules(&object(json!({"rules": rules})), None, true);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[rstest]
    #[case(json!({"kind": "Role", "name": "r"}), json!([{"kind": "User", "name": "ann"}]), true, &[])]
    #[case(json!({"kind": "Role", "name": "r"}), json!([{"kind": "Robot", "name": "x"}]), true, &["subjects[0].kind"])]
    #[case(json!({"kind": "Rule", "name": ""}), json!([]), true, &["roleRef.kind", "roleRef.name"])]
    #[case(json!({"kind": "Role", "name": "r"}), json!([{"kind": "ServiceAccount", "name": "x"}]), true, &[])]
    #[case(json!({"kind": "ClusterRole", "name": "r"}), json!([{"kind": "ServiceAccount", "name": "x"}]), false, &["subjects[0].namespace"])]
    fn binding_names_a_role_and_those_who_get_it(
        #[case] reference: Value,
        #[case] subjects: Value,
        #[case] is_namespaced: bool,
        #[case] fields: &[&str],
    ) {
        let mut binding = object(json!({"roleRef": reference, "subjects": subjects}));
        fill_binding(&mut binding);
        let causes = validate_binding(&binding, None, is_namespaced);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    /// A rule with as many combinations as these lists have together.
    fn long(verbs: usize, groups: usize, resources: usize, names: usize) -> Value {
        let words = |count: usize| (0..count).map(|number| format!("w{number}")).collect::<Vec<_>>();
        json!({"verbs": words(verbs), "apiGroups": words(groups), "resources": words(resources),
            "resourceNames": words(names)})
    }

    #[rstest]
    #[case::as_many_as_possible(json!([long(100, 100, 10, 0)]), None)]
    #[case::one_more(json!([long(1, 1, 1, 0), long(100, 100, 10, 1)]), Some("rules[1]"))]
    #[case::names_count(json!([long(10, 10, 100, 11), long(1, 1, 1, 0)]), Some("rules[0]"))]
    #[case::more_than_a_number_has(json!([long(9000, 9000, 9000, 9000), long(9000, 9000, 9000, 9000)]), Some("rules[0]"))]
    fn rules_have_a_limited_number_of_combinations(#[case] rules: Value, #[case] field: Option<&str>) {
        let causes = validate_rules(&object(json!({"rules": rules})), None, true);
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, Vec::from_iter(field));
    }

    #[test]
    fn rules_that_an_object_has_already_stay_acceptable() {
        let old = object(json!({"rules": [long(500, 500, 500, 0)]}));
        let mut labelled = old.clone();
        labelled.insert("metadata".to_owned(), json!({"labels": {"a": "b"}}));
        assert_eq!(validate_rules(&labelled, Some(&old), true), []);
    }

    #[test]
    fn role_of_a_binding_cannot_change() {
        let binding = |name: &str| object(json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name}}));
        assert_eq!(validate_binding(&binding("b"), Some(&binding("a")), true)[0].field, "roleRef");
    }
}
