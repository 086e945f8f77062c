//! Nodes: a JSON tree that borrows its strings from the source text and records the position of each value.
//!
//! Everything in this crate works on [`Node`]s rather than on one Rust struct per Ignition object:
//!
//! * a config of one megabyte of file bodies is read without copying them;
//! * every value keeps its [`Origin`], so that whatever happens to it later (conversion from spec 2.x,
//!   merging, embedding) it can be traced to the document and the place it was written in;
//! * one table ([`crate::schema`]) drives shape checks, merging, translation and comparison alike.

use std::borrow::Cow;

use seaworthy_values::text::beginning;

use crate::path::Path;

/// Where a value was written: a document, and the value's place in it counted in reading order.
///
/// The path is not stored: [`Node::path_of`] finds it again from the document's tree on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The document, as numbered by the caller that read it.
    pub doc: u32,
    /// The position in that document: 0 is its root, counted depth first.
    pub at: u32,
}

impl Origin {
    /// The origin of values that no document contains (defaults, results of a conversion).
    pub const NONE: Origin = Origin { doc: u32::MAX, at: u32::MAX };

    /// Whether the value came from a document.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// A value and where it came from.
#[derive(Debug, Clone)]
pub struct Node<'a> {
    pub value: Value<'a>,
    /// Where it was written.
    pub origin: Origin,
}

/// A JSON value.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`, which everywhere in Ignition means "not set".
    Null,
    Bool(bool),
    /// A whole number that fits 64 bits with a sign.
    Int(i64),
    /// Any other number: it is never valid in a config and is kept for the error message and for other manifests.
    Float(f64),
    Str(Cow<'a, str>),
    List(Vec<Node<'a>>),
    /// An object, in the order it was written.
    Map(Map<'a>),
}

/// An object: keys are unique, order is that of the text.
#[derive(Debug, Clone, Default)]
pub struct Map<'a>(pub Vec<(Cow<'a, str>, Node<'a>)>);

// === impl Map ===

impl<'a> Map<'a> {
    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The value under a key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node<'a>> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Sets a key, in place when it exists, otherwise at the end.
    pub fn set(&mut self, key: impl Into<Cow<'a, str>>, node: Node<'a>) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(old) => *old = node,
            None => self.0.push((key, node)),
        }
    }

    /// Removes a key and gives back what was there.
    pub fn remove(&mut self, key: &str) -> Option<Node<'a>> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node<'a>)> {
        self.0.iter().map(|(key, node)| (key.as_ref(), node))
    }
}

// === impl Node ===

impl<'a> Node<'a> {
    /// A value that no document contains.
    pub fn made(value: Value<'a>) -> Self {
        Node { value, origin: Origin::NONE }
    }

    /// A string with an origin.
    pub fn str_at(text: impl Into<Cow<'a, str>>, origin: Origin) -> Self {
        Node { value: Value::Str(text.into()), origin }
    }

    /// A list with an origin.
    pub fn list_at(entries: Vec<Node<'a>>, origin: Origin) -> Self {
        Node { value: Value::List(entries), origin }
    }

    /// An object with an origin.
    pub fn map_at(entries: Vec<(Cow<'a, str>, Node<'a>)>, origin: Origin) -> Self {
        Node { value: Value::Map(Map(entries)), origin }
    }

    /// The empty config of a version, which no document contains.
    pub fn empty_config(version: &'static str) -> Self {
        let ignition = Node::map_at(vec![("version".into(), Node::str_at(version, Origin::NONE))], Origin::NONE);
        Node::map_at(vec![("ignition".into(), ignition)], Origin::NONE)
    }

