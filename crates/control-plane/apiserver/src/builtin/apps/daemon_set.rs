//! DaemonSet: one pod on each matching node.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::{Value, json};

use crate::builtin::apps::workload::{
    fill_template, is_everything, validate_always, validate_count_or_percent, validate_counts, validate_not_above_all,
    validate_same_selector, validate_selector, validate_template, wide_cells,
};
use crate::builtin::core::pod_defaults::fill_condition_times;
use crate::builtin::rules::pod::not_negative;
use crate::object::field_access::{FieldAccess, fill, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, STATUS, TableColumn, isolate_status_from_creation,
};
use crate::response::table;

pub static DAEMON_SET: BuiltInKind = BuiltInKind {
    group: "apps",
    plural: "daemonsets",
    singular: "daemonset",
    kind: "DaemonSet",
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[STATUS],
    definition: "io.k8s.api.apps.v1.DaemonSet",
    behaviour: KindBehaviour { generation: GenerationPolicy::SpecChanges, ..KindBehaviour::PLAIN },
    defaults,
    prepare,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::count("Desired", "How many nodes should have its pod."),
        TableColumn::count("Current", "How many nodes that should have its pod have it."),
        TableColumn::count("Ready", "How many of these pods are ready."),
        TableColumn::count("Up-to-date", "How many nodes have the pod of today's template."),
        TableColumn::count("Available", "How many pods have been ready long enough."),
        TableColumn::text("Node Selector", "Which nodes should have its pod."),
        TableColumn::AGE,
        TableColumn::wide("Containers", "The names of the containers."),
        TableColumn::wide("Images", "The images of the containers."),
        TableColumn::wide("Selector", "Which pods are its own."),
    ],
    cells,
    ..BuiltInKind::BASE
};

/// The annotation with the template generation, kept from older API versions.
const TEMPLATES: &str = "deprecated.daemonset.template.generation";

/// Sets the template generation; the value of the client is ignored.
fn prepare(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    isolate_status_from_creation(object, old, part);
    let count = |object: &Object| {
        let annotations = object.metadata().map("annotations");
        let recorded = annotations.and_then(|all| all.get(TEMPLATES)).and_then(Value::as_str);
        recorded.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0)
    };
    let number = match old {
        None => 1,
        Some(old) if part == ObjectPart::Main && old.at("spec.template") != object.at("spec.template") => {
            count(old) + 1
        }
        Some(old) => count(old),
    };
    write_count(object, number);
}

fn write_count(object: &mut Object, number: i64) {
    let annotations = object.metadata_mut().entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(TEMPLATES.to_owned(), number.to_string().into());
    }
}

fn defaults(object: &mut Object) {
    if object.metadata().map("annotations").is_none_or(|all| !all.contains_key(TEMPLATES)) {
        write_count(object, 0);
    }
    fill_template(object);
    if let Some(spec) = map_mut(object, "spec") {
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "updateStrategy", json!({}));
    }
    if let Some(strategy) = map_mut(object, "spec.updateStrategy") {
        if strategy.text("type").is_empty() {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
        }
        if strategy.text("type") == "RollingUpdate" {
            fill(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = map_mut(strategy, "rollingUpdate") {
                fill(rolling, "maxUnavailable", 1);
            }
        }
        if let Some(rolling) = map_mut(strategy, "rollingUpdate") {
            fill(rolling, "maxSurge", 0);
        }
    }
    fill_condition_times(object, &["lastTransitionTime"]);
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    if part == ObjectPart::Status {
        let keys = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
        let mut causes = validate_counts(object, &keys);
        let keys = ["observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"];
        causes.extend(validate_counts(object, &keys));
        causes.extend(validate_counts(object, &["collisionCount"]));
        return causes;
    }
    let mut causes = Vec::new();
    let selector = object.at("spec.selector");
    causes.extend(validate_selector(selector, "spec.selector"));
    if is_everything(selector) {
        causes.push(Cause::invalid("spec.selector", &json!({}), "empty selector is invalid for daemonset"));
    }
    causes.extend(validate_template(object));
    causes.extend(validate_always(object));
    if object.at("spec.template.spec.activeDeadlineSeconds").is_some() {
        let why = "activeDeadlineSeconds in DaemonSet is not Supported";
        causes.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", why));
    }
    causes.extend(not_negative("spec.minReadySeconds", object.number("spec.minReadySeconds")));
    causes.extend(not_negative("spec.revisionHistoryLimit", object.number("spec.revisionHistoryLimit")));
    causes.extend(validate_strategy(object));
    causes.extend(validate_same_selector(object, old));
    causes
}

