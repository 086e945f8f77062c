//! Validation of configs by the rules of Ignition itself, each reported with the path and the values involved.
//!
//! The [schema](crate::schema) assigns rules to objects; here is the walk, and the rules that
//! hold for every list. The config must have been brought into [shape](crate::shape) before.

pub(crate) mod device;
pub(crate) mod file;
pub(crate) mod resource;
pub(crate) mod unit;

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt as _};

use crate::node::Node;
use crate::problem::{PathRef, Report};
use crate::schema::{CONFIG, FieldType, KeyBy, ListMergeMode, Object};
use crate::url::{quote_any, quote_url};
use crate::version::Version;

/// A rule of one kind of object.
pub(crate) type Rule = fn(&Node<'_>, &PathRef<'_>, &mut Check);

/// What the rules write to.
pub(crate) struct Check {
    pub(crate) version: Version,
    pub(crate) report: Report,
    /// Whether sources are looked at: those of a merged config come from inputs that were checked before.
    pub(crate) looks_at_sources: bool,
}

impl Check {
    pub(crate) fn new(version: Version) -> Self {
        Check::with(version, Report::default())
    }

    /// A check that goes on in a report.
    pub(crate) fn with(version: Version, report: Report) -> Self {
        Check { version, report, looks_at_sources: true }
    }
}

/// Applies every rule to a config.
pub(crate) fn validate(config: &Node<'_>, check: &mut Check) {
    walk(config, &CONFIG, &PathRef::ROOT, check);
}

/// An object without rules of its own.
pub(crate) fn no_rule(_: &Node<'_>, _: &PathRef<'_>, _: &mut Check) {}

/// Applies the rules of an object, and of all below it.
pub(crate) fn walk(node: &Node<'_>, object: &'static Object, place: &PathRef<'_>, check: &mut Check) {
    (object.rule)(node, place, check);
    let Some(map) = node.as_map() else { return };
    duplicates(node, object, place, check);
    for (key, child) in map.iter() {
        let Some(field) = object.field(key) else {
            continue;
        };
        let here = place.key(key);
        match &field.kind {
            FieldType::Object(object) => walk(child, object, &here, check),
            FieldType::List(list) => {
                let FieldType::Object(object) = &list.item else {
                    continue;
                };
                for (index, item) in child.as_list().unwrap_or_default().iter().enumerate() {
                    walk(item, object, &here.index(index), check);
                }
            }
            _ => {}
        }
    }
}

/// Two entries with one key, in a list or in a group of lists that share their keys.
fn duplicates(node: &Node<'_>, object: &'static Object, place: &PathRef<'_>, check: &mut Check) {
    let mut group: HashMap<Cow<'_, str>, &Node<'_>> = HashMap::new();
    for field in object.fields {
        let FieldType::List(list) = &field.kind else {
            continue;
        };
        let Some(key_by) = list.mode.key_by() else {
            continue;
        };
        let items = node.list_of(field.name);
        let is_shared = object.shared.contains(&field.name);
        if items.is_empty() || (items.len() < 2 && !is_shared) {
            continue;
        }
        let mut own = HashMap::new();
        let seen = if is_shared { &mut group } else { &mut own };
        for (index, item) in items.iter().enumerate() {
            let key = key_by.key_of(item);
            if let Some(first) = seen.get(&key) {
                let message = format!(
                    "duplicate entry defined: {} is given twice; each {} may be given once",
                    if matches!(key_by, KeyBy::Field("source" | "url")) { quote_url(&key) } else { quote_any(&key) },
                    name_of_key(key_by)
                );
                check.report.clash(&place.key(field.name).index(index), item, &[first], "duplicate", message);
            } else {
                seen.insert(key, item);
            }
        }
    }
}

fn name_of_key(key_by: KeyBy) -> &'static str {
    match key_by {
        KeyBy::Field(field) => field,
        KeyBy::Text => "value",
        KeyBy::Partition => "partition number or label",
    }
}

impl ListMergeMode {
    /// What identifies an entry; `None` where equal entries are allowed.
    pub(crate) fn key_by(self) -> Option<KeyBy> {
        match self {
            ListMergeMode::Keyed(key_by) => Some(key_by),
            ListMergeMode::Headers => Some(KeyBy::Field("name")),
            ListMergeMode::Concat => None,
        }
    }
}
