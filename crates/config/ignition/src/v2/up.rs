//! Up-conversion from spec 2.x to spec 3.0, with a warning for everything that it changes or loses.
//!
//! Compat: the result is what the machine-config operator makes of such a config (coreos/ign-converter), list order
//! included, because the rendered name depends on it. The reversed lists come from its removal of duplicates, which
//! walks from the end.

use std::borrow::Cow;

use super::schema;
use super::source::rewritten;
use crate::node::{Node, Value};
use crate::problem::{PathRef, Report};
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
    let mut check = Check::with(version, std::mem::take(report));
    walk(&config, &schema::CONFIG, &PathRef::ROOT, &mut check);
    *report = check.report;
    let mut up = UpConversion { version, report };
    let networkd = config.take("networkd");
    if let Some(units) = networkd.as_ref().and_then(|networkd| networkd.get("units")) {
        let place = PathRef::ROOT.key("networkd");
        let message = "networkd units cannot be converted to version 3; write them as files below /etc/systemd/network";
        up.report.error(&place.key("units"), units, "v2-networkd", message);
    }
    let parts = [
        ("ignition", config.take("ignition").map(|section| up.ignition(section))),
        ("passwd", config.take("passwd").map(|section| up.passwd(section))),
        ("storage", config.take("storage").map(|section| up.storage(section))),
        ("systemd", config.take("systemd").map(|section| up.systemd(section))),
    ];
    let entries = parts.into_iter().filter_map(|(key, part)| Some((Cow::Borrowed(key), part?))).collect();
    let mut converted = Node::map_at(entries, origin);
    shape::prune(&mut converted);
    converted
}

/// A conversion under way.
pub(super) struct UpConversion<'r> {
    pub(super) version: Version,
    pub(super) report: &'r mut Report,
}

/// Gives a body or a reference the empty source that spec 2.x takes for none.
pub(super) fn set_source(node: &mut Node<'_>) {
    if node.get("source").is_none() {
        node.set("source", Node::str_at("", node.origin));
    }
}

/// Sources of 2.0.0 are URLs and not texts.
fn rewrite_sources(config: &mut Node<'_>) {
    let rewrite = |node: &mut Node<'_>| {
        if let Some(Node { value: Value::Str(source), .. }) = node.get_mut("source")
            && let Cow::Owned(changed) = rewritten(source)
        {
            *source = Cow::Owned(changed);
        }
    };
    if let Some(references) = config.get_mut("ignition").and_then(|ignition| ignition.get_mut("config")) {
        references.list_of_mut("append").iter_mut().for_each(rewrite);
        references.get_mut("replace").into_iter().for_each(rewrite);
    }
    if let Some(storage) = config.get_mut("storage") {
        storage.list_of_mut("files").iter_mut().filter_map(|file| file.get_mut("contents")).for_each(rewrite);
    }
}

impl<'t> UpConversion<'_> {
    fn ignition(&mut self, mut section: Node<'t>) -> Node<'t> {
        if let Some(config) = section.get_mut("config") {
            config.list_of_mut("append").iter_mut().for_each(set_source);
            config.get_mut("replace").into_iter().for_each(set_source);
            // Differs: upstream refuses two or more entries, because its loop makes every one of them the last.
            if let Some(append) = config.take("append") {
                config.set("merge", append);
            }
        }
        if let Some(version) = section.get_mut("version") {
            version.value = Value::Str(Cow::Borrowed(Version::V3_0.as_str()));
        }
        section
    }
}
