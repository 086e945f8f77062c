//! Reconcilability: the differences between two configurations that a running node cannot apply.
//!
//! The same question is asked before a rendered MachineConfig is targeted and on the node itself. Every difference is
//! reported, each with all MachineConfigs that cause it.

use std::collections::BTreeSet;
use std::fmt;

use seaworthy_api::operator::machine_configuration::StorageSection;
use seaworthy_ignition::diff::{Change, ChangeKind, Entry, diff};
use seaworthy_ignition::{Node, version_of};
use serde::Serialize;

/// A file that makes the node daemon skip its checks; it must never come from a configuration.
const FORCE_FILE: &str = "/run/machine-config-daemon-force";
/// The only user that a running node changes.
const CORE: &str = "core";
/// What of that user it changes.
const CORE_FIELDS: [&str; 3] = ["name", "passwordHash", "sshAuthorizedKeys"];

/// One of the two configurations that are compared.
#[derive(Clone, Copy, Debug)]
pub struct ConfigSide<'a> {
    /// The Ignition config, of spec 3.5.
    pub config: Option<&'a Node<'a>>,
    /// Whether the cryptography is restricted to what FIPS allows.
    pub is_fips: bool,
}

/// A MachineConfig that a rendered one was made of.
#[derive(Clone, Copy, Debug)]
pub struct ConfigSource<'a> {
    pub name: &'a str,
    /// What is in it.
    pub side: ConfigSide<'a>,
}

/// A difference that running nodes cannot take over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Irreconcilable {
    /// The part of the configuration, as a path.
    pub section: &'static str,
    /// What differs there; empty for the section as a whole.
    pub entry: String,
    /// The difference in a sentence, in upstream's words where it has some.
    pub reason: String,
    /// The MachineConfigs that cause it, in the order in which they were given; none where something was removed.
    pub culprits: Vec<String>,
}

impl fmt::Display for Irreconcilable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if !self.entry.is_empty() && !self.reason.contains(&self.entry) {
            write!(f, " ({})", self.entry)?;
        }
        match self.culprits.as_slice() {
            [] => f.write_str("; no MachineConfig has it any more"),
            [one] => write!(f, "; set by MachineConfig {one}"),
            several => write!(f, "; set by MachineConfigs {}", several.join(", ")),
        }
    }
}

/// The differences that nodes which run the old configuration cannot take over; empty when they can take over all.
///
/// Differs: only entries that differ are judged. Upstream judges all users as soon as one differs, and counts the order of
/// directories, because it compares whole lists; both refuse what changes nothing.
pub fn irreconcilable(
    old: ConfigSide<'_>,
    new: ConfigSide<'_>,
    allowed: &[StorageSection],
    sources: &[ConfigSource<'_>],
) -> Vec<Irreconcilable> {
    let mut found = Vec::new();
    let empty = Node::empty_config("3.5.0");
    let (before, after) = (old.config.unwrap_or(&empty), new.config.unwrap_or(&empty));
    if let Err(problem) = version_of(after) {
        let has_it = |source: &ConfigSource<'_>| source.side.config.is_some_and(|config| version_of(config).is_err());
        found.push(Irreconcilable {
            section: "ignition.version",
            entry: String::new(),
            reason: problem.message.clone(),
            culprits: names(sources, has_it),
        });
        return found;
    }
    for change in diff(before, after) {
        let Some((section, reason)) = judge(&change, after, allowed) else { continue };
        let culprits = match change.what {
            ChangeKind::Removed(_) => Vec::new(),
            _ => names(sources, |source| source.side.config.is_some_and(|config| has_entry(config, &change))),
        };
        found.push(Irreconcilable { section, entry: change.entry.to_string(), reason, culprits });
    }
    for file in after.get("storage").map(|storage| storage.list_of("files")).unwrap_or_default() {
        let path = file.text_of("path");
        let reason = if !file.list_of("append").is_empty() {
            format!("ignition file {path} includes append")
        } else if path == FORCE_FILE {
            format!("cannot create {path} via Ignition")
        } else {
            continue;
        };
        let is_it = |other: &Node<'_>| {
            other.text_of("path") == path && (path == FORCE_FILE || !other.list_of("append").is_empty())
        };
        let has_it = |source: &ConfigSource<'_>| {
            let storage = source.side.config.and_then(|config| config.get("storage"));
            storage.is_some_and(|storage| storage.list_of("files").iter().any(is_it))
        };
        found.push(Irreconcilable {
            section: "storage.files",
            entry: format!("file {path}"),
            reason,
            culprits: names(sources, has_it),
        });
    }
    if old.is_fips != new.is_fips {
        found.push(Irreconcilable {
            section: "fips",
            entry: String::new(),
            reason: "detected change to FIPS flag; refusing to modify FIPS on a running cluster".to_owned(),
            culprits: names(sources, |source| new.is_fips && source.side.is_fips),
        });
    }
    found
}

