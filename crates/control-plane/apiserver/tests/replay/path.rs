//! Paths into a JSON document, as scenarios write them.
//!
//! Segments separated by `/`: a key (`~1` is a slash in it), an index, `*`, `**` (any depth), or
//! `[key.path=value]` for the elements of a list that have the value.

use serde_json::Value;

use crate::text::plain;

/// One step into a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Of an object.
    Name(String),
    /// Of a list.
    Index(usize),
}

/// The path from the root of a document to one value.
pub type ValuePath = Vec<Key>;

/// All values that a path matches, in the order of the document.
pub fn matching_paths(document: &Value, path: &str) -> Vec<ValuePath> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut found = Vec::new();
    walk(document, &segments, &mut Vec::new(), &mut found);
    found
}

/// The first value that a path leads to.
pub fn find<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let matched = matching_paths(document, path).into_iter().next()?;
    matched.iter().try_fold(document, |value, key| match key {
        Key::Name(name) => value.get(name),
        Key::Index(index) => value.get(index),
    })
}

/// What is directly below a value.
pub fn children(value: &Value) -> Vec<(Key, &Value)> {
    match value {
        Value::Object(map) => map.iter().map(|(name, child)| (Key::Name(name.clone()), child)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(index, child)| (Key::Index(index), child)).collect(),
        _ => Vec::new(),
    }
}

fn walk(value: &Value, segments: &[&str], at: &mut ValuePath, found: &mut Vec<ValuePath>) {
    let Some((head, rest)) = segments.split_first() else {
        found.push(at.clone());
        return;
    };
    if *head == "**" {
        walk(value, rest, at, found);
    }
    for (key, child) in children(value) {
        let remaining = match *head {
            "**" => Some(segments),
            _ => is_meant(head, &key, child).then_some(rest),
        };
        if let Some(remaining) = remaining {
            at.push(key);
            walk(child, remaining, at, found);
            at.pop();
        }
    }
}

fn is_meant(segment: &str, key: &Key, child: &Value) -> bool {
    if let Some((path, wanted)) =
        segment.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).and_then(|inner| inner.split_once('='))
    {
        let found = find(child, &path.replace('.', "/")).unwrap_or(&Value::Null);
        return plain(found) == wanted.replace("~1", "/");
    }
    segment == "*"
        || match key {
            Key::Name(name) => *name == segment.replace("~1", "/"),
            Key::Index(index) => index.to_string() == segment,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{find, matching_paths};

    #[test]
    fn paths_lead_to_keys_indices_and_selected_elements() {
        let document = json!({
            "metadata": {"labels": {"a/b": "yes"}},
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}],
        });
        assert_eq!(find(&document, "/metadata/labels/a~1b"), Some(&json!("yes")));
        assert_eq!(find(&document, "conditions/1/type"), Some(&json!("Disk")));
        assert_eq!(find(&document, "conditions/[type=Disk]/status"), Some(&json!("True")));
        assert_eq!(find(&document, "conditions/[type=Network]/status"), None);
        assert_eq!(find(&document, "conditions/2"), None);
        assert_eq!(find(&document, ""), Some(&document));
        assert_eq!(matching_paths(&document, "conditions/*/status").len(), 2);
    }

    #[test]
    fn two_stars_reach_any_depth_their_own_included() {
        let document = json!({"uid": 1, "a": {"uid": 2, "b": [{"uid": 3}]}});
        assert_eq!(matching_paths(&document, "**/uid").len(), 3);
        assert_eq!(matching_paths(&document, "a/**/uid").len(), 2);
    }

    #[test]
    fn selection_looks_deep_and_compares_text() {
        let document = json!([{"object": {"n": 1, "on": true}}, {"object": {}}]);
        assert_eq!(matching_paths(&document, "[object.n=1]").len(), 1);
        assert_eq!(matching_paths(&document, "[object.on=True]").len(), 1);
        assert_eq!(matching_paths(&document, "[object.n=None]").len(), 1);
    }
}
