//! Event: something that happened to an object. One kind under two names: the core group's is stored, the newer
//! group's calls some fields differently.

use jiff::Timestamp;
use seaworthy_schema::{Cause, names};
use serde_json::{Value, json};

use crate::object::reach::{Reach, fill};
use crate::object::{Metadata, Object};
use crate::resource::kind::{Column, KeptAs, Kind, Part, Selectable, Ways};
use crate::response::table::{self, NONE};

/// The longest message.
const MESSAGE: usize = 1024;
/// The longest name of an instance or an action.
const WORD: usize = 128;

const WAYS: Ways = Ways { creates_on_update: true, ..Ways::PLAIN };

const COLUMNS: &[Column] = &[
    Column::shown("Last Seen", "When it happened last."),
    Column::shown("Type", "Whether it is cause for concern."),
    Column::shown("Reason", "What happened, in a word."),
    Column::shown("Object", "To what it happened."),
    Column::wide("Subobject", "To which part of it."),
    Column::wide("Source", "Who says so."),
    Column::shown("Message", "What happened."),
    Column::wide("First Seen", "When it happened first."),
    Column::wide("Count", "How often it happened."),
    Column { format: "name", priority: 1, ..Column::NAME },
];

/// The kind that is stored.
pub static EVENT: Kind = Kind {
    plural: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    definition: "io.k8s.api.core.v1.Event",
    ways: WAYS,
    selectable: &[
        Selectable::text("involvedObject.kind"),
        Selectable::text("involvedObject.namespace"),
        Selectable::text("involvedObject.name"),
        Selectable::text("involvedObject.uid"),
        Selectable::text("involvedObject.apiVersion"),
        Selectable::text("involvedObject.resourceVersion"),
        Selectable::text("involvedObject.fieldPath"),
        Selectable::text("reason"),
        Selectable::text("reportingComponent"),
        Selectable { label: "source", at: "source.component", otherwise: "" },
        Selectable::text("type"),
    ],
    prepare: |event, _, _| {
        // These two are always there, said or not.
        for key in ["reportingComponent", "reportingInstance"] {
            fill(event, key, "");
        }
        // So are times: `kubectl get events --sort-by=.lastTimestamp` finds nothing where one is missing.
        for key in ["eventTime", "firstTimestamp", "lastTimestamp"] {
            event.entry(key).or_insert(Value::Null);
        }
    },
    validate: |object, _, _| judge(object, "reportingComponent"),
    columns: COLUMNS,
    cells,
    ..Kind::BASE
};

/// The same under the newer group's names.
pub static NEW_EVENT: Kind = Kind {
    group: "events.k8s.io",
    plural: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    definition: "io.k8s.api.events.v1.Event",
    ways: WAYS,
    selectable: &[
        Selectable { label: "regarding.kind", at: "involvedObject.kind", otherwise: "" },
        Selectable { label: "regarding.namespace", at: "involvedObject.namespace", otherwise: "" },
        Selectable { label: "regarding.name", at: "involvedObject.name", otherwise: "" },
        Selectable { label: "regarding.uid", at: "involvedObject.uid", otherwise: "" },
        Selectable { label: "regarding.apiVersion", at: "involvedObject.apiVersion", otherwise: "" },
        Selectable { label: "regarding.resourceVersion", at: "involvedObject.resourceVersion", otherwise: "" },
        Selectable { label: "regarding.fieldPath", at: "involvedObject.fieldPath", otherwise: "" },
        Selectable::text("reason"),
        Selectable { label: "reportingController", at: "reportingComponent", otherwise: "" },
        Selectable::text("type"),
    ],
    prepare: |event, _, _| {
        for key in ["eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            event.entry(key).or_insert(Value::Null);
        }
    },
    validate: judge_new,
    columns: COLUMNS,
    cells: |object, now| cells(&AS_CORE.kept(object, "v1"), now),
    kept_as: Some(&AS_CORE),
    ..Kind::BASE
};

static AS_CORE: KeptAs = KeptAs {
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

fn judge_new(object: &Object, old: Option<&Object>, _: Part) -> Vec<Cause> {
    let event = AS_CORE.kept(object, "v1");
    let mut causes = judge(&event, "reportingController");
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
            let old = AS_CORE.kept(old, "v1");
            let fields = ["involvedObject", "reason", "message", "firstTimestamp", "lastTimestamp", "count"];
            let others =
                ["reportingComponent", "reportingInstance", "type", "eventTime", "related", "action", "source"];
            for field in fields.into_iter().chain(others) {
                let said = |event: &Object| event.get(field).filter(|value| !value.is_null()).cloned();
                if said(&old) != said(&event) {
                    let shown = event.get(field).unwrap_or(&Value::Null);
                    causes.push(Cause::invalid(field, shown, "field is immutable"));
                }
            }
        }
    }
    causes
}

/// The rules of both groups, which call whoever reports differently.
fn judge(event: &Object, reporter_field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (own, about) = (event.namespace(), event.text("involvedObject.namespace"));
    let is_new = !event.text("eventTime").is_empty();
    // What happens to things outside of namespaces is kept in the default one.
    let is_right = match (about, is_new) {
        ("", false) => matches!(own, "" | "default"),
        ("", true) => matches!(own, "" | "default" | "kube-system"),
        (about, false) => about == own,
        (_, true) => true,
    };
    if !is_right {
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
        } else if text.len() > WORD {
            causes.push(Cause::invalid(field, "", &format!("can have at most {WORD} characters")));
        }
    }
    if event.text("reason").is_empty() {
        causes.push(Cause::required("reason", ""));
    }
    if event.text("message").len() > MESSAGE {
        causes.push(Cause::invalid("message", "", &format!("can have at most {MESSAGE} characters")));
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
        let kept = AS_CORE.kept(&event, "v1");
        assert_eq!(kept["involvedObject"], json!({"name": "n"}));
        assert_eq!(kept["apiVersion"], "v1");
        assert_eq!(AS_CORE.shown(&kept, "events.k8s.io/v1"), event);
    }

    #[test]
    fn times_are_there_whichever_group_an_event_was_written_in() {
        let mut event = object(json!({"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z"}));
        (NEW_EVENT.prepare)(&mut event, None, Part::Main);
        let kept = AS_CORE.kept(&event, "v1");
        assert_eq!((&kept["lastTimestamp"], &kept["firstTimestamp"]), (&Value::Null, &Value::Null));
        assert_eq!(kept["eventTime"], event["eventTime"]);
        let mut event = object(json!({"metadata": {"name": "e"}, "lastTimestamp": "2026-01-01T00:00:00Z"}));
        (EVENT.prepare)(&mut event, None, Part::Main);
        assert_eq!((&event["lastTimestamp"], &event["eventTime"]), (&json!("2026-01-01T00:00:00Z"), &Value::Null));
    }

    #[rstest]
    #[case("a", "a", true)]
    #[case("a", "b", false)]
    #[case("default", "", true)]
    #[case("a", "", false)]
    fn event_is_kept_beside_what_it_is_about(#[case] own: &str, #[case] about: &str, #[case] is_fine: bool) {
        let event = object(json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": about}}));
        assert_eq!(judge(&event, "reportingComponent").is_empty(), is_fine);
    }

    #[test]
    fn newer_group_wants_a_time_and_a_known_type() {
        let event = object(json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "type": "Odd"}));
        let causes = judge_new(&event, None, Part::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, ["eventTime", "type"]);
    }
}
