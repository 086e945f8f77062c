//! Known effects: actions that apply common files and units without a reboot.
//!
//! Used only where no policy matches a file or unit. Every entry is conservative: what cannot be reverted while the machine
//! runs (a setting that is no longer set, a module that is no longer loaded, a unit that is gone) still needs a reboot. The
//! node proves afterwards that the running value has changed (`seaworthy-node`, `update/verification.rs`), and reboots if it has not.

use std::collections::BTreeSet;

use seaworthy_ignition::diff::{Change, ChangeKind, Entry};
use seaworthy_ignition::{Node, body_of};

use crate::disruption::Action;

/// Settings of the kernel, applied at boot. Files of another ending than `.conf` are not.
pub const SYSCTL: &str = "/etc/sysctl.d/";
/// Modules that are loaded at boot and by [`MODULES_SERVICE`].
pub const MODULES: &str = "/etc/modules-load.d/";
/// Rules for devices.
pub const UDEV: &str = "/etc/udev/rules.d/";
/// Configuration of chronyd.
pub const CHRONY: [&str; 3] = ["/etc/chrony.conf", "/etc/chrony.d/", "/etc/chrony/"];

/// Certificates of the kubelet's clients. A running kubelet reads them again by itself.
pub const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";

/// Loads all modules.
pub const MODULES_SERVICE: &str = "systemd-modules-load.service";
/// Handles devices.
pub const UDEV_SERVICE: &str = "systemd-udevd.service";
/// The time synchronization daemon.
pub const CHRONY_SERVICE: &str = "chronyd.service";

/// More than any file of these kinds has.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Units whose restart takes pods or the connection to the machine along.
const CRITICAL_UNITS: [&str; 9] = [
    "kubelet",
    "crio",
    "containerd",
    "NetworkManager",
    "ovs",
    "openvswitch",
    "dbus",
    "systemd-",
    "machine-config-daemon",
];

/// Actions that are sufficient, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownEffect {
    /// Why they are sufficient.
    pub why: &'static str,
    pub actions: Vec<Action>,
}

/// What suffices for a difference; `None` where nothing less than a reboot is known.
pub fn of(change: &Change<'_>) -> Option<KnownEffect> {
    match change.entry {
        Entry::File(path) => file(path, change),
        Entry::Unit(name) => unit(name, change),
        _ => None,
    }
}

fn file(path: &str, change: &Change<'_>) -> Option<KnownEffect> {
    let restart = |why, service: &str| Some(KnownEffect { why, actions: vec![Action::Restart(service.to_owned())] });
    if path == KUBELET_CA {
        return Some(KnownEffect { why: "another component keeps it up to date", actions: Vec::new() });
    }
    if path.starts_with(SYSCTL) {
        let (old, new) = texts(change)?;
        if !path.ends_with(".conf") {
            return Some(KnownEffect { why: "only files that end in .conf are read", actions: Vec::new() });
        }
        let is_kept = keys(&old).is_subset(&keys(&new));
        // Not all files by way of systemd-sysctl.service: that takes back what others have set since the machine booted.
        let actions = vec![Action::Settings(path.to_owned())];
        return is_kept.then_some(KnownEffect { why: "sysctl keys are applied from their file", actions });
    }
    if path.starts_with(MODULES) {
        let (old, new) = texts(change)?;
        let is_kept = lines(&old).collect::<BTreeSet<_>>().is_subset(&lines(&new).collect());
        return is_kept.then(|| restart("systemd-modules-load loads modules", MODULES_SERVICE))?;
    }
    if path.starts_with(UDEV) {
        let why = "systemd-udevd reads its rules again";
        return Some(KnownEffect { why, actions: vec![Action::Reload(UDEV_SERVICE.to_owned())] });
    }
    if CHRONY.iter().any(|known| path == *known || (known.ends_with('/') && path.starts_with(known))) {
        return restart("chronyd reads its configuration when it starts", CHRONY_SERVICE);
    }
    None
}

/// A service that the configuration has started at boot may be started now as well.
fn unit(name: &str, change: &Change<'_>) -> Option<KnownEffect> {
    let new = match change.what {
        ChangeKind::Added(new) | ChangeKind::Changed { new, .. } => new,
        ChangeKind::Removed(_) | ChangeKind::Moved { .. } => return None,
    };
    let is_ours = name.ends_with(".service") && !CRITICAL_UNITS.iter().any(|unit| name.starts_with(unit));
    let is_started = new.bool_of("enabled") == Some(true) && new.bool_of("mask") != Some(true);
    let is_written = !new.text_of("contents").is_empty();
    (is_ours && is_started && is_written).then(|| KnownEffect {
        why: "the unit is restarted",
        actions: vec![Action::DaemonReload, Action::Restart(name.to_owned())],
    })
}

/// The content before and after, as text.
fn texts(change: &Change<'_>) -> Option<(String, String)> {
    let text = |file: &Node<'_>| String::from_utf8(body_of(file, MAX_FILE_BYTES).ok()?.into_owned()).ok();
    match change.what {
        ChangeKind::Added(new) => Some((String::new(), text(new)?)),
        ChangeKind::Removed(old) => Some((text(old)?, String::new())),
        ChangeKind::Changed { old, new, .. } => Some((text(old)?, text(new)?)),
        ChangeKind::Moved { .. } => None,
    }
}

