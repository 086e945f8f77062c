//! YAML writer: the exact output of the machine-config operator's library (go-yaml 2 behind ghodss/yaml).
//!
//! The name of a rendered config is a digest of this text, so every blank counts: a running cluster is taken over
//! without a reboot only if the bytes are the same. It also serves as our YAML for people; it is what they know from
//! `oc get -o yaml`.
//!
//! Compat: gopkg.in/yaml.v2 `emitterc.go`, `encode.go`, `resolve.go`, `sorter.go`. Recorded answers of the library are
//! in `tests/oracle`.

mod resolve;
mod scalar;

use std::cmp::Ordering;
use std::fmt::{self, Write};
use std::io;

use seaworthy_ignition::node::{Map, Node, Value};

use crate::BUFFER_BYTES;
use scalar::{Scalar, Style, is_break, is_printable};

/// A scalar is folded at the first blank behind this column.
const WIDTH: usize = 80;
/// A longer key is written in the long form, `? key`.
const MAX_SIMPLE_KEY_LENGTH: usize = 128;

/// Writes a document.
pub fn write(node: &Node<'_>, out: &mut impl Write) -> fmt::Result {
    let mut writer = Writer { out, column: 0 };
    match &node.value {
        Value::Map(map) if !map.is_empty() => writer.map(map, 0, false),
        Value::List(list) if !list.is_empty() => writer.list(list, 0, false),
        _ => {
            writer.inline(node, 2)?;
            if writer.column > 0 { writer.newline() } else { Ok(()) }
        }
    }
}

/// Writes a document as bytes.
pub fn write_bytes(node: &Node<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    struct Adapter<'o, W> {
        out: &'o mut W,
        result: io::Result<()>,
    }
    impl<W: io::Write> Write for Adapter<'_, W> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.result = self.out.write_all(text.as_bytes());
            if self.result.is_ok() { Ok(()) } else { Err(fmt::Error) }
        }
    }
    // Buffered here: the many small writes are calls that the compiler knows.
    let mut out = io::BufWriter::with_capacity(BUFFER_BYTES, out);
    let mut adapter = Adapter { out: &mut out, result: Ok(()) };
    // The adapter has the error itself.
    let _ = write(node, &mut adapter);
    adapter.result?;
    io::Write::flush(&mut out)
}

/// A document as a string.
pub fn to_string(node: &Node<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(node, &mut text);
    text
}

struct Writer<'o, W> {
    out: &'o mut W,
    /// The number of characters on the current line.
    column: usize,
}

