//! Down-conversion to an older spec version: what that version cannot express is an error that names the field.

use std::borrow::Cow;

use crate::node::{Node, Value};
use crate::parse::{check_as, set_version};
use crate::problem::{PathRef, Problem, Report, Severity};
use crate::schema::{CONFIG, Field, FieldType, Object};
use crate::version::Version;
use crate::{shape, url, v2};

/// Translates a valid config of spec 3.5 to an older version, or to its own.
///
/// Accepted are the versions of [`Version::WRITABLE`]. Values that mean the same as leaving the field out (`false`,
/// `""`) are left out where the older version does not know the field.
///
/// Differs: upstream loses `cex` and the advertisement of a tang server on every way without a word, because its
/// converter never looks at them; a machine that boots without its disk encryption is worse than one that does not
/// boot.
pub fn translate_down<'t>(config: &'t Node<'_>, to: Version) -> Result<Node<'t>, Vec<Problem>> {
    let mut report = Report::default();
    if !Version::WRITABLE.contains(&to) {
        let accepted = Version::WRITABLE.map(Version::as_str).join(", ");
        let message = format!("a config cannot be written in version {to}; expected one of {accepted}");
        let place = PathRef::ROOT.key("ignition");
        report.error(&place.key("version"), config, "version-not-writable", message);
        return Err(report.into_problems());
    }
    let mut translated = config.borrowed();
    // 2.2 is reached through 3.2, the newest version that its converter reads.
    let limit = if to.is_v2() { Version::V3_2 } else { to };
    let mut down = DownConversion { limit, to, report };
    down.fields(&mut translated, &CONFIG, &PathRef::ROOT);
    down.values(&translated, &CONFIG, &PathRef::ROOT);
    let mut report = down.report;
    shape::prune(&mut translated);
    set_version(&mut translated, limit);
    if to.is_v2() {
        v2::report_unsupported(&translated, &mut report);
    } else if !report.has_errors() {
        report = check_as(&translated, limit);
    }
    if report.has_errors() {
        let mut problems = report.into_problems();
        problems.retain(|problem| problem.severity == Severity::Error);
        return Err(problems);
    }
    Ok(if to.is_v2() { v2::from_v3(translated) } else { translated })
}

struct DownConversion {
    /// The newest version whose fields are known.
    limit: Version,
    /// The version that was asked for.
    to: Version,
    report: Report,
}

impl DownConversion {
    /// Takes out the fields that the version does not know; those that say something are errors.
    fn fields(&mut self, node: &mut Node<'_>, object: &'static Object, place: &PathRef<'_>) {
        let Some(map) = node.as_map_mut() else { return };
        map.0.retain_mut(|(key, child)| {
            let Some(field) = object.field(key) else {
                return false;
            };
            let here = place.key(field.name);
            if field.since > self.limit {
                if is_significant(child, field) {
                    let message = format!(
                        "{} exists only from version {} on and cannot be expressed in {}",
                        field.name, field.since, self.to
                    );
                    self.report.error(&here, child, "not-in-version", message);
                }
                return false;
            }
            match &field.kind {
                FieldType::Object(object) => self.fields(child, object, &here),
                FieldType::List(list) => {
                    if let FieldType::Object(object) = &list.item {
                        for (index, item) in child.as_list_mut().into_iter().flatten().enumerate() {
                            self.fields(item, object, &here.index(index));
                        }
                    }
                }
                _ => {}
            }
            // Up to 3.2 a pin of the user's own is there as soon as its object is.
            !(field.name == "custom" && self.limit <= Version::V3_2 && is_empty_pin(child))
        });
    }

