//! That nothing in a config lies elsewhere: a machine must get what was rendered, not what stands somewhere today.

use seaworthy_ignition::Path;
use seaworthy_ignition::body::bytes_of;
use seaworthy_ignition::node::{Node, Value};

/// Something that a machine would have to fetch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}; render the pool again, which makes remote content a part of the config")]
pub struct Remote {
    /// Where it stands.
    pub path: Path,
    /// What stands there, without credentials.
    pub why: String,
}

/// The first thing in a config that lies elsewhere.
///
/// Looks for sources wherever they stand rather than where they are known to stand: a field that a later version adds
/// is no way around it.
pub fn find(config: &Node<'_>) -> Option<Remote> {
    for key in ["merge", "replace"] {
        let Some(reference) = config.dig(&["ignition", "config", key]) else { continue };
        let mut references = reference.as_list().unwrap_or(std::slice::from_ref(reference)).iter();
        // Also one in place: it was to be merged when the pool was rendered.
        if references.any(|reference| !reference.text_of("source").is_empty()) {
            let path = Path::of(&["ignition", "config", key]);
            return Some(Remote { path, why: "the config refers to another one".to_owned() });
        }
    }
    sources(config, &Path::default())
}

fn sources(node: &Node<'_>, path: &Path) -> Option<Remote> {
    match &node.value {
        Value::List(list) => {
            list.iter().enumerate().find_map(|(index, child)| sources(child, &path.clone().index(index)))
        }
        Value::Map(map) => {
            let source = node.text_of("source");
            if !source.is_empty() && !source.starts_with("data:") {
                // That function has the words, without credentials; a body in place is not decoded for it.
                let why = bytes_of(node, 0).map_or_else(|error| error.to_string(), |_| String::new());
                return Some(Remote { path: path.clone().key("source"), why });
            }
            map.iter().find_map(|(key, child)| sources(child, &path.clone().key(key)))
        }
        _ => None,
    }
}
