//! Validation rules of disks, partitions, filesystems, RAID and LUKS devices.

use std::collections::HashMap;

use super::Check;
use super::file::check_path;
use crate::node::{Node, quote};
use crate::problem::PathRef;
use crate::url;
use crate::version::Version;

/// A disk and its partitions, as far as they touch each other.
pub(crate) fn disk(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if node.text_of("device").is_empty() {
        check.report.error(&place.key("device"), node, "device-required", "disk device is required");
        return;
    }
    check_path(node, node.get("device"), &place.key("device"), check);
    let partitions = node.list_of("partitions");
    let here = place.key("partitions");
    let mut numbers: HashMap<i64, &Node<'_>> = HashMap::new();
    let mut labels: HashMap<&str, &Node<'_>> = HashMap::new();
    for (index, partition) in partitions.iter().enumerate() {
        let number = partition.int_of("number").unwrap_or(0);
        if number != 0
            && let Some(first) = numbers.insert(number, partition)
        {
            let message = format!("partition number {number} is given to two partitions of {}", node.text_of("device"));
            check.report.clash(&here.index(index), partition, &[first], "partition-number", message);
        }
        if let Some(label) = partition.str_of("label")
            && let Some(first) = labels.insert(label, partition)
        {
            let message = format!("cannot use the same partition label twice: {}", quote(label));
            check.report.clash(&here.index(index), partition, &[first], "partition-label-twice", message);
        }
    }
    overlaps(partitions, &here, check);
    let gone = partitions.iter().find(|partition| partition.bool_of("shouldExist") == Some(false));
    let any_number = partitions.iter().find(|partition| partition.int_of("number").unwrap_or(0) == 0);
    if let (Some(gone), Some(any_number)) = (gone, any_number) {
        let message = "shouldExist: false cannot be combined with a partition whose number is 0 (the next free one)";
        check.report.clash(&here, gone, &[any_number], "partition-zero-and-absent", message);
    }
}

/// Explicit ranges of partitions that share a MiB.
fn overlaps(partitions: &[Node<'_>], place: &PathRef<'_>, check: &mut Check) {
    // A start of 0 is placed by the tool, so nothing is known about it; a size of 0 fills what is free.
    let mut ranges: Vec<(i64, i64, usize)> = partitions
        .iter()
        .enumerate()
        .filter_map(|(index, partition)| {
            let start = partition.int_of("startMiB").filter(|start| *start != 0)?;
            let size = partition.int_of("sizeMiB")?;
            Some((
                start,
                if size == 0 { start } else { start.saturating_add(size.saturating_sub(1)).max(start) },
                index,
            ))
        })
        .collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let ((_, end, first), (start, _, second)) = (pair[0], pair[1]);
        if start <= end {
            let index = first.max(second);
            let message = format!("partitions {first} and {second} overlap: both claim MiB {start}");
            check.report.clash(
                &place.index(index),
                &partitions[index],
                &[&partitions[first.min(second)]],
                "partition-overlap",
                message,
            );
        }
    }
}

/// A partition, as far as it is looked at alone.
pub(crate) fn partition(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let label = node.get("label");
    let is_set = |key: &str| !node.text_of(key).is_empty();
    if node.bool_of("shouldExist") == Some(false)
        && (label.is_some()
            || is_set("typeGuid")
            || is_set("guid")
            || node.get("startMiB").is_some()
            || node.get("sizeMiB").is_some())
    {
        let message = "shouldExist: false needs the number alone; drop label, guid, typeGuid, startMiB and sizeMiB";
        check.report.error(place, node, "partition-absent", message);
    }
    if node.int_of("number").unwrap_or(0) == 0 && label.is_none() {
        check.report.error(place, node, "partition-unnamed", "a partition number or a label must be specified");
    }
    if let Some(label) = label {
        let text = label.as_str().unwrap_or_default();
        if text.len() > 36 {
            let message = format!("partition label {} is longer than 36 characters", quote(text));
            check.report.error(&place.key("label"), label, "partition-label", message);
        } else if text.contains(':') {
            let message = format!("partition label {} contains a colon", quote(text));
            check.report.error(&place.key("label"), label, "partition-label", message);
        }
    }
    for key in ["guid", "typeGuid"] {
        if let Some(guid) = node.get(key)
            && !is_guid(guid.as_str().unwrap_or_default())
        {
            let message =
                format!("{} is not a GUID; the form is 01234567-89AB-CDEF-EDCB-A98765432101", guid.describe());
            check.report.error(&place.key(key), guid, "partition-guid", message);
        }
    }
}

