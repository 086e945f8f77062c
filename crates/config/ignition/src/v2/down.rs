//! Down-conversion from spec 3.2 to spec 2.2, for machines whose first boot supports nothing newer.

use std::borrow::Cow;

use super::{USER_ZEROES, unset_zeroes};
use crate::node::{Map, Node, Value};
use crate::tree::Tree;
use crate::version::Version;

/// Converts a valid 3.2 config in which 2.2 can say everything.
pub(crate) fn from_v3<'t>(mut config: Node<'t>) -> Node<'t> {
    let origin = config.origin;
    let Some(map) = config.as_map_mut() else {
        return config;
    };
    let mut out = Map::default();
    if let Some(ignition) = map.remove("ignition") {
        out.set("ignition", ignition_section(ignition));
    }
    if let Some(mut passwd) = map.remove("passwd") {
        for list in ["users", "groups"] {
            passwd.list_of_mut(list).iter_mut().for_each(|entry| {
                entry.take("shouldExist");
                unset_zeroes(entry, &USER_ZEROES);
                if list == "groups" {
                    unset_zeroes(entry, &["passwordHash"]);
                }
            });
        }
        out.set("passwd", passwd);
    }
    if let Some(storage) = map.remove("storage") {
        out.set("storage", storage_section(storage));
    }
    if let Some(mut systemd) = map.remove("systemd") {
        systemd.list_of_mut("units").iter_mut().for_each(|unit| {
            unset_zeroes(unit, &["contents", "mask"]);
            unit.list_of_mut("dropins").iter_mut().for_each(|dropin| unset_zeroes(dropin, &["contents"]));
        });
        out.set("systemd", systemd);
    }
    let mut config = Node { value: Value::Map(out), origin };
    // Differs: upstream writes an owner of which nothing is set as `{}`, because it has a pointer to it; it reads the
    // same.
    crate::shape::prune(&mut config);
    config
}

/// Differs: the empty source of a replacement stays, because without it the replacement would be gone; upstream writes
/// `{}`, which reads the same.
fn ignition_section<'t>(mut section: Node<'t>) -> Node<'t> {
    let Some(map) = section.as_map_mut() else {
        return section;
    };
    if let Some(version) = map.get_mut("version") {
        version.value = Value::Str(Cow::Borrowed(Version::V2_2.as_str()));
    }
    if let Some(config) = map.get_mut("config").and_then(Node::as_map_mut)
        && let Some(merge) = config.remove("merge")
    {
        config.set("append", merge);
    }
    section
}

fn storage_section<'t>(mut storage: Node<'t>) -> Node<'t> {
    let mounts: Vec<String> = storage
        .list_of("filesystems")
        .iter()
        .filter_map(|filesystem| filesystem.str_of("path"))
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    let mut tree = Tree::default();
    for mount in &mounts {
        tree.insert(mount.trim_end_matches('/'), mount.as_str());
    }
    let mounts = tree;
    storage.list_of_mut("disks").iter_mut().for_each(|disk| {
        unset_zeroes(disk, &["wipeTable"]);
        disk.list_of_mut("partitions").iter_mut().for_each(|partition| {
            for flag in ["resize", "shouldExist", "wipePartitionEntry"] {
                partition.take(flag);
            }
            unset_zeroes(partition, &["label", "typeGuid", "guid"]);
        });
    });
    storage.list_of_mut("raid").iter_mut().for_each(|raid| unset_zeroes(raid, &["spares"]));
    let mut unnamed = 0;
    storage.list_of_mut("filesystems").iter_mut().for_each(|filesystem| {
        let Some(mut mount) = filesystem.as_map_mut().map(std::mem::take) else {
            return;
        };
        // A name is what files refer to; the mount point serves, and a number where there is none.
        let name = mount.remove("path").unwrap_or_else(|| {
            unnamed += 1;
            Node::str_at(unnamed.to_string(), filesystem.origin)
        });
        let mut mount = Node { value: Value::Map(mount), origin: filesystem.origin };
        unset_zeroes(&mut mount, &["wipeFilesystem"]);
        filesystem.value = Value::Map(Map(vec![("mount".into(), mount), ("name".into(), name)]));
        unset_zeroes(filesystem, &["name"]);
    });
    for list in ["directories", "links"] {
        storage.list_of_mut(list).iter_mut().for_each(|node| {
            place_on_filesystem(node, &mounts);
            unset_zeroes(node, &["hard"]);
        });
    }
    if let Some(files) = storage.as_map_mut().and_then(|map| map.get_mut("files")).and_then(Node::as_list_mut) {
        let old = std::mem::take(files);
        for mut file in old {
            place_on_filesystem(&mut file, &mounts);
            split_file(file, files);
        }
    }
    storage
}

