//! Real faults of a machine: a disk that is full or read-only, immutable files, services that
//! fail or never end. Each ends Degraded in the old configuration with the culprit in the reason, and by itself when it is over.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{config, file, files, order, spec};
use rstest::rstest;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::linux::{ProgramRunner, SystemPrograms};
use seaworthy_host::{HostError, LinuxHost, Output};
use seaworthy_node::order::NextAttempt;
use seaworthy_node::{Agent, AgentOptions, Config, Order, Report, paths};
use seaworthy_trial::{skip, small_disk};
use serde_json::json;

const QUIET: &str = "/etc/nmstate/openshift";

/// What `systemctl restart` comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Well,
    Fails,
    NeverEnds,
}

/// Programs of this machine that behave as the test wants.
#[derive(Clone)]
struct Behaving(Arc<Mutex<Service>>);

impl ProgramRunner for Behaving {
    fn feed(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, HostError> {
        let is_job = matches!(arguments.first(), Some(&("restart" | "reload")));
        let now = if is_job { *self.0.lock().unwrap() } else { Service::Well };
        let machine = SystemPrograms::default();
        match now {
            Service::Well if arguments.first() == Some(&"is-enabled") => machine.run("echo", &["disabled"]),
            Service::Well => machine.run("true", &[]),
            Service::Fails => machine.run("false", &[]),
            // It is the real end of a real process that is waited for; only its name is another.
            Service::NeverEnds => {
                let machine = machine.with_timeout(Duration::from_millis(50));
                machine.run("sleep", &["600"]).map_err(|error| match error {
                    HostError::Timeout { seconds, .. } => {
                        HostError::Timeout { line: format!("{program} {}", arguments.join(" ")), seconds }
                    }
                    error => error,
                })
            }
        }
    }
}

struct Machine {
    root: PathBuf,
    agent: Agent<LinuxHost>,
    order: Order,
    services: Behaving,
}

impl Machine {
    /// A machine with its files below a folder. Without root there is none: its files could not be root's.
    fn new(root: &Path) -> Option<Machine> {
        if root.metadata().unwrap().uid() != 0 {
            skip("root", "only root may give files to root");
            return None;
        }
        let services = Behaving(Arc::new(Mutex::new(Service::Well)));
        std::fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
        std::fs::write(root.join("proc/sys/kernel/random/boot_id"), "boot-1\n").unwrap();
        let host = LinuxHost::with_programs(root, Box::new(services.clone())).unwrap();
        let first = config("first", &files(vec![]));
        let mut order = order(&first, &first);
        order.state = None;
        let agent = Agent::new(host, AgentOptions::default());
        let mut machine = Machine { root: root.to_owned(), agent, order, services };
        assert_eq!(machine.obey(&first).state, State::Done);
        Some(machine)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
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

    /// It has failed, says why, and asks again by itself.
    fn fails(&mut self, desired: &Config, culprits: &[&str]) {
        let report = self.obey(desired);
        assert_eq!((report.state, report.next_attempt), (State::Degraded, NextAttempt::Backoff), "{}", report.reason);
        for culprit in culprits {
            assert!(report.reason.contains(culprit), "no {culprit:?} in: {}", report.reason);
        }
    }

    /// The next attempt, when the cause is gone, is the last one.
    fn recovers(&mut self, desired: &Config) {
        let report = self.obey(desired);
        assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
        assert!(!self.at(paths::JOURNAL).exists());
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> Result<(), String> {
    let output = Command::new(program).args(arguments).arg(path).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// A file that is immutable, also for root, until this is dropped.
struct Immutable(PathBuf);

impl Immutable {
    fn make(path: &Path) -> Option<Immutable> {
        match run("chattr", &["+i"], path) {
            Ok(()) => Some(Immutable(path.to_owned())),
            Err(why) => {
                skip("chattr", &format!("no immutable files here: {}", why.trim()));
                None
            }
        }
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = run("chattr", &["-i"], &self.0);
    }
}

#[test]
fn immutable_file_is_named_and_what_was_written_before_it_is_taken_back() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut machine) = Machine::new(root.path()) else { return };
    let (a, b) = (format!("{QUIET}/a"), format!("{QUIET}/b"));
    let of = |text: &str| files(vec![file(&a, text), file(&b, text)]);
    machine.recovers(&config("old", &of("old")));
    let Some(immutable) = Immutable::make(&machine.at(&b)) else { return };
    let new = config("new", &of("new"));
    machine.fails(&new, &[&b, "Operation not permitted"]);
    assert_eq!((machine.text(&a).as_deref(), machine.text(&b).as_deref()), (Some("old"), Some("old")));
    machine.fails(&new, &[&b]);
    drop(immutable);
    machine.recovers(&new);
    assert_eq!((machine.text(&a).as_deref(), machine.text(&b).as_deref()), (Some("new"), Some("new")));
}

#[rstest]
#[case::fails(Service::Fails, "exit code 1")]
#[case::never_ends(Service::NeverEnds, "did not end within")]
fn service_that_fails_or_never_ends_is_named_and_its_files_are_the_old_ones(
    #[case] service: Service,
    #[case] word: &str,
) {
    let root = tempfile::tempdir().unwrap();
    let Some(mut machine) = Machine::new(root.path()) else { return };
    let path = "/etc/containers/policy.json";
    machine.recovers(&config("old", &files(vec![file(path, "old")])));
    *machine.services.0.lock().unwrap() = service;
    let new = config("new", &files(vec![file(path, "new")]));
    machine.fails(&new, &["systemctl reload -- crio.service", word, "rolled back to old"]);
    assert_eq!(machine.text(path).as_deref(), Some("old"));
    *machine.services.0.lock().unwrap() = Service::Well;
    machine.recovers(&new);
    assert_eq!(machine.text(path).as_deref(), Some("new"));
}

/// A date may jump, so durations are measured by a monotonic clock.
#[test]
fn nothing_on_the_machine_is_decided_by_the_date() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = vec![crates.join("node/src"), crates.join("host/src")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            // Its date is only displayed (`tests/waits.rs` sets it).
            if path.ends_with("node/src/clock.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["SystemTime", "Timestamp", "jiff", "chrono", "modified()", "mtime"] {
                assert!(!text.contains(word), "{} looks at the date: {word}", path.display());
            }
        }
    }
    assert!(files > 30, "only {files} files were looked at");
}

#[test]
fn full_disk_and_read_only_disk_are_named_and_change_nothing() {
    small_disk::run_child("faults::child", 4);
}

#[test]
#[ignore = "run by the test above, with a small disk"]
fn child() {
    let Some(folder) = small_disk::folder() else { return };
    let mut machine = Machine::new(&folder).unwrap();
    let (small, large) = (format!("{QUIET}/a"), format!("{QUIET}/large"));
    machine.recovers(&config("old", &files(vec![file(&small, "old")])));
    let new = config("new", &files(vec![file(&small, "new"), file(&large, &"x".repeat(500_000))]));

    // Room for the journal and the small file, not for the large one; then for nothing at all.
    for left in [900_000, 0] {
        fill(&folder.join("filler"), left);
        machine.fails(&new, &["No space left on device"]);
        assert_eq!(machine.text(&small).as_deref(), Some("old"), "{left} bytes left");
        assert!(!machine.at(&large).exists());
        machine.fails(&new, &["No space left on device"]);
    }
    std::fs::remove_file(folder.join("filler")).unwrap();
    machine.recovers(&new);
    assert_eq!(machine.text(&small).as_deref(), Some("new"));

    run("mount", &["-o", "remount,bind,ro"], &folder).unwrap();
    let back = config("back", &files(vec![file(&small, "back")]));
    machine.fails(&back, &["Read-only file system"]);
    assert_eq!(machine.text(&small).as_deref(), Some("new"));
    run("mount", &["-o", "remount,bind,rw"], &folder).unwrap();
    machine.recovers(&back);
    assert_eq!((machine.text(&small).as_deref(), machine.at(&large).exists()), (Some("back"), false));
    small_disk::done();
}

/// Fills the disk until this many bytes are left.
fn fill(path: &Path, left: usize) {
    use std::io::Write as _;
    let _ = std::fs::remove_file(path);
    let mut filler = std::fs::File::create(path).unwrap();
    let piece = [0; 4096];
    let mut written = 0;
    while filler.write_all(&piece).is_ok() {
        written += piece.len();
    }
    filler.set_len(written.saturating_sub(left) as u64).unwrap();
}

#[test]
fn hostile_paths_are_refused_before_anything_is_touched() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut machine) = Machine::new(root.path()) else { return };
    let before = std::fs::read_dir(root.path()).unwrap().count();
    for path in ["/../outside", "/etc/../../outside", "etc/a", "/etc/a\u{0}b", "/", "/etc//a/./b/..", ""] {
        let hostile = spec(json!({"config": {"storage": {"files": [file(path, "x")]}}}));
        let report = machine.obey(&config("hostile", &hostile));
        assert_eq!(report.state, State::Unreconcilable, "{path:?}: {}", report.reason);
        assert!(report.reason.contains("hostile"), "{path:?}: {}", report.reason);
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), before);
    assert!(!root.path().parent().unwrap().join("outside").exists());
    machine.recovers(&config("good", &files(vec![file(&format!("{QUIET}/a"), "x")])));
}

