//! Job: pods that run to completion. Stored and served; no controller of ours acts on it.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::{Value, json};

use crate::builtin::apps::workload::{
    fill_template, validate_counts, validate_same_selector, validate_selector, validate_template, wide_cells,
};
use crate::builtin::core::pod_defaults::fill_condition_times;
use crate::builtin::rules::pod::{not_negative, one_of};
use crate::object::field_access::{FieldAccess, fill, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, STATUS, SelectableField, TableColumn,
    isolate_status_from_creation,
};
use crate::response::table;

const CONTROLLER: &str = "batch.kubernetes.io/controller-uid";

/// The highest parallelism of indexed jobs.
const MAX_INDEXED_PODS: i64 = 100_000;

pub static JOB: BuiltInKind = BuiltInKind {
    group: "batch",
    plural: "jobs",
    singular: "job",
    kind: "Job",
    categories: &["all"],
    subresources: &[STATUS],
    definition: "io.k8s.api.batch.v1.Job",
    behaviour: KindBehaviour { generation: GenerationPolicy::SpecChanges, ..KindBehaviour::PLAIN },
    selectable: &[SelectableField { label: "status.successful", path: "status.succeeded", default: "0" }],
    defaults,
    prepare,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Status", "Whether it runs or how it ended."),
        TableColumn::text("Completions", "How many of the wanted pods came to a good end."),
        TableColumn::text("Duration", "How long it took or takes."),
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
        if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
            fill(spec, "completions", 1);
        }
        fill(spec, "parallelism", 1);
        fill(spec, "backoffLimit", 6);
        fill(spec, "completionMode", "NonIndexed");
        fill(spec, "suspend", false);
        fill(spec, "manualSelector", false);
        let has_policy = spec.get("podFailurePolicy").is_some();
        fill(spec, "podReplacementPolicy", if has_policy { "Failed" } else { "TerminatingOrFailed" });
    }
    fill_condition_times(object, &["lastProbeTime", "lastTransitionTime"]);
    share_labels(object);
}

/// A job without labels gets those of its pods.
fn share_labels(object: &mut Object) {
    let labels = object.at("spec.template.metadata.labels").cloned();
    if let (None, Some(labels)) = (object.metadata().get("labels"), labels) {
        object.set_meta("labels", labels);
    }
}

/// A new job selects its pods by its uid, unless it has a manual selector.
fn prepare(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    isolate_status_from_creation(object, old, part);
    if old.is_some() || object.flag("spec.manualSelector") {
        return;
    }
    let (uid, name) = (object.uid().to_owned(), object.name().to_owned());
    let Some(spec) = map_mut(object, "spec") else { return };
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if let Some(selector) = selector.as_object_mut() {
        let labels = selector.entry("matchLabels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            fill(labels, CONTROLLER, uid.as_str());
        }
    }
    let template = spec.entry("template").or_insert_with(|| json!({}));
    if let Some(template) = template.as_object_mut() {
        let metadata = template.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                for (key, value) in [
                    (CONTROLLER, &uid),
                    ("batch.kubernetes.io/job-name", &name),
                    ("controller-uid", &uid),
                    ("job-name", &name),
                ] {
                    labels.insert(key.to_owned(), value.as_str().into());
                }
            }
        }
    }
    share_labels(object);
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    if part == ObjectPart::Status {
        return validate_status(object, old);
    }
    let mut causes = Vec::new();
    if object.at("spec.selector").is_none() {
        causes.push(Cause::required("spec.selector", ""));
    }
    causes.extend(validate_selector(object.at("spec.selector"), "spec.selector"));
    if old.is_none() && !object.flag("spec.manualSelector") {
        let selector = object.at("spec.selector").unwrap_or(&Value::Null);
        if *selector != json!({"matchLabels": {CONTROLLER: object.uid()}}) {
            causes.push(Cause::invalid("spec.selector", selector, "`selector` not auto-generated"));
        }
    }
    causes.extend(validate_template(object));
    if !matches!(object.text("spec.template.spec.restartPolicy"), "OnFailure" | "Never") {
        causes.push(Cause::required("spec.template.spec.restartPolicy", "valid values: \"OnFailure\", \"Never\""));
    }
    for key in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        let field = format!("spec.{key}");
        causes.extend(not_negative(&field, object.number(&field)));
    }
    if object.text("spec.completionMode") == "Indexed" && object.number("spec.completions").is_none() {
        causes.push(Cause::required("spec.completions", "when completion mode is Indexed"));
    }
    causes.extend(validate_modes(object));
    causes.extend(validate_same_selector(object, old));
    if let Some(old) = old {
        for key in ["completions", "completionMode", "podFailurePolicy"] {
            let field = format!("spec.{key}");
            if object.at(&field) != old.at(&field) {
                let shown = object.at(&field).unwrap_or(&Value::Null);
                causes.push(Cause::invalid(&field, shown, "field is immutable"));
            }
        }
        // The template of a suspended job may change.
        if !old.flag("spec.suspend") && object.at("spec.template") != old.at("spec.template") {
            let shown = seaworthy_schema::ShownValue::OMITTED;
            causes.push(Cause::invalid("spec.template", shown, "field is immutable"));
        }
    }
    causes
}

