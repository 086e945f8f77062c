//! Objects as rows and columns, the way `kubectl get` prints them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kind::Column;
use crate::object::{Metadata, Object};

/// What a cell says when there is nothing.
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

/// A column as the answer defines it.
pub fn column(column: &Column) -> Value {
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
        Ok(time) => short_duration(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration in the short form of kubectl: two units at most, the smaller ones left out as the larger grow.
pub fn short_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |whole: i64, unit: &str, part: i64, small: &str| match part {
        0 => format!("{whole}{unit}"),
        part => format!("{whole}{unit}{part}{small}"),
    };
    match seconds {
        // A clock that is a little behind is no reason to call an object impossible.
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(-2, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(125, "2m5s")]
    #[case(3600, "60m")]
    #[case(3 * 3600 + 60, "3h1m")]
    #[case(9 * 3600, "9h")]
    #[case(47 * 3600, "47h")]
    #[case(50 * 3600, "2d2h")]
    #[case(9 * 86400, "9d")]
    #[case(729 * 86400, "729d")]
    #[case(731 * 86400, "2y1d")]
    #[case(9 * 365 * 86400, "9y")]
    fn durations_are_as_short_as_kubectl_prints_them(#[case] seconds: i64, #[case] text: &str) {
        assert_eq!(short_duration(seconds), text);
    }

    #[test]
    fn age_of_an_object_without_a_creation_time_is_unknown() {
        assert_eq!(age(&Object::new(), Timestamp::UNIX_EPOCH), Value::from("<unknown>"));
    }
}
