//! Shape checks: types are checked; `null`, unknown keys, empty objects and lists are removed.
//!
//! After this a config of any 3.x version is a tree that the [schema](crate::schema) describes, so the rules that
//! follow look at values and never at types.

use std::borrow::Cow;

use seaworthy_values::list;

use crate::node::{Map, Node, Value, quote};
use crate::problem::{PathRef, Report, WRONG_TYPE};
use crate::schema::{Field, FieldType, Object};
use crate::spelling;
use crate::version::Version;

/// A config, as read, in the shape that `object` gives it for `version`. The result borrows from the original, which
/// stays as it is, so that origins can be looked up in it.
pub(crate) fn conform<'t>(
    config: &'t Node<'_>,
    object: &'static Object,
    version: Version,
    report: &mut Report,
) -> Node<'t> {
    conform_value(config, &FieldType::Object(object), version, &PathRef::ROOT, report)
        .unwrap_or(Node { value: Value::Map(Map::default()), origin: config.origin })
}

/// A value in shape; `None` when nothing of it is left.
fn conform_value<'t>(
    node: &'t Node<'_>,
    kind: &FieldType,
    version: Version,
    place: &PathRef<'_>,
    report: &mut Report,
) -> Option<Node<'t>> {
    let (value, accepted) = match (kind, &node.value) {
        (FieldType::Str, Value::Str(text)) => (Some(Value::Str(Cow::Borrowed(text.as_ref()))), ""),
        (FieldType::Bool, Value::Bool(flag)) => (Some(Value::Bool(*flag)), ""),
        (FieldType::Int, Value::Int(number)) => (Some(Value::Int(*number)), ""),
        (FieldType::Object(object), Value::Map(map)) => {
            let map = conform_map(map, object, version, place, report);
            // In 2.x an empty object is not the same as none: `"create": {}` excludes other fields beside it.
            ((!map.is_empty() || version.is_v2()).then_some(Value::Map(map)), "")
        }
        (FieldType::List(list), Value::List(items)) => {
            let shaped = |(index, item): (usize, &'t Node<'_>)| {
                // An entry is never dropped, however empty: places in the list must stay what the author sees.
                if item.is_null() {
                    return Node { value: placeholder(&list.item), origin: item.origin };
                }
                conform_value(item, &list.item, version, &place.index(index), report)
                    .unwrap_or(Node { value: placeholder(&list.item), origin: item.origin })
            };
            let items: Vec<_> = items.iter().enumerate().map(shaped).collect();
            ((!items.is_empty()).then_some(Value::List(items)), "")
        }
        (FieldType::Str, _) => (None, "a string"),
        (FieldType::Bool, _) => (None, "true or false"),
        (FieldType::Int, _) => (None, "a whole number"),
        (FieldType::Object(_), _) => (None, "an object"),
        (FieldType::List(_), _) => (None, "a list"),
    };
    if !accepted.is_empty() {
        let message = format!("found {}; expected {accepted}{}", node.describe(), advice(kind, &node.value));
        report.error(place, node, WRONG_TYPE, message);
    }
    Some(Node { value: value?, origin: node.origin })
}

/// How to write what was probably meant by a value of the wrong type.
fn advice(kind: &FieldType, value: &Value<'_>) -> String {
    match (kind, value) {
        (FieldType::Int, Value::Str(text)) => {
            let digits = text.strip_prefix("0o").or_else(|| text.strip_prefix('0')).unwrap_or_default();
            match (i64::from_str_radix(digits, 8), text.parse::<i64>()) {
                (Ok(number), _) => format!(": write 0{digits} in YAML or {number} in JSON, without quotes"),
                (_, Ok(_)) => ": remove the quotes".to_owned(),
                _ => String::new(),
            }
        }
        (FieldType::Int, Value::Float(number)) if number.fract() == 0.0 => {
            ", without a point; one that starts with 0 is octal and has no 8 or 9".to_owned()
        }
        (FieldType::Bool, Value::Str(_)) => ", without quotes".to_owned(),
        (FieldType::Str, Value::Int(_) | Value::Float(_) | Value::Bool(_)) => ": put it in quotes".to_owned(),
        (FieldType::List(_), Value::Str(_) | Value::Int(_) | Value::Map(_)) => {
            ", also of one: put \"- \" before it in YAML or brackets around it in JSON".to_owned()
        }
        (FieldType::Object(object), Value::Str(_) | Value::List(_)) => {
            const MAX_LISTED: usize = 8;
            let names = object.fields.iter().map(|field| field.name);
            format!(" with keys such as {}", list::examples(names, MAX_LISTED))
        }
        _ => String::new(),
    }
}

