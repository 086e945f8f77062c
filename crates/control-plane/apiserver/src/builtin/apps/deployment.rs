//! Deployment: replicated pods with rolling updates. Stored and served; no controller of ours acts on it.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::{Value, json};
use std::borrow::Cow;

use crate::builtin::apps::workload::{
    fill_template, is_everything, validate_always, validate_count_or_percent, validate_counts, validate_not_above_all,
    validate_same_selector, validate_selector, validate_template, wide_cells,
};
use crate::builtin::core::pod_defaults::fill_condition_times;
use crate::builtin::rules::pod::not_negative;
use crate::object::field_access::{FieldAccess, fill, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, READ_WRITE_VERBS, STATUS, ScalePaths, Subresource,
    SubresourceAction, TableColumn, isolate_status_from_creation,
};
use crate::response::table;

pub static DEPLOYMENT: BuiltInKind = BuiltInKind {
    group: "apps",
    plural: "deployments",
    singular: "deployment",
    kind: "Deployment",
    short_names: &["deploy"],
    categories: &["all"],
    subresources: &[
        Subresource {
            name: "scale",
            kind: ("autoscaling", "v1", "Scale"),
            verbs: READ_WRITE_VERBS,
            action: SubresourceAction::Scale(ScalePaths {
                spec_replicas: Cow::Borrowed("spec.replicas"),
                status_replicas: Cow::Borrowed("status.replicas"),
                selector: Cow::Borrowed("spec.selector"),
            }),
        },
        STATUS,
    ],
    definition: "io.k8s.api.apps.v1.Deployment",
    behaviour: KindBehaviour { generation: GenerationPolicy::SpecChanges, ..KindBehaviour::PLAIN },
    defaults,
    prepare: isolate_status_from_creation,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Ready", "How many of the wanted pods are ready."),
        TableColumn::text("Up-to-date", "How many pods are of today's template."),
        TableColumn::text("Available", "How many pods have been ready long enough."),
        TableColumn::AGE,
        TableColumn::wide("Containers", "The names of the containers."),
        TableColumn::wide("Images", "The images of the containers."),
        TableColumn::wide("Selector", "Which pods are its own."),
    ],
    cells,
    ..BuiltInKind::BASE
};

fn defaults(object: &mut Object) {
    fill_template(object);
    if let Some(spec) = map_mut(object, "spec") {
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "progressDeadlineSeconds", 600);
        fill(spec, "strategy", json!({}));
    }
    if let Some(strategy) = map_mut(object, "spec.strategy") {
        if strategy.text("type").is_empty() {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
        }
        if strategy.text("type") == "RollingUpdate" {
            fill(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = map_mut(strategy, "rollingUpdate") {
                fill(rolling, "maxUnavailable", "25%");
                fill(rolling, "maxSurge", "25%");
            }
        }
    }
    fill_condition_times(object, &["lastTransitionTime", "lastUpdateTime"]);
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    if part == ObjectPart::Status {
        return validate_status(object, old);
    }
    let mut causes = Vec::new();
    causes.extend(not_negative("spec.replicas", object.number("spec.replicas")));
    let selector = object.at("spec.selector");
    if selector.is_none() {
        causes.push(Cause::required("spec.selector", ""));
    }
    causes.extend(validate_selector(selector, "spec.selector"));
    if is_everything(selector) {
        causes.push(Cause::invalid("spec.selector", &json!({}), "empty selector is invalid for deployment"));
    }
    causes.extend(validate_template(object));
    causes.extend(validate_always(object));
    if object.at("spec.template.spec.activeDeadlineSeconds").is_some() {
        let why = "activeDeadlineSeconds in ReplicaSet is not Supported";
        causes.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", why));
    }
    causes.extend(validate_strategy(object));
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        let field = format!("spec.{key}");
        causes.extend(not_negative(&field, object.number(&field)));
    }
    let (deadline, ready) = (object.number("spec.progressDeadlineSeconds"), object.number("spec.minReadySeconds"));
    if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready.unwrap_or(0)) {
        let why = "must be greater than minReadySeconds";
        causes.push(Cause::invalid("spec.progressDeadlineSeconds", deadline, why));
    }
    causes.extend(validate_same_selector(object, old));
    causes
}

