//! Item reader: reads a JSON `List` on all cores, one item at a time.
//!
//! Where an item ends is found by counting brackets, a fraction of the work of reading it. Measured together with
//! `parallel::two_steps` on two cores: 270 ms became 184 for 3 pools of 800 MachineConfigs. What is no list, or is not
//! well-formed, is left to the usual reader, which knows the words for it.

use memchr::memchr2;
use seaworthy_ignition::node::Node;

use crate::parallel;

/// A shorter text is read sooner than a thread is started.
const MIN_PARALLEL_BYTES: usize = 256 * 1024;

/// Deeper nesting is left to the usual reader, which knows how deep is too deep.
const MAX_DEPTH: usize = 64;

/// The document of a text, when it is one large object with a list of items that can be read each for itself.
pub fn read(text: &str) -> Option<Node<'_>> {
    if text.len() < MIN_PARALLEL_BYTES { None } else { read_items(text) }
}

fn read_items(text: &str) -> Option<Node<'_>> {
    let start = start(text)?;
    let mut scan = Items { text, at: start, more: true, is_sound: true };
    let items = parallel::map(scan.by_ref(), 8, |item| serde_json::from_str::<Node<'_>>(item).ok());
    if !scan.is_sound {
        return None;
    }
    let items = items.into_iter().collect::<Option<Vec<_>>>()?;
    // The object with an empty list in place of the items.
    let shell = format!("{}{}", &text[..start], &text[scan.at..]);
    let mut document = serde_json::from_str::<Node<'_>>(&shell).ok()?.into_owned();
    *document.get_mut("items")?.as_list_mut()? = items;
    Some(document)
}

/// The place behind the bracket that opens the list `items` of the outermost object.
fn start(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0;
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => {
                let end = string_end(bytes, at)?;
                let is_items = depth == 1 && &bytes[at..end] == b"\"items\"";
                at = end;
                if is_items {
                    // A value is never followed by a colon, so this is the key.
                    let rest = text[at..].trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
                    return rest.strip_prefix('[').map(|rest| text.len() - rest.len());
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return None,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// The texts of the items from a place on. Behind the last one, `at` is the place of the bracket that closes the list.
struct Items<'t> {
    text: &'t str,
    at: usize,
    more: bool,
    is_sound: bool,
}

impl<'t> Iterator for Items<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if !self.more {
            return None;
        }
        let Some((end, is_last)) = item_end(self.text.as_bytes(), self.at) else {
            (self.more, self.is_sound) = (false, false);
            return None;
        };
        let item = &self.text[self.at..end];
        self.more = !is_last;
        self.at = if is_last { end } else { end + 1 };
        Some(item)
    }
}

/// The end of the item that begins at a place, and whether the list ends with it.
fn item_end(bytes: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut depth = 0;
    let mut at = start;
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' if depth == MAX_DEPTH => return None,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            b']' => return Some((at, true)),
            b',' if depth == 0 => return Some((at, false)),
            _ => {}
        }
        at += 1;
    }
}

/// The place behind a string that begins at a place.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\[\\]{},:\"\\\\a-c\u{1f600}\n]{0,9}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[\\[{}\"\\\\a-c]{0,4}|items", inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// The text as the usual reader reads it.
    fn whole(text: &str) -> Option<Node<'_>> {
        serde_json::from_str(text).ok()
    }

    proptest! {
        #[test]
        fn a_list_is_read_as_a_whole_or_in_items_alike(
            items in prop::collection::vec(json(), 1..40),
            before in json(),
            after in json(),
            pretty in any::<bool>(),
        ) {
            let list = serde_json::json!({"before": before, "items": items, "kind": after});
            let text = if pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) }.unwrap();
            let (mut one, mut other) = (read_items(&text).unwrap(), whole(&text).unwrap());
            one.number(3);
            other.number(3);
            prop_assert_eq!(format!("{one:?}").replace("Owned", "Borrowed"), format!("{other:?}").replace("Owned", "Borrowed"));
        }

        #[test]
        fn what_is_read_in_items_is_well_formed(text in "(\\{\"items\":\\[)?[\\[\\]{},: 1\"\\\\a]{0,12}(\\]\\})?") {
            if let Some(read) = read_items(&text) {
                prop_assert_eq!(Some(read), whole(&text), "{}", text);
            }
        }
    }

    #[test]
    fn what_is_no_list_is_left_to_the_usual_reader() {
        for text in [
            "",
            "[]",
            r#"{"items":[]}"#,
            r#"{"items":{}}"#,
            r#"{"kind":"items"}"#,
            r#"{"spec":{"items":[1]}}"#,
            r#"{"a":1}{"items":[1]}"#,
            r#"{"items":[1]}{"a":1}"#,
            r#"{"items":[1],"items":[2]}"#,
            r#"{"items":[1]"#,
            r#"{"items":[1"#,
            r#"{"items":["1]}"#,
            r#"{"items":[1,]}"#,
            r#"{"items":[1}]}"#,
        ] {
            assert_eq!(read_items(text), None, "{text}");
        }
        assert!(read_items(r#"{"items":[1, 2]}"#).is_some());
        let deep = format!(r#"{{"items":[{}{}]}}"#, "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert_eq!(read_items(&deep), None);
    }
}
