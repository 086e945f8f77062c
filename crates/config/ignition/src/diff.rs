//! Diff of two configs as data: entries that were added, removed, changed or moved to another list.
//!
//! Both configs are of spec 3.5 and valid. The order of entries in keyed lists says nothing and is not compared; the
//! order of options and fragments does, so such lists are compared as they are. Changes come in the order of the
//! [schema](crate::schema), entries of one list by key, so equal inputs give equal lists of changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::node::{Node, Value};
use crate::path::Path;
use crate::schema::{CONFIG, Field, FieldType, KeyBy, List, ListMergeMode, Object};

/// One thing that differs.
#[derive(Debug, Clone)]
pub struct Change<'n> {
    /// The part of the config: `storage`, `systemd`.
    pub section: &'static str,
    /// The list or field that it is in: `files`, `dropins`, `shouldNotExist`. For what has moved, where it is now.
    pub list: &'static str,
    /// What differs there.
    pub entry: Entry<'n>,
    /// How it differs.
    pub what: ChangeKind<'n>,
}

/// Something of a config that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry<'n> {
    /// A directory, by its path.
    Directory(&'n str),
    /// A disk, by its device.
    Disk(&'n str),
    /// A file, by its path.
    File(&'n str),
    /// A filesystem, by its device.
    Filesystem(&'n str),
    /// A link, by its path.
    Link(&'n str),
    /// A LUKS device, by its name.
    Luks(&'n str),
    /// A RAID, by its name.
    Raid(&'n str),
    /// A group, by its name.
    Group(&'n str),
    /// A user, by its name.
    User(&'n str),
    /// A kernel argument of the config itself.
    KernelArgument(&'n str),
    /// A unit, by its name.
    Unit(&'n str),
    /// A drop-in of a unit that both configs have.
    Dropin { unit: &'n str, name: &'n str },
    /// Any other value, by its path, in which entries of keyed lists are named by key.
    Field(Path),
}

/// How something differs.
#[derive(Debug, Clone)]
pub enum ChangeKind<'n> {
    /// Only the new config has it.
    Added(&'n Node<'n>),
    /// Only the old config has it.
    Removed(&'n Node<'n>),
    /// Both have it, with these fields different.
    Changed {
        /// The old entry.
        old: &'n Node<'n>,
        /// The new entry.
        new: &'n Node<'n>,
        /// What differs in it. For [`Entry::Field`] this is the value itself, with an empty path.
        fields: Vec<FieldChange<'n>>,
    },
    /// Both have it, as different things: a file that was a link, an argument that shall no longer exist.
    Moved {
        /// The list that it was in.
        from: &'static str,
        /// The list that it is in now.
        to: &'static str,
        /// The old entry.
        old: &'n Node<'n>,
        /// The new entry.
        new: &'n Node<'n>,
    },
}

/// A field of an entry that differs.
#[derive(Debug, Clone)]
pub struct FieldChange<'n> {
    /// The path below the entry, in which entries of keyed lists are named by key.
    pub path: Path,
    /// The old value, if there is one.
    pub old: Option<&'n Node<'n>>,
    /// The new value, if there is one.
    pub new: Option<&'n Node<'n>>,
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Directory(path) => write!(f, "directory {path}"),
            Entry::Disk(device) => write!(f, "disk {device}"),
            Entry::File(path) => write!(f, "file {path}"),
            Entry::Filesystem(device) => write!(f, "filesystem {device}"),
            Entry::Link(path) => write!(f, "link {path}"),
            Entry::Luks(name) => write!(f, "luks device {name}"),
            Entry::Raid(name) => write!(f, "raid {name}"),
            Entry::Group(name) => write!(f, "group {name}"),
            Entry::User(name) => write!(f, "user {name}"),
            Entry::KernelArgument(text) => write!(f, "kernel argument {text}"),
            Entry::Unit(name) => write!(f, "unit {name}"),
            Entry::Dropin { unit, name } => write!(f, "drop-in {unit}.d/{name}"),
            Entry::Field(path) => path.fmt(f),
        }
    }
}

/// What differs between two configs of spec 3.5; nothing when they mean the same.
pub fn diff<'n>(old: &'n Node<'_>, new: &'n Node<'_>) -> Vec<Change<'n>> {
    let mut changes = Vec::new();
    for field in CONFIG.fields {
        if let FieldType::Object(object) = &field.kind {
            let mut section = Section { name: field.name, changes: &mut changes };
            section.object(values_of((Some(old), Some(new)), field), object, Path::of(&[field.name]));
        }
    }
    changes
}

struct Section<'c, 'n> {
    name: &'static str,
    changes: &'c mut Vec<Change<'n>>,
}

impl<'n> Section<'_, 'n> {
    fn push(&mut self, list: &'static str, entry: Entry<'n>, what: ChangeKind<'n>) {
        self.changes.push(Change { section: self.name, list, entry, what });
    }

    /// An object that is not an entry of a list: its parts are looked at one by one.
    fn object(&mut self, pair: Pair<'n>, object: &'static Object, path: Path) {
        for field in object.fields {
            let values = values_of(pair, field);
            let here = path.clone().key(field.name);
            match (&field.kind, namer(field.name)) {
                (FieldType::Object(object), _) => self.object(values, object, here),
                (
                    FieldType::List(List { mode: ListMergeMode::Concat, .. })
                    | FieldType::Str
                    | FieldType::Int
                    | FieldType::Bool,
                    _,
                ) => {
                    self.value(values, field.name, here);
                }
                (FieldType::List(list), Some(named)) => {
                    let others = others(pair, object, field.name);
                    self.list(values, list, field.name, &others, |node, key_by| named(name_of(node, key_by)));
                }
                (FieldType::List(list), None) => {
                    self.list(values, list, field.name, &Others::default(), |node, key_by| {
                        Entry::Field(here.clone().key(key_by.key_of(node)))
                    });
                }
            }
        }
    }

    /// A keyed list.
    fn list(
        &mut self,
        lists: Pair<'n>,
        list: &'static List,
        name: &'static str,
        others: &Others<'n>,
        entry_of: impl Fn(&'n Node<'n>, KeyBy) -> Entry<'n>,
    ) {
        let Some(key_by) = list.mode.key_by() else { return };
        for pair in pairs(lists, key_by).into_values() {
            match pair {
                (Some(old), Some(new)) => self.entry(entry_of(new, key_by), (old, new), list, name),
                // It is reported in its new list.
                (Some(old), None) if others.new.contains_key(name_of(old, key_by)) => {}
                (Some(old), None) => self.push(name, entry_of(old, key_by), ChangeKind::Removed(old)),
                (None, Some(new)) => match others.old.get(name_of(new, key_by)) {
                    Some((from, old)) => {
                        self.push(name, entry_of(new, key_by), ChangeKind::Moved { from, to: name, old, new });
                    }
                    None => self.push(name, entry_of(new, key_by), ChangeKind::Added(new)),
                },
                (None, None) => {}
            }
        }
    }

    /// An entry that both configs have.
    fn entry(
        &mut self,
        entry: Entry<'n>,
        (old, new): (&'n Node<'n>, &'n Node<'n>),
        list: &'static List,
        name: &'static str,
    ) {
        // An entry that is a text is its own key, so two of them never differ.
        let FieldType::Object(object) = &list.item else { return };
        let is_unit = matches!(entry, Entry::Unit(_));
        let mut fields = Vec::new();
        compare_fields((Some(old), Some(new)), object, &Path::default(), is_unit, &mut fields);
        if !fields.is_empty() {
            self.push(name, entry, ChangeKind::Changed { old, new, fields });
        }
        if is_unit && let Some(Field { name, kind: FieldType::List(list), .. }) = object.field("dropins") {
            let unit = new.text_of("name");
            self.list((old.get(name), new.get(name)), list, name, &Others::default(), |dropin, _| Entry::Dropin {
                unit,
                name: dropin.text_of("name"),
            });
        }
    }

    fn value(&mut self, (old, new): Pair<'n>, name: &'static str, path: Path) {
        let what = match (old, new) {
            (Some(old), Some(new)) if old != new => {
                let field = FieldChange { path: Path::default(), old: Some(old), new: Some(new) };
                ChangeKind::Changed { old, new, fields: vec![field] }
            }
            (Some(old), None) => ChangeKind::Removed(old),
            (None, Some(new)) => ChangeKind::Added(new),
            _ => return,
        };
        self.push(name, Entry::Field(path), what);
    }
}

/// How the entries of a list are named; `None` for lists whose entries are known by their path.
fn namer<'n>(list: &str) -> Option<fn(&'n str) -> Entry<'n>> {
    Some(match list {
        "directories" => Entry::Directory,
        "disks" => Entry::Disk,
        "files" => Entry::File,
        "filesystems" => Entry::Filesystem,
        "links" => Entry::Link,
        "luks" => Entry::Luks,
        "raid" => Entry::Raid,
        "groups" => Entry::Group,
        "users" => Entry::User,
        "shouldExist" | "shouldNotExist" => Entry::KernelArgument,
        "units" => Entry::Unit,
        _ => return None,
    })
}

/// The entries of the lists that share their keys with one.
#[derive(Default)]
struct Others<'n> {
    old: BTreeMap<&'n str, (&'static str, &'n Node<'n>)>,
    new: BTreeMap<&'n str, (&'static str, &'n Node<'n>)>,
}

