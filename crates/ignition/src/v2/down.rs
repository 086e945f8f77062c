//! From spec 3.2 down to spec 2.2, for machines whose first boot speaks nothing newer.

use std::borrow::Cow;

use super::unset_zeroes;
use crate::node::{Map, Node, Value, quote};
use crate::problem::{Place, Report};
use crate::version::Version;

/// Converts a valid 3.2 config. What 2.2 cannot say is an error in the report.
pub(crate) fn from_v3<'t>(mut config: Node<'t>, report: &mut Report) -> Node<'t> {
    refuse(&config, report);
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
            for_each(&mut passwd, list, |entry| {
                keep(entry, &[], &["shouldExist"]);
                unset_zeroes(
                    entry,
                    &[
                        "gecos",
                        "homeDir",
                        "noCreateHome",
                        "noLogInit",
                        "noUserGroup",
                        "primaryGroup",
                        "shell",
                        "system",
                    ],
                );
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
        for_each(&mut systemd, "units", |unit| {
            unset_zeroes(unit, &["contents", "mask"]);
            for_each(unit, "dropins", |dropin| unset_zeroes(dropin, &["contents"]));
        });
        out.set("systemd", systemd);
    }
    let mut config = Node { value: Value::Map(out), origin };
    crate::shape::prune(&mut config);
    config
}

/// Fields that 2.2 has no words for.
fn refuse(config: &Node<'_>, report: &mut Report) {
    let mut no = |place: &Place<'_>, node: &Node<'_>, what: &str| {
        report.error(place, node, "not-in-version", format!("{what} cannot be said in {}", Version::V2_2));
    };
    let root = Place::ROOT;
    if let Some(ignition) = config.get("ignition") {
        let here = root.key("ignition");
        if let Some(proxy) = ignition.get("proxy") {
            no(&here.key("proxy"), proxy, "a proxy");
        }
        let references = here.key("config");
        let merges = ignition.dig(&["config", "merge"]).and_then(Node::as_list).unwrap_or_default();
        for (index, reference) in merges.iter().enumerate() {
            refuse_reference(reference, &references.key("merge").index(index), &mut no);
        }
        if let Some(replace) = ignition.dig(&["config", "replace"]) {
            refuse_reference(replace, &references.key("replace"), &mut no);
        }
        let tls = here.key("security");
        let tls = tls.key("tls");
        let authorities =
            ignition.dig(&["security", "tls", "certificateAuthorities"]).and_then(Node::as_list).unwrap_or_default();
        for (index, reference) in authorities.iter().enumerate() {
            refuse_reference(reference, &tls.key("certificateAuthorities").index(index), &mut no);
        }
    }
    for list in ["users", "groups"] {
        for (index, entry) in
            config.get("passwd").map(|passwd| passwd.list_of(list)).unwrap_or_default().iter().enumerate()
        {
            if let Some(node) = entry.get("shouldExist")
                && node.as_bool() == Some(false)
            {
                no(
                    &root.key("passwd").key(list).index(index).key("shouldExist"),
                    node,
                    "the removal of a user or group",
                );
            }
        }
    }
    let Some(storage) = config.get("storage") else {
        return;
    };
    let here = root.key("storage");
    if let Some(luks) = storage.get("luks") {
        no(&here.key("luks"), luks, "LUKS");
    }
    for (index, disk) in storage.list_of("disks").iter().enumerate() {
        for (number, partition) in disk.list_of("partitions").iter().enumerate() {
            let disks = here.key("disks");
            let disks = disks.index(index);
            let place = disks.key("partitions");
            let place = place.index(number);
            for key in ["sizeMiB", "startMiB"] {
                if let Some(node) = partition.get(key) {
                    no(&place.key(key), node, "a size in MiB");
                }
            }
            for (key, quiet) in [("resize", false), ("wipePartitionEntry", false), ("shouldExist", true)] {
                if let Some(node) = partition.get(key)
                    && node.as_bool() != Some(quiet)
                {
                    no(&place.key(key), node, &format!("{key} of a partition"));
                }
            }
        }
    }
    for (index, filesystem) in storage.list_of("filesystems").iter().enumerate() {
        if let Some(node) = filesystem.get("mountOptions") {
            no(&here.key("filesystems").index(index).key("mountOptions"), node, "mountOptions");
        }
    }
    for (index, file) in storage.list_of("files").iter().enumerate() {
        let files = here.key("files");
        let place = files.index(index);
        let bodies = std::iter::once(("contents", None, file.get("contents")))
            .chain(file.list_of("append").iter().enumerate().map(|(at, body)| ("append", Some(at), Some(body))));
        for (key, at, body) in bodies {
            let Some(body) = body else { continue };
            let body_place = place.key(key);
            let indexed;
            let body_place = match at {
                Some(at) => {
                    indexed = body_place.index(at);
                    &indexed
                }
                None => &body_place,
            };
            if let Some(node) = body.get("httpHeaders") {
                no(&body_place.key("httpHeaders"), node, "httpHeaders");
            }
            if let Some(source) = body.get("source")
                && crate::url::scheme(source.as_str().unwrap_or_default()).as_deref() == Some("gs")
            {
                no(
                    &body_place.key("source"),
                    source,
                    &format!("the source {}", quote(source.as_str().unwrap_or_default())),
                );
            }
        }
    }
}

