//! From spec 2.x to spec 3.0, with everything that the way changes or loses said out loud.
//!
//! Compat: the result is what the machine-config operator makes of such a config (machineconfig.md, 3.6), list order
//! included, because the rendered name depends on it. The reversed lists come from its removal of duplicates, which
//! walks from the end.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::source::rewritten;
use super::{schema, unset_zeroes};
use crate::node::{Map, Node, Origin, Value, quote};
use crate::problem::{Place, Report};
use crate::shape;
use crate::validate::{Check, walk};
use crate::version::Version;

/// Converts a 2.x config. What cannot be converted is an error in the report.
pub(crate) fn to_v3<'t>(config: &'t Node<'_>, version: Version, report: &mut Report) -> Node<'t> {
    let mut config = shape::conform(config, &schema::CONFIG, version, report);
    let origin = config.origin;
    if version == Version::V2_0 {
        rewrite_sources(&mut config);
    }
    let mut check = Check::new(version);
    walk(&config, &schema::CONFIG, &Place::ROOT, &mut check);
    report.problems.append(&mut check.report.problems);
    let mut up = Up { version, report };
    let networkd = take(&mut config, "networkd");
    if let Some(units) = networkd.as_ref().and_then(|networkd| networkd.get("units")) {
        let place = Place::ROOT.key("networkd");
        let message = "networkd units cannot be converted to version 3; write them as files below /etc/systemd/network";
        up.report.error(&place.key("units"), units, "v2-networkd", message);
    }
    let parts = [
        ("ignition", take(&mut config, "ignition").map(|section| up.ignition(section))),
        ("passwd", take(&mut config, "passwd").map(|section| up.passwd(section))),
        ("storage", take(&mut config, "storage").map(|section| up.storage(section))),
        ("systemd", take(&mut config, "systemd").map(|section| up.systemd(section))),
    ];
    let entries = parts.into_iter().filter_map(|(key, part)| Some((Cow::Borrowed(key), part?))).collect();
    let mut converted = Node::map_at(entries, origin);
    shape::prune(&mut converted);
    converted
}

struct Up<'r> {
    version: Version,
    report: &'r mut Report,
}

fn take<'t>(node: &mut Node<'t>, key: &str) -> Option<Node<'t>> {
    node.as_map_mut()?.remove(key)
}

fn items(node: Node<'_>) -> Vec<Node<'_>> {
    match node.value {
        Value::List(list) => list,
        _ => Vec::new(),
    }
}

fn list_at<'t>(list: Vec<Node<'t>>, origin: Origin) -> Node<'t> {
    Node { value: Value::List(list), origin }
}

/// The entries of a list below a section, to change them.
fn entries<'n, 't>(node: &'n mut Node<'t>, list: &str) -> impl Iterator<Item = &'n mut Node<'t>> {
    node.as_map_mut().and_then(|map| map.get_mut(list)).and_then(Node::as_list_mut).into_iter().flatten()
}

/// Gives a body or a reference the empty source that spec 2.x takes for none.
fn set_source(node: &mut Node<'_>) {
    let origin = node.origin;
    if let Some(map) = node.as_map_mut()
        && map.get("source").is_none()
    {
        map.set("source", Node::str_at("", origin));
    }
}

/// Sources of 2.0.0 are URLs and not texts.
fn rewrite_sources(config: &mut Node<'_>) {
    let rewrite = |node: &mut Node<'_>| {
        if let Some(Node { value: Value::Str(source), .. }) = node.as_map_mut().and_then(|map| map.get_mut("source"))
            && let Cow::Owned(changed) = rewritten(source)
        {
            *source = Cow::Owned(changed);
        }
    };
    let Some(map) = config.as_map_mut() else { return };
    if let Some(references) = map.get_mut("ignition").and_then(|ignition| ignition.as_map_mut()?.get_mut("config")) {
        entries(references, "append").for_each(rewrite);
        references.as_map_mut().and_then(|map| map.get_mut("replace")).into_iter().for_each(rewrite);
    }
    if let Some(storage) = map.get_mut("storage") {
        entries(storage, "files")
            .filter_map(|file| file.as_map_mut().and_then(|file| file.get_mut("contents")))
            .for_each(rewrite);
    }
}