fn others<'n>((old, new): Pair<'n>, object: &'static Object, list: &'static str) -> Others<'n> {
    let mut others = Others::default();
    if !object.shared.contains(&list) {
        return others;
    }
    for name in object.shared.iter().filter(|name| **name != list) {
        let Some(Field { kind: FieldType::List(other), .. }) = object.field(name) else { continue };
        let Some(key_by) = other.mode.key_by() else { continue };
        for (config, table) in [(old, &mut others.old), (new, &mut others.new)] {
            for node in config.map(|config| config.list_of(name)).unwrap_or_default() {
                table.insert(name_of(node, key_by), (*name, node));
            }
        }
    }
    others
}

/// Collects what differs between two entries, below `path`. What only one of them has is taken apart too, so that every
/// difference is one of a single value.
fn compare_fields<'n>(
    pair: Pair<'n>,
    object: &'static Object,
    path: &Path,
    is_unit: bool,
    out: &mut Vec<FieldChange<'n>>,
) {
    // Drop-ins are entries of their own.
    for field in object.fields.iter().filter(|field| !(is_unit && field.name == "dropins")) {
        let here = path.clone().key(field.name);
        match (values_of(pair, field), &field.kind) {
            ((None, None), _) => {}
            (pair, FieldType::Object(object)) => compare_fields(pair, object, &here, false, out),
            (pair, FieldType::List(list)) if list.mode != ListMergeMode::Concat => {
                compare_keyed(pair, list, &here, out)
            }
            ((Some(old), Some(new)), _) if old == new => {}
            ((old, new), _) => out.push(FieldChange { path: here, old, new }),
        }
    }
}

