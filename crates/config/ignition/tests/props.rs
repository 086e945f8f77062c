//! Properties of every config: merging, translating, comparing and tracing, over random inputs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use seaworthy_ignition::diff::{ChangeKind, Entry};
use seaworthy_ignition::path::Step;
use seaworthy_ignition::schema::{CONFIG, FieldType, ListMergeMode};
use seaworthy_ignition::{
    Change, Node, Origin, Path, Severity, Version, check, data_url, diff, locate, merge, parse, translate_down, unit,
};
use serde_json::{Value, json};

use crate::configs::arbitrary::{anything, mutated, spelled_twice};
use crate::configs::spec_2::config_v2;
use crate::configs::{Variety, config};

const V3: [Version; 6] = [Version::V3_0, Version::V3_1, Version::V3_2, Version::V3_3, Version::V3_4, Version::V3_5];
const V2: [Version; 3] = [Version::V2_0, Version::V2_1, Version::V2_2];

/// A config of spec 3.5 with everything in it.
fn any_config() -> BoxedStrategy<Value> {
    config(Version::V3_5, Variety::ALL)
}

/// The config that reading gives, as JSON.
fn read(json: &Value) -> Value {
    let node = Node::from_json(json);
    let parsed = parse(&node).unwrap_or_else(|problems| panic!("{problems:?}\n{json}"));
    parsed.config.to_json()
}

fn merged(configs: &[&Value]) -> Value {
    let nodes: Vec<Node<'_>> = configs.iter().map(|json| Node::from_json(json)).collect();
    merge(&nodes).config.to_json()
}

proptest! {
    #[test]
    fn generated_configs_are_valid((version, json) in select(&V3[..]).prop_flat_map(|v| (Just(v), config(v, Variety::ALL)))) {
        let node = Node::from_json(&json);
        let parsed = parse(&node).map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{json}")))?;
        prop_assert_eq!(parsed.version, version);
        let unknown: Vec<_> = parsed.warnings.iter().filter(|warning| warning.code == "unknown-key").collect();
        prop_assert!(unknown.is_empty(), "{:?}", unknown);
    }

    #[test]
    fn generated_2_configs_are_valid(json in select(&V2[..]).prop_flat_map(config_v2)) {
        read(&json);
    }
}

// Merging.

/// Configs for which merging is associative: without headers, and where no path and no argument changes its kind.
fn plain() -> BoxedStrategy<Value> {
    config(Version::V3_5, Variety { headers: false, removals: false, kinds: false, ..Variety::ALL })
}

proptest! {
    #[test]
    fn merge_is_associative_where_nothing_is_taken_away(a in plain(), b in plain(), c in plain()) {
        let left = merged(&[&merged(&[&a, &b]), &c]);
        let right = merged(&[&a, &merged(&[&b, &c])]);
        prop_assert_eq!(&left, &right);
        prop_assert_eq!(left, merged(&[&a, &b, &c]));
    }

    #[test]
    fn merging_one_by_one_is_merging_at_once(a in any_config(), b in any_config(), c in any_config()) {
        prop_assert_eq!(merged(&[&merged(&[&a, &b]), &c]), merged(&[&a, &b, &c]));
    }

    #[test]
    fn an_empty_config_changes_nothing(a in any_config()) {
        let empty = json!({"ignition": {"version": "3.5.0"}});
        prop_assert_eq!(&merged(&[&a, &empty]), &a);
        prop_assert_eq!(&merged(&[&empty, &a]), &a);
        prop_assert_eq!(&merged(&[&a]), &a);
    }

    #[test]
    fn merging_a_config_with_itself_doubles_only_what_is_concatenated(
        a in config(Version::V3_5, Variety { removals: false, ..Variety::ALL }),
    ) {
        prop_assert_eq!(merged(&[&a, &a]), doubled(&a));
    }
}

/// The lists that are written one after the other.
fn doubled(json: &Value) -> Value {
    match json {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| match (key.as_str(), value) {
                    ("append" | "options" | "mountOptions", Value::Array(list)) => {
                        (key.clone(), Value::from([list.clone(), list.clone()].concat()))
                    }
                    _ => (key.clone(), doubled(value)),
                })
                .collect(),
        ),
        Value::Array(list) => list.iter().map(doubled).collect(),
        other => other.clone(),
    }
}

