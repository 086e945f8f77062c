//! DaemonSet: a pod on every node that it selects.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::{Value, json};

use crate::builtin::apps::workload::{
    fill_template, is_everything, judge_always, judge_count_or_percent, judge_counts, judge_not_above_all,
    judge_same_selector, judge_selector, judge_template, wide_cells,
};
use crate::builtin::core::pod_defaults::fill_condition_times;
use crate::builtin::rules::pod::not_negative;
use crate::object::reach::{Reach, fill, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::kind::{Column, Generation, Kind, Part, STATUS, Ways, keep_parts_apart_from_the_start};
use crate::response::table;

/// The kind.
pub static DAEMON_SET: Kind = Kind {
    group: "apps",
    plural: "daemonsets",
    singular: "daemonset",
    kind: "DaemonSet",
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[STATUS],
    definition: "io.k8s.api.apps.v1.DaemonSet",
    ways: Ways { generation: Generation::Wishes, ..Ways::PLAIN },
    defaults,
    prepare,
    validate,
    columns: &[
        Column::NAME,
        Column::count("Desired", "How many nodes should have its pod."),
        Column::count("Current", "How many nodes that should have its pod have it."),
        Column::count("Ready", "How many of these pods are ready."),
        Column::count("Up-to-date", "How many nodes have the pod of today's template."),
        Column::count("Available", "How many pods have been ready long enough."),
        Column::shown("Node Selector", "Which nodes should have its pod."),
        Column::AGE,
        Column::wide("Containers", "The names of the containers."),
        Column::wide("Images", "The images of the containers."),
        Column::wide("Selector", "Which pods are its own."),
    ],
    cells,
    ..Kind::BASE
};

/// The annotation in which the number of templates so far survives from older versions of the kind.
const TEMPLATES: &str = "deprecated.daemonset.template.generation";

/// Counts the templates. What a writer says about the number is not asked.
fn prepare(object: &mut Object, old: Option<&Object>, part: Part) {
    keep_parts_apart_from_the_start(object, old, part);
    let count = |object: &Object| {
        let annotations = object.metadata().map("annotations");
        let said = annotations.and_then(|all| all.get(TEMPLATES)).and_then(Value::as_str);
        said.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0)
    };
    let number = match old {
        None => 1,
        Some(old) if part == Part::Main && old.at("spec.template") != object.at("spec.template") => count(old) + 1,
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

fn validate(object: &Object, old: Option<&Object>, part: Part) -> Vec<Cause> {
    if part == Part::Status {
        let keys = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
        let mut causes = judge_counts(object, &keys);
        let keys = ["observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"];
        causes.extend(judge_counts(object, &keys));
        causes.extend(judge_counts(object, &["collisionCount"]));
        return causes;
    }
    let mut causes = Vec::new();
    let selector = object.at("spec.selector");
    causes.extend(judge_selector(selector, "spec.selector"));
    if is_everything(selector) {
        causes.push(Cause::invalid("spec.selector", &json!({}), "empty selector is invalid for daemonset"));
    }
    causes.extend(judge_template(object));
    causes.extend(judge_always(object));
    if object.at("spec.template.spec.activeDeadlineSeconds").is_some() {
        let why = "activeDeadlineSeconds in DaemonSet is not Supported";
        causes.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", why));
    }
    causes.extend(not_negative("spec.minReadySeconds", object.number("spec.minReadySeconds")));
    causes.extend(not_negative("spec.revisionHistoryLimit", object.number("spec.revisionHistoryLimit")));
    causes.extend(judge_strategy(object));
    causes.extend(judge_same_selector(object, old));
    causes
}

fn judge_strategy(object: &Object) -> Vec<Cause> {
    let strategy = object.at("spec.updateStrategy").unwrap_or(&Value::Null);
    match strategy.text("type") {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => {
            let field = |key: &str| format!("spec.updateStrategy.rollingUpdate.{key}");
            let (down, up) = (strategy.at("rollingUpdate.maxUnavailable"), strategy.at("rollingUpdate.maxSurge"));
            let mut causes: Vec<Cause> = judge_count_or_percent(&field("maxUnavailable"), down).into_iter().collect();
            causes.extend(judge_count_or_percent(&field("maxSurge"), up));
            causes.extend(judge_not_above_all(&field("maxUnavailable"), down));
            causes.extend(judge_not_above_all(&field("maxSurge"), up));
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
        // What the schema always puts there.
        spec.entry("template").or_insert_with(|| json!({"spec": {"restartPolicy": "Always", "dnsPolicy": "Default"}}));
        let causes = validate(&object, None, Part::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn selector_cannot_change() {
        let old = filled(json!({"selector": {"matchLabels": {"app": "a"}}, "template": template()}));
        let mut other = template();
        other["metadata"]["labels"]["app"] = "b".into();
        let new = filled(json!({"selector": {"matchLabels": {"app": "b"}}, "template": other}));
        let causes = validate(&new, Some(&old), Part::Main);
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
