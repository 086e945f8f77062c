//! Validation rules of files, directories and links.

use std::collections::HashMap;

use super::Check;
use crate::node::{Node, quote};
use crate::problem::PathRef;
use crate::tree::Tree;
use crate::url::quote_any;

pub(crate) fn file(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    path(node, place, check);
    mode(node, place, check);
    if let Some(overwrite) = node.get("overwrite")
        && overwrite.as_bool() == Some(true)
        && node.dig(&["contents", "source"]).is_none()
    {
        let message = "overwrite must be false if source is unspecified; give contents.source (\"data:,\" is an empty \
                       file) or set overwrite to false";
        check.report.clash(&place.key("overwrite"), overwrite, &[node], "overwrite-without-source", message);
    }
}

pub(crate) fn directory(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    path(node, place, check);
    mode(node, place, check);
}

/// A link, as far as it is looked at alone.
pub(crate) fn link(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    path(node, place, check);
    // Differs: versions before 3.3 take a link without a target, because their rules forgot it; the machine then fails
    // to boot, and in 3.5, which everything is merged in, it is no valid config.
    if node.text_of("target").is_empty() {
        check.report.error(&place.key("target"), node, "link-target", "link target is required");
    }
    if let Some(target) = node.get("target")
        && let Some((code, message)) = path_error(target.as_str().unwrap_or_default())
    {
        check.report.error(&place.key("target"), target, code, message);
    }
}

fn path(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    check_path(node, node.get("path"), &place.key("path"), check);
}

/// A path that must be given, absolute and clean.
pub(crate) fn check_path(owner: &Node<'_>, path: Option<&Node<'_>>, place: &PathRef<'_>, check: &mut Check) {
    let text = path.and_then(Node::as_str).unwrap_or_default();
    let node = path.unwrap_or(owner);
    let (code, message) = if text.is_empty() {
        ("path-missing", "path not specified; write an absolute path".to_owned())
    } else if let Some(path_error) = path_error(text) {
        path_error
    } else if !text.starts_with('/') {
        ("path-not-absolute", format!("path not absolute: {}; it starts with \"/\"", quote_any(text)))
    } else if !is_clean(text) {
        ("path-not-clean", format!("path is not fully simplified: {}; write {}", quote(text), quote(&clean(text))))
    } else {
        return;
    };
    check.report.error(place, node, code, message);
}

/// The longest path that Linux takes: MAX_PATH_BYTES without the byte that ends it.
const MAX_PATH_BYTES: usize = 4095;

/// The code and the message for a path that no system call takes.
///
/// Differs: Ignition accepts such paths when it reads a config, because it never looks; the machine then fails at its
/// first boot.
pub(crate) fn path_error(path: &str) -> Option<(&'static str, String)> {
    if path.len() > MAX_PATH_BYTES {
        let message = format!("path of {} bytes; expected at most {MAX_PATH_BYTES}: {}", path.len(), quote(path));
        return Some(("path-too-long", message));
    }
    path.contains('\0').then(|| ("path-nul", format!("path contains a NUL character: {}; leave it out", quote(path))))
}

/// Whether an absolute path is as [`clean`] would write it. Nearly all are, and this allocates nothing.
fn is_clean(path: &str) -> bool {
    path == "/" || path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
}

/// An absolute path without `.`, `..`, doubled and trailing slashes.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The mode of a file or directory.
pub(crate) fn mode(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let Some(mode) = node.get("mode") else { return };
    let Some(number) = mode.as_int() else { return };
    if !(0..=0o7777).contains(&number) {
        let message = format!("illegal file mode {number}; expected 0 to 4095 (octal 7777)");
        check.report.error(&place.key("mode"), mode, "mode", message);
    } else if let Some(meant) = meant_as_octal(number) {
        let message = format!(
            "mode {number} is a decimal number and sets 0{number:o}; if 0{number} is meant, write 0{number} in YAML or \
             {meant} in JSON"
        );
        check.report.warn(&place.key("mode"), mode, "mode-decimal", message);
    } else if number & 0o7000 != 0 {
        let message = format!("the setuid, setgid and sticky bits of mode 0{number:o} do nothing before version 3.6.0");
        check.report.warn(&place.key("mode"), mode, "mode-special-bits", message);
    }
}