/// Validates completion mode and the fields that require indexed completion.
fn validate_modes(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mode = object.text("spec.completionMode");
    if !mode.is_empty() {
        causes.extend(one_of("spec.completionMode", mode, &["NonIndexed", "Indexed"]));
    }
    let is_indexed = mode == "Indexed";
    let parallel = object.number("spec.parallelism").unwrap_or(0);
    if is_indexed && parallel > MAX_INDEXED_PODS {
        let why = format!("must be less than or equal to {MAX_INDEXED_PODS} when completion mode is Indexed");
        causes.push(Cause::invalid("spec.parallelism", parallel, &why));
    }
    let (each, most) = (object.number("spec.backoffLimitPerIndex"), object.number("spec.maxFailedIndexes"));
    let needs_index = "requires indexed completion mode";
    if let (Some(each), false) = (each, is_indexed) {
        causes.push(Cause::invalid("spec.backoffLimitPerIndex", each, needs_index));
    }
    if let Some(most) = most {
        if each.is_none() {
            causes.push(Cause::required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"));
        }
        if !is_indexed {
            causes.push(Cause::invalid("spec.maxFailedIndexes", most, needs_index));
        }
    }
    if let (Some(policy), false) = (object.at("spec.successPolicy"), is_indexed) {
        causes.push(Cause::invalid("spec.successPolicy", policy, needs_index));
    }
    let owner = object.text("spec.managedBy");
    let is_path =
        |name: &str| name.split_once('/').is_some_and(|(domain, path)| !domain.is_empty() && !path.is_empty());
    if !owner.is_empty() && !is_path(owner) {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        causes.push(Cause::invalid("spec.managedBy", owner, why));
    }
    let replacement = object.text("spec.podReplacementPolicy");
    if !replacement.is_empty() {
        let known = ["Failed", "TerminatingOrFailed"];
        causes.extend(one_of("spec.podReplacementPolicy", replacement, &known));
    }
    for (at, rule) in object.list("spec.podFailurePolicy.rules").iter().enumerate() {
        let field = format!("spec.podFailurePolicy.rules[{at}]");
        let known = ["Count", "FailIndex", "FailJob", "Ignore"];
        causes.extend(one_of(&format!("{field}.action"), rule.text("action"), &known));
        let Some(codes) = rule.get("onExitCodes") else { continue };
        causes.extend(one_of(&format!("{field}.onExitCodes.operator"), codes.text("operator"), &["In", "NotIn"]));
        for (index, code) in codes.list("values").iter().enumerate() {
            if *code == 0 && codes.text("operator") == "In" {
                let why = "must not be 0 for the In operator";
                causes.push(Cause::invalid(format!("{field}.onExitCodes.values[{index}]"), 0, why));
            }
        }
    }
    causes
}

fn validate_status(object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let mut causes = validate_counts(object, &["active", "succeeded", "failed", "ready", "terminating"]);
    let count = |object: &Object, key: &str| object.number(&format!("status.{key}")).unwrap_or(0);
    for key in ["succeeded", "failed"] {
        if old.is_some_and(|old| count(object, key) < count(old, key)) {
            let why = format!("cannot decrease the {key} counter");
            causes.push(Cause::invalid(format!("status.{key}"), count(object, key), &why));
        }
    }
    for (end, before) in [("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")] {
        if has_condition(object, end)
            && !has_condition(object, before)
            && old.is_some_and(|old| !has_condition(old, end))
        {
            let why = format!("cannot set {end}=True condition without the {before}=true condition");
            causes.push(Cause::invalid("status.conditions", seaworthy_schema::ShownValue::OMITTED, &why));
        }
    }
    causes
}

fn has_condition(object: &Object, kind: &str) -> bool {
    object.list("status.conditions").iter().any(|one| one.text("type") == kind && one.text("status") == "True")
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let done = object.number("status.succeeded").unwrap_or(0);
    let completions = match (object.number("spec.completions"), object.number("spec.parallelism").unwrap_or(1)) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    };
    let holds = |kind: &str| {
        let conditions = object.list("status.conditions").iter();
        conditions.into_iter().any(|one| one.text("type") == kind && one.text("status") == "True")
    };
    let state = match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if object.is_deleting() => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let (start, end) = (object.text("status.startTime"), object.text("status.completionTime"));
    let duration = match (start, end.parse::<Timestamp>()) {
        ("", _) => String::new(),
        (start, Ok(end)) => table::since(start, end),
        (start, Err(_)) => table::since(start, now),
    };
    let mut cells =
        vec![object.name().into(), state.into(), completions.into(), duration.into(), table::age(object, now)];
    cells.extend(wide_cells(object));
    cells
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn made(changes: Value) -> Object {
        let mut object = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]
        }}}});
        for (key, value) in changes.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        let mut object = object.as_object().unwrap().clone();
        prepare(&mut object, None, ObjectPart::Main);
        defaults(&mut object);
        object
    }

    #[test]
    fn job_finds_its_pods_by_its_uid() {
        let job = made(json!({}));
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {CONTROLLER: "u"}}));
        assert_eq!(job.text("spec.template.metadata.labels.job-name"), "a");
        assert!(validate(&job, None, ObjectPart::Main).is_empty());
    }

    #[rstest]
    #[case(json!({"parallelism": -1}), "spec.parallelism")]
    #[case(json!({"completionMode": "Indexed", "parallelism": 2}), "spec.completions")]
    #[case(
        json!({"template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}}),
        "spec.template.spec.restartPolicy"
    )]
    fn mistakes_are_named_by_field(#[case] changes: Value, #[case] field: &str) {
        let causes = validate(&made(changes), None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, [field]);
    }

    #[test]
    fn template_of_a_job_at_work_cannot_change() {
        let old = made(json!({}));
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["containers"][0]["image"] = "other".into();
        assert_eq!(validate(&new, Some(&old), ObjectPart::Main)[0].field, "spec.template");
    }
}