fn refuse_reference(reference: &Node<'_>, place: &Place<'_>, no: &mut impl FnMut(&Place<'_>, &Node<'_>, &str)) {
    for key in ["compression", "httpHeaders"] {
        if let Some(node) = reference.get(key) {
            no(&place.key(key), node, &format!("{key} of a reference"));
        }
    }
}

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
        .map(str::to_owned)
        .collect();
    for_each(&mut storage, "disks", |disk| {
        unset_zeroes(disk, &["wipeTable"]);
        for_each(disk, "partitions", |partition| {
            keep(partition, &["label", "number", "typeGuid", "guid"], &[]);
            unset_zeroes(partition, &["label", "typeGuid", "guid"]);
        });
    });
    for_each(&mut storage, "raid", |raid| unset_zeroes(raid, &["spares"]));
    let mut unnamed = 0;
    for_each(&mut storage, "filesystems", |filesystem| {
        let Some(mut mount) = filesystem.as_map_mut().map(std::mem::take) else {
            return;
        };
        // A name is what files refer to; the mount point serves, and a number where there is none.
        let name = mount.remove("path").unwrap_or_else(|| {
            unnamed += 1;
            Node::str_at(unnamed.to_string(), filesystem.origin)
        });
        let mut mount = Node { value: Value::Map(mount), origin: filesystem.origin };
        unset_zeroes(&mut mount, &["format", "wipeFilesystem"]);
        filesystem.value = Value::Map(Map(vec![("mount".into(), mount), ("name".into(), name)]));
    });
    for list in ["directories", "links"] {
        for_each(&mut storage, list, |node| {
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
    if map.get("overwrite").is_none() {
        // Unset is false in version 3 and true in version 2.
        map.set("overwrite", Node { value: Value::Bool(false), origin });
    }
    if contents.is_some() || appends.is_empty() {
        let mut first = file.clone();
        let mut contents =
            contents.unwrap_or_else(|| Node::map_at(vec![("source".into(), Node::str_at("", origin))], origin));
        unset_zeroes(&mut contents, &["compression"]);
        if let Some(map) = first.as_map_mut() {
            map.set("contents", contents);
        }
        out.push(first);
    }
    for mut body in appends {
        unset_zeroes(&mut body, &["compression"]);
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
/// Differs: upstream compares texts, so `/variable` would lie on `/var`, because it never meant path components.
fn place_on_filesystem(node: &mut Node<'_>, mounts: &[String]) {
    for owner in ["user", "group"] {
        if let Some(owner) = node.as_map_mut().and_then(|map| map.get_mut(owner)) {
            unset_zeroes(owner, &["name"]);
        }
    }
    let path = node.text_of("path").to_owned();
    let below = |mount: &str| path.strip_prefix(mount.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'));
    let mount = mounts.iter().filter(|mount| below(mount)).max_by_key(|mount| mount.len());
    let origin = node.origin;
    let Some(map) = node.as_map_mut() else { return };
    match mount {
        Some(mount) => {
            let rest = path[mount.trim_end_matches('/').len()..].to_owned();
            let path_origin = map.get("path").map_or(origin, |path| path.origin);
            map.set("path", Node::str_at(rest, path_origin));
            map.set("filesystem", Node::str_at(mount.clone(), origin));
        }
        None => map.set("filesystem", Node::str_at("root", origin)),
    }
}

fn for_each<'t>(node: &mut Node<'t>, list: &str, mut change: impl FnMut(&mut Node<'t>)) {
    if let Some(items) = node.as_map_mut().and_then(|map| map.get_mut(list)).and_then(Node::as_list_mut) {
        items.iter_mut().for_each(&mut change);
    }
}

/// Keeps only some fields (all when `only` is empty), and never those in `without`.
fn keep(node: &mut Node<'_>, only: &[&str], without: &[&str]) {
    if let Some(map) = node.as_map_mut() {
        map.0.retain(|(key, _)| (only.is_empty() || only.contains(&key.as_ref())) && !without.contains(&key.as_ref()));
    }
}
