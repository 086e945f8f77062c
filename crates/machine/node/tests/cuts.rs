//! The power is cut at every call that changes something: the next start ends in the old state or in the new one.

use crate::support::{Node, config, file, files, spec};
use rstest::rstest;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::fake::Snapshot;
use seaworthy_host::{FakeHost, Host as _, Unsynced};
use seaworthy_node::order::NextAttempt;
use seaworthy_node::update::journal::Journal;
use seaworthy_node::update::record_file::RecordFile;
use seaworthy_node::{Config, paths, recovery};
use serde_json::{Value, json};

fn kinds() -> Vec<(&'static str, Config, Config)> {
    let unit = |contents: &str, enabled: bool| json!({"name": "a.service", "enabled": enabled, "contents": contents});
    let pair = |old: Value, new: Value| (config("rendered-old", &spec(old)), config("rendered-new", &spec(new)));
    let with = |rest: Value| json!({"config": rest});
    let named = |name, (old, new): (Config, Config)| (name, old, new);
    let registries = "/etc/containers/policy.json";
    vec![
        named(
            "files with a reboot",
            (
                config(
                    "rendered-old",
                    &files(vec![file("/etc/kept", "same"), file("/etc/changed", "old"), file("/etc/gone", "x")]),
                ),
                config(
                    "rendered-new",
                    &files(vec![
                        file("/etc/kept", "same"),
                        file("/etc/changed", "new"),
                        file("/etc/new", "y"),
                        file("/etc/vendor", "ours"),
                    ]),
                ),
            ),
        ),
        named(
            "a reload",
            (
                config("rendered-old", &files(vec![file(registries, "old")])),
                config("rendered-new", &files(vec![file(registries, "new")])),
            ),
        ),
        named(
            "no action",
            (
                config(
                    "rendered-old",
                    &files(vec![file("/etc/nmstate/openshift/a", "old"), file("/etc/nmstate/openshift/b", "b")]),
                ),
                config(
                    "rendered-new",
                    &files(vec![file("/etc/nmstate/openshift/a", "new"), file("/etc/nmstate/openshift/c", "c")]),
                ),
            ),
        ),
        named(
            "units with a restart",
            pair(
                with(
                    json!({"systemd": {"units": [unit("[Service]\nExecStart=/old\n[Install]\nWantedBy=a.target\n", true)]}}),
                ),
                with(
                    json!({"systemd": {"units": [unit("[Service]\nExecStart=/new\n[Install]\nWantedBy=b.target\n", true)]}}),
                ),
            ),
        ),
        named(
            "units that come, go, are masked and are dropped into",
            pair(
                with(
                    json!({"systemd": {"units": [unit("[Unit]\nDescription=old\n", true), {"name": "crio.service", "enabled": true}]}}),
                ),
                with(json!({"systemd": {"units": [
                    {"name": "b.service", "enabled": true, "contents": "[Unit]\nDescription=new\n"},
                    {"name": "sshd.service", "mask": true},
                    {"name": "kubelet.service", "dropins": [{"name": "10-a.conf", "contents": "[Service]\nNice=1\n"}]},
                ]}})),
            ),
        ),
        named(
            "keys and a password",
            pair(
                with(json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k1"]}]}})),
                with(
                    json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k1", "k2"], "passwordHash": "$6$x"}]}}),
                ),
            ),
        ),
        named(
            "the first key",
            pair(json!({}), with(json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k1"]}]}}))),
        ),
        named(
            "the boot and a file",
            pair(
                json!({"kernelArguments": ["a=1"], "osImageURL": "image-1", "config": {"storage": {"files": [file("/etc/f", "old")]}}}),
                json!({
                    "kernelArguments": ["b=2"], "kernelType": "realtime", "extensions": ["sysstat"], "osImageURL": "image-2",
                    "config": {"storage": {"files": [file("/etc/f", "new")]}},
                }),
            ),
        ),
        named(
            "a kernel argument and an extension that go",
            pair(
                json!({"kernelArguments": ["a=1", "b=2"], "osImageURL": "image-1", "extensions": ["sysstat"]}),
                json!({"kernelArguments": ["b=2"], "osImageURL": "image-1"}),
            ),
        ),
        named(
            "settings of the kernel",
            (
                config("rendered-old", &files(vec![file("/etc/sysctl.d/a.conf", "vm.swappiness = 10\n")])),
                config("rendered-new", &files(vec![file("/etc/sysctl.d/a.conf", "vm.swappiness = 20\n")])),
            ),
        ),
        named(
            "settings of the kernel that come",
            (
                config("rendered-old", &files(vec![])),
                config("rendered-new", &files(vec![file("/etc/sysctl.d/b.conf", "vm.swappiness = 30\n")])),
            ),
        ),
        named(
            "an original that comes back",
            (config("rendered-old", &files(vec![file("/etc/vendor", "ours")])), config("rendered-new", &files(vec![]))),
        ),
    ]
}

fn machine() -> FakeHost {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    host.put("/etc/vendor", b"theirs", 0o640);
    host.vendor_owns("/etc/vendor");
    host
}

/// A node that runs the old configuration. Where the old one replaces something of the vendor's, that was kept.
fn node(old: &Config) -> Node {
    let base = config("rendered-base", &files(vec![]));
    let replaces = old.spec.found().unwrap().config.as_ref().is_some_and(|it| it.to_string().contains("/etc/vendor"));
    if !replaces {
        return Node::new(machine(), old);
    }
    let mut node = Node::new(machine(), &base);
    assert_eq!(node.obey(old).state, State::Done);
    node.host.forget_calls();
    node
}

fn state(node: &Node) -> Snapshot {
    // What was learnt from a failure is kept, and is no part of any configuration.
    node.host.snapshot().without(paths::JOURNAL).without(paths::REBOOT_REQUIRED)
}

/// Both ends, and how many calls lie between them.
fn ends(old: &Config, new: &Config) -> (Snapshot, Snapshot, usize) {
    let mut node = node(old);
    let before = state(&node);
    let first = node.host.write_calls();
    let report = node.obey(new);
    assert_eq!(report.state, State::Done, "{}", report.reason);
    let after = state(&node);
    assert_ne!(before, after);
    (before, after, node.host.write_calls() - first)
}

/// Boots after a cut, and lets the daemon recover without any order, however often it boots for that.
fn recovered(node: &mut Node, unsynced: Unsynced) {
    node.host.power_on(unsynced);
    node.restart();
    node.recover().unwrap();
}

fn assert_same(found: &Snapshot, wanted: &Snapshot, what: &str) {
    let mut differs = Vec::new();
    for path in found.files.keys().chain(wanted.files.keys()) {
        let (found, wanted) = (found.files.get(path), wanted.files.get(path));
        if found != wanted && !differs.contains(&format!("{path}: {found:?}, not {wanted:?}")) {
            differs.push(format!("{path}: {found:?}, not {wanted:?}"));
        }
    }
    for (unit, loaded) in &found.loaded {
        if wanted.loaded.get(unit) != Some(loaded) {
            differs.push(format!("{unit}: {loaded:?}, not {:?}", wanted.loaded.get(unit)));
        }
    }
    let rest = |it: &Snapshot| format!("{:?} {:?} {:?} {:?}", it.enabled, it.passwords, it.boot, it.staged);
    if rest(found) != rest(wanted) {
        differs.push(format!("{}, not {}", rest(found), rest(wanted)));
    }
    assert!(found == wanted, "{what}\n{differs:#?}");
}

#[rstest]
fn a_cut_at_every_call_ends_in_the_old_state_or_in_the_new_one(
    #[values(
        Unsynced::Kept,
        Unsynced::Lost,
        Unsynced::Mixed(1),
        Unsynced::Mixed(2),
        Unsynced::Mixed(3),
        Unsynced::Mixed(4),
        Unsynced::Mixed(5)
    )]
    unsynced: Unsynced,
) {
    for (kind, old, new) in kinds() {
        let (before, after, calls) = ends(&old, &new);
        let mut seen = (0, 0);
        for nth in 0..=calls {
            let mut node = node(&old);
            node.host.cut_at(nth);
            node.obey(&new);
            if !node.host.is_off() {
                node.host.cut();
            }
            recovered(&mut node, unsynced);
            let found = state(&node);
            let what = format!("{kind}, cut at {nth} of {calls}: {:#?}", node.host.calls());
            if found == before {
                seen.0 += 1;
            } else {
                assert_same(&found, &after, &what);
                seen.1 += 1;
            }
            // And on it goes to where it was ordered to.
            let report = node.settle();
            assert_eq!(report.state, State::Done, "{what}: {}", report.reason);
            assert_same(&state(&node), &after, &what);
        }
        assert!(seen.0 > 0 && seen.1 > 0, "{kind}: {seen:?}");
    }
}

#[rstest]
fn before_the_kubelet_starts_the_disk_is_in_one_state_and_the_end_is_the_same(
    #[values(Unsynced::Kept, Unsynced::Lost, Unsynced::Mixed(1), Unsynced::Mixed(2))] unsynced: Unsynced,
) {
    let mut restored = 0;
    for (kind, old, new) in kinds() {
        let (before, after, calls) = ends(&old, &new);
        for nth in 0..=calls {
            let mut node = node(&old);
            node.host.cut_at(nth);
            node.obey(&new);
            if !node.host.is_off() {
                node.host.cut();
            }
            node.host.power_on(unsynced);
            let what = format!("{kind}, cut at {nth} of {calls}: {:#?}", node.host.calls());
            if recovery::restore_files(&node.host).unwrap().is_some() {
                restored += 1;
                // What runs is another matter: it has booted with what the cut has left.
                let (found, before) = (state(&node).without("/proc"), before.clone().without("/proc"));
                assert_eq!((&found.files, &found.enabled), (&before.files, &before.enabled), "{what}");
            }
            node.restart();
            node.recover().unwrap();
            let found = state(&node);
            if found != before {
                assert_same(&found, &after, &what);
            }
        }
    }
    assert!(restored > 0);
}

/// The machine boots into everything but one kernel argument, again and again, until it is sent back.
#[rstest]
fn a_cut_at_every_call_on_the_way_into_part_of_a_boot_and_back_ends_in_the_old_state(
    #[values(Unsynced::Kept, Unsynced::Lost, Unsynced::Mixed(1))] unsynced: Unsynced,
) {
    let (_, old, new) = kinds().into_iter().find(|(kind, ..)| *kind == "the boot and a file").unwrap();
    let partly = || {
        let node = node(&old);
        node.host.lose_argument("b=2");
        node
    };
    // Until nothing more happens, or the power is off: before the call with that number, whichever boot it is in.
    let go = |node: &mut Node, end: usize| {
        node.order.desired = Some(new.clone());
        for _ in 0..60 {
            if let Some(left) = end.checked_sub(node.host.write_calls()) {
                node.host.cut_at(left);
            }
            let report = node.step();
            if node.host.is_off() {
                return;
            }
            if node.host.is_reboot_requested() {
                node.host.boot_orderly();
                node.restart();
            } else if report.next_attempt == NextAttempt::OnChange && report.drain_request.is_none() {
                assert_eq!(report.state, State::Degraded, "{}", report.reason);
                return;
            }
        }
        panic!("the node does not come to rest: {:#?}", node.host.calls());
    };
    let mut whole = partly();
    let (before, first) = (state(&whole), whole.host.write_calls());
    go(&mut whole, usize::MAX);
    assert_same(&state(&whole), &before, "without a cut");
    for nth in 0..whole.host.write_calls() - first {
        let mut node = partly();
        go(&mut node, first + nth);
        assert!(node.host.is_off());
        node.host.power_on(unsynced);
        node.restart();
        go(&mut node, usize::MAX);
        let what = format!("cut at {nth}: {:#?}", node.host.calls());
        assert_same(&state(&node), &before, &what);
    }
}

/// An update that a new version of the daemon finds on the disk was begun by the version before.
#[test]
fn names_in_the_journal_stay_those_of_its_first_version() {
    for phase in ["applying", "acting", "committed", "undoing", "reverted"] {
        let text = json!({
            "format": 1, "from": "old", "to": "new", "image": "built", "phase": phase, "bootId": "boot-1",
            "actions": [
                {"type": "daemonReload"}, {"type": "reload", "service": "crio.service"},
                {"type": "restart", "service": "a.service"}, {"type": "settings", "file": "/etc/sysctl.d/a.conf"},
                {"type": "drain"}, {"type": "reboot"},
            ],
            "before": [
                {"nothing": {"path": "/etc/a"}}, {"kept": {"path": "/etc/b", "name": "1"}},
                {"noDirectory": {"path": "/home/core/.ssh"}},
                {"directory": {"path": "/etc/c", "mode": 0o700, "uid": 1000, "gid": 1000}},
            ],
            "units": [["a.service", true]], "passwords": [["core", "*"]],
            "boot": {
                "image": "image-2", "delete": ["a=1"], "append": ["b=2"], "kernel": ["default", "realtime"],
                "install": ["sysstat"], "uninstall": ["usbguard"], "extensionsImage": "extensions-2",
            },
            "was": {
                "image": "image-1", "arguments": ["a=1"], "kernel": "pages64k", "packages": ["vim"],
                "extensionsImage": "extensions-1",
            },
            "known": [{"type": "settings", "file": "/etc/sysctl.d/a.conf"}],
            "settings": {"/etc/sysctl.d/a.conf": "vm/swappiness = 60\n"},
            "stagings": 2, "isSeen": true, "failure": "why",
        });
        let journal: Journal = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&journal).unwrap(), text);
    }
}

