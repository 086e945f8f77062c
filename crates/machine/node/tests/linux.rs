//! The agent on a folder of this machine: real files, real owners, and programs that only record their calls.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::{config, file, files, order, spec};
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::linux::ProgramRunner;
use seaworthy_host::{HostError, LinuxHost, Output};
use seaworthy_node::order::NextAttempt;
use seaworthy_node::{Agent, AgentOptions, Config, Order, Report, paths};
use serde_json::json;

#[derive(Clone, Default)]
struct Remembering(Arc<Mutex<Vec<String>>>);

impl ProgramRunner for Remembering {
    fn feed(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, HostError> {
        self.0.lock().unwrap().push(format!("{program} {}", arguments.join(" ")));
        let stdout = if arguments.first() == Some(&"is-enabled") { "disabled\n" } else { "" };
        Ok(Output { code: Some(0), stdout: stdout.to_owned(), stderr: String::new() })
    }
}

struct Machine {
    root: tempfile::TempDir,
    agent: Agent<LinuxHost>,
    order: Order,
    lines: Remembering,
}

/// Files of a configuration belong to root, so the test needs root.
fn machine(first: &Config) -> Option<Machine> {
    let root = tempfile::tempdir().unwrap();
    if root.path().metadata().unwrap().uid() != 0 {
        eprintln!("skipped: only root may give files to root");
        return None;
    }
    let lines = Remembering::default();
    let host = LinuxHost::with_programs(root.path(), Box::new(lines.clone())).unwrap();
    std::fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
    std::fs::write(root.path().join("proc/sys/kernel/random/boot_id"), "boot-1\n").unwrap();
    let mut order = order(first, first);
    order.state = None;
    let mut machine = Machine { root, agent: Agent::new(host, AgentOptions::default()), order, lines };
    assert_eq!(machine.obey(first).state, State::Done);
    Some(machine)
}

impl Machine {
    fn at(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    fn obey(&mut self, desired: &Config) -> Report {
        self.order.desired = Some(desired.clone());
        loop {
            let report = self.agent.sync(&self.order, &mut |_| true);
            self.order.state = Some(report.state);
            if report.next_attempt != NextAttempt::Now {
                return report;
            }
        }
    }
}

const QUIET: &str = "/etc/nmstate/openshift";

#[test]
fn real_files_are_written_changed_and_removed_and_the_original_ones_restored() {
    let Some(mut machine) = machine(&config("first", &files(vec![]))) else { return };
    std::fs::create_dir_all(machine.at(QUIET)).unwrap();
    let theirs = machine.at(QUIET).join("theirs");
    std::fs::write(&theirs, "theirs").unwrap();
    std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o2640)).unwrap();
    let mut odd = file(&format!("{QUIET}/odd"), "odd");
    (odd["mode"], odd["user"], odd["group"]) = (json!(0o640), json!({"id": 5}), json!({"id": 6}));
    let with = config("with", &files(vec![file(&format!("{QUIET}/theirs"), "ours"), odd]));
    let report = machine.obey(&with);
    assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "ours");
    let odd = machine.at(QUIET).join("odd").metadata().unwrap();
    assert_eq!((odd.mode() & 0o7777, odd.uid(), odd.gid()), (0o640, 5, 6));
    assert!(machine.text(paths::CURRENT_CONFIG).unwrap().contains("\"with\""));
    assert!(!machine.at(paths::JOURNAL).exists());

    assert_eq!(machine.obey(&config("without", &files(vec![]))).state, State::Done);
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
    assert_eq!(theirs.metadata().unwrap().mode() & 0o7777, 0o2640);
    assert!(!machine.at(QUIET).join("odd").exists());
    let left = std::fs::read_dir(machine.at(QUIET)).unwrap().count();
    assert_eq!(left, 1, "nothing half made is left");
}

#[test]
fn an_original_that_was_right_already_is_not_edited_along_with_its_file() {
    let Some(mut machine) = machine(&config("first", &files(vec![]))) else { return };
    let path = format!("{QUIET}/theirs");
    std::fs::create_dir_all(machine.at(QUIET)).unwrap();
    std::fs::write(machine.at(&path), "theirs").unwrap();
    std::fs::set_permissions(machine.at(&path), PermissionsExt::from_mode(0o644)).unwrap();
    // The configuration has the present file: nothing is written, and from now on it belongs to the configuration.
    assert_eq!(machine.obey(&config("with", &files(vec![file(&path, "theirs")]))).state, State::Done);
    assert_eq!(machine.text(&paths::original(&path)).unwrap(), "theirs");
    // It is edited in place, and repaired.
    std::fs::write(machine.at(&path), "edited").unwrap();
    std::fs::set_permissions(machine.at(&path), PermissionsExt::from_mode(0o600)).unwrap();
    let host = LinuxHost::with_programs(machine.root.path(), Box::new(machine.lines.clone())).unwrap();
    machine.agent = Agent::new(host, AgentOptions { is_repairing: true });
    assert_eq!(machine.agent.check(&machine.order, &mut |_| true).state, State::Done);
    assert_eq!(machine.text(&path).unwrap(), "theirs");
    assert_eq!(machine.obey(&config("without", &files(vec![]))).state, State::Done);
    assert_eq!(machine.text(&path).unwrap(), "theirs");
    assert_eq!(machine.at(&path).metadata().unwrap().mode() & 0o7777, 0o644);
}

