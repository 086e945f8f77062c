//! The rules that make a config valid: those of Ignition itself, each with the place and the values it speaks of.
//!
//! Which rule belongs to which object stands in the [schema](crate::schema); here is the walk, and the rules that
//! hold for every list. The config must have been brought into [shape](crate::shape) before.

pub(crate) mod device;
pub(crate) mod file;
pub(crate) mod resource;
pub(crate) mod unit;

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt as _};

use crate::node::Node;
use crate::problem::{Place, Report};
use crate::schema::{CONFIG, KeyBy, Kind, Mode, Object};
use crate::url::{quote_any, quote_url};
use crate::version::Version;

/// A rule of one kind of object.
pub(crate) type Rule = fn(&Node<'_>, &Place<'_>, &mut Check);

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
    walk(config, &CONFIG, &Place::ROOT, check);
}

/// An object without rules of its own.
pub(crate) fn nothing(_: &Node<'_>, _: &Place<'_>, _: &mut Check) {}

/// Applies the rules of an object, and of all below it.
pub(crate) fn walk(node: &Node<'_>, object: &'static Object, place: &Place<'_>, check: &mut Check) {
    (object.rule)(node, place, check);
    let Some(map) = node.as_map() else { return };
    duplicates(node, object, place, check);
    for (key, child) in map.iter() {
        let Some(field) = object.field(key) else {
            continue;
        };
        let here = place.key(key);
        match &field.kind {
            Kind::Object(object) => walk(child, object, &here, check),
            Kind::List(list) => {
                let Kind::Object(object) = &list.item else {
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
fn duplicates(node: &Node<'_>, object: &'static Object, place: &Place<'_>, check: &mut Check) {
    let mut group: HashMap<Cow<'_, str>, &Node<'_>> = HashMap::new();
    for field in object.fields {
        let Kind::List(list) = &field.kind else {
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
                    "duplicate entry defined: {} stands twice; each {} may be given once",
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

impl Mode {
    /// What tells two entries apart; `None` where equal entries may stand side by side.
    pub(crate) fn key_by(self) -> Option<KeyBy> {
        match self {
            Mode::Keyed(key_by) => Some(key_by),
            Mode::Headers => Some(KeyBy::Field("name")),
            Mode::Concat => None,
        }
    }
}