/// One message for all differences, in upstream's form where one MachineConfig is to blame.
pub fn message(current: &str, found: &[Irreconcilable]) -> String {
    let culprits: BTreeSet<&str> =
        found.iter().flat_map(|difference| &difference.culprits).map(String::as_str).collect();
    let reasons: Vec<String> = found.iter().map(ToString::to_string).collect();
    let reasons = reasons.join("; ");
    match culprits.into_iter().collect::<Vec<_>>().as_slice() {
        [] => format!("reconciliation failed with current config {current:?}: {reasons}"),
        culprits => {
            let noun = if culprits.len() == 1 { "config" } else { "configs" };
            let culprits: Vec<String> = culprits.iter().map(|name| format!("{name:?}")).collect();
            let culprits = culprits.join(", ");
            format!("reconciliation failed between current config {current:?} and base {noun} {culprits}: {reasons}")
        }
    }
}

/// The section of a difference and what is wrong with it; `None` for those that a running node can take over, and for
/// those that it never looks at (LUKS devices, the settings of Ignition itself).
fn judge(change: &Change<'_>, new: &Node<'_>, allowed: &[StorageSection]) -> Option<(&'static str, String)> {
    let contains = |what: &str| format!("ignition {what} section contains changes");
    let unless = |section: StorageSection, path: &'static str, what: &str| {
        (!allowed.contains(&section)).then(|| (path, contains(what)))
    };
    // What has moved left one list and entered another.
    let lists = match change.what {
        ChangeKind::Moved { from, to, .. } => [from, to],
        _ => [change.list, change.list],
    };
    let is_in = |list: &str| lists.contains(&list);
    match change.section {
        "kernelArguments" => Some(("kernelArguments", contains("kargs"))),
        "passwd" if is_in("groups") => Some((
            "passwd.groups",
            "invalid passwd change(s): ignition Passwd Groups section contains changes".to_owned(),
        )),
        "passwd" => user(change).map(|reason| ("passwd.users", reason)),
        "storage" if is_in("disks") => unless(StorageSection::Disks, "storage.disks", "disks"),
        "storage" if is_in("filesystems") => unless(StorageSection::FileSystems, "storage.filesystems", "filesystems"),
        "storage" if is_in("raid") => unless(StorageSection::Raid, "storage.raid", "raid"),
        "storage" if is_in("directories") => Some(("storage.directories", contains("directories"))),
        // Links that are all gone are removed like files.
        "storage" if is_in("links") => {
            let is_left = new.get("storage").is_some_and(|storage| !storage.list_of("links").is_empty());
            is_left.then(|| ("storage.links", contains("links")))
        }
        _ => None,
    }
}

fn user(change: &Change<'_>) -> Option<String> {
    let user = match change.what {
        ChangeKind::Added(user) | ChangeKind::Changed { new: user, .. } | ChangeKind::Moved { new: user, .. } => user,
        ChangeKind::Removed(_) => return None,
    };
    let name = user.text_of("name");
    let wrong = |what: &str| Some(format!("invalid passwd change(s): ignition passwd user section contains {what}"));
    if name != CORE {
        return wrong(&format!("unsupported changes: non-core user {name:?}"));
    }
    let others: Vec<&str> = user
        .as_map()
        .into_iter()
        .flat_map(|map| map.iter())
        .filter(|(key, value)| !CORE_FIELDS.contains(key) && !value.is_null() && value.as_list() != Some(&[]))
        .map(|(key, _)| key)
        .collect();
    if !others.is_empty() {
        return wrong(&format!("unsupported changes: {} of user core", others.join(", ")));
    }
    let has_key = !user.list_of("sshAuthorizedKeys").is_empty();
    if !has_key && user.text_of("passwordHash").is_empty() {
        return wrong("unsupported changes: user core has neither an SSH key nor a password");
    }
    None
}

