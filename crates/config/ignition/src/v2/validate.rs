//! Validation by the rules of spec 2.x, applied to a config as it was written, before the conversion drops or moves
//! parts.
//!
//! What these rules leave out is checked after the conversion, by the rules of version 3.0. The rest must be looked at
//! here: duplicates that the conversion drops are checked as well, and so are the parts that version 3 has no place
//! for.

use crate::node::{Node, quote};
use crate::problem::PathRef;
use crate::url::quote_any;
use crate::validate::{Check, device, file, resource};
use crate::version::Version;

/// What files, directories and links have in common.
pub(super) fn node(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if node.text_of("filesystem").is_empty() {
        let message = "no filesystem specified; a 2.x config names it, mostly \"root\"";
        check.report.error(&place.key("filesystem"), node, "v2-filesystem-missing", message);
    }
    absolute(node, "path", place, check);
    file::mode(node, place, check);
}

pub(super) fn file(file: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
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
pub(super) fn body(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    resource::compression(node, place, check);
    resource::source(node, place, check);
}

/// A reference to a config or a certificate.
pub(super) fn reference(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    resource::source(node, place, check);
}

/// A user: the old way to say how it is created excludes the new one.
pub(super) fn user(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let Some(create) = node.get("create") else { return };
    for key in ["gecos", "homeDir", "primaryGroup", "shell"] {
        if let Some(field) = node.get(key)
            && field.as_str() != Some("")
        {
            conflict_with_create(create, field, key, place, check);
        }
    }
    for key in ["noCreateHome", "noLogInit", "noUserGroup", "system"] {
        if let Some(field) = node.get(key)
            && field.as_bool() == Some(true)
        {
            conflict_with_create(create, field, key, place, check);
        }
    }
    for key in ["groups", "uid"] {
        if let Some(field) = node.get(key) {
            conflict_with_create(create, field, key, place, check);
        }
    }
}

fn conflict_with_create(create: &Node<'_>, field: &Node<'_>, key: &str, place: &PathRef<'_>, check: &mut Check) {
    let message = format!("cannot use both create and {key}; move what create says beside it and drop create");
    check.report.clash(&place.key(key), field, &[create], "v2-user-create", message);
}

/// The number of a user or group, which has no sign in 2.0.0.
fn number(node: &Node<'_>, key: &str, place: &PathRef<'_>, check: &mut Check) {
    if let Some(number) = node.get(key)
        && check.version == Version::V2_0
        && number.as_int().is_some_and(|number| number < 0)
    {
        let message = format!("found {}; expected 0 or more", number.describe());
        check.report.error(&place.key(key), number, "v2-negative", message);
    }
}

/// The old way to say how a user is created.
pub(super) fn user_create(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    number(node, "uid", place, check);
}

pub(super) fn group(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    number(node, "gid", place, check);
}

/// A filesystem: where it lies, or how it is mounted.
pub(super) fn filesystem(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
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
pub(super) fn mount(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    absolute(node, "device", place, check);
    let format = node.text_of("format");
    let known: &[&str] = match check.version {
        Version::V2_0 => &["ext4", "btrfs", "xfs"],
        _ => &["ext4", "btrfs", "xfs", "swap", "vfat"],
    };
    if known.contains(&format) {
        device::filesystem_label(node, format, place, check);
    } else {
        let message = format!("invalid filesystem format {}; expected one of {}", quote(format), known.join(", "));
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
fn absolute(node: &Node<'_>, key: &str, place: &PathRef<'_>, check: &mut Check) {
    let text = node.text_of(key);
    let here = place.key(key);
    let found = node.get(key).unwrap_or(node);
    if text.is_empty() {
        check.report.error(&here, found, "path-missing", format!("{key} not specified; it is an absolute path"));
    } else if let Some((code, message)) = file::path_error(text) {
        check.report.error(&here, found, code, message);
    } else if !text.starts_with('/') {
        let message = format!("path not absolute: {}; it starts with \"/\"", quote_any(text));
        check.report.error(&here, found, "path-not-absolute", message);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use crate::node::Node;
    use crate::parse::parse;
    use crate::problem::Severity;

    fn errors(config: &serde_json::Value) -> Vec<String> {
        let mut node = Node::from_json(config);
        node.number(0);
        let problems = parse(&node).map_or_else(|problems| problems, |parsed| parsed.warnings);
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        errors.map(|problem| format!("{} {}", problem.path, problem.code)).collect()
    }

    fn file(file: serde_json::Value) -> serde_json::Value {
        json!({"storage": {"files": [file]}})
    }

    #[rstest]
    #[case::scheme("2.0.0", file(json!({"filesystem": "root", "path": "/a", "contents": {"source": "s3://b/k"}})),
        "storage.files[0].contents.source source-scheme")]
    #[case::both("2.2.0", file(json!({"filesystem": "root", "path": "/a", "append": true, "overwrite": true})),
        "storage.files[0].append v2-append-and-overwrite")]
    #[case::no_filesystem("2.1.0", file(json!({"path": "/a"})), "storage.files[0].filesystem v2-filesystem-missing")]
    #[case::relative("2.2.0", file(json!({"filesystem": "root", "path": "a"})), "storage.files[0].path path-not-absolute")]
    #[case::key_as_written("2.2.0", json!({"Storage": {"Files": [{"filesystem": "root", "Path": "a"}]}}),
        "Storage.Files[0].Path path-not-absolute")]
    #[case::nowhere("2.2.0", json!({"storage": {"filesystems": [{"name": "root"}]}}),
        "storage.filesystems[0] v2-filesystem-nowhere")]
    #[case::twice("2.2.0",
        json!({"storage": {"filesystems": [{"name": "root", "path": "/", "mount": {"device": "/d", "format": "ext4"}}]}}),
        "storage.filesystems[0].path v2-filesystem-twice")]
    #[case::format("2.0.0", json!({"storage": {"filesystems": [{"name": "root", "mount": {"device": "/d", "format": "swap"}}]}}),
        "storage.filesystems[0].mount.format filesystem-format")]
    #[case::label("2.1.0",
        json!({"storage": {"filesystems": [{"name": "root", "mount": {"device": "/d", "format": "xfs", "label": "more than twelve"}}]}}),
        "storage.filesystems[0].mount.label filesystem-label")]
    #[case::wipe("2.2.0",
        json!({"storage": {"filesystems": [
            {"name": "root", "mount": {"device": "/d", "format": "ext4", "create": {}, "wipeFilesystem": true}}]}}),
        "storage.filesystems[0].mount.wipeFilesystem v2-mount-create")]
    #[case::create("2.2.0", json!({"passwd": {"users": [{"name": "core", "create": {}, "uid": 0}]}}),
        "passwd.users[0].uid v2-user-create")]
    #[case::negative("2.0.0", json!({"passwd": {"groups": [{"name": "g", "gid": -1}]}}), "passwd.groups[0].gid v2-negative")]
    #[case::dropin_twice("2.2.0",
        json!({"systemd": {"units": [{"name": "a.service", "dropins": [{"name": "x.conf"}, {"name": "x.conf"}]}]}}),
        "systemd.units[0].dropins[1] duplicate")]
    #[case::hash("2.2.0",
        file(json!({"filesystem": "root", "path": "/a", "contents": {"verification": {"hash": "sha256-00"}}})),
        "storage.files[0].contents.verification.hash hash")]
    fn a_broken_rule_is_named_at_its_place_in_the_text(
        #[case] version: &str,
        #[case] mut config: serde_json::Value,
        #[case] expected: &str,
    ) {
        config["ignition"] = json!({ "version": version });
        assert_eq!(errors(&config), [expected]);
    }

    #[test]
    fn what_the_conversion_drops_is_checked_too() {
        let config = json!({
            "ignition": {"version": "2.2.0"},
            "storage": {"files": [
                {"filesystem": "root", "path": "/a", "contents": {"source": "ftp://h"}},
                {"filesystem": "root", "path": "/a"},
            ]},
            "systemd": {"units": [{"name": "a.service", "contents": "[Unit"}, {"name": "a.service"}]},
        });
        assert_eq!(
            errors(&config),
            ["storage.files[0].contents.source source-scheme", "systemd.units[0].contents unit-contents"]
        );
    }
}
