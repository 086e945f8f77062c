//! Positions of values in a JSON text by path, for messages with a line and a column.
//!
//! The text is scanned and not parsed: nothing is allocated, nothing recurses, and a text that is not JSON gives a
//! place all the same, the last one that could be found on the way.

use crate::path::{Path, Step};

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in that line, counted from 1.
    pub column: usize,
    /// The byte in the text, counted from 0.
    pub offset: usize,
}

/// The position of the value at a path in a JSON text, or of the nearest value above it that exists.
pub fn locate(text: &str, path: &Path) -> Position {
    position(text, find(text, path).value)
}

/// The position of the key that a path ends with, quotes included; where there is none, what [`locate`] returns.
pub fn locate_key(text: &str, path: &Path) -> Position {
    let found = find(text, path);
    position(text, found.key.unwrap_or(found.value))
}

/// What was found at the end of a path.
struct ValueOffsets {
    /// The first byte of the value.
    value: usize,
    /// The first byte of its key.
    key: Option<usize>,
}

fn find(text: &str, path: &Path) -> ValueOffsets {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, key: 0 };
    scanner.skip_blanks();
    let mut found = ValueOffsets { value: scanner.at, key: None };
    for step in &path.0 {
        let (is_found, has_key) = match step {
            Step::Key(key) => (scanner.enter_member(text, key), true),
            Step::Index(index) => (scanner.enter_element(*index), false),
        };
        if !is_found {
            found.key = None;
            break;
        }
        found = ValueOffsets { value: scanner.at, key: has_key.then_some(scanner.key) };
    }
    found
}

/// Line and column of a byte of a text.
pub fn position(text: &str, offset: usize) -> Position {
    // A place in the middle of a character is that character's.
    let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Position {
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        offset,
    }
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    /// The start of the key that was entered last.
    key: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Passes over one byte when it is the one wanted, and over the blanks behind it.
    fn pass(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.at += 1;
            self.skip_blanks();
        }
        is_there
    }

    /// From the start of an object to the start of the value under a key.
    fn enter_member(&mut self, text: &str, key: &str) -> bool {
        if !self.pass(b'{') {
            return false;
        }
        while self.peek() == Some(b'"') {
            let start = self.at;
            self.skip_string();
            let is_wanted = is_key(&text[start..self.at], key);
            self.skip_blanks();
            if !self.pass(b':') {
                return false;
            }
            if is_wanted {
                self.key = start;
                return self.peek().is_some();
            }
            if !self.skip_to_next() {
                return false;
            }
        }
        false
    }

    /// From the start of a list to the start of its element at that place.
    fn enter_element(&mut self, index: usize) -> bool {
        if !self.pass(b'[') {
            return false;
        }
        for _ in 0..index {
            if !self.skip_to_next() {
                return false;
            }
        }
        !matches!(self.peek(), None | Some(b']'))
    }

    /// Passes over a value and the comma behind it; false when there is no comma.
    fn skip_to_next(&mut self) -> bool {
        self.skip_value();
        self.skip_blanks();
        self.pass(b',')
    }

    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => return,
                Some(b'"') => self.skip_string(),
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') => {
                    // A closing bracket that nothing opened belongs to what is around.
                    let Some(above) = depth.checked_sub(1) else { return };
                    depth = above;
                    self.at += 1;
                }
                Some(b',' | b':' | b' ' | b'\t' | b'\n' | b'\r') if depth == 0 => return,
                Some(b',' | b':' | b' ' | b'\t' | b'\n' | b'\r') => {
                    self.at += 1;
                    continue;
                }
                Some(_) => self.skip_word(),
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Passes over a number, `true`, `false`, `null`, or anything else in their place.
    fn skip_word(&mut self) {
        while !matches!(
            self.peek(),
            None | Some(b',' | b':' | b'[' | b']' | b'{' | b'}' | b'"' | b' ' | b'\t' | b'\n' | b'\r')
        ) {
            self.at += 1;
        }
    }

    /// From a quote to behind the one that closes it.
    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => return,
                b'\\' => self.at = (self.at + 1).min(self.bytes.len()),
                _ => {}
            }
        }
    }
}

