//! Event: something that happened to an object. One kind in two groups: the core group's form is stored, the newer
//! group names some fields differently.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::object::field_access::{FieldAccess, fill};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, KindBehaviour, ObjectPart, SelectableField, StoredAs, TableColumn};
use crate::response::table::{self, NONE};

/// The longest message.
const MAX_MESSAGE_LENGTH: usize = 1024;
/// The longest name of an instance or an action.
const MAX_WORD_LENGTH: usize = 128;

const BEHAVIOUR: KindBehaviour = KindBehaviour { creates_on_update: true, ..KindBehaviour::PLAIN };

const COLUMNS: &[TableColumn] = &[
    TableColumn::text("Last Seen", "When it happened last."),
    TableColumn::text("Type", "Whether it is cause for concern."),
    TableColumn::text("Reason", "What happened, in a word."),
    TableColumn::text("Object", "To what it happened."),
    TableColumn::wide("Subobject", "To which part of it."),
    TableColumn::wide("Source", "Who says so."),
    TableColumn::text("Message", "What happened."),
    TableColumn::wide("First Seen", "When it happened first."),
    TableColumn::wide("Count", "How often it happened."),
    TableColumn { format: "name", priority: 1, ..TableColumn::NAME },
];

/// The kind that is stored.
pub static EVENT: BuiltInKind = BuiltInKind {
    plural: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    definition: "io.k8s.api.core.v1.Event",
    behaviour: BEHAVIOUR,
    selectable: &[
        SelectableField::text("involvedObject.kind"),
        SelectableField::text("involvedObject.namespace"),
        SelectableField::text("involvedObject.name"),
        SelectableField::text("involvedObject.uid"),
        SelectableField::text("involvedObject.apiVersion"),
        SelectableField::text("involvedObject.resourceVersion"),
        SelectableField::text("involvedObject.fieldPath"),
        SelectableField::text("reason"),
        SelectableField::text("reportingComponent"),
        SelectableField { label: "source", path: "source.component", default: "" },
        SelectableField::text("type"),
    ],
    prepare: |event, _, _| {
        // These two fields are required, even if they are empty.
        for key in ["reportingComponent", "reportingInstance"] {
            fill(event, key, "");
        }
        // So are times: `kubectl get events --sort-by=.lastTimestamp` fails where one is missing.
        for key in ["eventTime", "firstTimestamp", "lastTimestamp"] {
            event.entry(key).or_insert(Value::Null);
        }
    },
    validate: |object, _, _| validate(object, "reportingComponent"),
    columns: COLUMNS,
    cells,
    ..BuiltInKind::BASE
};

/// The kind of the newer group.
pub static NEW_EVENT: BuiltInKind = BuiltInKind {
    group: "events.k8s.io",
    plural: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    definition: "io.k8s.api.events.v1.Event",
    behaviour: BEHAVIOUR,
    selectable: &[
        SelectableField { label: "regarding.kind", path: "involvedObject.kind", default: "" },
        SelectableField { label: "regarding.namespace", path: "involvedObject.namespace", default: "" },
        SelectableField { label: "regarding.name", path: "involvedObject.name", default: "" },
        SelectableField { label: "regarding.uid", path: "involvedObject.uid", default: "" },
        SelectableField { label: "regarding.apiVersion", path: "involvedObject.apiVersion", default: "" },
        SelectableField { label: "regarding.resourceVersion", path: "involvedObject.resourceVersion", default: "" },
        SelectableField { label: "regarding.fieldPath", path: "involvedObject.fieldPath", default: "" },
        SelectableField::text("reason"),
        SelectableField { label: "reportingController", path: "reportingComponent", default: "" },
        SelectableField::text("type"),
    ],
    prepare: |event, _, _| {
        for key in ["eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            event.entry(key).or_insert(Value::Null);
        }
    },
    validate: validate_new,
    columns: COLUMNS,
    cells: |object, now| cells(&AS_CORE.to_stored(object, "v1"), now),
    stored_as: Some(&AS_CORE),
    ..BuiltInKind::BASE
};

static AS_CORE: StoredAs = StoredAs {
    kind: &EVENT,
    renamed: &[
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("reportingController", "reportingComponent"),
    ],
};

fn validate_new(object: &Object, old: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let event = AS_CORE.to_stored(object, "v1");
    let mut causes = validate(&event, "reportingController");
    if let Some(series) = event.get("series").filter(|series| !series.is_null()) {
        if series.number("count").unwrap_or(0) < 2 {
            causes.push(Cause::invalid("series.count", "", "should be at least 2"));
        }
        if series.text("lastObservedTime").is_empty() {
            causes.push(Cause::required("series.lastObservedTime", ""));
        }
    }
    match old {
        None => {
            if event.text("eventTime").is_empty() {
                causes.push(Cause::required("eventTime", ""));
            }
            if !matches!(event.text("type"), "Normal" | "Warning") {
                causes.push(Cause::invalid("type", "", &format!("has invalid value: {}", event.text("type"))));
            }
            let unused = [("firstTimestamp", "firstTimestamp"), ("lastTimestamp", "lastTimestamp"), ("count", "count")];
            let sources = [("source.component", "source"), ("source.host", "source")];
            for (path, field) in unused.into_iter().chain(sources) {
                let is_set = event.at(path).is_some_and(|value| !value.is_null() && *value != 0 && *value != "");
                if is_set {
                    causes.push(Cause::invalid(field, "", "needs to be unset"));
                }
            }
        }
        Some(old) => {
            let old = AS_CORE.to_stored(old, "v1");
            let fields = ["involvedObject", "reason", "message", "firstTimestamp", "lastTimestamp", "count"];
            let others =
                ["reportingComponent", "reportingInstance", "type", "eventTime", "related", "action", "source"];
            for field in fields.into_iter().chain(others) {
                let set_value = |event: &Object| event.get(field).filter(|value| !value.is_null()).cloned();
                if set_value(&old) != set_value(&event) {
                    let shown = event.get(field).unwrap_or(&Value::Null);
                    causes.push(Cause::invalid(field, shown, "field is immutable"));
                }
            }
        }
    }
    causes
}

