//! Table cells as `kubectl get` prints them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock;
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::TableColumn;

/// The text of an empty cell.
pub const NONE: &str = "<none>";

/// A text as a cell, [`NONE`] if it is empty.
pub fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// Labels as a cell.
pub fn labels(labels: Option<&Object>) -> Value {
    let labels = labels.into_iter().flatten();
    let terms: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&terms.join(","))
}

/// The definition of a column.
pub fn column(column: &TableColumn) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format, "description": column.description,
        "priority": column.priority,
    })
}

/// How long ago the object was created, as a cell.
pub fn age(object: &Object, now: Timestamp) -> Value {
    since(object.meta_text("creationTimestamp"), now).into()
}

/// How long ago a time was, `<unknown>` if it is none.
pub fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        // Times of events have fractions, which the common form of ages does not know.
        Ok(time) => seaworthy_schema::age(&clock::rfc3339(time), now.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fraction_of_a_second_does_not_make_a_time_unknown() {
        let now = "2026-01-01T00:02:05Z".parse().unwrap();
        assert_eq!(since("2026-01-01T00:00:00.123456Z", now), "2m5s");
        assert_eq!(since("2026-01-01T00:00:00Z", now), "2m5s");
    }

    #[test]
    fn age_of_an_object_without_a_creation_time_is_unknown() {
        assert_eq!(age(&Object::new(), Timestamp::UNIX_EPOCH), Value::from("<unknown>"));
    }
}
