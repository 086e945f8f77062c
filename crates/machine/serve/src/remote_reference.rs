//! [`RemoteReference`]: remote content in a config, which is not served: a machine must get what was rendered, not what a
//! server has today.

use seaworthy_ignition::Path;
use seaworthy_ignition::body::bytes_of;
use seaworthy_ignition::node::{Node, Value};

/// Content that a machine would have to fetch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}; render the pool again to embed remote content")]
pub struct RemoteReference {
    /// The field with the URL.
    pub path: Path,
    /// The reason, with the URL without credentials.
    pub reason: String,
}

/// The first remote reference in a config.
///
/// Looks for sources in all fields rather than in the known ones: a field that a later version adds must not be missed.
pub fn find(config: &Node<'_>) -> Option<RemoteReference> {
    for key in ["merge", "replace"] {
        let Some(reference) = config.dig(&["ignition", "config", key]) else { continue };
        let mut references = reference.as_list().unwrap_or(std::slice::from_ref(reference)).iter();
        // Also a data URL: it had to be merged when the pool was rendered.
        if references.any(|reference| !reference.text_of("source").is_empty()) {
            let path = Path::of(&["ignition", "config", key]);
            return Some(RemoteReference { path, reason: "the config refers to another one".to_owned() });
        }
    }
    sources(config, &Path::default())
}

fn sources(node: &Node<'_>, path: &Path) -> Option<RemoteReference> {
    match &node.value {
        Value::List(list) => {
            list.iter().enumerate().find_map(|(index, child)| sources(child, &path.clone().index(index)))
        }
        Value::Map(map) => {
            let source = node.text_of("source");
            if !source.is_empty() && !source.starts_with("data:") {
                // That function has the message, without credentials; data URLs are not decoded here.
                let reason = bytes_of(node, 0).map_or_else(|error| error.to_string(), |_| String::new());
                return Some(RemoteReference { path: path.clone().key("source"), reason });
            }
            map.iter().find_map(|(key, child)| sources(child, &path.clone().key(key)))
        }
        _ => None,
    }
}