impl<W: Write> Writer<'_, W> {
    /// Writes a text of ASCII characters without line breaks.
    fn ascii(&mut self, text: &str) -> fmt::Result {
        self.column += text.len();
        self.out.write_str(text)
    }

    fn newline(&mut self) -> fmt::Result {
        self.column = 0;
        self.out.write_char('\n')
    }

    fn blanks(&mut self, count: usize) -> fmt::Result {
        const BLANKS: &str = "                                                                ";
        let mut left = count;
        while left > 0 {
            let now = left.min(BLANKS.len());
            self.out.write_str(&BLANKS[..now])?;
            left -= now;
        }
        self.column += count;
        Ok(())
    }

    fn map(&mut self, map: &Map<'_>, indent: usize, mut follows: bool) -> fmt::Result {
        for at in sorted(map) {
            let (key, value) = &map.0[at];
            if !std::mem::take(&mut follows) {
                self.blanks(indent)?;
            }
            let scalar = Scalar::of(key, true);
            let is_simple = key.len() <= MAX_SIMPLE_KEY_LENGTH && !scalar.has_breaks;
            if is_simple {
                self.scalar(&scalar, indent + 2, false)?;
                self.ascii(":")?;
                self.value_of_key(value, indent)?;
            } else {
                self.ascii("? ")?;
                self.scalar(&Scalar::of(key, false), indent + 2, true)?;
                if self.column > 0 {
                    self.newline()?;
                }
                self.blanks(indent)?;
                self.ascii(":")?;
                match &value.value {
                    Value::Map(map) if !map.is_empty() => {
                        self.ascii(" ")?;
                        self.map(map, indent + 2, true)?;
                    }
                    Value::List(list) if !list.is_empty() => {
                        self.ascii(" ")?;
                        self.list(list, indent + 2, true)?;
                    }
                    _ => self.value_of_key(value, indent)?,
                }
            }
        }
        Ok(())
    }

    /// What follows the colon of a key at `indent`.
    fn value_of_key(&mut self, value: &Node<'_>, indent: usize) -> fmt::Result {
        match &value.value {
            Value::Map(map) if !map.is_empty() => {
                self.newline()?;
                self.map(map, indent + 2, false)
            }
            // The dashes of a list are below the key, not indented.
            Value::List(list) if !list.is_empty() => {
                self.newline()?;
                self.list(list, indent, false)
            }
            _ => {
                self.ascii(" ")?;
                self.inline(value, indent + 2)?;
                if self.column > 0 { self.newline() } else { Ok(()) }
            }
        }
    }

    fn list(&mut self, list: &[Node<'_>], indent: usize, mut follows: bool) -> fmt::Result {
        for item in list {
            if !std::mem::take(&mut follows) {
                self.blanks(indent)?;
            }
            self.ascii("- ")?;
            match &item.value {
                Value::Map(map) if !map.is_empty() => self.map(map, indent + 2, true)?,
                Value::List(list) if !list.is_empty() => self.list(list, indent + 2, true)?,
                _ => {
                    self.inline(item, indent + 2)?;
                    if self.column > 0 {
                        self.newline()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes what fits behind a key or dash. A literal block ends its own line.
    fn inline(&mut self, node: &Node<'_>, indent: usize) -> fmt::Result {
        match &node.value {
            Value::Null => self.ascii("null"),
            Value::Bool(true) => self.ascii("true"),
            Value::Bool(false) => self.ascii("false"),
            Value::Int(number) => self.ascii(&number.to_string()),
            Value::Float(number) => self.ascii(&float(*number)),
            Value::Str(text) => self.scalar(&Scalar::of(text, false), indent, true),
            Value::List(_) => self.ascii("[]"),
            Value::Map(_) => self.ascii("{}"),
        }
    }

    fn scalar(&mut self, scalar: &Scalar<'_>, indent: usize, may_fold: bool) -> fmt::Result {
        match scalar.style {
            Style::Plain => self.plain(scalar, indent, may_fold),
            Style::Single => self.single_quoted(&scalar.text, indent, may_fold),
            Style::Double => self.double_quoted(&scalar.text, indent, may_fold),
            Style::Literal => self.literal(&scalar.text, indent),
        }
    }

    fn fold(&mut self, indent: usize) -> fmt::Result {
        self.newline()?;
        self.blanks(indent)
    }

    fn plain(&mut self, scalar: &Scalar<'_>, indent: usize, may_fold: bool) -> fmt::Result {
        let text = scalar.text.as_ref();
        if !scalar.has_blanks || !may_fold {
            self.column += if scalar.is_ascii { text.len() } else { text.chars().count() };
            return self.out.write_str(text);
        }
        // Pieces end at a single blank; only there can a line be folded.
        let mut start = 0;
        let bytes = text.as_bytes();
        for (at, _) in text.match_indices(' ') {
            let before_is_blank = at > 0 && bytes[at - 1] == b' ';
            let after_is_blank = bytes.get(at + 1) == Some(&b' ');
            self.text(&text[start..at])?;
            if !before_is_blank && !after_is_blank && self.column > WIDTH {
                self.fold(indent)?;
            } else {
                self.ascii(" ")?;
            }
            start = at + 1;
        }
        self.text(&text[start..])
    }

    fn text(&mut self, text: &str) -> fmt::Result {
        self.column += text.chars().count();
        self.out.write_str(text)
    }

    fn single_quoted(&mut self, text: &str, indent: usize, may_fold: bool) -> fmt::Result {
        self.ascii("'")?;
        let mut was_blank = false;
        let mut was_break = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            if c == ' ' {
                let inside = at > 0 && at + 1 < text.len();
                if may_fold && !was_blank && self.column > WIDTH && inside && next != Some(' ') {
                    self.fold(indent)?;
                } else {
                    self.ascii(" ")?;
                }
                was_blank = true;
            } else if is_break(c) {
                if !was_break && c == '\n' {
                    self.newline()?;
                }
                self.out.write_char(c)?;
                self.column = 0;
                was_break = true;
                continue;
            } else {
                if was_break {
                    self.blanks(indent)?;
                }
                if c == '\'' {
                    self.ascii("''")?;
                } else {
                    self.out.write_char(c)?;
                    self.column += 1;
                }
                was_blank = false;
            }
            was_break = false;
        }
        self.ascii("'")
    }

    fn double_quoted(&mut self, text: &str, indent: usize, may_fold: bool) -> fmt::Result {
        self.ascii("\"")?;
        // A text that begins with a byte order mark is escaped to the last letter.
        let escape_all = text.starts_with('\u{feff}');
        let mut was_blank = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if escape_all || !is_printable(c) || is_break(c) || c == '"' || c == '\\' {
                self.escape(c)?;
                was_blank = false;
            } else if c == ' ' {
                let inside = at > 0 && at + 1 < text.len();
                if may_fold && !was_blank && self.column > WIDTH && inside {
                    self.fold(indent)?;
                    if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.ascii("\\")?;
                    }
                } else {
                    self.ascii(" ")?;
                }
                was_blank = true;
            } else {
                self.out.write_char(c)?;
                self.column += 1;
                was_blank = false;
            }
        }
        self.ascii("\"")
    }

    fn escape(&mut self, c: char) -> fmt::Result {
        let short = match c {
            '\0' => "\\0",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            '\r' => "\\r",
            '\u{1b}' => "\\e",
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{85}' => "\\N",
            '\u{a0}' => "\\_",
            '\u{2028}' => "\\L",
            '\u{2029}' => "\\P",
            _ => "",
        };
        if !short.is_empty() {
            return self.ascii(short);
        }
        let code = c as u32;
        let long = match code {
            0..=0xff => format!("\\x{code:02X}"),
            0x100..=0xffff => format!("\\u{code:04X}"),
            _ => format!("\\U{code:08X}"),
        };
        self.ascii(&long)
    }

    fn literal(&mut self, text: &str, indent: usize) -> fmt::Result {
        self.ascii("|")?;
        if text.starts_with([' ', '\n', '\u{2028}', '\u{2029}']) {
            self.ascii("2")?;
        }
        let mut from_end = text.chars().rev();
        let last_is_break = from_end.next().is_some_and(is_break);
        if !last_is_break {
            self.ascii("-")?;
        } else if from_end.next().is_none_or(is_break) {
            self.ascii("+")?;
        }
        self.newline()?;
        let mut at_line_start = true;
        for c in text.chars() {
            if is_break(c) {
                self.out.write_char(c)?;
                self.column = 0;
                at_line_start = true;
            } else {
                if at_line_start {
                    self.blanks(indent)?;
                    at_line_start = false;
                }
                self.out.write_char(c)?;
                self.column += 1;
            }
        }
        Ok(())
    }
}

/// The order in which keys are written.
fn sorted(map: &Map<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..map.0.len()).collect();
    order.sort_by(|a, b| compare_keys(&map.0[*a].0, &map.0[*b].0));
    order
}

/// Other characters before letters, else by code point.
///
/// Differs: the library also orders digits inside keys by the number they make, in a way that is no order at all for
/// some sets of keys; no key of a MachineConfig's spec has a digit that this would touch (`tpm2` has no neighbours).
fn compare_keys(a: &str, b: &str) -> Ordering {
    let rank = |c: char| (c.is_alphabetic(), c);
    a.chars().map(rank).cmp(b.chars().map(rank))
}

/// A number with a fraction or an exponent, in the shortest form that reads back as the same number.
fn float(number: f64) -> String {
    let shortest = format!("{number:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else {
        return shortest;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(json: serde_json::Value) -> String {
        to_string(&Node::from_json(&json))
    }

    #[test]
    fn lists_below_keys_are_not_indented() {
        assert_eq!(
            yaml(serde_json::json!({"b": [1, {"c": "x", "a": []}], "a": {"k": null}})),
            "a:\n  k: null\nb:\n- 1\n- a: []\n  c: x\n"
        );
    }

    #[test]
    fn texts_that_look_like_something_else_are_quoted() {
        assert_eq!(
            yaml(serde_json::json!(["yes", "1", "", "a: b", "x", "0o7"])),
            "- \"yes\"\n- \"1\"\n- \"\"\n- 'a: b'\n- x\n- \"0o7\"\n"
        );
    }
}
