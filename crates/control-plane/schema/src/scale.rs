//! Scale subresource of a custom resource: the paths of its replicas and its selector.

use serde_json::Value;

use crate::cause::Cause;

/// The `scale` subresource of a definition's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Where the wanted replicas are, `.spec.replicas`.
    pub spec_replicas: String,
    /// Where the present replicas are.
    pub status_replicas: String,
    /// Where the selector of the pods is, as text.
    pub selector: Option<String>,
}

impl Scale {
    /// Reads `subresources.scale`.
    pub fn of(scale: &Value) -> Option<Scale> {
        let text = |key: &str| scale.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Scale {
            spec_replicas: text("specReplicasPath")?,
            status_replicas: text("statusReplicasPath")?,
            selector: text("labelSelectorPath").filter(|path| !path.is_empty()),
        })
    }

    /// What is wrong with the wanted replicas of an object.
    pub fn spec_mistakes(&self, object: &Value) -> Vec<Cause> {
        replicas_mistake(&self.spec_replicas, object).into_iter().collect()
    }

    /// What is wrong with the present replicas and the selector of an object.
    pub fn status_mistakes(&self, object: &Value) -> Vec<Cause> {
        let mut found: Vec<Cause> = replicas_mistake(&self.status_replicas, object).into_iter().collect();
        if let Some(path) = &self.selector {
            let mistake = match at(object, path) {
                Ok(Some(Value::String(_)) | None) => None,
                Ok(Some(other)) => Some(wrong_type(path, other, "string")),
                Err(mistake) => Some(mistake),
            };
            found.extend(mistake.map(|detail| Cause::invalid(path, "", &detail)));
        }
        found
    }
}

fn replicas_mistake(path: &str, object: &Value) -> Option<Cause> {
    let replicas = match at(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            Some(replicas) => replicas,
            None => return Some(Cause::invalid(path, 0, &wrong_type(path, value, "int64"))),
        },
        Err(mistake) => return Some(Cause::invalid(path, 0, &mistake)),
    };
    if replicas < 0 {
        Some(Cause::invalid(path, replicas, "should be a non-negative integer"))
    } else if replicas > i64::from(i32::MAX) {
        Some(Cause::invalid(path, replicas, &format!("should be less than or equal to {}", i32::MAX)))
    } else {
        None
    }
}

/// The value at a path of plain names. An error is a value on the way that is no object.
pub(crate) fn at<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut here = object;
    let mut seen = String::new();
    for name in path.strip_prefix('.').unwrap_or(path).split('.') {
        match here {
            Value::Object(map) => match map.get(name) {
                Some(value) => here = value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(wrong_type(&format!("{seen}.{name}"), other, "map[string]interface{}")),
        }
        seen = format!("{seen}.{name}");
    }
    Ok(Some(here))
}

fn wrong_type(path: &str, value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!(
        "{path} accessor error: {} is of the type {found}, expected {wanted}",
        crate::wording::json(value).trim_matches('"')
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_counted_from_zero_up() {
        let paths =
            json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"});
        let scale = Scale::of(&paths).unwrap();
        let texts = |causes: Vec<Cause>| causes.iter().map(Cause::to_string).collect::<Vec<_>>();
        assert_eq!(texts(scale.spec_mistakes(&json!({}))), [""; 0]);
        assert_eq!(
            texts(scale.spec_mistakes(&json!({"spec": {"n": -1}}))),
            [".spec.n: Invalid value: -1: should be a non-negative integer"]
        );
        assert_eq!(
            texts(scale.spec_mistakes(&json!({"spec": {"n": 3_000_000_000_i64}}))),
            [".spec.n: Invalid value: 3000000000: should be less than or equal to 2147483647"]
        );
        assert_eq!(scale.status_mistakes(&json!({"status": {"n": "x", "s": 5}})).len(), 2);
    }
}