/// A 2.2 file has one body: contents, or something to append. A 3.x file with both becomes several.
fn split_file<'t>(mut file: Node<'t>, out: &mut Vec<Node<'t>>) {
    let origin = file.origin;
    let Some(map) = file.as_map_mut() else { return };
    let appends = match map.remove("append").map(|append| append.value) {
        Some(Value::List(list)) => list,
        _ => Vec::new(),
    };
    let contents = map.remove("contents").filter(|contents| contents.get("source").is_some());
    if contents.is_none() && appends.is_empty() {
        // Differs: upstream drops such a file, because it looks for bodies only. To append nothing does what version 3
        // does: the file is made when it is missing, and otherwise keeps its content.
        map.remove("overwrite");
        map.set("append", Node { value: Value::Bool(true), origin });
        out.push(file);
        return;
    }
    if map.get("overwrite").is_none() {
        // Unset is false in version 3 and true in version 2.
        map.set("overwrite", Node { value: Value::Bool(false), origin });
    }
    if let Some(mut contents) = contents {
        unset_zeroes(&mut contents, &["compression", "source"]);
        let mut first = file.clone();
        if let Some(map) = first.as_map_mut() {
            map.set("contents", contents);
        }
        out.push(first);
    }
    for mut body in appends {
        unset_zeroes(&mut body, &["compression", "source"]);
        let mut fragment = file.clone();
        if let Some(map) = fragment.as_map_mut() {
            map.set("overwrite", Node { value: Value::Bool(false), origin });
            map.set("append", Node { value: Value::Bool(true), origin: body.origin });
            map.set("contents", body);
        }
        out.push(fragment);
    }
}

/// Gives a path the filesystem it lies on, by the longest mount point above it.
///
/// Differs: upstream compares texts, so `/variable` would lie on `/var`, and refuses what lies on the mount point
/// itself, because what it cuts off then begins without a slash.
fn place_on_filesystem(node: &mut Node<'_>, mounts: &Tree<'_, &str>) {
    for owner in ["user", "group"] {
        if let Some(owner) = node.as_map_mut().and_then(|map| map.get_mut(owner)) {
            unset_zeroes(owner, &["name"]);
        }
    }
    let path = node.text_of("path").to_owned();
    let mount = mounts.above(&path).last();
    let origin = node.origin;
    let Some(map) = node.as_map_mut() else { return };
    match mount {
        Some((above, mount)) => {
            let rest = match &path[above.len()..] {
                "" => "/".to_owned(),
                rest => rest.to_owned(),
            };
            let path_origin = map.get("path").map_or(origin, |path| path.origin);
            map.set("path", Node::str_at(rest, path_origin));
            map.set("filesystem", Node::str_at((*mount).to_owned(), origin));
        }
        None => map.set("filesystem", Node::str_at("root", origin)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::node::Node;
    use crate::{Version, translate_down};

    #[test]
    fn a_path_lies_on_the_filesystem_of_the_longest_mount_point_above_it() {
        let mount = |path: &str| json!({"device": format!("/dev{path}"), "format": "xfs", "path": path});
        let links: Vec<_> = ["/variable", "/var/lib/a", "/var/a", "/srv/x/y"]
            .iter()
            .map(|path| json!({"path": path, "target": "/t"}))
            .collect();
        let directories = json!([{"path": "/var/lib"}]);
        let filesystems = json!([mount("/var"), mount("/var/lib"), mount("/srv/x/y/z")]);
        let storage = json!({"filesystems": filesystems, "links": links, "directories": directories});
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": storage});
        let node = Node::from_json(&config);
        let translated = translate_down(&node, Version::V2_2).unwrap();
        let storage = translated.get("storage").unwrap();
        let placed: Vec<_> = ["links", "directories"]
            .iter()
            .flat_map(|list| storage.list_of(list))
            .map(|node| (node.text_of("filesystem"), node.text_of("path")))
            .collect();
        let expected =
            [("root", "/variable"), ("/var/lib", "/a"), ("/var", "/a"), ("root", "/srv/x/y"), ("/var/lib", "/")];
        assert_eq!(placed, expected);
    }

    /// Takes minutes as soon as each path is compared with each mount point.
    #[test]
    fn many_mount_points_and_paths_are_placed_in_one_go() {
        let filesystems: Vec<_> = (0..20_000)
            .map(|at| json!({"device": format!("/dev/{at}"), "format": "xfs", "path": format!("/m/{at}")}))
            .collect();
        let files: Vec<_> =
            (0..20_000).map(|at| json!({"path": format!("/m/{at}/f"), "contents": {"source": "data:,"}})).collect();
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"filesystems": filesystems, "files": files}});
        let node = Node::from_json(&config);
        let translated = translate_down(&node, Version::V2_2).unwrap();
        let files = translated.dig(&["storage", "files"]).unwrap().as_list().unwrap();
        assert_eq!(files.len(), 20_000);
        assert!(files.iter().all(|file| file.text_of("path") == "/f" && file.text_of("filesystem").starts_with("/m/")));
    }
}
