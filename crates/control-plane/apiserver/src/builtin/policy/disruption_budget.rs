//! PodDisruptionBudget: limits how many pods of a set may be evicted at a time.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::builtin::apps::workload::{validate_count_or_percent, validate_not_above_all, validate_selector};
use crate::builtin::rules::pod::{not_negative, one_of};
use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, STATUS, TableColumn, isolate_status_from_creation,
};
use crate::response::table;

pub static POD_DISRUPTION_BUDGET: BuiltInKind = BuiltInKind {
    group: "policy",
    plural: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    kind: "PodDisruptionBudget",
    short_names: &["pdb"],
    subresources: &[STATUS],
    definition: "io.k8s.api.policy.v1.PodDisruptionBudget",
    behaviour: KindBehaviour {
        updates_unconditionally: false,
        generation: GenerationPolicy::SpecChanges,
        ..KindBehaviour::PLAIN
    },
    prepare: isolate_status_from_creation,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Min Available", "How many pods must be there."),
        TableColumn::text("Max Unavailable", "How many pods may be missing."),
        TableColumn::count("Allowed Disruptions", "How many pods may be evicted now."),
        TableColumn::AGE,
    ],
    cells,
    ..BuiltInKind::BASE
};

fn validate(object: &Object, _: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    if part == ObjectPart::Status {
        for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            let field = format!("status.{key}");
            causes.extend(not_negative(&field, object.number(&field)));
        }
        for (at, condition) in object.list("status.conditions").iter().enumerate() {
            let field = |key: &str| format!("status.conditions[{at}].{key}");
            causes.extend(one_of(&field("status"), condition.text("status"), &["False", "True", "Unknown"]));
            for key in ["lastTransitionTime", "reason"] {
                if condition.text(key).is_empty() {
                    causes.push(Cause::required(field(key), ""));
                }
            }
        }
        return causes;
    }
    let (least, most) = (object.at("spec.minAvailable"), object.at("spec.maxUnavailable"));
    if least.is_some() && most.is_some() {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        causes.push(Cause::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for (field, value) in [("spec.minAvailable", least), ("spec.maxUnavailable", most)] {
        causes.extend(validate_count_or_percent(field, value));
        causes.extend(validate_not_above_all(field, value));
    }
    causes.extend(validate_selector(object.at("spec.selector"), "spec.selector"));
    let policy = object.text("spec.unhealthyPodEvictionPolicy");
    if !matches!(policy, "" | "IfHealthyBudget" | "AlwaysAllow") {
        let words = ["AlwaysAllow", "IfHealthyBudget"];
        causes.push(Cause::not_supported("spec.unhealthyPodEvictionPolicy", policy, &words));
    }
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let shown = |path: &str| match object.at(path) {
        Some(Value::String(text)) => text.clone().into(),
        Some(number) => number.to_string().into(),
        None => Value::from("N/A"),
    };
    vec![
        object.name().into(),
        shown("spec.minAvailable"),
        shown("spec.maxUnavailable"),
        object.number("status.disruptionsAllowed").unwrap_or(0).into(),
        table::age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"maxUnavailable": "20%"}), &[])]
    #[case(json!({"maxUnavailable": 1, "minAvailable": 1}), &["spec"])]
    #[case(json!({"minAvailable": "many"}), &["spec.minAvailable"])]
    #[case(json!({"minAvailable": -1}), &["spec.minAvailable"])]
    #[case(json!({"minAvailable": "101%"}), &["spec.minAvailable"])]
    #[case(json!({"unhealthyPodEvictionPolicy": "Never"}), &["spec.unhealthyPodEvictionPolicy"])]
    fn mistakes_are_named_by_field(#[case] spec: Value, #[case] fields: &[&str]) {
        let object = json!({"spec": spec}).as_object().unwrap().clone();
        let causes = validate(&object, None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