/// The page of faults names tests; each of them is there, under that name, in the file beside it.
#[test]
fn every_test_that_the_page_of_faults_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let page = std::fs::read_to_string(root.join("docs/evidence/faults-daemon.md")).unwrap();
    let mut found = 0;
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let words: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let Some(place) = words.iter().find(|word| word.ends_with(".rs")) else { continue };
        let text =
            std::fs::read_to_string(root.join("crates").join(place)).unwrap_or_else(|_| panic!("{place} is not there"));
        for name in words.iter().filter(|word| word.matches('_').count() > 2) {
            assert!(text.contains(&format!("fn {name}(")), "{place} has no test {name}");
            found += 1;
        }
    }
    assert!(found >= 30, "the page names {found} tests");
}

#[test]
fn page_of_files_on_a_node_names_every_path_of_the_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let page = std::fs::read_to_string(root.join("docs/reference/files-on-a-node.md")).unwrap();
    let source = std::fs::read_to_string(root.join("crates/machine/node/src/paths.rs")).unwrap();
    let literals = source.split('"').skip(1).step_by(2);
    let paths: Vec<&str> = literals.filter(|literal| literal.starts_with('/')).collect();
    assert!(paths.len() > 15, "{paths:?}");
    for path in paths {
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap();
        assert!(
            page.contains(path) || page.contains(&format!("`{name}`")),
            "docs/reference/files-on-a-node.md: {path}"
        );
    }
}
