//! ValidatingAdmissionPolicy and its binding: validation rules that administrators define.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::{Value, json};

use crate::admission::AdmissionPolicy;
use crate::builtin::apps::workload::validate_selector;
use crate::builtin::rules::pod::one_of;
use crate::object::field_access::{FieldAccess, each_mut, fill, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, STATUS, TableColumn, isolate_status_from_creation,
};
use crate::response::table;

const GROUP: &str = "admissionregistration.k8s.io";

const BEHAVIOUR: KindBehaviour =
    KindBehaviour { updates_unconditionally: false, generation: GenerationPolicy::SpecChanges, ..KindBehaviour::PLAIN };

/// The rules.
pub static VALIDATING_ADMISSION_POLICY: BuiltInKind = BuiltInKind {
    group: GROUP,
    plural: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    kind: "ValidatingAdmissionPolicy",
    is_namespaced: false,
    categories: &["api-extensions"],
    subresources: &[STATUS],
    definition: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    behaviour: BEHAVIOUR,
    defaults: fill_policy,
    prepare: isolate_status_from_creation,
    validate: validate_policy,
    columns: &[
        TableColumn::NAME,
        TableColumn::count("Validations", "How many rules it has."),
        TableColumn::text("ParamKind", "The kind of the objects that it is set up by."),
        TableColumn::AGE,
    ],
    cells: |object, now| {
        let kind = object.at("spec.paramKind");
        let kind = kind.map(|kind| format!("{}/{}", kind.text("apiVersion"), kind.text("kind")));
        vec![
            object.name().into(),
            object.list("spec.validations").len().into(),
            kind.unwrap_or_else(|| "<unset>".to_owned()).into(),
            table::age(object, now),
        ]
    },
    ..BuiltInKind::BASE
};

/// Where the rules hold.
pub static VALIDATING_ADMISSION_POLICY_BINDING: BuiltInKind = BuiltInKind {
    group: GROUP,
    plural: "validatingadmissionpolicybindings",
    singular: "validatingadmissionpolicybinding",
    kind: "ValidatingAdmissionPolicyBinding",
    is_namespaced: false,
    categories: &["api-extensions"],
    definition: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    behaviour: BEHAVIOUR,
    defaults: |object| fill_match(object, "spec.matchResources"),
    validate: validate_binding,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("PolicyName", "The rules."),
        TableColumn::text("ParamRef", "The object that they are set up by."),
        TableColumn::AGE,
    ],
    cells: binding_cells,
    ..BuiltInKind::BASE
};

fn fill_policy(object: &mut Object) {
    if let Some(spec) = map_mut(object, "spec") {
        fill(spec, "failurePolicy", "Fail");
    }
    fill_match(object, "spec.matchConstraints");
}

fn fill_match(object: &mut Object, path: &str) {
    let Some(constraints) = map_mut(object, path) else { return };
    fill(constraints, "matchPolicy", "Equivalent");
    fill(constraints, "namespaceSelector", json!({}));
    fill(constraints, "objectSelector", json!({}));
    for key in ["resourceRules", "excludeResourceRules"] {
        for rule in each_mut(constraints, key) {
            fill(rule, "scope", "*");
        }
    }
}

fn validate_policy(object: &Object, _: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    if part == ObjectPart::Status {
        return Vec::new();
    }
    let mut causes = Vec::new();
    if object.list("spec.validations").is_empty() && object.list("spec.auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.push(Cause::required("spec.validations", why));
        causes.push(Cause::required("spec.auditAnnotations", why));
    }
    for (at, rule) in object.list("spec.validations").iter().enumerate() {
        if rule.text("expression").trim().is_empty() {
            causes.push(Cause::required(format!("spec.validations[{at}].expression"), "expression is not specified"));
        }
    }
    for list in ["matchConditions", "variables"] {
        for (at, entry) in object.list(&format!("spec.{list}")).iter().enumerate() {
            for key in ["name", "expression"] {
                if entry.text(key).trim().is_empty() {
                    causes.push(Cause::required(format!("spec.{list}[{at}].{key}"), ""));
                }
            }
        }
    }
    causes.extend(one_of("spec.failurePolicy", object.text("spec.failurePolicy"), &["Fail", "Ignore"]));
    match object.map("spec.matchConstraints") {
        None => causes.push(Cause::required("spec.matchConstraints", "")),
        Some(constraints) => {
            if constraints.list("resourceRules").is_empty() {
                causes.push(Cause::required("spec.matchConstraints.resourceRules", ""));
            }
            causes.extend(validate_match(constraints, "spec.matchConstraints"));
        }
    }
    causes.extend(AdmissionPolicy::mistakes(object));
    if let Some(kind) = object.at("spec.paramKind") {
        for key in ["apiVersion", "kind"] {
            if kind.text(key).is_empty() {
                causes.push(Cause::required(format!("spec.paramKind.{key}"), ""));
            }
        }
    }
    causes
}

