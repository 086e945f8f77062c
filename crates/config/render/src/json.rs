//! JSON writer, fast for long strings without anything to escape, which are most of a config.

use std::io::{self, Write};

use seaworthy_ignition::node::{Node, Value};

/// Writes a tree as JSON.
pub fn write(node: &Node<'_>, out: &mut impl Write) -> io::Result<()> {
    match &node.value {
        Value::Null => out.write_all(b"null"),
        Value::Bool(true) => out.write_all(b"true"),
        Value::Bool(false) => out.write_all(b"false"),
        Value::Int(number) => write!(out, "{number}"),
        Value::Float(number) => write!(out, "{}", serde_json::Value::from(*number)),
        Value::Str(text) => write_text(text, out),
        Value::List(list) => {
            out.write_all(b"[")?;
            for (nth, item) in list.iter().enumerate() {
                if nth > 0 {
                    out.write_all(b",")?;
                }
                write(item, out)?;
            }
            out.write_all(b"]")
        }
        Value::Map(map) => {
            out.write_all(b"{")?;
            for (nth, (key, child)) in map.iter().enumerate() {
                if nth > 0 {
                    out.write_all(b",")?;
                }
                write_text(key, out)?;
                out.write_all(b":")?;
                write(child, out)?;
            }
            out.write_all(b"}")
        }
    }
}

/// How many bytes a tree takes as JSON.
pub fn length(node: &Node<'_>) -> usize {
    let mut counter = Counter(0);
    // Counting cannot fail.
    let _ = write(node, &mut counter);
    counter.0
}

/// A tree as JSON.
#[cfg(test)]
pub(crate) fn to_string(node: &Node<'_>) -> String {
    let mut out = Vec::new();
    write(node, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_text(text: &str, out: &mut impl Write) -> io::Result<()> {
    // Comparisons without a branch: the compiler does many bytes at once.
    let is_plain = text.bytes().fold(true, |plain, byte| plain & (byte >= 0x20) & (byte != b'"') & (byte != b'\\'));
    out.write_all(b"\"")?;
    if is_plain {
        out.write_all(text.as_bytes())?;
    } else {
        let mut done = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                8 => b"\\b",
                12 => b"\\f",
                0..0x20 => b"",
                _ => continue,
            };
            out.write_all(&text.as_bytes()[done..at])?;
            if escape.is_empty() {
                write!(out, "\\u{byte:04x}")?;
            } else {
                out.write_all(escape)?;
            }
            done = at + 1;
        }
        out.write_all(&text.as_bytes()[done..])?;
    }
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_written_as_serde_json_writes_them(text in "[\\x00-\\x1f\"\\\\ a-z\u{7f}\u{80}ü\u{2028}\u{1f600}]{0,40}") {
            let json = serde_json::json!({ text.clone(): [text, null, true, -5, 1.5, {}] });
            let node = Node::from_json(&json);
            prop_assert_eq!(to_string(&node), json.to_string());
            prop_assert_eq!(length(&node), json.to_string().len());
        }
    }
}
