//! Unsupported fields: what spec 2.2 cannot express, reported for a 3.x config before it is converted.

use std::collections::HashSet;

use crate::node::Node;
use crate::problem::{PathRef, Report};
use crate::url;
use crate::version::Version;

/// Reports every field of a 3.x config that 2.2 cannot express.
pub(crate) fn report_unsupported(config: &Node<'_>, report: &mut Report) {
    let mut check = UnsupportedFields { report };
    if let Some(ignition) = config.get("ignition") {
        check.ignition(ignition, &PathRef::ROOT.key("ignition"));
    }
    if let Some(passwd) = config.get("passwd") {
        check.passwd(passwd, &PathRef::ROOT.key("passwd"));
    }
    if let Some(storage) = config.get("storage") {
        check.storage(storage, &PathRef::ROOT.key("storage"));
    }
}

struct UnsupportedFields<'r> {
    report: &'r mut Report,
}

impl UnsupportedFields<'_> {
    fn unsupported(&mut self, place: &PathRef<'_>, node: &Node<'_>, what: &str) {
        self.report.error(place, node, "not-in-version", format!("{what} cannot be expressed in {}", Version::V2_2));
    }

    fn each(
        &mut self,
        node: &Node<'_>,
        list: &str,
        place: &PathRef<'_>,
        check: impl Fn(&mut Self, &Node<'_>, &PathRef<'_>),
    ) {
        let here = place.key(list);
        for (index, entry) in node.list_of(list).iter().enumerate() {
            check(self, entry, &here.index(index));
        }
    }

    fn ignition(&mut self, section: &Node<'_>, place: &PathRef<'_>) {
        if let Some(proxy) = section.get("proxy") {
            self.unsupported(&place.key("proxy"), proxy, "a proxy");
        }
        if let Some(references) = section.get("config") {
            let here = place.key("config");
            self.each(references, "merge", &here, Self::reference);
            if let Some(replace) = references.get("replace") {
                self.reference(replace, &here.key("replace"));
            }
        }
        if let Some(tls) = section.dig(&["security", "tls"]) {
            let security = place.key("security");
            self.each(tls, "certificateAuthorities", &security.key("tls"), Self::reference);
        }
    }

    fn passwd(&mut self, section: &Node<'_>, place: &PathRef<'_>) {
        for list in ["users", "groups"] {
            self.each(section, list, place, |check, entry, here| {
                check.flag(entry, "shouldExist", true, here);
            });
        }
    }

    fn storage(&mut self, section: &Node<'_>, place: &PathRef<'_>) {
        if let Some(luks) = section.get("luks") {
            self.unsupported(&place.key("luks"), luks, "LUKS");
        }
        self.each(section, "disks", place, |check, disk, here| {
            check.each(disk, "partitions", here, Self::partition);
        });
        self.each(section, "filesystems", place, |check, filesystem, here| {
            if let Some(options) = filesystem.get("mountOptions") {
                check.unsupported(&here.key("mountOptions"), options, "mountOptions");
            }
            let format = filesystem.text_of("format");
            if !matches!(format, "ext4" | "btrfs" | "xfs" | "swap" | "vfat") {
                let what = if format.is_empty() { "a filesystem without a format" } else { "the format none" };
                check.unsupported(&here.key("format"), filesystem.get("format").unwrap_or(filesystem), what);
            }
        });
        let mounts: HashSet<&str> =
            section.list_of("filesystems").iter().filter_map(|node| node.str_of("path")).collect();
        for list in ["files", "links"] {
            self.each(section, list, place, |check, node, here| {
                if mounts.contains(node.text_of("path")) {
                    let path = node.get("path").unwrap_or(node);
                    check.unsupported(&here.key("path"), path, "a file or link where a filesystem is mounted");
                }
            });
        }
        self.each(section, "files", place, |check, file, here| {
            if let Some(contents) = file.get("contents") {
                check.body(contents, &here.key("contents"));
            }
            check.each(file, "append", here, Self::body);
        });
    }

    /// Differs: upstream drops `shouldExist` and `wipePartitionEntry` without a word, because its converter never looks
    /// at them; a partition that should go would then be made.
    fn partition(&mut self, partition: &Node<'_>, place: &PathRef<'_>) {
        for key in ["sizeMiB", "startMiB"] {
            if let Some(node) = partition.get(key) {
                self.unsupported(&place.key(key), node, "a size in MiB");
            }
        }
        for (key, quiet) in [("resize", false), ("wipePartitionEntry", false), ("shouldExist", true)] {
            self.flag(partition, key, quiet, place);
        }
    }

    /// A flag that 2.2 does not have, unless it says what leaving it out says.
    fn flag(&mut self, node: &Node<'_>, key: &str, quiet: bool, place: &PathRef<'_>) {
        if let Some(flag) = node.get(key)
            && flag.as_bool() != Some(quiet)
        {
            let what = format!("{key}: {}", !quiet);
            self.unsupported(&place.key(key), flag, &what);
        }
    }

    fn reference(&mut self, reference: &Node<'_>, place: &PathRef<'_>) {
        if let Some(compression) = reference.get("compression") {
            self.unsupported(&place.key("compression"), compression, "compression of a reference");
        }
        self.body(reference, place);
    }

    fn body(&mut self, body: &Node<'_>, place: &PathRef<'_>) {
        if let Some(headers) = body.get("httpHeaders") {
            self.unsupported(&place.key("httpHeaders"), headers, "httpHeaders");
        }
        if let Some(source) = body.get("source")
            && url::scheme(source.as_str().unwrap_or_default()).as_deref() == Some("gs")
        {
            let what = format!("the source {}", url::quote_url(source.as_str().unwrap_or_default()));
            self.unsupported(&place.key("source"), source, &what);
        }
        if let Some(hash) = body.dig(&["verification", "hash"])
            && hash.as_str().is_some_and(|hash| hash.starts_with("sha256-"))
        {
            let here = place.key("verification");
            self.unsupported(&here.key("hash"), hash, "a sha256 hash");
        }
    }
}