    /// The value under a key, when this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.as_map()?.get(key)
    }

    /// The value below a chain of keys.
    pub fn dig(&self, keys: &[&str]) -> Option<&Node<'a>> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The object, when this is one.
    pub fn as_map(&self) -> Option<&Map<'a>> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The object, to change it, when this is one.
    pub fn as_map_mut(&mut self) -> Option<&mut Map<'a>> {
        match &mut self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The list, when this is one.
    pub fn as_list(&self) -> Option<&[Node<'a>]> {
        match &self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The list, to change it, when this is one.
    pub fn as_list_mut(&mut self) -> Option<&mut Vec<Node<'a>>> {
        match &mut self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The text, when this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The number, when this is a whole one.
    pub fn as_int(&self) -> Option<i64> {
        match self.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    /// The boolean, when this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The text under a key; `None` when unset or of another type.
    pub fn str_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The text under a key, with "unset" and "empty" taken as the same.
    pub fn text_of(&self, key: &str) -> &str {
        self.str_of(key).unwrap_or_default()
    }

    /// The whole number under a key.
    pub fn int_of(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_int()
    }

    /// The boolean under a key.
    pub fn bool_of(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// The list under a key; empty when unset.
    pub fn list_of(&self, key: &str) -> &[Node<'a>] {
        self.get(key).and_then(Node::as_list).unwrap_or_default()
    }

    /// The value under a key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node<'a>> {
        self.as_map_mut()?.get_mut(key)
    }

    /// Takes the value under a key out.
    pub fn take(&mut self, key: &str) -> Option<Node<'a>> {
        self.as_map_mut()?.remove(key)
    }

    /// Sets a key, when this is an object.
    pub fn set(&mut self, key: &'static str, node: Node<'a>) {
        if let Some(map) = self.as_map_mut() {
            map.set(key, node);
        }
    }

    /// The list under a key, to change its entries; empty when unset.
    pub fn list_of_mut(&mut self, key: &str) -> &mut [Node<'a>] {
        self.get_mut(key).and_then(Node::as_list_mut).map(Vec::as_mut_slice).unwrap_or_default()
    }

    /// The entries, when this is a list.
    pub fn into_list(self) -> Vec<Node<'a>> {
        match self.value {
            Value::List(list) => list,
            _ => Vec::new(),
        }
    }

    /// Gives every value its place in the document `doc`.
    pub fn number(&mut self, doc: u32) {
        let mut next = 0;
        self.number_from(doc, &mut next);
    }

    fn number_from(&mut self, doc: u32, next: &mut u32) {
        self.origin = Origin { doc, at: *next };
        // A text of four billion values does not fit the size limits of any reader of ours.
        *next = next.saturating_add(1);
        match &mut self.value {
            Value::List(list) => list.iter_mut().for_each(|node| node.number_from(doc, next)),
            Value::Map(map) => map.0.iter_mut().for_each(|(_, node)| node.number_from(doc, next)),
            _ => {}
        }
    }

    /// The path, below this node, of the value that has this origin.
    ///
    /// The tree must be as it was read: reading order is what makes the search a descent rather than a walk.
    pub fn path_of(&self, origin: Origin) -> Option<Path> {
        self.find(origin).map(|(path, _)| path)
    }

    /// The path and the value, below this node, that has this origin.
    pub fn find(&self, origin: Origin) -> Option<(Path, &Node<'a>)> {
        if origin.doc != self.origin.doc || origin.at < self.origin.at {
            return None;
        }
        let mut path = Path::default();
        let mut node = self;
        while node.origin.at != origin.at {
            // Children are numbered in order, so the last child that does not start behind the target holds it.
            let after = |child: &Node<'_>| child.origin.at <= origin.at;
            match &node.value {
                Value::List(list) => {
                    let index = list.partition_point(after).checked_sub(1)?;
                    path = path.index(index);
                    node = &list[index];
                }
                Value::Map(map) => {
                    let index = map.0.partition_point(|(_, child)| after(child)).checked_sub(1)?;
                    let (key, child) = &map.0[index];
                    path = path.key(key.as_ref());
                    node = child;
                }
                _ => return None,
            }
        }
        Some((path, node))
    }

    /// The number of the last value below this node plus one: the end of its range of origins.
    pub fn end(&self) -> u32 {
        let mut node = self;
        loop {
            let last = match &node.value {
                Value::List(list) => list.last(),
                Value::Map(map) => map.0.last().map(|(_, child)| child),
                _ => None,
            };
            match last {
                Some(child) => node = child,
                None => return node.origin.at.saturating_add(1),
            }
        }
    }

    /// The same tree, borrowing its strings from this one.
    pub fn borrowed(&self) -> Node<'_> {
        let value = match &self.value {
            Value::Null => Value::Null,
            Value::Bool(flag) => Value::Bool(*flag),
            Value::Int(number) => Value::Int(*number),
            Value::Float(number) => Value::Float(*number),
            Value::Str(text) => Value::Str(Cow::Borrowed(text)),
            Value::List(list) => Value::List(list.iter().map(Node::borrowed).collect()),
            Value::Map(map) => Value::Map(Map(map
                .0
                .iter()
                .map(|(key, node)| (Cow::Borrowed(key.as_ref()), node.borrowed()))
                .collect())),
        };
        Node { value, origin: self.origin }
    }

    /// The same tree with strings of its own.
    pub fn into_owned(self) -> Node<'static> {
        let value = match self.value {
            Value::Null => Value::Null,
            Value::Bool(flag) => Value::Bool(flag),
            Value::Int(number) => Value::Int(number),
            Value::Float(number) => Value::Float(number),
            Value::Str(text) => Value::Str(Cow::Owned(text.into_owned())),
            Value::List(list) => Value::List(list.into_iter().map(Node::into_owned).collect()),
            Value::Map(map) => Value::Map(Map(map
                .0
                .into_iter()
                .map(|(key, node)| (Cow::Owned(key.into_owned()), node.into_owned()))
                .collect())),
        };
        Node { value, origin: self.origin }
    }

    /// What the value is, in the words of an error message: `the string "x"`, `a list of 3`.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(flag) => format!("the boolean {flag}"),
            Value::Int(number) => format!("the number {number}"),
            Value::Float(number) => format!("the number {number}"),
            Value::Str(text) => format!("the string {}", crate::url::quote_any(text)),
            Value::List(list) => format!("a list of {}", list.len()),
            Value::Map(map) if map.0.len() == 1 => "an object with 1 key".to_owned(),
            Value::Map(map) => format!("an object with {} keys", map.0.len()),
        }
    }
}