const RECORD: RecordFile = RecordFile { path: paths::BOOT_MISMATCH, legacy_path: paths::LEGACY_BOOT_MISMATCH };

/// Changes a record on this machine with the power cut before the n-th call, or right after the last one; returns whether that
/// was so.
fn change_record(host: &FakeHost, nth: usize, unsynced: Unsynced, change: impl FnOnce(&FakeHost) -> bool) -> bool {
    host.cut_at(nth);
    let is_done = change(host);
    host.cut();
    host.power_on(unsynced);
    is_done
}

#[rstest]
fn a_cut_while_a_record_changes_its_name_leaves_the_old_record_or_the_new_one(
    #[values(Unsynced::Kept, Unsynced::Lost, Unsynced::Mixed(1), Unsynced::Mixed(2), Unsynced::Mixed(3))]
    unsynced: Unsynced,
) {
    let mut seen = std::collections::BTreeSet::new();
    for nth in 0.. {
        let host = FakeHost::new("m");
        host.put(RECORD.legacy_path, b"old", 0o644);
        let is_done = change_record(&host, nth, unsynced, |host| RECORD.write(host, b"new").is_ok());
        let found = RECORD.read(&host).unwrap().remove(0);
        seen.insert(found.clone());
        if is_done {
            assert_eq!(found, b"new");
            assert!(!host.exists(RECORD.legacy_path).unwrap());
            break;
        }
        // The next write ends what the cut has left of the first.
        RECORD.write(&host, b"newer").unwrap();
        assert_eq!(RECORD.read(&host).unwrap(), [b"newer"]);
    }
    assert_eq!(seen.len(), 2);
}