fn compare_keyed<'n>(lists: Pair<'n>, list: &'static List, path: &Path, out: &mut Vec<FieldChange<'n>>) {
    let Some(key_by) = list.mode.key_by() else { return };
    for (key, pair) in pairs(lists, key_by) {
        let here = path.clone().key(key);
        match (pair, &list.item) {
            ((Some(old), Some(new)), FieldType::Object(object)) => {
                compare_fields((Some(old), Some(new)), object, &here, false, out);
            }
            ((Some(_), Some(_)), _) => {}
            ((old, new), _) => out.push(FieldChange { path: here, old, new }),
        }
    }
}

/// The same value of the old and of the new config.
type Pair<'n> = (Option<&'n Node<'n>>, Option<&'n Node<'n>>);

/// The entries of two lists by key.
fn pairs<'n>((old, new): Pair<'n>, key_by: KeyBy) -> BTreeMap<Cow<'n, str>, Pair<'n>> {
    let mut pairs: BTreeMap<Cow<'n, str>, Pair<'n>> = BTreeMap::new();
    for node in old.and_then(Node::as_list).unwrap_or_default() {
        pairs.entry(key_by.key_of(node)).or_default().0 = Some(node);
    }
    for node in new.and_then(Node::as_list).unwrap_or_default() {
        pairs.entry(key_by.key_of(node)).or_default().1 = Some(node);
    }
    pairs
}

/// The text that names an entry. Partitions have none, and are never entries of their own.
fn name_of<'n>(node: &'n Node<'n>, key_by: KeyBy) -> &'n str {
    match key_by {
        KeyBy::Field(field) => node.text_of(field),
        KeyBy::Text | KeyBy::Partition => node.as_str().unwrap_or_default(),
    }
}

fn values_of<'n>((old, new): Pair<'n>, field: &Field) -> Pair<'n> {
    (old.and_then(|old| value_of(old, field)), new.and_then(|new| value_of(new, field)))
}

