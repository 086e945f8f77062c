//! The rules of spec 2.x, applied to a config as it was written, before anything of it is dropped or moved.
//!
//! What these rules leave out is checked after the conversion, by the rules of version 3.0. The rest must be looked at
//! here: duplicates that the conversion drops are checked as well, and so are the parts that version 3 has no place
//! for.

use crate::node::{Node, quote};
use crate::problem::Place;
use crate::validate::{Check, device, file, resource};
use crate::version::Version;

/// What files, directories and links have in common.
pub(super) fn node(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    if node.text_of("filesystem").is_empty() {
        let message = "no filesystem specified; a 2.x config names it, mostly \"root\"";
        check.report.error(&place.key("filesystem"), node, "v2-filesystem-missing", message);
    }
    absolute(node, "path", place, check);
    file::mode(node, place, check);
}

/// A file.
pub(super) fn file(file: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    node(file, place, check);
    if let (Some(append), Some(overwrite)) = (file.get("append"), file.get("overwrite"))
        && append.as_bool() == Some(true)
        && overwrite.as_bool() == Some(true)
    {
        let message = "cannot set both append and overwrite to true; keep one";
        check.report.clash(&place.key("append"), append, &[overwrite], "v2-append-and-overwrite", message);
    }
}

/// What goes into a file.
pub(super) fn body(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    resource::compression(node, place, check);
    resource::source(node, place, check);
}

/// A reference to a config or a certificate.
pub(super) fn reference(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    resource::source(node, place, check);
}

/// A user: the old way to say how it is created excludes the new one.
pub(super) fn user(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    let Some(create) = node.get("create") else { return };
    for key in ["gecos", "homeDir", "primaryGroup", "shell"] {
        if let Some(field) = node.get(key)
            && field.as_str() != Some("")
        {
            both_ways(create, field, key, place, check);
        }
    }
    for key in ["noCreateHome", "noLogInit", "noUserGroup", "system"] {
        if let Some(field) = node.get(key)
            && field.as_bool() == Some(true)
        {
            both_ways(create, field, key, place, check);
        }
    }
    for key in ["groups", "uid"] {
        if let Some(field) = node.get(key) {
            both_ways(create, field, key, place, check);
        }
    }
}

fn both_ways(create: &Node<'_>, field: &Node<'_>, key: &str, place: &Place<'_>, check: &mut Check) {
    let message = format!("cannot use both create and {key}; move what create says beside it and drop create");
    check.report.clash(&place.key(key), field, &[create], "v2-user-create", message);
}

/// The number of a user or group, which has no sign in 2.0.0.
fn number(node: &Node<'_>, key: &str, place: &Place<'_>, check: &mut Check) {
    if let Some(number) = node.get(key)
        && check.version == Version::V2_0
        && number.as_int().is_some_and(|number| number < 0)
    {
        let message = format!("found {}; accepted are 0 and above", number.describe());
        check.report.error(&place.key(key), number, "v2-negative", message);
    }
}

/// The old way to say how a user is created.
pub(super) fn user_create(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    number(node, "uid", place, check);
}

/// A group.
pub(super) fn group(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    number(node, "gid", place, check);
}

/// A filesystem: where it lies, or how it is mounted.
pub(super) fn filesystem(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    match (node.get("mount"), node.get("path")) {
        (None, None) => {
            let message = "filesystem is missing mount or path; give one of them";
            check.report.error(place, node, "v2-filesystem-nowhere", message);
        }
        (Some(mount), Some(path)) => {
            let message = "filesystem has both mount and path; keep one";
            check.report.clash(&place.key("path"), path, &[mount], "v2-filesystem-twice", message);
        }
        (None, Some(_)) => absolute(node, "path", place, check),
        (Some(_), None) => {}
    }
}

/// How a filesystem is mounted.
pub(super) fn mount(node: &Node<'_>, place: &Place<'_>, check: &mut Check) {
    absolute(node, "device", place, check);
    let format = node.text_of("format");
    let known: &[&str] = match check.version {
        Version::V2_0 => &["ext4", "btrfs", "xfs"],
        _ => &["ext4", "btrfs", "xfs", "swap", "vfat"],
    };
    if known.contains(&format) {
        device::filesystem_label(node, format, place, check);
    } else {
        let message = format!("invalid filesystem format {}; accepted are {}", quote(format), known.join(", "));
        check.report.error(&place.key("format"), node.get("format").unwrap_or(node), "filesystem-format", message);
    }
    let Some(create) = node.get("create") else { return };
    if let Some(wipe) = node.get("wipeFilesystem")
        && wipe.as_bool() == Some(true)
    {
        let message = "cannot use both create and wipeFilesystem; drop create";
        check.report.clash(&place.key("wipeFilesystem"), wipe, &[create], "v2-mount-create", message);
    }
    if let Some(options) = node.get("options") {
        let message = "cannot use both create and options; drop create";
        check.report.clash(&place.key("options"), options, &[create], "v2-mount-create", message);
    }
}

/// A path that must be absolute. It need not be clean: the conversion cleans it.
fn absolute(node: &Node<'_>, key: &str, place: &Place<'_>, check: &mut Check) {
    let text = node.text_of(key);
    let here = place.key(key);
    let found = node.get(key).unwrap_or(node);
    if text.is_empty() {
        check.report.error(&here, found, "path-missing", format!("{key} not specified; it is an absolute path"));
    } else if !text.starts_with('/') {
        let message = format!("path not absolute: {}; it starts with \"/\"", quote(text));
        check.report.error(&here, found, "path-not-absolute", message);
    }
}