/// Equal values; origins are not compared, and objects are equal whatever the order of their keys.
impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => {
                a.0.len() == b.0.len() && a.iter().all(|(key, node)| b.get(key) == Some(node))
            }
            _ => false,
        }
    }
}

/// A string for a message: quoted, escaped, and cut so that a file body never floods a terminal.
pub fn quote(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    match beginning(text, MAX_SHOWN) {
        Some(beginning) => format!("{beginning:?}… ({} bytes)", text.len()),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Node<'_> {
        let mut node: Node<'_> = serde_json::from_str(text).unwrap();
        node.number(7);
        node
    }

    #[test]
    fn every_value_is_found_again_by_its_origin() {
        let node = read(r#"{"a":[1,{"b":null,"c":[[],"x"]}],"d":{"e":true}}"#);
        fn check<'a>(root: &Node<'a>, node: &Node<'a>, path: Path) {
            assert_eq!(root.path_of(node.origin), Some(path.clone()));
            match &node.value {
                Value::List(list) => {
                    list.iter().enumerate().for_each(|(i, child)| check(root, child, path.clone().index(i)));
                }
                Value::Map(map) => map.iter().for_each(|(key, child)| check(root, child, path.clone().key(key))),
                _ => {}
            }
        }
        check(&node, &node, Path::default());
        assert_eq!(node.end(), 10);
    }

    #[test]
    fn an_origin_of_another_document_is_not_found() {
        let node = read("[1]");
        assert_eq!(node.path_of(Origin { doc: 8, at: 1 }), None);
        assert_eq!(node.path_of(Origin { doc: 7, at: 2 }), None);
        assert_eq!(node.path_of(Origin::NONE), None);
    }

    #[test]
    fn objects_are_equal_whatever_their_order() {
        assert_eq!(read(r#"{"a":1,"b":2}"#), read(r#"{"b":2,"a":1}"#));
        assert_ne!(read(r#"{"a":1}"#), read(r#"{"a":1,"b":2}"#));
    }
}
