//! Common parts of workload kinds: pod template, selector, and table columns.

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::core::pod_defaults::fill_spec;
use crate::builtin::rules::pod::validate_spec;
use crate::object::Object;
use crate::object::field_access::{FieldAccess, map_mut};
use crate::response::table;
use crate::selector::LabelSelector;

/// Sets the default values of the pod template.
pub fn fill_template(object: &mut Object) {
    if let Some(spec) = map_mut(object, "spec.template.spec") {
        fill_spec(spec);
    }
}

/// Validates the pod template and that the selector matches its labels.
pub fn validate_template(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let labels = object.at("spec.template.metadata.labels");
    let selector = object.at("spec.selector");
    let is_readable = validate_selector(selector, "").is_empty();
    let is_selected = selector.and_then(LabelSelector::of_object).is_some_and(|selector| {
        selector.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    });
    if !is_readable {
        let shown = selector.unwrap_or(&Value::Null);
        causes.push(Cause::invalid("spec.selector", shown, "invalid label selector"));
    } else if !is_selected {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels.unwrap_or(&Value::Null), why));
    }
    causes.extend(validate_pod(object));
    causes
}

/// Validates the pod of the template.
pub fn validate_pod(object: &Object) -> Vec<Cause> {
    let nothing = Object::new();
    let mut causes =
        crate::builtin::rules::pod::labels("spec.template.labels", object.map("spec.template.metadata.labels"));
    for key in object.map("spec.template.metadata.annotations").into_iter().flatten().map(|(key, _)| key) {
        // Upper case is allowed here, and only here.
        let problems = names::qualified_name(&key.to_lowercase());
        causes.extend(problems.iter().map(|why| Cause::invalid("spec.template.annotations", key, why)));
    }
    let mut spec = validate_spec(object.map("spec.template.spec").unwrap_or(&nothing), "spec.template.spec");
    // The service account is set when a pod is created.
    spec.retain(|cause| !cause.field.ends_with(".serviceAccountToken"));
    causes.extend(spec);
    if !object.list("spec.template.spec.ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        causes.push(Cause::forbidden("spec.template.spec.ephemeralContainers", why));
    }
    causes
}

/// Validates that counts in a status are not negative.
pub fn validate_counts(object: &Object, keys: &[&str]) -> Vec<Cause> {
    let each = keys.iter().map(|key| format!("status.{key}"));
    each.filter_map(|field| crate::builtin::rules::pod::not_negative(&field, object.number(&field))).collect()
}

/// Requires the restart policy `Always`.
pub fn validate_always(object: &Object) -> Option<Cause> {
    let policy = object.text("spec.template.spec.restartPolicy");
    let is_known = matches!(policy, "OnFailure" | "Never");
    is_known.then(|| Cause::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]))
}

/// Validates a label selector.
pub fn validate_selector(selector: Option<&Value>, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(selector) = selector else { return causes };
    for (key, value) in selector.map("matchLabels").into_iter().flatten() {
        let field = format!("{field}.matchLabels");
        causes.extend(names::qualified_name(key).iter().map(|why| Cause::invalid(&field, key, why)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(names::label_value(value).iter().map(|why| Cause::invalid(&field, value, why)));
    }
    for (at, expression) in selector.list("matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{at}]");
        let has_values = !expression.list("values").is_empty();
        match expression.text("operator") {
            "In" | "NotIn" if !has_values => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(Cause::required(format!("{field}.values"), why));
            }
            "Exists" | "DoesNotExist" if has_values => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(format!("{field}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                causes.push(Cause::invalid(format!("{field}.operator"), other, "not a valid selector operator"));
            }
        }
        let key = expression.text("key");
        causes.extend(names::qualified_name(key).iter().map(|why| Cause::invalid(format!("{field}.key"), key, why)));
    }
    causes
}

/// The selector is immutable: otherwise pods would be orphaned.
pub fn validate_same_selector(object: &Object, old: Option<&Object>) -> Option<Cause> {
    let (new, old) = (object.at("spec.selector"), old?.at("spec.selector"));
    (new != old).then(|| Cause::invalid("spec.selector", new.unwrap_or(&Value::Null), "field is immutable"))
}

/// Whether a selector matches everything, which is refused.
pub fn is_everything(selector: Option<&Value>) -> bool {
    selector.is_some_and(|selector| {
        selector.map("matchLabels").is_none_or(Object::is_empty) && selector.list("matchExpressions").is_empty()
    })
}

/// Validates a count or a percentage.
pub fn validate_count_or_percent(field: &str, value: Option<&Value>) -> Option<Cause> {
    match value? {
        Value::Number(number) => crate::builtin::rules::pod::not_negative(field, number.as_i64()),
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            let is_percent = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            (!is_percent).then(|| {
                let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                           '93%', regex used for validation is '[0-9]+%')";
                Cause::invalid(field, text, why)
            })
        }
        _ => None,
    }
}

/// Validates that a percentage is at most 100.
pub fn validate_not_above_all(field: &str, value: Option<&Value>) -> Option<Cause> {
    let text = value.and_then(Value::as_str)?;
    let share = text.strip_suffix('%')?.parse::<i64>().ok()?;
    (share > 100).then(|| Cause::invalid(field, text, "must not be greater than 100%"))
}

/// The cells of the wide form: names and images of the containers, and the selector.
pub fn wide_cells(object: &Object) -> [Value; 3] {
    let containers = object.list("spec.template.spec.containers");
    let joined = |key: &str| containers.iter().map(|container| container.text(key)).collect::<Vec<_>>().join(",");
    let selector = object.at("spec.selector").map(selector_text).unwrap_or_default();
    [joined("name").into(), joined("image").into(), table::or_none(&selector)]
}

/// A selector in its text form.
pub fn selector_text(selector: &Value) -> String {
    let mut terms: Vec<(String, String)> = Vec::new();
    for (key, value) in selector.map("matchLabels").into_iter().flatten() {
        terms.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector.list("matchExpressions") {
        let key = expression.text("key");
        let mut values: Vec<&str> = expression.list("values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression.text("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2")]
    #[case(json!({"matchExpressions": [{"key": "z", "operator": "In", "values": ["y", "x"]}]}), "z in (x,y)")]
    #[case(json!({"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}), "!z")]
    #[case(json!({}), "")]
    fn selector_has_a_text_form_that_is_read_back(#[case] selector: Value, #[case] text: &str) {
        assert_eq!(selector_text(&selector), text);
        assert!(LabelSelector::parse(text).is_ok());
    }

    #[rstest]
    #[case(json!(1), true)]
    #[case(json!(-1), false)]
    #[case(json!("20%"), true)]
    #[case(json!("many"), false)]
    #[case(json!("%"), false)]
    fn share_is_a_count_or_a_percentage(#[case] value: Value, #[case] is_fine: bool) {
        assert_eq!(validate_count_or_percent("f", Some(&value)).is_none(), is_fine);
    }

    #[rstest]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), &["s.matchExpressions[0].values"])]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}), &["s.matchExpressions[0].values"])]
    #[case(json!({"matchExpressions": [{"key": "a b", "operator": "Near"}]}), &["s.matchExpressions[0].operator", "s.matchExpressions[0].key"])]
    #[case(json!({"matchLabels": {"a": "b c"}}), &["s.matchLabels"])]
    fn mistakes_of_a_selector_are_named_by_field(#[case] selector: Value, #[case] fields: &[&str]) {
        let causes = validate_selector(Some(&selector), "s");
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