/// Placeholder for an entry of the wrong type, so that the rules go on and one run shows every mistake.
fn placeholder(kind: &FieldType) -> Value<'static> {
    match kind {
        FieldType::Object(_) => Value::Map(Map::default()),
        FieldType::List(_) => Value::List(Vec::new()),
        _ => Value::Str(Cow::Borrowed("")),
    }
}

fn conform_map<'t>(
    map: &'t Map<'_>,
    object: &'static Object,
    version: Version,
    place: &PathRef<'_>,
    report: &mut Report,
) -> Map<'t> {
    let most = map.0.len().min(object.fields.len());
    let mut shaped = Vec::with_capacity(most);
    // The fields that a key was taken for, with the key as it was written.
    let mut taken: Vec<(&'static str, &str, &Node<'_>)> = Vec::with_capacity(most);
    for (key, child) in &map.0 {
        let here = place.key(key);
        let field =
            object.field(key).or_else(|| object.fields.iter().find(|field| field.name.eq_ignore_ascii_case(key)));
        // A field of a later version is unknown, and so is what only resembles it.
        let field = field.filter(|field| field.since <= version || field.name == key);
        if let Some(field) = field.filter(|field| field.since <= version) {
            if let Some((_, first, node)) = taken.iter().find(|(name, ..)| std::ptr::eq(*name, field.name)) {
                // Differs: Ignition's reader takes the last of them, because Go's does; which one the author means
                // cannot be known, and what is checked must be what the machine gets.
                let message = format!("the key {:?} is given twice, as {first:?} and {key:?}; keep one", field.name);
                report.clash(&here, child, &[node], "key-twice", message);
                continue;
            }
            taken.push((field.name, key, child));
        }
        if let Some(field) = field
            && field.name != key
        {
            // Compat: Ignition's reader takes a key in any case. What worked on machines so far goes on working.
            // Differs: it also takes letters that fold to the same one (`ſ`, the Kelvin sign), because Go does; they
            // are only written to deceive.
            let message = format!("{key:?} is taken as {:?}; write it that way", field.name);
            report.warn(&here, child, "key-case", message);
        }
        match field {
            // `null` means "not set" for every field.
            Some(field) if field.since <= version && child.is_null() => {}
            Some(field) if field.since <= version => {
                if let Some(child) = conform_value(child, &field.kind, version, &here, report) {
                    shaped.push((Cow::Borrowed(field.name), child));
                }
            }
            known => {
                let message = unknown_key(key, object, version, known.map(|field| field.since));
                report.warn(&here, child, "unknown-key", message);
            }
        }
    }
    Map(shaped)
}

/// Keys that are known elsewhere: the noun of the object, the key, and what to do instead.
const FOREIGN: [(&str, &str, &str); 7] = [
    (
        "contents",
        "inline",
        "this is a Butane key; write source: \"data:,…\" with %20 for a space, or let `butane` do it",
    ),
    ("contents", "local", "this is a Butane key, and `butane` turns it into a source"),
    ("file", "filesystem", "removed in version 3, where paths are those of the running system; remove it"),
    ("directory", "filesystem", "removed in version 3, where paths are those of the running system; remove it"),
    ("link", "filesystem", "removed in version 3, where paths are those of the running system; remove it"),
    ("user", "password", "a config holds no passwords; write passwordHash with what `mkpasswd` gives"),
    ("unit", "enable", "version 3 calls it \"enabled\""),
];

fn unknown_key(key: &str, object: &Object, version: Version, since: Option<Version>) -> String {
    if let Some(since) = since {
        return format!("{key} exists only from version {since} on and is dropped from this {version} config");
    }
    let known: Vec<_> = object.fields.iter().filter(|field| field.since <= version).collect();
    // A key that was indented too little is beside the object that it belongs to.
    let holds = |field: &&&Field| match &field.kind {
        FieldType::Object(object) => object.fields.iter().any(|below| below.name == key && below.since <= version),
        _ => false,
    };
    let names = || known.iter().map(|field| field.name);
    let foreign = FOREIGN.iter().find(|(noun, name, _)| *noun == object.noun && *name == key);
    if let Some((_, _, hint)) = foreign {
        return format!("unknown key {} is dropped; {hint}", quote(key));
    }
    let hint = match (spelling::nearest(key, names()), known.iter().find(holds)) {
        (_, Some(holder)) => format!("it belongs below {}; move it there", holder.name),
        (Some(near), None) => format!("did you mean {near:?}?"),
        (None, None) => format!("a {} has {}", object.noun, names().collect::<Vec<_>>().join(", ")),
    };
    format!("unknown key {} is dropped; {hint}", quote(key))
}