#[rstest]
fn a_cut_while_a_record_is_removed_does_not_restore_an_outdated_one(
    #[values(Unsynced::Kept, Unsynced::Lost, Unsynced::Mixed(1), Unsynced::Mixed(2), Unsynced::Mixed(3))]
    unsynced: Unsynced,
) {
    for nth in 0.. {
        let host = FakeHost::new("m");
        // As a cut leaves them while the record changes its name.
        host.put(RECORD.legacy_path, b"old", 0o644);
        host.put(RECORD.path, b"new", 0o644);
        let is_done = change_record(&host, nth, unsynced, |host| RECORD.retain(host, |_| false).is_ok());
        let found = RECORD.read(&host).unwrap();
        assert!(found.first().is_none_or(|found| found == b"new"), "cut at {nth}: {found:?}");
        RECORD.retain(&host, |_| false).unwrap();
        assert!(RECORD.read(&host).unwrap().is_empty());
        if is_done {
            break;
        }
    }
}

#[rstest]
fn a_cut_while_one_of_two_records_is_removed_leaves_the_other_one(
    #[values(Unsynced::Kept, Unsynced::Lost, Unsynced::Mixed(1), Unsynced::Mixed(2), Unsynced::Mixed(3))]
    unsynced: Unsynced,
    #[values(RECORD.path, RECORD.legacy_path)] kept: &str,
) {
    for nth in 0.. {
        let host = FakeHost::new("m");
        // As a downgrade and another upgrade leave them.
        for path in [RECORD.path, RECORD.legacy_path] {
            host.put(path, if path == kept { b"kept" } else { b"gone" }, 0o644);
        }
        let is_kept = |bytes: &[u8]| bytes == b"kept";
        let is_done = change_record(&host, nth, unsynced, |host| RECORD.retain(host, is_kept).is_ok());
        assert_eq!(host.text(kept).as_deref(), Some("kept"), "cut at {nth}");
        RECORD.retain(&host, is_kept).unwrap();
        assert_eq!(RECORD.read(&host).unwrap(), [b"kept"]);
        if is_done {
            break;
        }
    }
}