/// The mode that a decimal number was meant for: 420 for 644. Only the modes that people do write are taken for such,
/// so that a decimal number that is meant stays unquestioned.
fn meant_as_octal(number: i64) -> Option<i64> {
    const USUAL: [i64; 22] =
        [400, 440, 444, 500, 544, 550, 555, 600, 640, 644, 660, 664, 666, 700, 711, 744, 750, 755, 770, 775, 777, 1777];
    USUAL.contains(&number).then(|| i64::from_str_radix(&number.to_string(), 8).ok())?
}

/// A user or group that owns something.
pub(crate) fn owner(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if let (Some(id), Some(name)) = (node.get("id"), node.get("name"))
        && name.as_str() != Some("")
    {
        let message = format!(
            "cannot set both id and name: found id {} and name {}; keep one",
            id.as_int().unwrap_or_default(),
            quote(name.as_str().unwrap_or_default())
        );
        check.report.clash(place, node, &[id, name], "owner-id-and-name", message);
    }
}

/// The whole storage section: what lies below links, and what hard links point to.
pub(crate) fn storage(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let mut links = Tree::default();
    for link in node.list_of("links").iter().filter(|link| !link.text_of("path").is_empty()) {
        links.insert(link.text_of("path"), link);
    }
    if !node.list_of("links").is_empty() {
        below_links(node, &links, place, check);
        hard_links(node, place, check);
    }
    super::device::filesystems_on_disks(node, place, check);
}

fn below_links(node: &Node<'_>, links: &Tree<'_, &Node<'_>>, place: &PathRef<'_>, check: &mut Check) {
    for list in ["directories", "files", "links"] {
        for (index, item) in node.list_of(list).iter().enumerate() {
            let path = item.text_of("path");
            for (above, link) in links.above(path).filter(|(above, _)| above.len() < path.len()) {
                let message = format!(
                    "{} uses a path that lies below the link {}; give the path that the link leads to",
                    quote(path),
                    quote(above)
                );
                check.report.clash(&place.key(list).index(index), item, &[link], "below-link", message);
            }
        }
    }
}

