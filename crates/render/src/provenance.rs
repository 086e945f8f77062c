//! Who set what in a rendered config, and whom they overrode.

use seaworthy_ignition::node::Node;

/// An entry of a list in words: `file /etc/x`, `unit a.service`.
pub(crate) fn noun(list: &str, entry: &Node<'_>) -> Option<String> {
    let (noun, key) = match list {
        "files" => ("file", "path"),
        "directories" => ("directory", "path"),
        "links" => ("link", "path"),
        "units" => ("unit", "name"),
        "users" => ("user", "name"),
        "groups" => ("group", "name"),
        "disks" => ("disk", "device"),
        "filesystems" => ("filesystem", "device"),
        "raid" => ("raid", "name"),
        "luks" => ("luks device", "name"),
        _ => return None,
    };
    Some(format!("{noun} {}", entry.str_of(key)?))
}
