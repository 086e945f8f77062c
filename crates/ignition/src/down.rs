//! Down to an older version: what it can say stays, what it cannot say is an error that names the place.

use std::borrow::Cow;

use crate::node::{Node, Value};
use crate::parse::{check_as, set_version};
use crate::problem::{Place, Problem, Report, Severity};
use crate::schema::{CONFIG, Field, Kind, Object};
use crate::version::Version;
use crate::{shape, url, v2};

/// Translates a valid config of spec 3.5 to an older version, or to its own.
///
/// Values that mean the same as leaving the field out (`false`, `""`) are left out where the older version does not
/// know the field.
///
/// Differs: upstream loses `cex`, `wipePartitionEntry` and `shouldExist` of partitions and files without a source without
/// a word on some of these ways, because its converter never looks at them; a machine that boots without its disk
/// encryption is worse than one that does not boot.
pub fn translate_down<'t>(config: &'t Node<'_>, to: Version) -> Result<Node<'t>, Vec<Problem>> {
    let mut report = Report::default();
    let mut translated = config.borrowed();
    // 2.2 is reached through 3.2, the newest version that its converter reads.
    let limit = if to.is_v2() { Version::V3_2 } else { to };
    lower(&mut translated, &CONFIG, limit, &Place::ROOT, &mut report);
    values(&translated, &CONFIG, limit, &Place::ROOT, &mut report);
    shape::prune(&mut translated);
    set_version(&mut translated, limit);
    if report.has_errors() {
        return Err(report.problems);
    }
    if to.is_v2() {
        translated = v2::from_v3(translated, &mut report);
    } else {
        report = check_as(&translated, limit);
    }
    if report.has_errors() {
        report.problems.retain(|problem| problem.severity == Severity::Error);
        return Err(report.problems);
    }
    Ok(translated)
}

/// Takes out the fields that `version` does not know; those that say something are errors.
fn lower(node: &mut Node<'_>, object: &'static Object, version: Version, place: &Place<'_>, report: &mut Report) {
    let Some(map) = node.as_map_mut() else { return };
    map.0.retain_mut(|(key, child)| {
        let Some(field) = object.field(key) else {
            return false;
        };
        let here = place.key(field.name);
        if field.since > version {
            if says_something(child, field) {
                let message = format!(
                    "{} exists only from version {} on and cannot be said in {version}",
                    field.name, field.since
                );
                report.error(&here, child, "not-in-version", message);
            }
            return false;
        }
        match &field.kind {
            Kind::Object(object) => lower(child, object, version, &here, report),
            Kind::List(list) => {
                if let Kind::Object(object) = &list.item {
                    for (index, item) in child.as_list_mut().into_iter().flatten().enumerate() {
                        lower(item, object, version, &here.index(index), report);
                    }
                }
            }
            _ => {}
        }
        true
    });
}

/// Whether leaving a field out would change what the config does.
fn says_something(node: &Node<'_>, field: &Field) -> bool {
    match &node.value {
        Value::Null => false,
        // `shouldExist: true` is the meaning of leaving it out; every other flag is off when it is not given.
        Value::Bool(flag) => *flag != (field.name == "shouldExist"),
        Value::Str(text) => !text.is_empty(),
        Value::List(list) => !list.is_empty(),
        Value::Map(map) => match &field.kind {
            Kind::Object(object) => {
                map.iter().any(|(key, child)| object.field(key).is_some_and(|field| says_something(child, field)))
            }
            _ => !map.is_empty(),
        },
        Value::Int(_) | Value::Float(_) => true,
    }
}

/// Values that `version` does not know in a field that it knows.
fn values(node: &Node<'_>, object: &'static Object, version: Version, place: &Place<'_>, report: &mut Report) {
    let Some(map) = node.as_map() else { return };
    for (key, child) in map.iter() {
        let Some(field) = object.field(key) else {
            continue;
        };
        let here = place.key(field.name);
        match &field.kind {
            Kind::Object(object) => values(child, object, version, &here, report),
            Kind::List(list) => {
                if let Kind::Object(object) = &list.item {
                    for (index, item) in child.as_list().unwrap_or_default().iter().enumerate() {
                        values(item, object, version, &here.index(index), report);
                    }
                }
            }
            Kind::Int if field.name == "mode" && version < Version::V3_4 => {
                let mode = child.as_int().unwrap_or_default();
                if mode & 0o7000 != 0 {
                    let message = format!("the special bits of mode {mode:#o} cannot be said in {version}; drop them");
                    report.error(&here, child, "not-in-version", message);
                }
            }
            Kind::Str if field.name == "source" && version < Version::V3_4 => {
                if url::scheme(child.as_str().unwrap_or_default()).as_deref() == Some("arn") {
                    let message = format!(
                        "arn: sources exist only from version 3.4.0 on and cannot be said in {version}; use s3:"
                    );
                    report.error(&here, child, "not-in-version", message);
                }
            }
            _ => {}
        }
    }
}

/// Moves Ignition's own kernel arguments out of a config, for versions that do not know them.
///
/// The arguments that should exist are given back: whoever serves the config hands them to the machine another way.
/// Those that should not exist stay, so that [`translate_down`] refuses them.
pub fn take_kernel_arguments<'t>(config: &mut Node<'t>) -> Vec<Cow<'t, str>> {
    let Some(section) = config.as_map_mut().and_then(|map| map.get_mut("kernelArguments")).and_then(Node::as_map_mut)
    else {
        return Vec::new();
    };
    let Some(Node { value: Value::List(list), .. }) = section.remove("shouldExist") else {
        return Vec::new();
    };
    list.into_iter()
        .filter_map(|node| match node.value {
            Value::Str(text) => Some(text),
            _ => None,
        })
        .collect()
}
