//! Differences between a recording and the present answers, as text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::reshape::is_error;
use crate::scenario::{Scenario, Step};
use crate::text::sortable;

/// The differences, step by step; none if the server answered as recorded.
pub fn differences(scenario: &Scenario, want: &Value, got: &Value) -> Vec<String> {
    let exact: BTreeSet<&str> = scenario
        .steps
        .iter()
        .flat_map(|step| step.steps.iter().chain([step]))
        .filter(|step| step.message.is_some())
        .map(Step::label)
        .collect();
    let none = Vec::new();
    let wanted = want["steps"].as_array().unwrap_or(&none);
    let gotten = got["steps"].as_array().unwrap_or(&none);
    let mut lines = Vec::new();
    for position in 0..wanted.len().max(gotten.len()) {
        let Some(answer) = gotten.get(position) else {
            lines.push(format!("step {} and later: not reached", position + 1));
            break;
        };
        let label = answer["step"].as_str().unwrap_or_default();
        let found = of_step(wanted.get(position), answer, exact.contains(label));
        if !found.is_empty() {
            lines.push(format!("step {} ({label})", position + 1));
            lines.extend(found.into_iter().map(|line| format!("    {line}")));
        }
    }
    if lines.is_empty() {
        let mut found = Vec::new();
        diff(&want["order"], &got["order"], "", &mut found);
        lines.extend(found.into_iter().map(|line| format!("order of resourceVersions {line}")));
    }
    lines
}

fn of_step(want: Option<&Value>, got: &Value, is_exact: bool) -> Vec<String> {
    if let Some(problem) = got.get("problem") {
        return vec![problem.as_str().unwrap_or_default().to_owned()];
    }
    if let Some(want) = want
        && !is_equal(&want["code"], &got["code"])
    {
        return vec![format!("/code: expected {}, got {} {}", want["code"], got["code"], sortable(&got["body"]))];
    }
    let nothing = Value::Object(Map::new());
    let mut found = Vec::new();
    diff(&comparable(want.unwrap_or(&nothing), is_exact), &comparable(got, is_exact), "", &mut found);
    found
}

/// Drops what an error `Status` may word differently, and orders its causes.
fn comparable(value: &Value, is_exact: bool) -> Value {
    let map = match value {
        Value::Array(list) => return Value::Array(list.iter().map(|child| comparable(child, is_exact)).collect()),
        Value::Object(map) => map,
        other => return other.clone(),
    };
    let is_left_out = |key: &str, child: &Value| {
        matches!(key, "details" | "metadata") && child.as_object().is_some_and(Map::is_empty)
    };
    let mut out: Map<String, Value> = map
        .iter()
        .filter(|(key, child)| !is_left_out(key, child))
        .map(|(key, child)| (key.clone(), comparable(child, is_exact)))
        .collect();
    if is_error(value) {
        if let Some(causes) = out.get_mut("details").and_then(|details| details.get_mut("causes")) {
            let kept: &[&str] = if is_exact { &["field", "reason", "message"] } else { &["field", "reason"] };
            let listed = causes.as_array().into_iter().flatten().filter(|cause| cause["field"] != "<nil>");
            let compared: BTreeMap<String, Value> = listed
                .map(|cause| {
                    let present =
                        kept.iter().filter_map(|key| Some(((*key).to_owned(), in_any_order(cause.get(key)?))));
                    let cause = Value::Object(present.collect());
                    (cause.to_string(), cause)
                })
                .collect();
            *causes = compared.into_values().collect();
        }
        if !is_exact {
            out.remove("message");
        } else if let Some(message) = out.get_mut("message") {
            *message = in_any_order(message);
        }
    }
    Value::Object(out)
}

/// A text with its parts sorted: the real server iterates maps in random order, so the order of several problems
/// differs from run to run.
fn in_any_order(text: &Value) -> Value {
    let Value::String(text) = text else { return text.clone() };
    let mut parts: Vec<&str> =
        text.split(['[', ']']).flat_map(|part| part.split(", ")).filter(|part| !part.is_empty()).collect();
    parts.sort_unstable();
    parts.join(", ").into()
}

fn diff(want: &Value, got: &Value, at: &str, found: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(wanted), Value::Object(gotten)) => {
            for (key, want) in wanted {
                pair(Some(want), gotten.get(key), &format!("{at}/{key}"), found);
            }
            for (key, got) in gotten.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
                pair(None, Some(got), &format!("{at}/{key}"), found);
            }
        }
        (Value::Array(wanted), Value::Array(gotten)) => {
            for index in 0..wanted.len().max(gotten.len()) {
                pair(wanted.get(index), gotten.get(index), &format!("{at}/{index}"), found);
            }
        }
        _ if !is_equal(want, got) => found.push(format!("{at}: expected {}, got {}", sortable(want), sortable(got))),
        _ => {}
    }
}

fn pair(want: Option<&Value>, got: Option<&Value>, at: &str, found: &mut Vec<String>) {
    match (want, got) {
        (Some(want), Some(got)) => diff(want, got, at, found),
        (Some(want), None) => found.push(format!("{at}: missing, expected {}", sortable(want))),
        (None, Some(got)) => found.push(format!("{at}: unexpected {}", sortable(got))),
        (None, None) => {}
    }
}

