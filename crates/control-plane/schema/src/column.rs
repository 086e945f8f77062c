//! Table columns: the value of an object that a column shows, and its format.

use serde_json::{Number, Value};

use crate::jsonpath::JsonPath;
use crate::wording;

/// A column of a custom resource's table.
#[derive(Debug, Clone)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `format`, as written.
    pub format: String,
    /// What it shows, in words.
    pub description: String,
    /// Columns above 0 are only shown in wide tables.
    pub priority: i64,
    path: JsonPath,
}

impl Column {
    /// Reads an entry of `additionalPrinterColumns`; none when its path is no path.
    pub fn of(column: &Value) -> Option<Column> {
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        Some(Column {
            name: text("name").to_owned(),
            kind: text("type").to_owned(),
            format: text("format").to_owned(),
            description,
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::parse(path).ok()?,
        })
    }

    /// The cell of an object. `now` is in seconds since 1970.
    pub fn cell(&self, object: &Value, now: i64) -> Value {
        let found = self.path.find(object).unwrap_or_default();
        let Some(value) = found.first() else { return Value::Null };
        match (self.kind.as_str(), &**value) {
            ("string", value) => text(value).into(),
            ("integer", Value::Number(number)) => whole(number),
            ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
            ("boolean", Value::Bool(flag)) => (*flag).into(),
            ("date", Value::String(time)) => age(time, now).into(),
            _ => Value::Null,
        }
    }
}

fn whole(number: &Number) -> Value {
    number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).map_or(Value::Null, Value::from)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => wording::number(number),
        other => wording::json(other),
    }
}

/// How long ago a time was, in the two largest units that matter.
pub fn age(time: &str, now: i64) -> String {
    if matches!(time, "" | "null") {
        return "<unknown>".to_owned();
    }
    let Some(then) = seconds(time) else { return "<invalid>".to_owned() };
    let seconds = now - then;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => two(hours / 24, 'd', hours % 24, 'h'),
        _ if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        _ if hours < 24 * 365 * 8 => two(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 24 / 365),
    }
}

/// Seconds since 1970 of a time like `2024-05-01T10:00:00Z`.
fn seconds(time: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = time.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| time.as_bytes().get(*at) != Some(byte)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut zone = time.get(19..)?;
    if let Some(fraction) = zone.strip_prefix('.') {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
        zone = &fraction[end..];
    }
    let offset = match zone.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = time.len() - 5;
            let offset = number(at, at + 2)? * 3600 + number(at + 3, at + 5)? * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    // Days since 1970, by whole years and the months before.
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let days = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
        + lengths.iter().take(usize::try_from(month - 1).ok()?).sum::<i64>()
        + day
        - 1;
    Some(days * 86400 + hour * 3600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("1970-01-01T00:00:00Z", Some(0))]
    #[case("2024-02-29T12:00:00Z", Some(1_709_208_000))]
    #[case("2024-02-29T12:00:00.5+02:00", Some(1_709_200_800))]
    #[case("2023-02-29T12:00:00Z", None)]
    #[case("2024-02-29 12:00:00Z", None)]
    fn times(#[case] time: &str, #[case] expected: Option<i64>) {
        assert_eq!(seconds(time), expected);
    }

    #[rstest]
    #[case(-5, "<invalid>")]
    #[case(-1, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(125, "2m5s")]
    #[case(600, "10m")]
    #[case(3 * 3600 + 60, "3h1m")]
    #[case(30 * 3600, "30h")]
    #[case(49 * 3600, "2d1h")]
    #[case(300 * 86400, "300d")]
    #[case(1000 * 86400, "2y270d")]
    #[case(4000 * 86400, "10y")]
    fn ages(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(age("1970-01-01T00:00:00Z", seconds), expected);
    }

    #[rstest]
    #[case("integer", ".n", json!(3))]
    #[case("number", ".n", json!(3.0))]
    #[case("string", ".n", json!("3"))]
    #[case("string", ".list", json!("[\"x\",\"y\"]"))]
    #[case("boolean", ".n", Value::Null)]
    #[case("date", ".when", json!("<invalid>"))]
    #[case("string", ".none", Value::Null)]
    fn cells(#[case] kind: &str, #[case] path: &str, #[case] expected: Value) {
        let column = Column::of(&json!({"name": "C", "type": kind, "jsonPath": path})).unwrap();
        assert_eq!(column.cell(&json!({"n": 3, "list": ["x", "y"], "when": "soon"}), 0), expected);
    }
}