fn with_headers(source: &str, headers: Value) -> Value {
    json!({"ignition": {"version": "3.5.0", "config": {"replace": {"source": source, "httpHeaders": headers}}}})
}

/// A config cannot remember that it takes something away when there is nothing there to take.
#[test]
fn merge_is_not_associative_when_a_header_is_taken_away() {
    let a = with_headers("http://h/1", json!([{"name": "A", "value": "1"}]));
    let b = with_headers("http://h/1", json!([{"name": "A", "value": "2"}, {"name": "B", "value": "2"}]));
    let c = with_headers("http://h/1", json!([{"name": "A"}]));
    let headers = |config: &Value| config.pointer("/ignition/config/replace/httpHeaders").cloned().unwrap();
    let kept = json!({"name": "B", "value": "2"});
    assert_eq!(headers(&merged(&[&merged(&[&a, &b]), &c])), json!([kept]));
    assert_eq!(headers(&merged(&[&a, &merged(&[&b, &c])])), json!([{"name": "A", "value": "1"}, kept]));
}

#[test]
fn merge_is_not_associative_when_the_source_moves_to_another_host_and_back() {
    let a = with_headers("http://h/1", json!([{"name": "A", "value": "1"}]));
    let b = with_headers("http://i/1", json!([]));
    let c = with_headers("http://h/2", json!([{"name": "B", "value": "2"}]));
    let count =
        |config: &Value| config.pointer("/ignition/config/replace/httpHeaders").unwrap().as_array().unwrap().len();
    assert_eq!(count(&merged(&[&merged(&[&a, &b]), &c])), 1);
    assert_eq!(count(&merged(&[&a, &merged(&[&b, &c])])), 2);
}

#[test]
fn merge_is_not_associative_when_a_path_changes_its_kind_and_back() {
    let a = json!({"storage": {"files": [{"path": "/a", "mode": 1}]}});
    let b = json!({"storage": {"directories": [{"path": "/a"}]}});
    let c = json!({"storage": {"files": [{"path": "/a", "user": {"id": 0}}]}});
    let mode = |config: &Value| config.pointer("/storage/files/0/mode").cloned();
    assert_eq!(mode(&merged(&[&merged(&[&a, &b]), &c])), None);
    assert_eq!(mode(&merged(&[&a, &merged(&[&b, &c])])), Some(json!(1)));
}

// Translating.

/// Configs that 2.2 can mostly express.
fn lean() -> BoxedStrategy<Value> {
    let lean = Variety { headers: false, special_bits: false, devices: false, ..Variety::ALL };
    config(Version::V3_0, lean)
        .prop_map(|mut config| {
            config["ignition"]["version"] = "3.5.0".into();
            config
        })
        .boxed()
}

proptest! {
    #[test]
    fn up_and_down_again_gives_the_same_config(
        (version, json) in select(&V3[1..]).prop_flat_map(|version| {
            let special_bits = version >= Version::V3_4;
            (Just(version), config(version, Variety { special_bits, ..Variety::ALL }))
        }),
    ) {
        let up = read(&json);
        prop_assert_eq!(&up["ignition"]["version"], "3.5.0");
        let node = Node::from_json(&up);
        let down = translate_down(&node, version).map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
        prop_assert_eq!(down.to_json(), json);
    }

    #[test]
    fn up_from_2_and_down_and_up_again_only_turns_the_lists_around(json in select(&V2[..]).prop_flat_map(config_v2)) {
        let up = read(&json);
        let node = Node::from_json(&up);
        let down = translate_down(&node, Version::V2_2).map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
        prop_assert_eq!(read(&down.to_json()), turned(&up));
    }

    #[test]
    fn what_is_brought_down_keeps_the_rules_of_its_version(json in prop_oneof![any_config(), lean()], to in select(&Version::WRITABLE[..])) {
        let node = Node::from_json(&json);
        let Ok(down) = translate_down(&node, to) else { return Ok(()) };
        let down = down.to_json();
        let node = Node::from_json(&down);
        match parse(&node) {
            Ok(parsed) => {
                prop_assert_eq!(parsed.version, to);
                let known: Vec<_> = parsed.warnings.iter().filter(|warning| warning.code == "unknown-key").collect();
                prop_assert!(known.is_empty(), "{:?}", known);
            }
            // Spec 2.2 can express more than the way up from it takes: other users, partitions, filesystems, a file twice.
            Err(problems) => {
                prop_assert_eq!(to, Version::V2_2);
                let limits = ["v2-user", "v2-partitions", "v2-filesystem", "v2-link-prefix"];
                let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
                for error in errors {
                    prop_assert!(limits.contains(&error.code), "{:?}\n{}", error, down);
                }
            }
        }
    }

    #[test]
    fn what_an_older_version_cannot_express_is_refused_with_its_location(json in any_config(), to in select(&Version::WRITABLE[..])) {
        let node = Node::from_json(&json);
        let Err(problems) = translate_down(&node, to) else { return Ok(()) };
        prop_assert!(!problems.is_empty());
        for problem in problems {
            prop_assert_eq!(problem.severity, Severity::Error);
            let exists = resolve(&node, &problem.path).is_some();
            let is_missing_field = problem.path.parent().is_some_and(|parent| resolve(&node, &parent).is_some());
            prop_assert!(exists || is_missing_field, "{}", problem.path);
        }
    }
}

