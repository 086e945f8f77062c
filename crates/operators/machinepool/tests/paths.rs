//! Paths into JSON documents, in the notation of the scenarios: keys separated by `/` (`~1` is a slash in a key), `*` any one,
//! `**` any depth, `[type=Ready]` the items of a list that have this value.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A concrete path.
pub type Path = Vec<Part>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Key(String),
    Index(usize),
}

fn children(value: &Value) -> Vec<(Part, &Value)> {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (Part::Key(key.clone()), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(nth, value)| (Part::Index(nth), value)).collect(),
        _ => Vec::new(),
    }
}

/// All concrete paths that a pattern leads to.
fn matches(value: &Value, segments: &[&str], at: &Path, found: &mut Vec<Path>) {
    let Some((head, rest)) = segments.split_first() else {
        found.push(at.clone());
        return;
    };
    if *head == "**" {
        matches(value, rest, at, found);
    }
    for (part, child) in children(value) {
        let key = match &part {
            Part::Key(key) => key.clone(),
            Part::Index(nth) => nth.to_string(),
        };
        let below: Path = at.iter().cloned().chain([part]).collect();
        if *head == "**" {
            matches(child, segments, &below, found);
        } else if let Some((path, wanted)) =
            head.strip_prefix('[').and_then(|head| head.strip_suffix(']')).and_then(|head| head.split_once('='))
        {
            let has = find(child, &path.replace('.', "/")).and_then(Value::as_str);
            if has == Some(wanted.replace("~1", "/").as_str()) {
                matches(child, rest, &below, found);
            }
        } else if *head == "*" || key == head.replace("~1", "/") {
            matches(child, rest, &below, found);
        }
    }
}

fn segments(pattern: &str) -> Vec<&str> {
    pattern.split('/').filter(|segment| !segment.is_empty()).collect()
}

/// All concrete paths that these patterns lead to.
pub fn paths<'a>(value: &Value, patterns: impl IntoIterator<Item = &'a str>) -> BTreeSet<Path> {
    let mut found = Vec::new();
    for pattern in patterns {
        matches(value, &segments(pattern), &Path::new(), &mut found);
    }
    found.into_iter().collect()
}

/// The value at a concrete path.
pub fn at<'a>(value: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, part| match part {
        Part::Key(key) => value.get(key),
        Part::Index(nth) => value.get(nth),
    })
}

/// The first value that a pattern leads to.
pub fn find<'a>(value: &'a Value, pattern: &str) -> Option<&'a Value> {
    let mut found = Vec::new();
    matches(value, &segments(pattern), &Path::new(), &mut found);
    at(value, found.first()?)
}

/// The parts of a document whose paths are kept.
pub fn filtered(value: &Value, keep: &dyn Fn(&Path) -> bool) -> Value {
    below(value, keep, &Path::new())
}

fn below(value: &Value, keep: &dyn Fn(&Path) -> bool, at: &Path) -> Value {
    let kept = children(value).into_iter().filter_map(|(part, child)| {
        let path: Path = at.iter().cloned().chain([part.clone()]).collect();
        keep(&path).then(|| (part, below(child, keep, &path)))
    });
    match value {
        Value::Object(_) => {
            let fields = kept.filter_map(|(part, value)| match part {
                Part::Key(key) => Some((key, value)),
                Part::Index(_) => None,
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(_) => Value::Array(kept.map(|(_, value)| value).collect()),
        other => other.clone(),
    }
}