#[test]
fn a_cut_and_a_reverted_order_end_in_the_old_state() {
    for (kind, old, new) in kinds() {
        let (before, _, calls) = ends(&old, &new);
        for nth in 0..=calls {
            let mut node = node(&old);
            node.host.cut_at(nth);
            node.obey(&new);
            if !node.host.is_off() {
                node.host.cut();
            }
            node.host.power_on(Unsynced::Lost);
            node.restart();
            let report = node.obey(&old);
            let what = format!("{kind}, cut at {nth} of {calls}: {:#?}", node.host.calls());
            assert_eq!(report.state, State::Done, "{what}: {}", report.reason);
            let (mut found, mut wanted) = (state(&node), before.clone());
            // Files that were never there are known not to have been.
            for snapshot in [&mut found, &mut wanted] {
                snapshot.files.retain(|path, _| !path.starts_with("/etc/machine-config-daemon/"));
                snapshot.files.retain(|path, it| !path.starts_with("/home/core/.ssh") || it.contains("file \"k"));
            }
            assert_same(&found, &wanted, &what);
        }
    }
}

#[test]
fn a_second_cut_while_the_first_is_recovered_from_changes_nothing() {
    for (kind, old, new) in kinds() {
        let (before, after, calls) = ends(&old, &new);
        for nth in 0..=calls {
            for second in 0.. {
                let mut node = node(&old);
                node.host.cut_at(nth);
                node.obey(&new);
                if !node.host.is_off() {
                    node.host.cut();
                }
                node.host.power_on(Unsynced::Mixed(nth as u64));
                node.host.cut_at(second);
                node.restart();
                // Where the power is cut again, it fails.
                let _ = node.recover();
                let is_cut = node.host.is_off();
                if is_cut {
                    recovered(&mut node, Unsynced::Mixed(second as u64));
                }
                let found = state(&node);
                let what = format!("{kind}, cut at {nth} of {calls}, then at {second}: {:#?}", node.host.calls());
                if found != before {
                    assert_same(&found, &after, &what);
                }
                if !is_cut {
                    break;
                }
            }
        }
    }
}

#[test]
fn every_call_that_fails_ends_degraded_in_the_old_or_new_state_and_recovers_when_the_cause_is_gone() {
    for (kind, old, new) in kinds() {
        let (before, after, _) = ends(&old, &new);
        let mut calls = {
            let mut node = node(&old);
            node.obey(&new);
            node.host.calls()
        };
        calls.sort();
        calls.dedup();
        // Systemd's refusal of a preset is no failure.
        for call in calls.into_iter().filter(|call| !call.starts_with("preset")) {
            let mut node = node(&old);
            node.host.fail(&call, "No space left on device");
            let report = node.obey(&new);
            let what = format!("{kind}, {call}: {:#?}", node.host.calls());
            if report.state != State::Done {
                assert_eq!(report.state, State::Degraded, "{what}");
                assert!(report.reason.contains("No space left on device"), "{what}: {}", report.reason);
                node.host.clear_faults();
                node.restart();
                node.recover().unwrap();
                let found = state(&node);
                if found != before {
                    assert_same(&found, &after, &what);
                }
            }
            node.host.clear_faults();
            let report = node.settle();
            assert_eq!(report.state, State::Done, "{what}: {}", report.reason);
            assert_same(&state(&node), &after, &what);
        }
    }
}