/// Files and units are in reverse order after each up-conversion.
fn turned(config: &Value) -> Value {
    let mut config = config.clone();
    for list in ["/storage/files", "/systemd/units"] {
        if let Some(Value::Array(list)) = config.pointer_mut(list) {
            list.reverse();
        }
    }
    config
}

fn resolve<'n, 't>(node: &'n Node<'t>, path: &Path) -> Option<&'n Node<'t>> {
    path.0.iter().try_fold(node, |node, step| match step {
        Step::Key(key) => node.get(key),
        Step::Index(index) => node.as_list()?.get(*index),
    })
}

// Origins.

/// Every value that is no object and no list, with its path.
fn leaves<'n, 't>(node: &'n Node<'t>, path: Path, out: &mut Vec<(Path, &'n Node<'t>)>) {
    if let Some(map) = node.as_map() {
        map.iter().for_each(|(key, child)| leaves(child, path.clone().key(key), out));
    } else if let Some(list) = node.as_list() {
        list.iter().enumerate().for_each(|(index, child)| leaves(child, path.clone().index(index), out));
    } else {
        out.push((path, node));
    }
}

/// Checks that each leaf of what the inputs merge to was written in one of them; `made` is what a conversion fills in.
fn check_origins(inputs: &[Value], made: impl Fn(&Path, &Node<'_>) -> bool) -> Result<(), TestCaseError> {
    let mut documents: Vec<Node<'_>> = inputs.iter().map(Node::from_json).collect();
    documents.iter_mut().zip(0..).for_each(|(document, number)| document.number(number));
    let parsed: Vec<_> = documents.iter().map(|document| parse(document).unwrap().config).collect();
    let merged = merge(&parsed).config;
    let mut all = Vec::new();
    leaves(&merged, Path::default(), &mut all);
    for (path, leaf) in all {
        prop_assert!(leaf.origin != Origin::NONE, "{} has no origin", path);
        let document = &documents[leaf.origin.doc as usize];
        let Some((written, found)) = document.find(leaf.origin) else {
            return Err(TestCaseError::fail(format!("{path} is not in its document")));
        };
        prop_assert!(found == leaf || made(&path, leaf), "{} was written at {}", path, written);
    }
    Ok(())
}

fn is_version(path: &Path) -> bool {
    path.to_string() == "ignition.version"
}

proptest! {
    #[test]
    fn every_leaf_of_merged_configs_was_written_in_one_of_them(
        inputs in prop::collection::vec(select(&V3[..]).prop_flat_map(|version| config(version, Variety::ALL)), 1..4),
    ) {
        check_origins(&inputs, |path, _| is_version(path))?;
    }

    #[test]
    fn every_leaf_of_converted_configs_has_an_origin(
        inputs in prop::collection::vec(select(&V2[..]).prop_flat_map(config_v2), 1..3),
    ) {
        // What 2.x leaves out and version 3 does not, and paths that are cleaned on the way.
        let defaults = [("overwrite", json!(true)), ("overwrite", json!(false)), ("mode", json!(0)), ("id", json!(0)), ("source", json!(""))];
        check_origins(&inputs, |path, leaf| {
            let is_default = defaults.iter().any(|(key, value)| path.last_key() == Some(key) && leaf.to_json() == *value);
            is_version(path) || is_default || path.last_key() == Some("path")
        })?;
    }
}

// Comparing.

/// A config as a table from places to values. Entries of keyed lists are named by key, so their order is gone.
type Table = BTreeMap<Vec<String>, Value>;

fn table(config: &Node<'_>) -> Table {
    let mut table = Table::new();
    fill(config, &FieldType::Object(&CONFIG), &[], &mut table);
    table
}

fn fill(node: &Node<'_>, kind: &FieldType, place: &[String], table: &mut Table) {
    let below = |name: &str| [place, &[name.to_owned()]].concat();
    match (kind, node.as_map(), node.as_list()) {
        (FieldType::Object(object), Some(map), _) => {
            for (key, child) in map.iter() {
                if let Some(field) = object.field(key) {
                    fill(child, &field.kind, &below(key), table);
                }
            }
        }
        (FieldType::List(list), _, Some(items)) => match list.mode {
            ListMergeMode::Concat => drop(table.insert(place.to_vec(), node.to_json())),
            ListMergeMode::Keyed(key_by) => {
                items.iter().for_each(|item| fill(item, &list.item, &below(&key_by.key_of(item)), table))
            }
            ListMergeMode::Headers => {
                items.iter().for_each(|item| fill(item, &list.item, &below(item.text_of("name")), table))
            }
        },
        _ => drop(table.insert(place.to_vec(), node.to_json())),
    }
}

/// The kind of the value at a place.
fn kind_at(place: &[String]) -> FieldType {
    place.iter().fold(FieldType::Object(&CONFIG), |kind, step| match kind {
        FieldType::Object(object) => object.field(step).unwrap().kind,
        FieldType::List(list) => list.item,
        leaf => leaf,
    })
}

fn keys(path: &Path) -> Vec<String> {
    path.0
        .iter()
        .map(|step| match step {
            Step::Key(key) => key.clone(),
            Step::Index(index) => panic!("a difference names no place in a list: {index}"),
        })
        .collect()
}

/// Changes one config by the difference to another.
fn apply(mut table: Table, changes: &[Change<'_>]) -> Table {
    let mut set = |place: &[String], value: Option<&Node<'_>>| {
        table.retain(|other, _| !other.starts_with(place));
        if let Some(value) = value {
            fill(value, &kind_at(place), place, &mut table);
        }
    };
    for change in changes {
        let named = |list: &str, name: &str| vec![change.section.to_owned(), list.to_owned(), name.to_owned()];
        let place = |list: &str| match &change.entry {
            Entry::Field(path) => keys(path),
            Entry::Dropin { unit, name } => [named("units", unit), vec![list.to_owned(), (*name).to_owned()]].concat(),
            Entry::Directory(name)
            | Entry::Disk(name)
            | Entry::File(name)
            | Entry::Filesystem(name)
            | Entry::Link(name)
            | Entry::Luks(name)
            | Entry::Raid(name)
            | Entry::Group(name)
            | Entry::User(name)
            | Entry::KernelArgument(name)
            | Entry::Unit(name) => named(list, name),
        };
        let here = place(change.list);
        match &change.what {
            ChangeKind::Added(new) => set(&here, Some(new)),
            ChangeKind::Removed(_) => set(&here, None),
            ChangeKind::Moved { from, to, new, .. } => {
                assert_eq!(*to, change.list);
                set(&place(from), None);
                set(&here, Some(new));
            }
            ChangeKind::Changed { fields, .. } => {
                for field in fields {
                    set(&[here.clone(), keys(&field.path)].concat(), field.new);
                }
            }
        }
    }
    table
}

proptest! {
    #[test]
    fn a_config_does_not_differ_from_itself_in_any_order(a in any_config()) {
        let backwards = backwards(&a);
        prop_assert_eq!(diff(&Node::from_json(&a), &Node::from_json(&a)).len(), 0);
        prop_assert_eq!(diff(&Node::from_json(&a), &Node::from_json(&backwards)).len(), 0);
    }

    #[test]
    fn the_difference_turns_one_config_into_the_other(a in any_config(), b in any_config()) {
        let (old, new) = (Node::from_json(&a), Node::from_json(&b));
        let changes = diff(&old, &new);
        prop_assert_eq!(apply(table(&old), &changes), table(&new));
        prop_assert_eq!(changes.is_empty(), table(&old) == table(&new));
    }

    #[test]
    fn close_configs_differ_by_little(a in any_config(), b in plain()) {
        // A config and the same with another one over it share most of their entries.
        let over = merged(&[&a, &b]);
        let (old, new) = (Node::from_json(&a), Node::from_json(&over));
        let changes = diff(&old, &new);
        prop_assert_eq!(apply(table(&old), &changes), table(&new));
        prop_assert_eq!(changes.is_empty(), table(&old) == table(&new));
        for change in &changes {
            if let ChangeKind::Changed { fields, .. } = &change.what {
                prop_assert!(!fields.is_empty());
                for field in fields {
                    prop_assert!(field.old != field.new, "{} {}", change.entry, field.path);
                }
            }
        }
    }

    #[test]
    fn changes_come_in_one_order(a in any_config(), b in any_config()) {
        let (a_turned, b_turned) = (backwards(&a), backwards(&b));
        let shown = |old: &Value, new: &Value| -> Vec<String> {
            diff(&Node::from_json(old), &Node::from_json(new)).iter().map(|change| format!("{} {}", change.list, change.entry)).collect()
        };
        prop_assert_eq!(shown(&a, &b), shown(&a_turned, &b_turned));
    }
}

/// The same config with every keyed list the other way round, save those inside a list that is concatenated.
fn backwards(json: &Value) -> Value {
    match json {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    if ["append", "options", "mountOptions"].contains(&key.as_str()) {
                        return (key.clone(), value.clone());
                    }
                    let mut value = backwards(value);
                    if let Value::Array(list) = &mut value {
                        list.reverse();
                    }
                    (key.clone(), value)
                })
                .collect(),
        ),
        Value::Array(list) => list.iter().map(backwards).collect(),
        other => other.clone(),
    }
}