fn validate_match(constraints: &Object, field: &str) -> Vec<Cause> {
    let policy = constraints.text("matchPolicy");
    let mut causes: Vec<Cause> =
        one_of(&format!("{field}.matchPolicy"), policy, &["Equivalent", "Exact"]).into_iter().collect();
    for key in ["namespaceSelector", "objectSelector"] {
        causes.extend(validate_selector(constraints.get(key), &format!("{field}.{key}")));
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (at, rule) in constraints.list(list).iter().enumerate() {
            for key in ["operations", "apiGroups", "apiVersions", "resources"] {
                if rule.list(key).is_empty() {
                    causes.push(Cause::required(format!("{field}.{list}[{at}].{key}"), ""));
                }
            }
            for (index, operation) in rule.list("operations").iter().enumerate() {
                let words = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
                let field = format!("{field}.{list}[{at}].operations[{index}]");
                causes.extend(one_of(&field, operation.as_str().unwrap_or_default(), &words));
            }
        }
    }
    causes
}

fn validate_binding(object: &Object, _: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    if object.text("spec.policyName").is_empty() {
        causes.push(Cause::required("spec.policyName", ""));
    }
    let actions = object.list("spec.validationActions");
    if actions.is_empty() {
        causes.push(Cause::required("spec.validationActions", "at least one validation action is required"));
    }
    for (at, action) in actions.iter().enumerate() {
        let field = format!("spec.validationActions[{at}]");
        causes.extend(one_of(&field, action.as_str().unwrap_or_default(), &["Audit", "Deny", "Warn"]));
        if actions[..at].contains(action) {
            causes.push(Cause::duplicate(field, action));
        }
    }
    let has = |word: &str| actions.iter().any(|action| action == word);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        causes.push(Cause::invalid("spec.validationActions", &Value::from(actions), why));
    }
    if let Some(constraints) = object.map("spec.matchResources") {
        causes.extend(validate_match(constraints, "spec.matchResources"));
    }
    causes
}

fn binding_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let reference = object.at("spec.paramRef").map(|reference| match reference.text("namespace") {
        "" if reference.text("name").is_empty() => "<selector>".to_owned(),
        "" => reference.text("name").to_owned(),
        namespace => format!("{namespace}/{}", reference.text("name")),
    });
    vec![
        object.name().into(),
        object.text("spec.policyName").into(),
        reference.unwrap_or_else(|| "<unset>".to_owned()).into(),
        table::age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(spec: Value) -> Object {
        json!({"spec": spec}).as_object().unwrap().clone()
    }

    #[rstest]
    #[case(json!({}), &["spec.validations", "spec.auditAnnotations", "spec.matchConstraints"])]
    #[case(
        json!({"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [{"operations": ["CREATE"],
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}}),
        &[]
    )]
    #[case(
        json!({"validations": [{"expression": " "}], "matchConstraints": {"resourceRules": [{"operations": ["MAKE"],
            "apiGroups": [""], "apiVersions": ["v1"]}]}}),
        &["spec.validations[0].expression", "spec.matchConstraints.resourceRules[0].resources",
            "spec.matchConstraints.resourceRules[0].operations[0]"]
    )]
    fn policy_is_refused_with_the_fields_that_are_wrong(#[case] spec: Value, #[case] fields: &[&str]) {
        let mut object = object(spec);
        fill_policy(&mut object);
        let causes = validate_policy(&object, None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[rstest]
    #[case(json!({"policyName": "p", "validationActions": ["Deny"]}), &[])]
    #[case(json!({}), &["spec.policyName", "spec.validationActions"])]
    #[case(json!({"policyName": "p", "validationActions": ["Deny", "Warn"]}), &["spec.validationActions"])]
    #[case(json!({"policyName": "p", "validationActions": ["Audit", "Audit"]}), &["spec.validationActions[1]"])]
    fn binding_is_refused_with_the_fields_that_are_wrong(#[case] spec: Value, #[case] fields: &[&str]) {
        let causes = validate_binding(&object(spec), None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
