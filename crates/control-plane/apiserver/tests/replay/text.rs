//! Values as text.
//!
//! The expectations were recorded by a Python program, and some of their lists are sorted by the text of their
//! elements. So the text here is Python's.

use std::fmt::Write as _;

use serde_json::Value;

/// A value inside other text: a string as it is, anything else as Python writes it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// JSON with sorted keys, a space after each separator and nothing beyond ASCII: what recorded lists are sorted by.
pub fn sortable(value: &Value) -> String {
    let mut out = String::new();
    write_sortable(value, &mut out);
    out
}

fn write_sortable(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (position, (key, child)) in entries.into_iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { "" });
                write_string(key, out);
                out.push_str(": ");
                write_sortable(child, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (position, child) in list.iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { "" });
                write_sortable(child, out);
            }
            out.push(']');
        }
        Value::String(text) => write_string(text, out),
        other => out.push_str(&other.to_string()),
    }
}

fn write_string(text: &str, out: &mut String) {
    for character in Value::from(text).to_string().chars() {
        if (' '..='~').contains(&character) {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{plain, sortable};

    #[test]
    fn text_is_pythons() {
        let value = json!({"b": [1, 2.5, null], "a": "é\"\n\u{7f}😀", "c": {"d": true}});
        let expected = r#"{"a": "\u00e9\"\n\u007f\ud83d\ude00", "b": [1, 2.5, null], "c": {"d": true}}"#;
        assert_eq!(sortable(&value), expected);
        let values = [json!("a"), json!(true), json!(null), json!(7)];
        assert_eq!(values.map(|value| plain(&value)), ["a", "True", "None", "7"]);
    }
}