// Bad input.

/// Whether no object of a tree has a key twice.
fn has_each_key_once(node: &Node<'_>) -> bool {
    match &node.value {
        seaworthy_ignition::Value::Map(map) => {
            let keys: std::collections::BTreeSet<&str> = map.iter().map(|(key, _)| key).collect();
            keys.len() == map.iter().count() && map.iter().all(|(_, child)| has_each_key_once(child))
        }
        seaworthy_ignition::Value::List(list) => list.iter().all(has_each_key_once),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_read_or_refused(json in prop_oneof![anything(), select(&V3[..]).prop_flat_map(mutated)]) {
        let mut node = Node::from_json(&json);
        node.number(0);
        match parse(&node) {
            Ok(parsed) => {
                prop_assert!(has_each_key_once(&parsed.config), "{:?}", parsed.config);
                prop_assert!(parsed.warnings.iter().all(|warning| warning.severity != Severity::Error));
                for version in Version::ALL {
                    let _ = translate_down(&parsed.config, version);
                }
                let merged = merge([&parsed.config, &parsed.config]).config;
                let _ = (check(&merged), diff(&parsed.config, &merged));
            }
            Err(problems) => prop_assert!(problems.iter().any(|problem| problem.severity == Severity::Error)),
        }
    }

    #[test]
    fn a_key_in_two_spellings_is_refused(json in select(&V3[..]).prop_flat_map(spelled_twice)) {
        let problems = parse(&Node::from_json(&json)).map(|parsed| parsed.config.to_json()).unwrap_err();
        prop_assert!(problems.iter().any(|problem| problem.code == "key-twice"), "{:?}\n{}", problems, json);
    }

    #[test]
    fn any_text_is_decoded_scanned_or_refused(text in prop_oneof![any::<String>(), "(data:|\\[|http://)\\PC{0,30}"]) {
        let _ = (data_url::decode(&text), unit::sections(&text));
        let config = json!({
            "ignition": {"version": "3.5.0", "proxy": {"httpProxy": text}},
            "storage": {"files": [{"path": text, "contents": {"source": text, "verification": {"hash": text}}}]},
            "systemd": {"units": [{"name": text, "contents": text}]},
        });
        let _ = parse(&Node::from_json(&config));
        let position = locate(&text, &Path::of(&["a"]).index(0));
        prop_assert!(position.offset <= text.len());
    }

    #[test]
    fn trees_that_were_never_checked_do_no_harm(a in anything(), b in prop_oneof![anything(), any_config()]) {
        let (a, b) = (Node::from_json(&a), Node::from_json(&b));
        let merged = merge([&a, &b, &a]).config;
        let _ = (check(&merged), diff(&a, &b), diff(&merged, &b));
        for version in Version::ALL {
            let _ = translate_down(&merged, version);
        }
    }
}
