//! Up-conversion of disks, filesystems, files, directories and links from spec 2.x to spec 3.0.

use std::borrow::Cow;
use std::collections::HashSet;

use super::unset_zeroes;
use super::up::{UpConversion, set_source};
use crate::node::{Map, Node, Value, quote};
use crate::problem::PathRef;
use crate::version::Version;

impl<'t> UpConversion<'_> {
    pub(super) fn storage(&mut self, mut section: Node<'t>) -> Node<'t> {
        let place = PathRef::ROOT.key("storage");
        self.disks(&section, &place);
        self.filesystems(&mut section, &place);
        if let Some(files) = section.take("files") {
            let files = self.files(files, &place);
            section.set("files", files);
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
        section.list_of_mut("disks").iter_mut().for_each(|disk| unset_zeroes(disk, &["wipeTable"]));
        section.list_of_mut("raid").iter_mut().for_each(|raid| unset_zeroes(raid, &["spares"]));
        self.prefixes(&section, &place);
        section
    }

    fn disks(&mut self, section: &Node<'t>, place: &PathRef<'_>) {
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

    fn filesystems(&mut self, section: &mut Node<'t>, place: &PathRef<'_>) {
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
        section.take("filesystems");
    }

    fn files(&mut self, files: Node<'t>, place: &PathRef<'_>) -> Node<'t> {
        let origin = files.origin;
        let place = place.key("files");
        let mut seen = HashSet::new();
        let mut out = Vec::new();
        // From the end: the last file of a path stays.
        for (index, mut file) in files.into_list().into_iter().enumerate().rev() {
            let path = file.text_of("path").to_owned();
            if !seen.insert(path.clone()) {
                let message = format!("file {} is defined again below; this one is dropped", quote(&path));
                self.report.warn(&place.index(index), &file, "v2-dropped", message);
                continue;
            }
            self.file(&mut file, &place.index(index));
            out.push(file);
        }
        Node::list_at(out, origin)
    }

    fn file(&mut self, file: &mut Node<'t>, place: &PathRef<'_>) {
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
                map.set("append", Node::list_at(vec![contents], append.origin));
            }
            None => {
                // Version 2 overwrites existing files by default; version 3 does not.
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
            // 2.0.0 knows no "unset" for owners either: a file belongs to root when no owner is set.
            for owner in ["user", "group"] {
                if map.get(owner).and_then(|owner| owner.get("id")).is_none() {
                    let id = Node { value: Value::Int(0), origin };
                    map.set(owner, Node::map_at(vec![(Cow::Borrowed("id"), id)], origin));
                }
            }
        }
    }

    /// What files, directories and links have in common.
    fn node(&mut self, node: &mut Node<'t>, place: &PathRef<'_>) {
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
    fn prefixes(&mut self, section: &Node<'t>, place: &PathRef<'_>) {
        let mut links: Vec<(&str, &Node<'t>)> = section
            .list_of("links")
            .iter()
            .map(|link| (link.text_of("path"), link))
            .filter(|(path, _)| !path.is_empty())
            .collect();
        links.sort_by_key(|(path, _)| *path);
        // Of links that begin with one another only the shortest is named, so the others need not be there. Then at
        // most one of those that are left begins a path: the last that does not sort behind it.
        links.dedup_by(|(longer, _), (shorter, _)| longer.starts_with(*shorter));
        for list in ["files", "directories", "links"] {
            for (index, node) in section.list_of(list).iter().enumerate() {
                let path = node.text_of("path");
                let before = links.partition_point(|(link, _)| *link <= path);
                let hit = before.checked_sub(1).map(|at| links[at]);
                if let Some((link, link_node)) = hit.filter(|(link, _)| *link != path && path.starts_with(link)) {
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