impl<'t> Up<'_> {
    fn ignition(&mut self, mut section: Node<'t>) -> Node<'t> {
        if let Some(config) = section.as_map_mut().and_then(|map| map.get_mut("config")) {
            entries(config, "append").for_each(set_source);
            config.as_map_mut().and_then(|map| map.get_mut("replace")).into_iter().for_each(set_source);
            // Differs: upstream refuses two or more entries, because its loop makes every one of them the last.
            if let Some(append) = take(config, "append")
                && let Some(map) = config.as_map_mut()
            {
                map.set("merge", append);
            }
        }
        if let Some(version) = section.as_map_mut().and_then(|map| map.get_mut("version")) {
            version.value = Value::Str(Cow::Borrowed(Version::V3_0.as_str()));
        }
        section
    }

    fn passwd(&mut self, mut section: Node<'t>) -> Node<'t> {
        let place = Place::ROOT.key("passwd");
        if let Some(users) = take(&mut section, "users") {
            let origin = users.origin;
            let user = self.one_user(items(users), &place.key("users"));
            if let Some(map) = section.as_map_mut() {
                map.set("users", list_at(user.into_iter().collect(), origin));
            }
        }
        entries(&mut section, "groups").for_each(|group| unset_zeroes(group, &["passwordHash", "system"]));
        section
    }

    /// All entries of `core` become the last one, with the keys of all.
    fn one_user(&mut self, users: Vec<Node<'t>>, place: &Place<'_>) -> Option<Node<'t>> {
        for (index, user) in users.iter().enumerate() {
            if user.text_of("name") != "core" {
                let message = format!(
                    "unexpected user {}: only the core user is supported in a 2.x config",
                    quote(user.text_of("name"))
                );
                let here = place.index(index);
                self.report.error(&here.key("name"), user.get("name").unwrap_or(user), "v2-user", message);
            }
            if let Some(create) = user.get("create") {
                self.report.warn(
                    &place.index(index).key("create"),
                    create,
                    "v2-dropped",
                    "create is dropped: version 3 has no such field",
                );
            }
        }
        let mut users = users.into_iter().rev();
        let mut user = users.next()?;
        let mut keys = take(&mut user, "sshAuthorizedKeys").map(items).unwrap_or_default();
        let mut keys_origin = keys.first().map_or(user.origin, |key| key.origin);
        for mut earlier in users {
            let more = take(&mut earlier, "sshAuthorizedKeys").map(items).unwrap_or_default();
            let lost: Vec<&str> = earlier
                .as_map()
                .into_iter()
                .flat_map(Map::iter)
                .map(|(key, _)| key)
                .filter(|key| *key != "name")
                .collect();
            if !lost.is_empty() {
                let message = format!(
                    "core is given several times: {} of this one is dropped, its SSH keys are kept",
                    lost.join(", ")
                );
                self.report.warn(place, &earlier, "v2-dropped", message);
            }
            keys_origin = more.first().map_or(keys_origin, |_| keys_origin);
            keys.extend(more);
        }
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.as_str().unwrap_or_default().to_owned()));
        let map = user.as_map_mut()?;
        map.set("sshAuthorizedKeys", list_at(keys, keys_origin));
        map.remove("create");
        unset_zeroes(
            &mut user,
            &["gecos", "homeDir", "noCreateHome", "noLogInit", "noUserGroup", "primaryGroup", "shell", "system"],
        );
        if self.version == Version::V2_0 {
            // 2.0.0 cannot tell an empty hash from none.
            unset_zeroes(&mut user, &["passwordHash"]);
        }
        Some(user)
    }

    fn systemd(&mut self, mut section: Node<'t>) -> Node<'t> {
        let Some(units) = take(&mut section, "units") else {
            return section;
        };
        let origin = units.origin;
        let mut out: Vec<Node<'t>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        // From the end: the last unit of a name stays, earlier ones give the drop-ins that it lacks.
        for mut unit in items(units).into_iter().rev() {
            let name = unit.text_of("name").to_owned();
            let Some(at) = places.get(&name) else {
                places.insert(name, out.len());
                out.push(unit);
                continue;
            };
            let lost: Vec<_> =
                ["contents", "enable", "enabled", "mask"].into_iter().filter(|key| unit.get(key).is_some()).collect();
            if !lost.is_empty() {
                let message =
                    format!("unit {} is given again below: {} of this one is dropped", quote(&name), lost.join(", "));
                let place = Place::ROOT.key("systemd");
                self.report.warn(&place.key("units"), &unit, "v2-dropped", message);
            }
            let Some(dropins) = take(&mut unit, "dropins") else {
                continue;
            };
            let Some(kept) = out[*at].as_map_mut() else {
                continue;
            };
            let mut all = kept.remove("dropins").map(items).unwrap_or_default();
            let known: HashSet<String> = all.iter().map(|dropin| dropin.text_of("name").to_owned()).collect();
            let dropins_origin = dropins.origin;
            // Two of one name in the earlier unit both count as new only once.
            let mut added = HashSet::new();
            for dropin in items(dropins) {
                let name = dropin.text_of("name").to_owned();
                if !known.contains(&name) && added.insert(name) {
                    all.push(dropin);
                }
            }
            kept.set("dropins", list_at(all, dropins_origin));
        }
        for unit in &mut out {
            enabled(unit);
            unset_zeroes(unit, &["mask", "contents"]);
            entries(unit, "dropins").for_each(|dropin| unset_zeroes(dropin, &["contents"]));
        }
        if let Some(map) = section.as_map_mut() {
            map.set("units", list_at(out, origin));
        }
        section
    }

    fn storage(&mut self, mut section: Node<'t>) -> Node<'t> {
        let place = Place::ROOT.key("storage");
        self.disks(&section, &place);
        self.filesystems(&mut section, &place);
        if let Some(files) = take(&mut section, "files") {
            let files = self.files(files, &place);
            if let Some(map) = section.as_map_mut() {
                map.set("files", files);
            }
        }
        for list in ["directories", "links"] {
            let Some(nodes) = section.as_map_mut().and_then(|map| map.get_mut(list)).and_then(Node::as_list_mut) else {
                continue;
            };
            for (index, node) in nodes.iter_mut().enumerate() {
                self.node(node, &place.key(list).index(index));
                unset_zeroes(node, &["hard"]);
                let origin = node.origin;
                if list == "directories"
                    && self.version < Version::V2_2
                    && let Some(map) = node.as_map_mut()
                    && map.get("mode").is_none()
                {
                    map.set("mode", Node { value: Value::Int(0), origin });
                }
            }
        }
        entries(&mut section, "disks").for_each(|disk| unset_zeroes(disk, &["wipeTable"]));
        entries(&mut section, "raid").for_each(|raid| unset_zeroes(raid, &["spares"]));
        self.prefixes(&section, &place);
        section
    }

    fn disks(&mut self, section: &Node<'t>, place: &Place<'_>) {
        for (index, disk) in section.list_of("disks").iter().enumerate() {
            if let Some(partitions) = disk.get("partitions") {
                let message = "partitions of a 2.x config count in sectors, which version 3 does not know; write a \
                               version 3 config with startMiB and sizeMiB";
                self.report.error(
                    &place.key("disks").index(index).key("partitions"),
                    partitions,
                    "v2-partitions",
                    message,
                );
            }
        }
    }

    fn filesystems(&mut self, section: &mut Node<'t>, place: &Place<'_>) {
        for (index, filesystem) in section.list_of("filesystems").iter().enumerate() {
            let name = filesystem.text_of("name");
            let here = place.key("filesystems");
            let here = here.index(index);
            if name != "root" {
                let message = format!(
                    "filesystem {} cannot be converted: a 2.x config does not say where it is mounted; write a version 3 \
                     config with its path",
                    quote(name)
                );
                self.report.error(&here, filesystem, "v2-filesystem", message);
            } else if filesystem.get("mount").is_some() {
                self.report.warn(
                    &here,
                    filesystem,
                    "v2-dropped",
                    "the filesystem root is implied in version 3; this entry is dropped",
                );
            }
        }
        take(section, "filesystems");
    }

    fn files(&mut self, files: Node<'t>, place: &Place<'_>) -> Node<'t> {
        let origin = files.origin;
        let place = place.key("files");
        let mut seen: HashMap<String, ()> = HashMap::new();
        let mut out = Vec::new();
        // From the end: the last file of a path stays.
        for (index, mut file) in items(files).into_iter().enumerate().rev() {
            let path = file.text_of("path").to_owned();
            if seen.insert(path.clone(), ()).is_some() {
                let message = format!("file {} is given again below; this one is dropped", quote(&path));
                self.report.warn(&place.index(index), &file, "v2-dropped", message);
                continue;
            }
            self.file(&mut file, &place.index(index));
            out.push(file);
        }
        list_at(out, origin)
    }

    fn file(&mut self, file: &mut Node<'t>, place: &Place<'_>) {
        self.node(file, place);
        let origin = file.origin;
        let is_first = self.version == Version::V2_0;
        let knows_no_unset_mode = self.version < Version::V2_2;
        let Some(map) = file.as_map_mut() else { return };
        let appends = map.remove("append").filter(|append| append.as_bool() == Some(true));
        let mut contents = map.remove("contents").unwrap_or(Node { value: Value::Map(Map::default()), origin });
        set_source(&mut contents);
        unset_zeroes(&mut contents, &["compression"]);
        match appends {
            Some(append) => {
                map.set("overwrite", Node { value: Value::Bool(false), origin: append.origin });
                map.set("append", list_at(vec![contents], append.origin));
            }
            None => {
                // Version 2 writes over what is there unless told otherwise; version 3 does not.
                if map.get("overwrite").is_none() {
                    map.set("overwrite", Node { value: Value::Bool(true), origin });
                }
                map.set("contents", contents);
            }
        }
        if knows_no_unset_mode && map.get("mode").is_none() {
            map.set("mode", Node { value: Value::Int(0), origin });
        }
        if is_first {
            // 2.0.0 knows no "unset" for owners either: a file belongs to root when nothing is said.
            for owner in ["user", "group"] {
                if map.get(owner).and_then(|owner| owner.get("id")).is_none() {
                    let id = Node { value: Value::Int(0), origin };
                    map.set(owner, Node::map_at(vec![(Cow::Borrowed("id"), id)], origin));
                }
            }
        }
    }

    /// What files, directories and links have in common.
    fn node(&mut self, node: &mut Node<'t>, place: &Place<'_>) {
        if let Some(filesystem) = node.get("filesystem")
            && !matches!(filesystem.as_str(), Some("" | "root"))
        {
            let message = format!(
                "filesystem {} is not declared; the path is taken as one of the root filesystem",
                quote(filesystem.as_str().unwrap_or_default())
            );
            self.report.warn(&place.key("filesystem"), filesystem, "v2-filesystem-unknown", message);
        }
        for owner in ["user", "group"] {
            if let Some(owner) = node.as_map_mut().and_then(|map| map.get_mut(owner)) {
                unset_zeroes(owner, &["name"]);
            }
        }
        let Some(map) = node.as_map_mut() else { return };
        map.remove("filesystem");
        if let Some(path) = map.get_mut("path")
            && let Value::Str(text) = &path.value
            && text.starts_with('/')
        {
            // The converter joins the path to that of its filesystem, which also cleans it.
            let clean = crate::validate::file::clean(text);
            if clean != text.as_ref() {
                path.value = Value::Str(Cow::Owned(clean));
            }
        }
    }

    /// Paths that begin with the path of a link.
    ///
    /// Compat: the converter compares texts, so a link `/a` refuses `/ab/c` as well. Such a config never reached a
    /// machine, and the way out is a version 3 config, so the message says so.
    fn prefixes(&mut self, section: &Node<'t>, place: &Place<'_>) {
        let mut links: Vec<(&str, &Node<'t>)> = section
            .list_of("links")
            .iter()
            .map(|link| (link.text_of("path"), link))
            .filter(|(path, _)| !path.is_empty())
            .collect();
        links.sort_by_key(|(path, _)| *path);
        for list in ["files", "directories", "links"] {
            for (index, node) in section.list_of(list).iter().enumerate() {
                let path = node.text_of("path");
                // Every prefix of the path that is a link, shortest first.
                let hit = (1..path.len()).filter(|end| path.is_char_boundary(*end)).find_map(|end| {
                    links.binary_search_by_key(&&path[..end], |(path, _)| *path).ok().map(|at| links[at])
                });
                if let Some((link, link_node)) = hit {
                    let message = format!(
                        "{} begins with the path of the link {}, which a 2.x config may not; write a version 3 config",
                        quote(path),
                        quote(link)
                    );
                    self.report.clash(&place.key(list).index(index), node, &[link_node], "v2-link-prefix", message);
                }
            }
        }
    }
}

/// `enabled` beats the older `enable`.
fn enabled(unit: &mut Node<'_>) {
    let Some(map) = unit.as_map_mut() else { return };
    let enable = map.remove("enable").filter(|enable| enable.as_bool() == Some(true));
    if let (Some(enable), None) = (enable, map.get("enabled")) {
        map.set("enabled", enable);
    }
}