fn validate_status(object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let keys = ["observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
    let mut causes = validate_counts(object, &keys);
    causes.extend(validate_counts(object, &["unavailableReplicas", "terminatingReplicas", "collisionCount"]));
    let count = |key: &str| object.number(&format!("status.{key}")).unwrap_or(0);
    for key in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        if count(key) > count("replicas") {
            let why = "cannot be greater than status.replicas";
            causes.push(Cause::invalid(format!("status.{key}"), count(key), why));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        causes.push(Cause::invalid("status.availableReplicas", count("availableReplicas"), why));
    }
    let before = old.and_then(|old| old.number("status.collisionCount"));
    if before.is_some_and(|before| count("collisionCount") < before) {
        causes.push(Cause::invalid("status.collisionCount", count("collisionCount"), "cannot be decremented"));
    }
    causes
}

fn validate_strategy(object: &Object) -> Vec<Cause> {
    let strategy = object.at("spec.strategy").unwrap_or(&Value::Null);
    match strategy.text("type") {
        "Recreate" if strategy.get("rollingUpdate").is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            vec![Cause::forbidden("spec.strategy.rollingUpdate", why)]
        }
        "Recreate" => Vec::new(),
        "RollingUpdate" => {
            let field = |key: &str| format!("spec.strategy.rollingUpdate.{key}");
            let (down, up) = (strategy.at("rollingUpdate.maxUnavailable"), strategy.at("rollingUpdate.maxSurge"));
            let mut causes: Vec<Cause> =
                validate_count_or_percent(&field("maxUnavailable"), down).into_iter().collect();
            causes.extend(validate_count_or_percent(&field("maxSurge"), up));
            causes.extend(validate_not_above_all(&field("maxUnavailable"), down));
            let is_none = |value: Option<&Value>| value.is_some_and(|value| *value == 0 || *value == "0%");
            if is_none(down) && is_none(up) {
                let why = "may not be 0 when `maxSurge` is 0";
                causes.push(Cause::invalid(field("maxUnavailable"), down.unwrap_or(&Value::Null), why));
            }
            causes
        }
        _ => vec![Cause::not_supported("spec.strategy", strategy, &["Recreate", "RollingUpdate"])],
    }
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let count = |path: &str| object.number(path).unwrap_or(0);
    let mut cells = vec![
        object.name().into(),
        format!("{}/{}", count("status.readyReplicas"), count("spec.replicas")).into(),
        count("status.updatedReplicas").into(),
        count("status.availableReplicas").into(),
        table::age(object, now),
    ];
    cells.extend(wide_cells(object));
    cells
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn filled(changes: Value) -> Object {
        let mut object = json!({"metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
        }});
        for (key, value) in changes.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        let mut object = object.as_object().unwrap().clone();
        defaults(&mut object);
        object
    }

    #[rstest]
    #[case(json!({}), &[])]
    #[case(json!({"replicas": -1}), &["spec.replicas"])]
    #[case(json!({"selector": {"matchLabels": {"app": "x"}}}), &["spec.template.metadata.labels"])]
    #[case(json!({"selector": {}}), &["spec.selector"])]
    #[case(json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}), &["spec.strategy.rollingUpdate"])]
    #[case(json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}), &["spec.progressDeadlineSeconds"])]
    fn mistakes_are_named_by_field(#[case] changes: Value, #[case] fields: &[&str]) {
        let causes = validate(&filled(changes), None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn missing_fields_get_defaults() {
        let spec = &filled(json!({}))["spec"];
        assert_eq!((&spec["replicas"], &spec["progressDeadlineSeconds"]), (&json!(1), &json!(600)));
        let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
        assert_eq!(spec["strategy"], json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
    }
}