/// Lines that say something.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

/// The settings in a file below [`SYSCTL`]: the key as a path below `/proc/sys`, and the value.
pub fn settings(text: &str) -> impl Iterator<Item = (String, &str)> {
    lines(text).filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().trim_start_matches('-');
        // The first of the two separators decides which is which: `net.ipv4.conf.eth0/1.forwarding`.
        let path = match key.find(['.', '/']).map(|at| key.as_bytes()[at]) {
            Some(b'.') => key
                .chars()
                .map(|c| {
                    if c == '.' {
                        '/'
                    } else if c == '/' {
                        '.'
                    } else {
                        c
                    }
                })
                .collect(),
            _ => key.to_owned(),
        };
        Some((path, value.trim()))
    })
}

fn keys(text: &str) -> BTreeSet<String> {
    settings(text).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use seaworthy_ignition::diff::diff;

    fn known(old: Value, new: Value) -> Option<Vec<Action>> {
        let config = |rest: Value| {
            let mut config = rest;
            config["ignition"] = json!({"version": "3.5.0"});
            config
        };
        let (old, new) = (config(old), config(new));
        let (old, new) = (Node::from_json(&old), Node::from_json(&new));
        let changes = diff(&old, &new);
        assert_eq!(changes.len(), 1);
        of(&changes[0]).map(|known| known.actions)
    }

    fn files(path: &str, text: Option<&str>) -> Value {
        let source = |text: &str| seaworthy_ignition::data_url::encode(text.as_bytes());
        let files: Vec<Value> =
            text.iter().map(|text| json!({"path": path, "contents": {"source": source(text)}})).collect();
        json!({"storage": {"files": files}})
    }

    #[rstest]
    #[case("/etc/sysctl.d/a.conf", None, Some("vm.swappiness=1\n"), Some(Action::Settings("/etc/sysctl.d/a.conf".to_owned())))]
    #[case("/etc/sysctl.d/a.conf", Some("a.b=1"), Some("a.b=2\nc=1"), Some(Action::Settings("/etc/sysctl.d/a.conf".to_owned())))]
    #[case("/etc/sysctl.d/a.conf", Some("a.b=1\nc=1"), Some("a.b=1"), None)]
    #[case("/etc/sysctl.d/a.conf", Some("a.b=1"), None, None)]
    #[case("/etc/modules-load.d/a.conf", None, Some("br_netfilter"), Some(Action::Restart(MODULES_SERVICE.to_owned())))]
    #[case("/etc/modules-load.d/a.conf", Some("x\ny"), Some("x"), None)]
    #[case("/etc/udev/rules.d/1.rules", Some("x"), None, Some(Action::Reload(UDEV_SERVICE.to_owned())))]
    #[case("/etc/chrony.conf", Some("x"), Some("y"), Some(Action::Restart(CHRONY_SERVICE.to_owned())))]
    #[case("/etc/chrony.confidential", Some("x"), Some("y"), None)]
    fn files_need_no_more_than_what_brings_them_into_force(
        #[case] path: &str,
        #[case] old: Option<&str>,
        #[case] new: Option<&str>,
        #[case] expected: Option<Action>,
    ) {
        assert_eq!(known(files(path, old), files(path, new)), expected.map(|action| vec![action]));
    }

    #[test]
    fn files_that_no_program_reads_need_no_action() {
        let path = "/etc/sysctl.d/README";
        assert_eq!(known(files(path, Some("a=1")), files(path, None)), Some(Vec::new()));
    }

    #[test]
    fn certificates_that_another_component_manages_need_no_action() {
        let path = "/etc/kubernetes/kubelet-ca.crt";
        assert_eq!(known(files(path, Some("old")), files(path, Some("new"))), Some(Vec::new()));
    }

    #[test]
    fn a_service_that_is_started_at_boot_is_restarted_unless_it_is_delicate() {
        let units = |name: &str, contents: &str| json!({"systemd": {"units": [{"name": name, "enabled": true, "contents": contents}]}});
        let restart = vec![Action::DaemonReload, Action::Restart("a.service".to_owned())];
        assert_eq!(known(units("a.service", "[Unit]"), units("a.service", "[Service]")), Some(restart));
        assert_eq!(known(units("kubelet.service", "[Unit]"), units("kubelet.service", "[Service]")), None);
        assert_eq!(known(units("a.service", "[Unit]"), json!({})), None);
    }

    #[test]
    fn settings_are_paths_below_proc() {
        let found: Vec<_> = settings("# x\nnet.ipv4.ip_forward = 1\n-net/ipv4/conf/eth0.1/x=2 3\n").collect();
        assert_eq!(found, [("net/ipv4/ip_forward".to_owned(), "1"), ("net/ipv4/conf/eth0.1/x".to_owned(), "2 3")]);
    }
}