/// Whether a config has the entry that a difference is about.
fn has_entry(config: &Node<'_>, change: &Change<'_>) -> bool {
    let Some(list) = config.dig(&[change.section, change.list]) else { return false };
    let entries = list.as_list().unwrap_or_default();
    let named = |key: &str, name: &str| entries.iter().any(|entry| entry.text_of(key) == name);
    match change.entry {
        Entry::Directory(path) | Entry::File(path) | Entry::Link(path) => named("path", path),
        Entry::Disk(device) | Entry::Filesystem(device) => named("device", device),
        Entry::Luks(name) | Entry::Raid(name) | Entry::Group(name) | Entry::User(name) | Entry::Unit(name) => {
            named("name", name)
        }
        Entry::KernelArgument(text) => entries.iter().any(|entry| entry.as_str() == Some(text)),
        Entry::Dropin { .. } | Entry::Field(_) => true,
    }
}

fn names(sources: &[ConfigSource<'_>], is_culprit: impl Fn(&ConfigSource<'_>) -> bool) -> Vec<String> {
    sources.iter().filter(|source| is_culprit(source)).map(|source| source.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn found(old: &Value, new: &Value, allowed: &[StorageSection]) -> Vec<Irreconcilable> {
        let (old, new) = (Node::from_json(old), Node::from_json(new));
        let side = |config| ConfigSide { config: Some(config), is_fips: false };
        irreconcilable(side(&old), side(&new), allowed, &[])
    }

    fn config(rest: Value) -> Value {
        let mut config = json!({"ignition": {"version": "3.5.0"}});
        for (key, value) in rest.as_object().unwrap() {
            config[key] = value.clone();
        }
        config
    }

    // Row 85.
    #[rstest]
    #[case(StorageSection::Disks, json!({"disks": [{"device": "/dev/a"}]}), "disks")]
    #[case(StorageSection::FileSystems, json!({"filesystems": [{"device": "/dev/a", "format": "xfs"}]}), "filesystems")]
    #[case(StorageSection::Raid, json!({"raid": [{"name": "r", "level": "raid1"}]}), "raid")]
    fn storage_differs_only_where_it_is_allowed(
        #[case] section: StorageSection,
        #[case] storage: Value,
        #[case] word: &str,
    ) {
        let (old, new) = (config(json!({})), config(json!({"storage": storage})));
        for (old, new) in [(&old, &new), (&new, &old)] {
            let refused = found(old, new, &[]);
            assert_eq!(refused.len(), 1);
            assert_eq!(refused[0].reason, format!("ignition {word} section contains changes"));
            assert_eq!(found(old, new, &[section]), []);
        }
    }

    // Row 86.
    #[rstest]
    #[case::group(json!({"passwd": {"groups": [{"name": "g"}]}}), "Passwd Groups section contains changes")]
    #[case::kargs(json!({"kernelArguments": {"shouldExist": ["a"]}}), "ignition kargs section contains changes")]
    #[case::version(json!({"ignition": {"version": "4.0.0"}}), "4.0.0")]
    #[case::directory(json!({"storage": {"directories": [{"path": "/d"}]}}), "directories section contains changes")]
    #[case::link(json!({"storage": {"links": [{"path": "/l", "target": "/t"}]}}), "links section contains changes")]
    #[case::append(
        json!({"storage": {"files": [{"path": "/f", "append": [{"source": "data:,"}]}]}}),
        "ignition file /f includes append"
    )]
    #[case::force(json!({"storage": {"files": [{"path": FORCE_FILE}]}}), "cannot create /run/machine-config-daemon-force")]
    fn what_a_running_node_cannot_take_over_is_refused(#[case] new: Value, #[case] part: &str) {
        let found = found(&config(json!({})), &config(new), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].reason.contains(part), "{}", found[0].reason);
    }

    #[test]
    fn the_restriction_to_fips_stays_as_it_is() {
        for (old, new) in [(true, false), (false, true)] {
            let side = |is_fips| ConfigSide { config: None, is_fips };
            let source = ConfigSource { name: "50-fips", side: side(true) };
            let found = irreconcilable(side(old), side(new), &[], &[source]);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].culprits, if new { vec!["50-fips".to_owned()] } else { Vec::new() });
        }
    }

    // Row 87.
    #[test]
    fn luks_devices_and_the_settings_of_ignition_are_not_compared() {
        let old = config(
            json!({"storage": {"luks": [{"name": "l", "clevis": {"tang": [{"url": "http://t", "thumbprint": "x"}]}}]}}),
        );
        assert_eq!(found(&old, &config(json!({})), &[]), []);
        let new = config(json!({"ignition": {"version": "3.5.0", "timeouts": {"httpTotal": 3}}}));
        assert_eq!(found(&config(json!({})), &new, &[]), []);
    }

    fn users(users: Value) -> Value {
        config(json!({"passwd": {"users": users}}))
    }

    // Row 88.
    #[rstest]
    #[case(json!([{"name": "core", "sshAuthorizedKeys": ["k2"]}]))]
    #[case(json!([{"name": "core", "passwordHash": "h"}]))]
    #[case(json!([]))]
    fn keys_and_password_of_core_may_change_and_users_may_go(#[case] new: Value) {
        assert_eq!(found(&users(json!([{"name": "core", "sshAuthorizedKeys": ["k1"]}])), &users(new), &[]), []);
    }

    // Row 89.
    #[rstest]
    #[case(json!([{"name": "bob", "sshAuthorizedKeys": ["k"]}]), "non-core user \"bob\"")]
    #[case(json!([{"name": "core", "sshAuthorizedKeys": ["k1"], "homeDir": "/h"}]), "homeDir of user core")]
    #[case(json!([{"name": "core", "sshAuthorizedKeys": ["k1"]}, {"name": "bob"}]), "non-core user \"bob\"")]
    #[case(json!([{"name": "core"}]), "neither an SSH key nor a password")]
    fn other_changes_of_users_are_refused(#[case] new: Value, #[case] part: &str) {
        let found = found(&users(json!([{"name": "core", "sshAuthorizedKeys": ["k1"]}])), &users(new), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].reason.contains(part), "{}", found[0].reason);
    }

    #[test]
    fn links_may_all_go_and_not_one_of_two() {
        let links = |paths: &[&str]| {
            let links: Vec<Value> = paths.iter().map(|path| json!({"path": path, "target": "/t"})).collect();
            config(json!({"storage": {"links": links}}))
        };
        assert_eq!(found(&links(&["/a", "/b"]), &links(&[]), &[]), []);
        assert_eq!(found(&links(&["/a", "/b"]), &links(&["/a"]), &[]).len(), 1);
    }

    #[test]
    fn order_alone_and_files_are_no_obstacle() {
        let dirs =
            |paths: [&str; 2]| config(json!({"storage": {"directories": paths.map(|path| json!({"path": path}))}}));
        assert_eq!(found(&dirs(["/a", "/b"]), &dirs(["/b", "/a"]), &[]), []);
        let files = config(json!({
            "storage": {"files": [{"path": "/f", "contents": {"source": "data:,x"}}]},
            "systemd": {"units": [{"name": "a.service", "contents": "x"}]},
        }));
        assert_eq!(found(&config(json!({})), &files, &[]), []);
        assert_eq!(found(&files, &config(json!({})), &[]), []);
    }

    #[test]
    fn every_culprit_of_every_difference_is_named_and_no_other() {
        let dirs = |paths: &[&str]| {
            let list: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
            config(json!({"storage": {"directories": list}}))
        };
        let [old, new] = [dirs(&["/base", "/gone"]), dirs(&["/base", "/one", "/two"])];
        let inputs = [("00-worker", dirs(&["/base"])), ("50-a", dirs(&["/one"])), ("60-b", dirs(&["/one", "/two"]))];
        let trees: Vec<Node<'_>> = inputs.iter().map(|(_, json)| Node::from_json(json)).collect();
        let side = |config| ConfigSide { config: Some(config), is_fips: false };
        let sources: Vec<ConfigSource<'_>> =
            inputs.iter().zip(&trees).map(|((name, _), tree)| ConfigSource { name, side: side(tree) }).collect();
        let (old, new) = (Node::from_json(&old), Node::from_json(&new));
        let found = irreconcilable(side(&old), side(&new), &[], &sources);
        let reported: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            reported,
            [
                "ignition directories section contains changes (directory /gone); no MachineConfig has it any more",
                "ignition directories section contains changes (directory /one); set by MachineConfigs 50-a, 60-b",
                "ignition directories section contains changes (directory /two); set by MachineConfig 60-b",
            ]
        );
        let message = message("rendered-worker-a", &found);
        assert!(
            message.starts_with(
                r#"reconciliation failed between current config "rendered-worker-a" and base configs "50-a", "60-b": "#
            ),
            "{message}"
        );
    }
}
