//! Validation rules of systemd units and drop-ins, and of the paths that they are written to.

use std::collections::HashMap;

use super::Check;
use crate::node::{Node, quote};
use crate::problem::PathRef;
use crate::unit::sections;

const UNIT_TYPES: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

/// The part of a file's name behind the last dot.
fn extension(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

pub(crate) fn unit(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let name = node.text_of("name");
    if !UNIT_TYPES.contains(&extension(name)) {
        let message =
            format!("invalid systemd unit extension: {}; expected one of .{}", quote(name), UNIT_TYPES.join(", ."));
        check.report.error(&place.key("name"), node.get("name").unwrap_or(node), "unit-name", message);
    }
    let Some(contents) = node.get("contents") else {
        return;
    };
    match sections(contents.as_str().unwrap_or_default()) {
        Err(error) => contents_error(contents, place, &error, check),
        Ok(sections) => {
            let is_empty = contents.as_str() == Some("");
            if node.bool_of("enabled") == Some(true) && !is_empty && !sections.contains("Install") {
                let message = format!(
                    "unit {} is enabled but has no [Install] section, so enabling it does nothing",
                    quote(name)
                );
                check.report.warn(&place.key("contents"), contents, "no-install-section", message);
            }
        }
    }
}

/// A drop-in.
pub(crate) fn dropin(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if let Some(contents) = node.get("contents")
        && let Err(error) = sections(contents.as_str().unwrap_or_default())
    {
        contents_error(contents, place, &error, check);
    }
    let name = node.text_of("name");
    if extension(name) != "conf" {
        let message = format!("invalid systemd drop-in extension: {}; it ends in .conf", quote(name));
        check.report.error(&place.key("name"), node.get("name").unwrap_or(node), "dropin-name", message);
    }
}

fn contents_error(contents: &Node<'_>, place: &PathRef<'_>, error: &crate::unit::UnitError, check: &mut Check) {
    check.report.error(&place.key("contents"), contents, "unit-contents", format!("invalid unit content: {error}"));
}

/// The whole systemd section: instances of a template that has no `[Install]` section.
pub(crate) fn systemd(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let units = node.list_of("units");
    let mut by_name: Option<HashMap<&str, &Node<'_>>> = None;
    // Whether a template lacks the section: it is read once, however many instances it has.
    let mut lacks_install: HashMap<String, bool> = HashMap::new();
    for (index, unit) in units.iter().enumerate() {
        let name = unit.text_of("name");
        let Some((template, instance)) = name.strip_suffix(".service").and_then(|name| name.split_once('@')) else {
            continue;
        };
        if template.is_empty() || instance.is_empty() || unit.bool_of("enabled") != Some(true) {
            continue;
        }
        let by_name = by_name.get_or_insert_with(|| units.iter().map(|unit| (unit.text_of("name"), unit)).collect());
        let template = format!("{template}@.service");
        let Some(contents) = by_name.get(template.as_str()).map(|unit| unit.text_of("contents")) else {
            continue;
        };
        let lacks_install = *lacks_install.entry(template.clone()).or_insert_with(|| {
            !contents.is_empty() && sections(contents).is_ok_and(|sections| !sections.contains("Install"))
        });
        if lacks_install {
            let message = format!(
                "unit {} is enabled, but its template {} has no [Install] section",
                quote(name),
                quote(&template)
            );
            check.report.warn(&place.key("units").index(index).key("contents"), unit, "no-install-section", message);
        }
    }
}

/// The whole config: a file, directory or link where a unit or drop-in is written.
pub(crate) fn config(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let Some(storage) = node.get("storage") else {
        return;
    };
    let units = node.get("systemd").map(|systemd| systemd.list_of("units")).unwrap_or_default();
    if units.is_empty() {
        return;
    }
    // Few paths lie where units are written, so the units are looked up only when one does.
    let mut written: Option<HashMap<String, &Node<'_>>> = None;
    for list in ["files", "directories", "links"] {
        for (index, item) in storage.list_of(list).iter().enumerate() {
            let path = item.text_of("path");
            if !path.starts_with(UNITS) {
                continue;
            }
            if let Some(unit) = written.get_or_insert_with(|| written_by(units)).get(path) {
                let message =
                    format!("path conflicts with a systemd unit or drop-in: both write {}; keep one", quote(path));
                let here = place.key("storage");
                let here = here.key(list);
                let here = here.index(index);
                check.report.clash(&here.key("path"), item, &[unit], "path-of-unit", message);
            }
        }
    }
}

/// The units and drop-ins that write something, by path.
fn written_by<'n, 'a>(units: &'n [Node<'a>]) -> HashMap<String, &'n Node<'a>> {
    let mut written = HashMap::new();
    for unit in units {
        let name = unit.text_of("name");
        if !unit.text_of("contents").is_empty() {
            written.insert(unit_path(name), unit);
        }
        for dropin in unit.list_of("dropins") {
            if !dropin.text_of("contents").is_empty() {
                written.insert(dropin_path(name, dropin.text_of("name")), dropin);
            }
        }
    }
    written
}

/// Where units are written.
pub const UNITS: &str = "/etc/systemd/system/";

/// Where a unit is written.
pub fn unit_path(unit: &str) -> String {
    format!("{UNITS}{unit}")
}

/// Where a drop-in is written.
pub fn dropin_path(unit: &str, dropin: &str) -> String {
    format!("{UNITS}{unit}.d/{dropin}")
}