fn is_guid(text: &str) -> bool {
    let mut parts = text.split('-');
    let lengths = [8, 4, 4, 4, 12];
    text.is_empty()
        || (lengths.iter().all(|length| {
            parts.next().is_some_and(|part| part.len() == *length && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
        }) && parts.next().is_none())
}

pub(crate) fn filesystem(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if let Some(path) = node.get("path")
        && path.as_str() != Some("")
    {
        check_path(node, Some(path), &place.key("path"), check);
    }
    check_path(node, node.get("device"), &place.key("device"), check);
    let format = node.text_of("format");
    if format.is_empty() {
        let is_set = |key: &str| !node.text_of(key).is_empty();
        if is_set("path")
            || is_set("label")
            || is_set("uuid")
            || node.bool_of("wipeFilesystem") == Some(true)
            || !node.list_of("mountOptions").is_empty()
            || !node.list_of("options").is_empty()
        {
            let message = "format must be specified when path, label, uuid, wipeFilesystem, options or mountOptions is";
            check.report.error(&place.key("format"), node.get("format").unwrap_or(node), "filesystem-format", message);
        }
        return;
    }
    let mut known = vec!["ext4", "btrfs", "xfs", "swap", "vfat"];
    if check.version >= Version::V3_3 {
        known.push("none");
    }
    if !known.contains(&format) {
        let (found, version) = (quote(format), check.version.as_str());
        let message =
            format!("invalid filesystem format {found}; accepted in version {version} are {}", known.join(", "));
        check.report.error(&place.key("format"), node.get("format").unwrap_or(node), "filesystem-format", message);
        return;
    }
    filesystem_label(node, format, place, check);
}

/// The label of a filesystem whose format is known: what the tool that makes it can take.
pub(crate) fn filesystem_label(node: &Node<'_>, format: &str, place: &PathRef<'_>, check: &mut Check) {
    let longest = match format {
        "ext4" => 16,
        "btrfs" => 256,
        "xfs" => 12,
        "swap" => 15,
        "vfat" => 11,
        _ => return,
    };
    let label = node.text_of("label");
    if label.len() > longest {
        let message = format!("filesystem label {} is too long: {format} takes {longest} bytes", quote(label));
        check.report.error(&place.key("label"), node.get("label").unwrap_or(node), "filesystem-label", message);
    }
}

/// Filesystems that lie on a whole disk which is partitioned or wiped.
pub(crate) fn filesystems_on_disks(storage: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let disks = storage.list_of("disks");
    if disks.is_empty() {
        return;
    }
    let disks: HashMap<&str, &Node<'_>> = disks.iter().map(|disk| (disk.text_of("device"), disk)).collect();
    for (index, filesystem) in storage.list_of("filesystems").iter().enumerate() {
        let Some(disk) = disks.get(filesystem.text_of("device")) else {
            continue;
        };
        let here = place.key("filesystems");
        let here = here.index(index);
        if !disk.list_of("partitions").is_empty() {
            let message = "the filesystem overwrites the partition table of its disk";
            check.report.warn(&here.key("device"), filesystem, "partitions-overwritten", message);
        } else if filesystem.bool_of("wipeFilesystem") != Some(true) && disk.bool_of("wipeTable") == Some(true) {
            let message = "wipeTable of the disk wipes this filesystem although wipeFilesystem is not set";
            check.report.warn(&here.key("device"), filesystem, "filesystem-wiped", message);
        }
    }
}

pub(crate) fn raid(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let level = node.text_of("level");
    let error = match level {
        "" => Some("raid level is required".to_owned()),
        "linear" | "raid0" | "0" | "stripe" if node.int_of("spares").unwrap_or(0) != 0 => {
            Some(format!("spares unsupported for level {level}"))
        }
        "linear" | "raid0" | "0" | "stripe" | "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6"
        | "6" | "raid10" | "10" => None,
        _ => Some(format!(
            "unrecognized raid level {}; expected one of linear, raid0, raid1, raid4, raid5, raid6, raid10",
            quote(level)
        )),
    };
    if let Some(message) = error {
        check.report.error(&place.key("level"), node.get("level").unwrap_or(node), "raid-level", message);
    }
    let devices = node.list_of("devices");
    if devices.is_empty() {
        check.report.error(&place.key("devices"), node, "raid-devices", "raid devices required: name at least one");
    }
    let here = place.key("devices");
    for (index, device) in devices.iter().enumerate() {
        check_path(node, Some(device), &here.index(index), check);
    }
}

/// A LUKS device.
pub(crate) fn luks(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let name = node.text_of("name");
    if name.contains('/') {
        let message = format!("device name {} contains a slash", quote(name));
        check.report.error(&place.key("name"), node.get("name").unwrap_or(node), "luks-name", message);
    }
    if node.text_of("label").len() > 47 {
        let message = format!("label {} is longer than 47 bytes", quote(node.text_of("label")));
        check.report.error(&place.key("label"), node.get("label").unwrap_or(node), "luks-label", message);
    }
    if node.text_of("device").is_empty() {
        check.report.error(&place.key("device"), node, "device-required", "disk device is required");
    } else {
        check_path(node, node.get("device"), &place.key("device"), check);
    }
    let clevis = node.get("clevis");
    let custom = clevis.and_then(|clevis| clevis.get("custom")).filter(|custom| !custom.text_of("pin").is_empty());
    let has_pins = clevis.is_some_and(|clevis| {
        !clevis.list_of("tang").is_empty()
            || clevis.bool_of("tpm2") == Some(true)
            || clevis.int_of("threshold").unwrap_or(0) != 0
    });
    // Up to 3.2 a pin of the user's own is there as soon as its object is.
    // Differs: an empty object was taken out before, because it says nothing in any version; 3.2 took it for a pin.
    let has_custom = match check.version {
        Version::V3_2 => clevis.is_some_and(|clevis| clevis.get("custom").is_some()),
        _ => custom.is_some(),
    };
    if let (Some(clevis), true, true) = (clevis, has_custom, has_pins) {
        let message = "cannot use a custom clevis pin together with tang, tpm2 or threshold";
        check.report.error(&place.key("clevis"), clevis, "clevis-custom", message);
    }
    if node.dig(&["cex", "enabled"]).and_then(Node::as_bool) == Some(true) {
        let key_file = node.dig(&["keyFile", "source"]).and_then(Node::as_str).unwrap_or_default();
        if custom.is_some() || has_pins {
            check.report.error(&place.key("cex"), node, "cex-with-clevis", "cannot use cex together with clevis");
        }
        if !key_file.is_empty() {
            check.report.error(&place.key("cex"), node, "cex-with-key-file", "cannot use cex together with a key file");
        }
    }
}

/// A clevis pin of the user's own.
pub(crate) fn clevis_custom(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let pin = node.text_of("pin");
    let config = node.text_of("config");
    // Differs: 3.2 takes `needsNetwork` without a pin, because it looks at the texts only; 3.3 and later do not.
    if pin.is_empty() && config.is_empty() && node.bool_of("needsNetwork") != Some(true) {
        return;
    }
    if !matches!(pin, "tpm2" | "tang" | "sss") {
        let message = format!("{} is not a clevis pin; expected one of tpm2, tang, sss", quote(pin));
        check.report.error(&place.key("pin"), node.get("pin").unwrap_or(node), "clevis-pin", message);
    }
    if config.is_empty() {
        check.report.error(&place.key("config"), node, "clevis-config", "a custom clevis pin needs its config");
    }
}

/// A tang server.
pub(crate) fn tang(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let text = node.text_of("url");
    if !matches!(url::scheme(text).as_deref(), Some("http" | "https")) {
        let message =
            format!("{} is not the URL of a tang server; expected an http:// or https:// URL", url::quote_url(text));
        check.report.error(&place.key("url"), node.get("url").unwrap_or(node), "tang-url", message);
    }
    if node.text_of("thumbprint").is_empty() {
        check.report.error(&place.key("thumbprint"), node, "tang-thumbprint", "thumbprint is required");
    }
    if let Some(advertisement) = node.get("advertisement") {
        let text = advertisement.as_str().unwrap_or_default();
        // Differs: Ignition refuses numbers that no double can hold, because its reader turns them into one.
        if !text.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            check.report.error(
                &place.key("advertisement"),
                advertisement,
                "tang-advertisement",
                "the advertisement is not JSON",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::node::Node;
    use crate::parse::parse;

    fn codes(partitions: &serde_json::Value) -> Vec<&'static str> {
        let disks = json!([{"device": "/d", "partitions": partitions}]);
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"disks": disks}});
        parse(&Node::from_json(&config)).err().into_iter().flatten().map(|problem| problem.code).collect()
    }

    #[test]
    fn the_formats_that_are_offered_are_those_of_the_version() {
        for (version, accepted) in [("3.2.0", "swap, vfat"), ("3.3.0", "swap, vfat, none")] {
            let filesystems = json!([{"device": "/d", "format": "zfs"}]);
            let config = json!({"ignition": {"version": version}, "storage": {"filesystems": filesystems}});
            let problems = parse(&Node::from_json(&config)).unwrap_err();
            let message = &problems[0].message;
            assert!(
                message.ends_with(&format!("accepted in version {version} are ext4, btrfs, xfs, {accepted}")),
                "{message}"
            );
        }
    }

    #[test]
    fn sizes_at_the_ends_of_the_range_are_compared_without_overflow() {
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        for (start, size) in ends.iter().flat_map(|start| ends.map(|size| (start, size))) {
            let first = json!({"number": 1, "startMiB": start, "sizeMiB": size});
            // A start of 0 is chosen by the tool, so it clashes with nothing.
            let expected: &[&str] = if *start == 0 { &[] } else { &["partition-overlap"] };
            let second = json!({"number": 2, "startMiB": start, "sizeMiB": 1});
            assert_eq!(codes(&json!([first, second])), expected, "{start} {size}");
        }
    }
}
