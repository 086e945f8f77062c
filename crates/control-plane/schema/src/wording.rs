//! Message formatting: values as the real API server writes them into its messages.
//!
//! Clients show these texts and tests compare them, so quoting, the escapes inside JSON and the form of numbers are
//! part of the interface.

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Number, Value};

// The pattern is a constant that a test compiles.
#[allow(clippy::unwrap_used)]
static PRINTABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$").unwrap());

/// Whether a character is shown as it is inside quotes.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    PRINTABLE.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Text in double quotes, with escapes for what cannot be printed, as messages of the real server have it.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x10000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// The shortest digits of a number and the power of ten of the first one.
fn digits(number: f64) -> (bool, String, i32) {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let negative = mantissa.starts_with('-');
    let digits = mantissa.chars().filter(char::is_ascii_digit).collect();
    (negative, digits, exponent.parse().unwrap_or(0))
}

fn scientific(number: f64, places: usize) -> String {
    let (negative, digits, exponent) = digits(number);
    let sign = if negative { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let dot = if rest.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{dot}{rest}e{direction}{:0places$}", exponent.abs())
}

/// A number in running text: whole digits as long as they are few, powers of ten otherwise.
pub(crate) fn float(number: f64) -> String {
    let exponent = digits(number).2;
    if number != 0.0 && !(-4..6).contains(&exponent) { scientific(number, 2) } else { plain(number) }
}

/// A number inside JSON.
fn json_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        return scientific(number, if size < 1.0 { 1 } else { 2 });
    }
    plain(number)
}

fn plain(number: f64) -> String {
    if number == 0.0 && number.is_sign_negative() { "-0".to_owned() } else { format!("{number}") }
}

/// A number as it is written in an object: whole ones stay whole.
pub(crate) fn number(number: &Number) -> String {
    match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => float(number.as_f64().unwrap_or(0.0)),
    }
}

/// A value as compact JSON with sorted keys, and with the characters escaped that browsers would take for markup.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => out.push_str(&whole.to_string()),
            None => out.push_str(&json_float(number.as_f64().unwrap_or(0.0))),
        },
        Value::String(text) => write_json_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_text(key, out);
                out.push(':');
                write_json(&map[key], out);
            }
            out.push('}');
        }
    }
}

pub(crate) fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(0.5, "0.5")]
    #[case(100_000.0, "100000")]
    #[case(1_234_567.5, "1.2345675e+06")]
    #[case(1e21, "1e+21")]
    #[case(1.25e-5, "1.25e-05")]
    #[case(-0.0001, "-0.0001")]
    #[case(0.0, "0")]
    fn numbers_in_text(#[case] value: f64, #[case] text: &str) {
        assert_eq!(float(value), text);
    }

    #[test]
    fn quotes_escape_what_cannot_be_seen_and_keep_letters() {
        assert_eq!(quoted("a\"b\\\n\u{1}ä😀\u{200b}"), "\"a\\\"b\\\\\\n\\x01ä😀\\u200b\"");
    }

    #[test]
    fn json_escapes_markup_and_sorts_keys() {
        assert_eq!(json(&json!({"b": "<&>", "a": [1, 1e-7, null]})), r#"{"a":[1,1e-7,null],"b":"\u003c\u0026\u003e"}"#);
    }
}