/// Whether a string, with its quotes and escapes, is that key.
fn is_key(quoted: &str, key: &str) -> bool {
    if quoted.contains('\\') {
        return serde_json::from_str::<String>(quoted).is_ok_and(|text| text == key);
    }
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')) == Some(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    const TEXT: &str = "{\n  \"a\": [1, {\"b\": null}],\n  \"ü\\n\": \"ä\", \"c\": {}\n}\n";

    #[rstest]
    #[case(Path::default(), 1, 1)]
    #[case(Path::of(&["a"]), 2, 8)]
    #[case(Path::of(&["a"]).index(0), 2, 9)]
    #[case(Path::of(&["a"]).index(1).key("b"), 2, 18)]
    #[case(Path::of(&["ü\n"]), 3, 10)]
    #[case(Path::of(&["c"]), 3, 20)]
    fn values_are_found_by_line_and_column(#[case] path: Path, #[case] line: usize, #[case] column: usize) {
        let found = locate(TEXT, &path);
        assert_eq!((found.line, found.column), (line, column));
    }

    #[rstest]
    #[case(Path::of(&["x", "y"]), Path::default())]
    #[case(Path::of(&["a"]).index(2), Path::of(&["a"]))]
    #[case(Path::of(&["a", "b"]), Path::of(&["a"]))]
    #[case(Path::of(&["a"]).index(0).index(0), Path::of(&["a"]).index(0))]
    #[case(Path::of(&["c", "d"]), Path::of(&["c"]))]
    #[case(Path::default().index(0), Path::default())]
    fn what_does_not_exist_is_found_at_the_nearest_value_above(#[case] path: Path, #[case] above: Path) {
        assert_eq!(locate(TEXT, &path), locate(TEXT, &above));
    }

    #[test]
    fn a_key_is_found_before_its_value() {
        let text = r#"{"a": [{"b" : 1}], "c": 2}"#;
        let at = |path: &Path| locate_key(text, path).offset;
        assert_eq!(at(&Path::of(&["c"])), text.find("\"c\"").unwrap());
        assert_eq!(at(&Path::of(&["a"]).index(0).key("b")), text.find("\"b\"").unwrap());
        for no_key in [Path::default(), Path::of(&["a"]).index(0), Path::of(&["a", "x"])] {
            assert_eq!(locate_key(text, &no_key), locate(text, &no_key));
        }
    }

    #[test]
    fn deep_texts_are_scanned_without_a_deep_stack() {
        let deep = format!("[{}1{}, 2]", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(locate(&deep, &Path::default().index(1)).offset, 400_004);
        let path = Path(vec![Step::Index(0); 200_001]);
        assert_eq!(locate(&deep, &path).offset, 200_001);
    }

    /// Writes a value with blanks chosen by `blanks`, and notes where each of its values begins.
    fn write(
        value: &Value,
        path: Path,
        blanks: &mut impl FnMut() -> &'static str,
        out: &mut String,
        seen: &mut Vec<(Path, usize, Value)>,
    ) {
        seen.push((path.clone(), out.len(), value.clone()));
        match value {
            Value::Array(list) => {
                out.push('[');
                for (index, item) in list.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    out.push_str(blanks());
                    write(item, path.clone().index(index), blanks, out, seen);
                    out.push_str(blanks());
                }
                out.push(']');
            }
            Value::Object(map) => {
                out.push('{');
                for (index, (key, item)) in map.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    out.push_str(blanks());
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push_str(blanks());
                    out.push(':');
                    out.push_str(blanks());
                    write(item, path.clone().key(key), blanks, out, seen);
                    out.push_str(blanks());
                }
                out.push('}');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let text = || "[a-c\"\\\\{}\\[\\],:\nü€ ]{0,4}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(text(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_located(value in json(), blanks in prop::collection::vec(0..5_usize, 1..20)) {
            let mut nth = 0;
            let mut blank = || {
                nth += 1;
                ["", " ", "\n", "\r\n\t", "  "][blanks[nth % blanks.len()]]
            };
            let (mut text, mut seen) = (String::new(), Vec::new());
            write(&value, Path::default(), &mut blank, &mut text, &mut seen);
            let seen_by_reader: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&seen_by_reader, &value);
            for (path, offset, value) in seen {
                prop_assert_eq!(locate(&text, &path).offset, offset, "{} in {}", path, &text);
                let mut values = serde_json::Deserializer::from_str(&text[offset..]).into_iter::<Value>();
                prop_assert_eq!(values.next().unwrap().unwrap(), value);
            }
        }

        #[test]
        fn pretty_texts_are_located_too(value in json()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            let (mut compact, mut seen) = (String::new(), Vec::new());
            write(&value, Path::default(), &mut || "", &mut compact, &mut seen);
            prop_assert_eq!(&compact, &value.to_string());
            for (path, _, value) in seen {
                let offset = locate(&text, &path).offset;
                let mut values = serde_json::Deserializer::from_str(&text[offset..]).into_iter::<Value>();
                prop_assert_eq!(values.next().unwrap().unwrap(), value, "{} in {}", path, &text);
            }
        }

        #[test]
        fn any_text_gives_a_place(text in "[\\[\\]{}\",:\\\\ \na1ü]{0,60}", keys in prop::collection::vec("[a1ü]?", 0..5)) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let found = locate(&text, &Path::of(&keys).index(1).key("a"));
            prop_assert!(found.offset <= text.len() && text.is_char_boundary(found.offset));
        }

        #[test]
        fn any_byte_has_a_line_and_a_column(text in "[a\nü€]{0,30}", offset in 0..100_usize) {
            let found = position(&text, offset);
            prop_assert_eq!(found.line, text[..found.offset].split('\n').count());
            prop_assert!(found.offset <= offset);
        }
    }
}