/// Takes empty objects and lists out of a tree that the program has changed.
pub(crate) fn prune(node: &mut Node<'_>) {
    if let Value::Map(map) = &mut node.value {
        map.0.retain_mut(|(_, child)| {
            prune(child);
            match &child.value {
                Value::Map(map) => !map.is_empty(),
                Value::List(list) => !list.is_empty(),
                Value::Null => false,
                _ => true,
            }
        });
    } else if let Value::List(list) = &mut node.value {
        list.iter_mut().for_each(prune);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::node::Origin;

    fn shaped(text: &str, version: Version) -> (String, Vec<String>) {
        let node: Node<'_> = serde_json::from_str(text).unwrap();
        let mut report = Report::default();
        let node = conform(&node, &crate::schema::CONFIG, version, &mut report);
        let lines =
            report.into_problems().iter().map(|p| format!("{} {}: {}", p.severity, p.path, p.message)).collect();
        (serde_json::to_string(&node).unwrap(), lines)
    }

    #[test]
    fn nulls_and_empty_parts_are_left_out() {
        let (json, problems) = shaped(
            r#"{"ignition":{"version":"3.5.0","config":{},"proxy":null},"storage":{"files":[{"path":"/a","contents":{"verification":{}}}],"links":[]}}"#,
            Version::V3_5,
        );
        assert_eq!(json, r#"{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a"}]}}"#);
        assert_eq!(problems, Vec::<String>::new());
    }

    #[test]
    fn empty_strings_stay() {
        let (json, _) = shaped(r#"{"systemd":{"units":[{"name":"a.service","contents":""}]}}"#, Version::V3_5);
        assert!(json.contains(r#""contents":"""#));
    }

    #[test]
    fn fields_of_later_versions_are_dropped_and_named() {
        let (json, problems) = shaped(r#"{"kernelArguments":{"shouldExist":["a"]}}"#, Version::V3_2);
        assert_eq!(json, "{}");
        assert_eq!(
            problems,
            [
                "warning kernelArguments: kernelArguments exists only from version 3.3.0 on and is dropped from this 3.2.0 config"
            ]
        );
    }

    #[test]
    fn a_key_in_the_wrong_case_is_taken_with_a_warning() {
        let (json, problems) = shaped(r#"{"storage":{"Files":[{"path":"/a"}]}}"#, Version::V3_5);
        assert_eq!(json, r#"{"storage":{"files":[{"path":"/a"}]}}"#);
        assert_eq!(problems, [r#"warning storage.Files: "Files" is taken as "files"; write it that way"#]);
    }

    #[rstest]
    #[case::other_then_exact("Users", "users")]
    #[case::exact_then_other("users", "Users")]
    #[case::two_others("Users", "USERS")]
    fn two_spellings_of_one_key_are_refused(#[case] first: &str, #[case] second: &str) {
        for second_value in ["[]", "null"] {
            let text = format!(r#"{{"passwd":{{"{first}":[{{"name":"a"}}],"{second}":{second_value}}}}}"#);
            let (json, problems) = shaped(&text, Version::V3_5);
            assert_eq!(json, r#"{"passwd":{"users":[{"name":"a"}]}}"#);
            let error = format!(
                r#"error passwd.{second}: the key "users" is given twice, as "{first}" and "{second}"; keep one"#
            );
            assert_eq!(problems.last(), Some(&error), "{problems:?}");
        }
    }

    #[test]
    fn what_resembles_a_field_of_a_later_version_is_unknown() {
        let (json, problems) = shaped(r#"{"kernelarguments":{},"KernelArguments":{}}"#, Version::V3_2);
        assert_eq!(json, "{}");
        assert!(problems.iter().all(|problem| problem.contains("unknown key")), "{problems:?}");
    }

    /// Some case of each letter.
    fn spelled(name: &str, seed: u32) -> String {
        let spell = |(at, c): (usize, char)| if seed >> (at % 32) & 1 == 1 { c.to_ascii_uppercase() } else { c };
        name.char_indices().map(spell).collect()
    }

    fn assert_unique_keys(node: &Node<'_>) {
        match &node.value {
            Value::Map(map) => {
                let keys: HashSet<&str> = map.iter().map(|(key, _)| key).collect();
                assert_eq!(keys.len(), map.0.len(), "{map:?}");
                map.iter().for_each(|(_, child)| assert_unique_keys(child));
            }
            Value::List(list) => list.iter().for_each(assert_unique_keys),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn no_key_is_twice_in_what_was_shaped(
            keys in prop::collection::btree_set(
                (prop::sample::select(vec!["files", "links", "disks", "luks"]), prop_oneof![Just(0), Just(1), any::<u32>()])
                    .prop_map(|(name, seed)| spelled(name, seed)),
                0..8,
            ),
            version in prop::sample::select(vec![Version::V3_0, Version::V3_5]),
        ) {
            let entries = |key: &String| (Cow::Owned(key.clone()), Node::list_at(vec![Node::map_at(Vec::new(), Origin::NONE)], Origin::NONE));
            let storage = Node::map_at(keys.iter().map(entries).collect(), Origin::NONE);
            let config = Node::map_at(vec![("storage".into(), storage)], Origin::NONE);
            let mut report = Report::default();
            let shaped = conform(&config, &crate::schema::CONFIG, version, &mut report);
            assert_unique_keys(&shaped);
            let fields: HashSet<String> = keys.iter().map(|key| key.to_ascii_lowercase()).collect();
            let known = |name: &str| name != "luks" || version == Version::V3_5;
            let twice = fields.iter().any(|name| {
                known(name) && keys.iter().filter(|key| key.eq_ignore_ascii_case(name)).count() > 1
            });
            prop_assert_eq!(report.has_errors(), twice);
        }
    }

    #[rstest]
    #[case::misspelt(r#"{"storage":{"fiels":[]}}"#, "did you mean \"files\"?")]
    #[case::outdented(r#"{"files":[]}"#, "it belongs below storage; move it there")]
    #[case::body(
        r#"{"storage":{"files":[{"path":"/a","source":"data:,"}]}}"#,
        "it belongs below contents; move it there"
    )]
    #[case::butane(r#"{"storage":{"files":[{"contents":{"inline":"x"}}]}}"#, "this is a Butane key; write source")]
    #[case::version_2(r#"{"storage":{"files":[{"filesystem":"root"}]}}"#, "removed in version 3")]
    #[case::password(r#"{"passwd":{"users":[{"password":"x"}]}}"#, "a config holds no passwords")]
    #[case::strange(r#"{"storage":{"tapes":[]}}"#, "a storage section has directories, disks, ")]
    fn an_unknown_key_is_answered_with_what_was_meant(#[case] text: &str, #[case] expected: &str) {
        let (_, problems) = shaped(text, Version::V3_5);
        assert!(problems[0].contains(&format!(" is dropped; {expected}")), "{problems:?}");
    }

    #[rstest]
    #[case(r#"{"storage":{"files":[{"mode":"420"}]}}"#, "a whole number: remove the quotes")]
    #[case(r#"{"storage":{"files":[{"mode":"0o755"}]}}"#, "write 0755 in YAML or 493 in JSON, without quotes")]
    #[case(r#"{"storage":{"files":[{"mode":888.0}]}}"#, "one that starts with 0 is octal and has no 8 or 9")]
    #[case(r#"{"storage":{"files":[{"overwrite":"true"}]}}"#, "true or false, without quotes")]
    #[case(r#"{"storage":{"files":{"path":"/a"}}}"#, "a list, also of one: put \"- \" before it in YAML")]
    #[case(
        r#"{"storage":{"files":[{"contents":"hi"}]}}"#,
        "an object with keys such as compression, httpHeaders, source"
    )]
    fn a_wrong_type_is_answered_with_what_to_write(#[case] text: &str, #[case] expected: &str) {
        let (_, problems) = shaped(text, Version::V3_5);
        assert!(problems[0].contains(expected), "{problems:?}");
    }

    #[test]
    fn every_wrong_type_is_reported() {
        let (_, problems) = shaped(
            r#"{"passwd":[],"storage":{"files":[{"path":1,"mode":"0644","overwrite":1.5},3,null]}}"#,
            Version::V3_5,
        );
        assert_eq!(
            problems,
            [
                "error passwd: found a list of 0; expected an object with keys such as groups, users",
                "error storage.files[0].path: found the number 1; expected a string: put it in quotes",
                "error storage.files[0].mode: found the string \"0644\"; expected a whole number: write 0644 in YAML \
                 or 420 in JSON, without quotes",
                "error storage.files[0].overwrite: found the number 1.5; expected true or false",
                "error storage.files[1]: found the number 3; expected an object",
            ]
        );
    }
}