/// Equality of values that are not both lists or both objects; numbers by value: 1 is 1.0.
pub fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::differences;
    use crate::scenario::Scenario;

    fn scenario(step: &Value) -> Scenario {
        Scenario::parse(&json!({"name": "s", "topic": "t", "about": "", "steps": [step]}).to_string()).unwrap()
    }

    fn step() -> Value {
        json!({"name": "one", "do": "GET /a"})
    }

    /// What is found between two answers of one step.
    fn between(want: &Value, got: &Value) -> Vec<String> {
        within(&step(), want, got)
    }

    fn within(step: &Value, want: &Value, got: &Value) -> Vec<String> {
        let recording = |body: &Value| json!({"steps": [{"step": "one", "code": 200, "body": body}], "order": []});
        differences(&scenario(step), &recording(want), &recording(got))
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let value = json!({"a": {"b": [1, "x", true, null]}, "c": {}});
        assert_eq!(between(&value, &value), Vec::<String>::new());
        let other = [
            json!({"a": {"b": [2, "x", true, null]}, "c": {}}),
            json!({"a": {"b": [1, "y", true, null]}, "c": {}}),
            json!({"a": {"b": [1, "x", 1, null]}, "c": {}}),
            json!({"a": {"b": [1, "x", true]}, "c": {}}),
            json!({"a": {"b": [1, "x", true, null, 1]}, "c": {}}),
            json!({"a": {"b": {}}, "c": {}}),
            json!({"a": {"b": [1, "x", true, null]}}),
            json!({"a": {"b": [1, "x", true, null]}, "c": {}, "d": null}),
        ];
        for other in other {
            assert_eq!(between(&value, &other).len(), 2, "{other}");
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(between(&json!({"n": 1}), &json!({"n": 1.0})).is_empty());
        assert!(!between(&json!({"n": 1}), &json!({"n": "1"})).is_empty());
        assert!(
            !between(&json!({"n": 9_007_199_254_740_993_u64}), &json!({"n": 9_007_199_254_740_992_u64})).is_empty()
        );
    }

    #[test]
    fn difference_names_step_and_place() {
        let lines = between(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 2}]}));
        assert_eq!(lines, ["step 1 (one)", "    /body/a/0/b: expected 1, got 2"]);
    }

    #[test]
    fn missing_additional_and_failed_steps_are_differences() {
        let scenario = scenario(&step());
        let none = json!({"steps": [], "order": []});
        let one = json!({"steps": [{"step": "one", "code": 200}], "order": []});
        let failed = json!({"steps": [{"step": "one", "problem": "no connection"}], "order": []});
        assert_eq!(differences(&scenario, &one, &none), ["step 1 and later: not reached"]);
        assert_eq!(differences(&scenario, &none, &one).len(), 3);
        assert_eq!(differences(&scenario, &one, &failed), ["step 1 (one)", "    no connection"]);
        assert_eq!(differences(&scenario, &failed, &failed).len(), 2);
    }

    #[test]
    fn code_and_order_count() {
        let scenario = scenario(&step());
        let recording = |code: u16, order: Value| json!({"steps": [{"step": "one", "code": code}], "order": order});
        let one = recording(200, json!(["a", "b"]));
        assert!(differences(&scenario, &one, &one).is_empty());
        assert_eq!(
            differences(&scenario, &one, &recording(201, json!(["a", "b"]))),
            ["step 1 (one)", "    /code: expected 200, got 201 null"]
        );
        assert_eq!(differences(&scenario, &one, &recording(200, json!(["b", "a"]))).len(), 2);
        assert_eq!(differences(&scenario, &one, &json!({"steps": one["steps"]})).len(), 1);
    }

    fn error(message: &str, causes: &Value) -> Value {
        json!({"kind": "Status", "status": "Failure", "metadata": {}, "message": message, "reason": "Invalid",
            "details": {"causes": causes}})
    }

    #[test]
    fn error_is_compared_by_the_set_of_its_causes() {
        let (a, b) = (json!({"field": "a", "reason": "r", "message": "m"}), json!({"field": "b", "reason": "r"}));
        let reworded = json!({"field": "a", "reason": "r", "message": "other"});
        let nil = json!({"field": "<nil>", "reason": "r"});
        let want = error("m", &json!([a, b]));
        assert!(between(&want, &error("other", &json!([b, reworded, b, nil]))).is_empty());
        assert!(!between(&want, &error("m", &json!([a]))).is_empty());
        assert!(!between(&want, &error("m", &json!([a, {"field": "b", "reason": "s"}]))).is_empty());
    }

    #[test]
    fn exact_messages_count() {
        let mut step = step();
        step["message"] = json!("exact");
        let cause = |message: &str| json!([{"field": "a", "reason": "r", "message": message}]);
        let want = error("m", &cause("c"));
        assert!(within(&step, &want, &want).is_empty());
        assert!(!within(&step, &want, &error("other", &cause("c"))).is_empty());
        assert!(!within(&step, &want, &error("m", &cause("other"))).is_empty());
        let several = |message: &str| error(message, &cause("c"));
        assert!(within(&step, &several("x is wrong: [a: 1, b: 2]"), &several("x is wrong: [b: 2, a: 1]")).is_empty());
        assert!(!within(&step, &several("x is wrong: [a: 1, b: 2]"), &several("x is wrong: [a: 1, b: 3]")).is_empty());
    }
}