/// The value of a field; `None` also for values that say nothing.
fn value_of<'n>(node: &'n Node<'n>, field: &Field) -> Option<&'n Node<'n>> {
    node.get(field.name).filter(|value| match &value.value {
        Value::Null => false,
        Value::List(list) => !list.is_empty(),
        Value::Map(map) => !map.is_empty(),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(old: serde_json::Value, new: serde_json::Value) -> Vec<String> {
        let (old, new) = (Node::from_json(&old), Node::from_json(&new));
        diff(&old, &new)
            .iter()
            .map(|change| match &change.what {
                ChangeKind::Added(_) => format!("+ {}", change.entry),
                ChangeKind::Removed(_) => format!("- {}", change.entry),
                ChangeKind::Moved { from, to, .. } => format!("{from} -> {to} {}", change.entry),
                ChangeKind::Changed { fields, .. } => {
                    let paths: Vec<_> = fields.iter().map(|field| field.path.to_string()).collect();
                    format!("~ {}: {}", change.entry, paths.join(", "))
                }
            })
            .collect()
    }

    #[test]
    fn changes_come_in_the_order_of_the_schema_and_then_by_key() {
        let old = json!({
            "ignition": {"timeouts": {"httpTotal": 1}, "proxy": {"noProxy": ["a", "b"]}},
            "storage": {"files": [{"path": "/b", "mode": 1}, {"path": "/a"}, {"path": "/z"}], "links": [{"path": "/l"}]},
            "systemd": {"units": [{"name": "a.service", "dropins": [{"name": "1.conf"}, {"name": "2.conf"}]}]},
        });
        let new = json!({
            "ignition": {"timeouts": {"httpTotal": 2}, "proxy": {"noProxy": ["b", "c"]}},
            "storage": {"files": [{"path": "/a"}, {"path": "/b", "mode": 2, "user": {"id": 0}}, {"path": "/l"}],
                        "directories": [{"path": "/z"}]},
            "systemd": {"units": [
                {"name": "a.service", "enabled": true, "dropins": [{"name": "2.conf", "contents": "x"}, {"name": "3.conf"}]},
                {"name": "b.service"},
            ]},
        });
        assert_eq!(
            shown(old, new),
            [
                "- ignition.proxy.noProxy.a",
                "+ ignition.proxy.noProxy.c",
                "~ ignition.timeouts.httpTotal: $",
                "files -> directories directory /z",
                "~ file /b: mode, user.id",
                "links -> files file /l",
                "~ unit a.service: enabled",
                "- drop-in a.service.d/1.conf",
                "~ drop-in a.service.d/2.conf: contents",
                "+ drop-in a.service.d/3.conf",
                "+ unit b.service",
            ]
        );
    }

    #[test]
    fn keyed_lists_may_be_in_any_order_and_options_may_not() {
        let luks = |options: [&str; 2], open: [&str; 2]| json!({"storage": {"luks": [{"name": "l", "options": options, "openOptions": open}]}});
        assert_eq!(shown(luks(["a", "b"], ["a", "b"]), luks(["a", "b"], ["b", "a"])), Vec::<String>::new());
        assert_eq!(shown(luks(["a", "b"], ["a", "b"]), luks(["b", "a"], ["a", "b"])), ["~ luks device l: options"]);
    }

    #[test]
    fn entries_of_nested_lists_are_in_the_path_by_key() {
        let disk = |size: i64, keys: [&str; 2]| {
            json!({
                "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": keys}]},
                "storage": {"disks": [{"device": "/d", "partitions": [{"number": 1, "sizeMiB": size}, {"label": "x"}]}]},
            })
        };
        assert_eq!(
            shown(disk(1, ["k 1", "k2"]), disk(2, ["k3", "k2"])),
            [
                r#"~ user core: sshAuthorizedKeys["k 1"], sshAuthorizedKeys.k3"#,
                "~ disk /d: partitions.number:1.sizeMiB",
            ]
        );
        // The first and the last of a list are entries like the others.
        let none = json!({
            "passwd": {"users": [{"name": "core"}]},
            "storage": {"disks": [{"device": "/d", "partitions": [{"number": 1, "sizeMiB": 1}, {"label": "x"}]}]},
        });
        assert_eq!(shown(none, disk(1, ["a", "b"])), ["~ user core: sshAuthorizedKeys.a, sshAuthorizedKeys.b"]);
    }

    #[test]
    fn a_kernel_argument_that_shall_no_longer_exist_has_moved() {
        let exist = json!({"kernelArguments": {"shouldExist": ["a", "b"]}});
        let not = json!({"kernelArguments": {"shouldExist": ["b"], "shouldNotExist": ["a", "c"]}});
        assert_eq!(shown(exist, not), ["shouldExist -> shouldNotExist kernel argument a", "+ kernel argument c"]);
    }

    /// Takes minutes as soon as entries are searched for in a list.
    #[test]
    fn large_lists_are_compared_in_one_go() {
        let config = |from: usize, shift: usize| {
            let texts: Vec<_> = (from..from + 20_000).map(|at| format!("k{at}")).collect();
            let files: Vec<_> = texts.iter().rev().map(|text| json!({"path": format!("/{text}")})).collect();
            let options: Vec<_> = texts.iter().skip(shift).collect();
            json!({
                "kernelArguments": {"shouldExist": texts},
                "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": texts}]},
                "storage": {"files": files, "raid": [{"name": "r", "options": options}]},
            })
        };
        let changes = shown(config(0, 0), config(10_000, 1));
        assert_eq!(changes.iter().filter(|change| change.starts_with("+ ")).count(), 20_000);
        assert_eq!(changes.iter().filter(|change| change.starts_with("- ")).count(), 20_000);
        assert!(changes.contains(&"~ raid r: options".to_owned()));
    }

    #[test]
    fn what_has_no_effect_is_no_difference() {
        let empty = json!({"storage": {"files": [{"path": "/a", "append": [], "contents": {}, "mode": null}]}});
        assert_eq!(shown(empty, json!({"storage": {"files": [{"path": "/a"}]}})), Vec::<String>::new());
    }
}
