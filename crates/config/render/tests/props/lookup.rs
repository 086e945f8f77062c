//! Finds values by the paths that places give.

use seaworthy_render::FieldLocation;
use serde_json::Value;

use crate::props::manifests::content;

/// One step of a path as it is written.
#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Takes a path apart: `a.b[3]["odd key"]`.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(quoted) = rest.strip_prefix("[\"") {
            // Rust's way of quoting is JSON's for everything that these tests generate.
            let end = quoted.match_indices('"').map(|(at, _)| at).find(|at| !quoted[..*at].ends_with('\\')).unwrap();
            steps.push(Step::Key(serde_json::from_str(&format!("\"{}\"", &quoted[..end])).unwrap()));
            rest = quoted[end + 1..].strip_prefix(']').unwrap();
        } else if let Some(index) = rest.strip_prefix('[') {
            let (index, after) = index.split_once(']').unwrap();
            steps.push(Step::Index(index.parse().unwrap()));
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    steps
}

fn walk<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.as_object()?.get(key),
        Step::Index(index) => value.as_array()?.get(*index),
    })
}

/// The value at a path.
pub fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    walk(value, &steps(path))
}

/// Whether there is a value at a path, or at least what would hold it.
pub fn is_there_or_its_parent_is(value: &Value, path: &str) -> bool {
    let steps = steps(path);
    walk(value, &steps).is_some() || steps.split_last().is_some_and(|(_, parent)| walk(value, parent).is_some())
}

/// The value at a place, in a manifest or in the remote config that it refers to.
pub fn value(manifests: &[Value], place: &FieldLocation) -> Option<Value> {
    assert_eq!(place.kind, "MachineConfig");
    match &place.remote {
        Some(url) => at(&serde_json::from_slice(&content(url)?).unwrap(), &place.path).cloned(),
        None => {
            let manifest = manifests.iter().find(|manifest| manifest["metadata"]["name"] == place.name.as_str())?;
            at(manifest, &place.path).cloned()
        }
    }
}

#[test]
fn paths_are_taken_apart_as_they_are_put_together() {
    use seaworthy_ignition::Path;
    let path = Path::of(&["a", "b.c/d", "e"]).index(3).key("").key("f\"g").index(0);
    let key = |key: &str| Step::Key(key.to_owned());
    let expected = vec![key("a"), key("b.c/d"), key("e"), Step::Index(3), key(""), key("f\"g"), Step::Index(0)];
    assert_eq!(steps(&path.to_string()), expected);
    assert_eq!(steps("$"), []);
}