/// Validates events of both groups, which name the reporter field differently.
fn validate(event: &Object, reporter_field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (own, about) = (event.namespace(), event.text("involvedObject.namespace"));
    let is_new = !event.text("eventTime").is_empty();
    // Events of cluster-scoped objects are in the default namespace.
    let is_in_namespace = match (about, is_new) {
        ("", false) => matches!(own, "" | "default"),
        ("", true) => matches!(own, "" | "default" | "kube-system"),
        (about, false) => about == own,
        (_, true) => true,
    };
    if !is_in_namespace {
        causes.push(Cause::invalid("involvedObject.namespace", about, "does not match event.namespace"));
    }
    if !is_new {
        return causes;
    }
    let reporter = event.text("reportingComponent");
    if reporter.is_empty() {
        causes.push(Cause::required(reporter_field, ""));
    }
    let problems = names::qualified_name(reporter);
    causes.extend(problems.iter().map(|why| Cause::invalid(reporter_field, reporter, why)));
    for field in ["reportingInstance", "action"] {
        let text = event.text(field);
        if text.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if text.len() > MAX_WORD_LENGTH {
            causes.push(Cause::invalid(field, "", &format!("can have at most {MAX_WORD_LENGTH} characters")));
        }
    }
    if event.text("reason").is_empty() {
        causes.push(Cause::required("reason", ""));
    }
    if event.text("message").len() > MAX_MESSAGE_LENGTH {
        causes.push(Cause::invalid("message", "", &format!("can have at most {MAX_MESSAGE_LENGTH} characters")));
    }
    causes
}

fn cells(event: &Object, now: Timestamp) -> Vec<Value> {
    let first_of = |texts: &[&str]| texts.iter().find(|text| !text.is_empty()).copied().unwrap_or_default().to_owned();
    let (time, series) = (event.text("eventTime"), event.text("series.lastObservedTime"));
    let first = first_of(&[event.text("firstTimestamp"), time]);
    let last = first_of(&[series, event.text("lastTimestamp"), &first]);
    let count = [event.number("series.count"), event.number("count")].into_iter().flatten().find(|count| *count > 0);
    let object = event.get("involvedObject").cloned().unwrap_or_else(|| json!({}));
    let source = first_of(&[event.text("source.component"), event.text("reportingComponent")]);
    let host = first_of(&[event.text("source.host"), event.text("reportingInstance")]);
    let source = if host.is_empty() { source } else { format!("{source}, {host}") };
    let word = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
    let about = match (object.text("kind"), object.text("name")) {
        ("", "") => String::new(),
        (kind, name) => format!("{}/{}", kind.to_lowercase(), word(name)),
    };
    vec![
        table::since(&last, now).into(),
        event.text("type").into(),
        event.text("reason").into(),
        about.into(),
        object.text("fieldPath").into(),
        source.into(),
        event.text("message").trim().into(),
        table::since(&first, now).into(),
        count.unwrap_or(1).into(),
        event.name().into(),
    ]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn event_is_the_same_after_being_stored_under_other_names() {
        let event = object(json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"name": "n"}, "note": "m", "deprecatedCount": 2, "reportingController": "c", "reason": "r"}));
        let kept = AS_CORE.to_stored(&event, "v1");
        assert_eq!(kept["involvedObject"], json!({"name": "n"}));
        assert_eq!(kept["apiVersion"], "v1");
        assert_eq!(AS_CORE.to_served(&kept, "events.k8s.io/v1"), event);
    }

    #[test]
    fn times_are_there_whichever_group_an_event_was_written_in() {
        let mut event = object(json!({"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z"}));
        (NEW_EVENT.prepare)(&mut event, None, ObjectPart::Main);
        let kept = AS_CORE.to_stored(&event, "v1");
        assert_eq!((&kept["lastTimestamp"], &kept["firstTimestamp"]), (&Value::Null, &Value::Null));
        assert_eq!(kept["eventTime"], event["eventTime"]);
        let mut event = object(json!({"metadata": {"name": "e"}, "lastTimestamp": "2026-01-01T00:00:00Z"}));
        (EVENT.prepare)(&mut event, None, ObjectPart::Main);
        assert_eq!((&event["lastTimestamp"], &event["eventTime"]), (&json!("2026-01-01T00:00:00Z"), &Value::Null));
    }

    #[rstest]
    #[case("a", "a", true)]
    #[case("a", "b", false)]
    #[case("default", "", true)]
    #[case("a", "", false)]
    fn event_is_kept_beside_what_it_is_about(#[case] own: &str, #[case] about: &str, #[case] is_fine: bool) {
        let event = object(json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": about}}));
        assert_eq!(validate(&event, "reportingComponent").is_empty(), is_fine);
    }

    #[test]
    fn newer_group_wants_a_time_and_a_known_type() {
        let event = object(json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "type": "Odd"}));
        let causes = validate_new(&event, None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, ["eventTime", "type"]);
    }
}