fn hard_links(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let mut directories: Option<HashMap<&str, &Node<'_>>> = None;
    for (index, link) in node.list_of("links").iter().enumerate() {
        if link.bool_of("hard") != Some(true) {
            continue;
        }
        let here_list = place.key("links");
        let here = here_list.index(index);
        let target = link.text_of("target");
        let target =
            if target.starts_with('/') { clean(target) } else { clean(&format!("{}/{target}", link.text_of("path"))) };
        let directories = directories.get_or_insert_with(|| {
            node.list_of("directories").iter().map(|directory| (directory.text_of("path"), directory)).collect()
        });
        if let Some(directory) = directories.get(target.as_str()) {
            let message = format!("hard link target {} is a directory; make it a symbolic link", quote(&target));
            check.report.clash(&here, link, &[directory], "hard-link-to-directory", message);
        }
        for (who, what) in [("user", "id"), ("user", "name"), ("group", "id"), ("group", "name")] {
            if let Some(owner) = link.dig(&[who, what]) {
                let message = "the owner of a hard link is the owner of its target; this is ignored";
                check.report.warn(&here.key(who).key(what), owner, "hard-link-owner", message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{MAX_PATH_BYTES, clean, is_clean};
    use crate::node::Node;
    use crate::parse::parse;

    fn errors(version: &str, storage: Value) -> Vec<String> {
        let config = json!({"ignition": {"version": version}, "storage": storage});
        let mut node = Node::from_json(&config);
        node.number(0);
        let problems = parse(&node).err().into_iter().flatten();
        problems.map(|problem| format!("{} {}", problem.path, problem.code)).collect()
    }

    #[rstest]
    #[case(644, Some("sets 01204; if 0644 is meant, write 0644 in YAML or 420 in JSON"))]
    #[case(400, Some("sets 0620; if 0400 is meant, write 0400 in YAML or 256 in JSON"))]
    #[case(755, Some("write 0755 in YAML or 493 in JSON"))]
    #[case(0o644, None)]
    #[case(0o600, None)]
    #[case(0o755, None)]
    #[case(0o400, None)]
    #[case(0o444, None)]
    fn a_decimal_mode_that_was_meant_as_octal_is_reported(#[case] mode: i64, #[case] expected: Option<&str>) {
        for list in ["files", "directories"] {
            let config = json!({"ignition": {"version": "3.5.0"}, "storage": {list: [{"path": "/a", "mode": mode}]}});
            let node = Node::from_json(&config);
            let warnings = parse(&node).unwrap().warnings;
            assert_eq!(warnings.len(), usize::from(expected.is_some()), "{warnings:?}");
            if let Some(expected) = expected {
                assert_eq!(warnings[0].code, "mode-decimal");
                assert!(warnings[0].message.contains(expected), "{warnings:?}");
            }
        }
    }

    #[rstest]
    #[case::file("3.5.0", "files[0].path", |path| json!({"files": [{"path": path}]}))]
    #[case::directory("3.5.0", "directories[0].path", |path| json!({"directories": [{"path": path}]}))]
    #[case::link("3.5.0", "links[0].path", |path| json!({"links": [{"path": path, "target": "/t"}]}))]
    #[case::target("3.5.0", "links[0].target", |path| json!({"links": [{"path": "/a", "target": path}]}))]
    #[case::disk("3.5.0", "disks[0].device", |path| json!({"disks": [{"device": path}]}))]
    #[case::raid("3.5.0", "raid[0].devices[0]", |path| json!({"raid": [{"name": "r", "level": "raid1", "devices": [path]}]}))]
    #[case::device("3.5.0", "filesystems[0].device", |path| json!({"filesystems": [{"device": path, "format": "xfs"}]}))]
    #[case::mount("3.5.0", "filesystems[0].path", |path| json!({"filesystems": [{"device": "/d", "path": path, "format": "xfs"}]}))]
    #[case::file_of_2("2.2.0", "files[0].path", |path| json!({"files": [{"filesystem": "root", "path": path}]}))]
    fn a_path_that_no_system_call_takes_is_refused(
        #[case] version: &str,
        #[case] place: &str,
        #[case] storage: fn(String) -> Value,
    ) {
        let path = |length: usize| format!("/{}", "a".repeat(length - 1));
        assert_eq!(errors(version, storage(path(MAX_PATH_BYTES))), Vec::<String>::new());
        assert_eq!(errors(version, storage(path(MAX_PATH_BYTES + 1))), [format!("storage.{place} path-too-long")]);
        assert_eq!(errors(version, storage("/a\0b".to_owned())), [format!("storage.{place} path-nul")]);
    }

    /// Without end as long as each directory above a path is looked up from the root.
    #[rstest]
    #[case("3.5.0")]
    #[case("2.2.0")]
    fn a_deep_path_beside_a_link_is_checked_in_one_go(#[case] version: &str) {
        let node = |path: &str| json!({"filesystem": "root", "path": path, "target": "/t"});
        let deep = "/a".repeat(200_000);
        let found = errors(version, json!({"files": [node(&deep)], "links": [node("/b"), node(&format!("/c{deep}"))]}));
        assert!(found.contains(&"storage.files[0].path path-too-long".to_owned()), "{found:?}");
        let many: Vec<_> = (0..200).map(|at| node(&format!("{}/{at}", "/a".repeat(2000)))).collect();
        assert_eq!(errors(version, json!({"files": many, "links": [node("/b")]})), Vec::<String>::new());
    }

    #[test]
    fn each_link_above_a_path_is_named() {
        let link = |path: &str| json!({"path": path, "target": "/t"});
        let storage = json!({"files": [{"path": "/a/b/c"}, {"path": "/ab"}], "links": [link("/a"), link("/a/b")]});
        let expected = ["storage.files[0] below-link", "storage.files[0] below-link", "storage.links[1] below-link"];
        assert_eq!(errors("3.5.0", storage), expected);
    }

    #[test]
    fn paths_are_cleaned_like_a_shell_would_walk_them() {
        assert_eq!(clean("/a/../b"), "/b");
        assert_eq!(clean("/"), "/");
        assert_eq!(clean("//a/./b/"), "/a/b");
        assert_eq!(clean("/../.."), "/");
        for path in ["/", "/a", "/a/b", "/.a/b..", "/a/", "//", "/./a", "/a/..", "/a//b", "/."] {
            assert_eq!(is_clean(path), clean(path) == path, "{path}");
        }
    }
}