#[test]
fn what_cannot_be_written_takes_everything_back_and_is_named() {
    let Some(mut machine) = machine(&config("first", &files(vec![]))) else { return };
    let old = config("old", &files(vec![file(&format!("{QUIET}/a"), "old")]));
    assert_eq!(machine.obey(&old).state, State::Done);
    // A file where a folder is needed.
    std::fs::write(machine.at("/etc/nmstate/openshift/z"), "in the way").unwrap();
    let new = config("new", &files(vec![file(&format!("{QUIET}/a"), "new"), file(&format!("{QUIET}/z/b"), "x")]));
    let report = machine.obey(&new);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("/etc/nmstate/openshift/z/b"), "{}", report.reason);
    assert_eq!(machine.text(&format!("{QUIET}/a")).unwrap(), "old");
    assert!(!machine.at(paths::JOURNAL).exists());
    std::fs::remove_file(machine.at("/etc/nmstate/openshift/z")).unwrap();
    assert_eq!(machine.obey(&new).state, State::Done);
    assert_eq!(machine.text(&format!("{QUIET}/z/b")).unwrap(), "x");
}

#[test]
fn a_planted_link_leads_no_write_out_of_the_root() {
    let Some(mut machine) = machine(&config("first", &files(vec![]))) else { return };
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    std::fs::create_dir_all(machine.at("/etc/nmstate")).unwrap();
    symlink(&victim, machine.at("/etc/nmstate/openshift-link")).unwrap();
    symlink(outside.path(), machine.at(QUIET)).unwrap();
    // The folder is a link out of the root: it leads to the same path below the root, which is not there.
    let report = machine.obey(&config("new", &files(vec![file(&format!("{QUIET}/victim"), "ours")])));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(report.state, State::Degraded, "{}", report.reason);
    assert!(report.reason.contains(&format!("{QUIET}/victim")), "{}", report.reason);
}

#[test]
fn units_go_through_systemctl_in_order() {
    let Some(mut machine) = machine(&config("first", &spec(json!({})))) else { return };
    machine.lines.0.lock().unwrap().clear();
    let unit = json!({"name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n"});
    let new = config("new", &spec(json!({"config": {"systemd": {"units": [unit]}}})));
    // The programs only remember, so the unit never counts as enabled: looked at is what they were asked.
    let _ = machine.obey(&new);
    assert_eq!(machine.text("/etc/systemd/system/a.service").unwrap(), "[Service]\nExecStart=/bin/true\n");
    let lines = machine.lines.0.lock().unwrap();
    let asked: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.contains("is-")).collect();
    let wanted = ["systemctl enable -- a.service", "systemctl daemon-reload", "systemctl restart -- a.service"];
    assert_eq!(asked.get(..3), Some(&wanted[..]), "{lines:#?}");
}

#[test]
fn a_daemon_that_dies_in_the_middle_is_taken_back_by_the_next() {
    let Some(mut machine) = machine(&config("first", &files(vec![]))) else { return };
    let old = config("old", &files(vec![file(&format!("{QUIET}/a"), "old")]));
    assert_eq!(machine.obey(&old).state, State::Done);
    let new = config("new", &files(vec![file(&format!("{QUIET}/a"), "new")]));
    assert_eq!(machine.obey(&new).state, State::Done);
    // As if it had died after the first write: the journal of an update that has begun, and the new file.
    let (root, journal) = (machine.root.path(), machine.at(paths::JOURNAL));
    let current = machine.at(paths::CURRENT_CONFIG);
    std::fs::create_dir_all(&journal).unwrap();
    std::fs::copy(&current, journal.join("0")).unwrap();
    std::fs::write(journal.join("1"), "new").unwrap();
    std::fs::set_permissions(journal.join("1"), PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(root.join("etc/nmstate/openshift/a"), "half way").unwrap();
    let text = json!({
        "format": 1, "from": "new", "to": "newer", "image": null, "phase": "applying", "bootId": "boot-1", "actions": [],
        "before": [
            {"kept": {"path": paths::CURRENT_CONFIG, "name": "0"}},
            {"kept": {"path": format!("{QUIET}/a"), "name": "1"}},
        ],
        "units": [], "passwords": [], "boot": {}, "stagings": 0, "isSeen": false, "failure": null,
    });
    std::fs::write(journal.join("journal.json"), text.to_string()).unwrap();
    assert_eq!(machine.agent.recover(), Ok(false));
    assert_eq!(machine.text(&format!("{QUIET}/a")).unwrap(), "new");
    assert!(!Path::new(&journal).exists());
}

#[test]
fn packages_are_queried_only_for_files_that_are_overwritten() {
    let Some(mut machine) = machine(&config("first", &files(vec![]))) else { return };
    std::fs::create_dir_all(machine.at("/usr/bin")).unwrap();
    std::fs::write(machine.at("/usr/bin/dpkg"), "").unwrap();
    std::fs::create_dir_all(machine.at(QUIET)).unwrap();
    std::fs::write(machine.at(QUIET).join("theirs"), "theirs").unwrap();
    let new = ["theirs", "a", "b", "c"].map(|name| file(&format!("{QUIET}/{name}"), "ours"));
    assert_eq!(machine.obey(&config("new", &files(new.to_vec()))).state, State::Done);
    let lines = machine.lines.0.lock().unwrap();
    let asked: Vec<&String> = lines.iter().filter(|line| line.starts_with("dpkg")).collect();
    assert_eq!(asked, [&format!("dpkg -S {QUIET}/theirs")]);
}