fn validate_strategy(object: &Object) -> Vec<Cause> {
    let strategy = object.at("spec.updateStrategy").unwrap_or(&Value::Null);
    match strategy.text("type") {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => {
            let field = |key: &str| format!("spec.updateStrategy.rollingUpdate.{key}");
            let (down, up) = (strategy.at("rollingUpdate.maxUnavailable"), strategy.at("rollingUpdate.maxSurge"));
            let mut causes: Vec<Cause> =
                validate_count_or_percent(&field("maxUnavailable"), down).into_iter().collect();
            causes.extend(validate_count_or_percent(&field("maxSurge"), up));
            causes.extend(validate_not_above_all(&field("maxUnavailable"), down));
            causes.extend(validate_not_above_all(&field("maxSurge"), up));
            let is_none = |value: Option<&Value>| value.is_some_and(|value| *value == 0 || *value == "0%");
            match (is_none(down), is_none(up)) {
                (true, true) => {
                    causes.push(Cause::required(field("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
                }
                (false, false) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    causes.push(Cause::invalid(field("maxSurge"), up.unwrap_or(&Value::Null), why));
                }
                _ => {}
            }
            causes
        }
        _ => vec![Cause::not_supported("spec.updateStrategy", strategy, &["RollingUpdate", "OnDelete"])],
    }
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let count = |key: &str| Value::from(object.number(&format!("status.{key}")).unwrap_or(0));
    let mut cells = vec![
        object.name().into(),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        table::labels(object.map("spec.template.spec.nodeSelector")),
        table::age(object, now),
    ];
    cells.extend(wide_cells(object));
    cells
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn filled(spec: Value) -> Object {
        let mut object = json!({"metadata": {"name": "a"}, "spec": spec}).as_object().unwrap().clone();
        defaults(&mut object);
        object
    }

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}})
    }

    #[rstest]
    #[case(json!({"selector": {"matchLabels": {"app": "a"}}, "template": template()}), &[])]
    #[case(json!({"selector": {"matchLabels": {"app": "x"}}, "template": template()}), &["spec.template.metadata.labels"])]
    #[case(json!({}), &["spec.template.metadata.labels", "spec.template.spec.containers"])]
    #[case(
        json!({"selector": {"matchLabels": {"app": "a"}}, "template": template(), "updateStrategy": {"type": "Sideways"}}),
        &["spec.updateStrategy"]
    )]
    #[case(
        json!({"selector": {"matchLabels": {"app": "a"}}, "template": template(),
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}),
        &["spec.updateStrategy.rollingUpdate.maxUnavailable"]
    )]
    #[case(
        json!({"selector": {"matchLabels": {"app": "a"}}, "template": template(),
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}),
        &["spec.updateStrategy.rollingUpdate.maxSurge"]
    )]
    fn mistakes_are_named_by_field(#[case] spec: Value, #[case] fields: &[&str]) {
        let mut object = filled(spec);
        let spec = object.get_mut("spec").and_then(Value::as_object_mut).unwrap();
        // The defaults of the schema.
        spec.entry("template").or_insert_with(|| json!({"spec": {"restartPolicy": "Always", "dnsPolicy": "Default"}}));
        let causes = validate(&object, None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn selector_cannot_change() {
        let old = filled(json!({"selector": {"matchLabels": {"app": "a"}}, "template": template()}));
        let mut other = template();
        other["metadata"]["labels"]["app"] = "b".into();
        let new = filled(json!({"selector": {"matchLabels": {"app": "b"}}, "template": other}));
        let causes = validate(&new, Some(&old), ObjectPart::Main);
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].field, "spec.selector");
    }

    #[test]
    fn pods_are_replaced_one_by_one_unless_it_says_otherwise() {
        let object = filled(json!({"template": template()}));
        assert_eq!(
            object["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
        );
        assert_eq!(
            filled(json!({"updateStrategy": {"type": "OnDelete"}}))["spec"]["updateStrategy"],
            json!({"type": "OnDelete"})
        );
    }
}