    /// Values that the version does not know in a field that it knows.
    fn values(&mut self, node: &Node<'_>, object: &'static Object, place: &PathRef<'_>) {
        let Some(map) = node.as_map() else { return };
        for (key, child) in map.iter() {
            let Some(field) = object.field(key) else {
                continue;
            };
            let here = place.key(field.name);
            match &field.kind {
                FieldType::Object(object) => self.values(child, object, &here),
                FieldType::List(list) => {
                    if let FieldType::Object(object) = &list.item {
                        for (index, item) in child.as_list().unwrap_or_default().iter().enumerate() {
                            self.values(item, object, &here.index(index));
                        }
                    }
                }
                FieldType::Int if field.name == "mode" && self.limit < Version::V3_4 => {
                    let mode = child.as_int().unwrap_or_default();
                    if mode & 0o7000 != 0 {
                        let message =
                            format!("the special bits of mode 0{mode:o} cannot be expressed in {}; drop them", self.to);
                        self.report.error(&here, child, "not-in-version", message);
                    }
                }
                FieldType::Str if field.name == "source" && self.limit < Version::V3_4 && is_arn(child) => {
                    let message = format!(
                        "arn: sources exist only from version 3.4.0 on and cannot be expressed in {}; use s3:",
                        self.to
                    );
                    self.report.error(&here, child, "not-in-version", message);
                }
                _ => {}
            }
        }
    }
}

fn is_arn(source: &Node<'_>) -> bool {
    source.as_str().and_then(url::scheme).as_deref() == Some("arn")
}

fn is_empty_pin(custom: &Node<'_>) -> bool {
    custom.get("pin").is_none() && custom.get("config").is_none() && custom.bool_of("needsNetwork") != Some(true)
}

/// Whether leaving a field out would change what the config does.
fn is_significant(node: &Node<'_>, field: &Field) -> bool {
    match &node.value {
        Value::Null => false,
        // `shouldExist: true` is the meaning of leaving it out; every other flag is off when it is not given.
        Value::Bool(flag) => *flag != (field.name == "shouldExist"),
        Value::Str(text) => !text.is_empty(),
        Value::List(list) => !list.is_empty(),
        Value::Map(map) => match &field.kind {
            FieldType::Object(object) => {
                map.iter().any(|(key, child)| object.field(key).is_some_and(|field| is_significant(child, field)))
            }
            _ => !map.is_empty(),
        },
        Value::Int(_) | Value::Float(_) => true,
    }
}

/// Moves Ignition's own kernel arguments out of a config, for versions that do not know them.
///
/// The arguments that should exist are returned: the Ignition endpoint passes them to the machine another way.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(arguments: serde_json::Value) -> serde_json::Value {
        json!({"ignition": {"version": "3.5.0"}, "kernelArguments": arguments, "storage": {"files": [{"path": "/a"}]}})
    }

    #[test]
    fn arguments_that_were_taken_out_no_longer_keep_a_config_from_an_older_version() {
        let json = config(json!({"shouldExist": ["b", "a=1", "c d"]}));
        let mut node = Node::from_json(&json);
        assert!(translate_down(&node, Version::V3_2).is_err());
        assert_eq!(take_kernel_arguments(&mut node), ["b", "a=1", "c d"]);
        let translated = translate_down(&node, Version::V3_2).unwrap().to_json();
        assert_eq!(translated, json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "/a"}]}}));
        assert_eq!(take_kernel_arguments(&mut node), Vec::<String>::new());
    }

    #[test]
    fn arguments_that_should_not_exist_stay_and_are_refused() {
        let json = config(json!({"shouldExist": ["a"], "shouldNotExist": ["b"]}));
        let mut node = Node::from_json(&json);
        assert_eq!(take_kernel_arguments(&mut node), ["a"]);
        assert_eq!(node.to_json(), config(json!({"shouldNotExist": ["b"]})));
        let problems = translate_down(&node, Version::V3_2).unwrap_err();
        assert_eq!(problems[0].path.to_string(), "kernelArguments");
        assert_eq!(problems[0].code, "not-in-version");
    }

    #[test]
    fn a_config_without_arguments_gives_none() {
        let json = json!({"ignition": {"version": "3.5.0"}});
        assert_eq!(take_kernel_arguments(&mut Node::from_json(&json)), Vec::<String>::new());
    }
}
