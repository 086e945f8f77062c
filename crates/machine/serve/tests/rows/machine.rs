//! Tests with the real programs: Debian's validator checks the served configs, and Debian's Ignition boots from them.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_host::{Entry, EntryKind, FolderHost, Host as _};
use seaworthy_ignition::{Node, Version, body_of};
use seaworthy_node::observed::observe;
use seaworthy_node::perform::perform;
use seaworthy_node::{Step, TargetState, steps, validate};
use seaworthy_serve::access::Credentials;
use seaworthy_serve::answers::{Answers, PoolAnswers};
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::servable_config::ServableConfig;
use seaworthy_serve::stub::{Stub, VERSION};
use seaworthy_serve::{Access, AnswerStore, Endpoint, Token};
use serde_json::{Value, json};

use crate::support::{TestServer, additions, machine_config, rendered, tool};

/// The newest version that Debian's package knows.
const NEWEST: Version = Version::V3_3;
const TOKEN: &str = "a-token-for-new-machines";

/// MachineConfigs as pools have them: the recorded ones, and one with every kind of content.
fn corpus() -> Vec<MachineConfig> {
    let text = include_str!("../../../../config/ignition/tests/golden/translations.jsonl");
    let rows = text.lines().enumerate().map(|(nth, line)| {
        let row: Value = serde_json::from_str(line).unwrap();
        machine_config(&format!("rendered-pool-{nth}"), json!({"config": row["config"]}))
    });
    rows.chain([rendered("rendered-worker-1")]).collect()
}

#[test]
fn validator_accepts_every_version_that_it_knows() {
    let found = tool("ignition-validate", "SEAWORTHY_IGNITION_VALIDATE", "/usr/bin");
    let Some(program) = found else { return };
    let mut accepted = 0;
    for object in corpus() {
        let config = ServableConfig::new(&object, additions()).unwrap();
        for version in [Version::V3_1, Version::V3_2, Version::V3_3] {
            let mut child = Command::new(&program)
                .arg("-")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&config.serve(version).unwrap()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{} in {version}: {}", config.name(), output_text(&output));
            accepted += 1;
        }
    }
    assert_eq!(accepted, 3 * 61);
}

/// The entry at a path, with its content; only the kind of an entry that is not a file.
fn entry_at(host: &FolderHost, path: &str) -> Option<(Entry, Vec<u8>)> {
    let entry = host.entry(path).unwrap()?;
    Some(match entry.kind {
        EntryKind::File => (entry, host.read(path).unwrap().unwrap()),
        kind => (Entry { kind, mode: 0, uid: 0, gid: 0, size: 0 }, Vec::new()),
    })
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The program that runs at a machine's first boot.
fn ignition() -> Option<PathBuf> {
    tool("ignition", "SEAWORTHY_IGNITION", "/usr/lib/dracut/modules.d/30ignition")
}

/// A machine that boots: a folder for its disk, and the stub that it was given.
struct Machine {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Machine {
    fn new(program: &Path, stub: &Value) -> Machine {
        let machine = Machine { folder: tempfile::tempdir().unwrap(), program: program.to_owned() };
        inhabit(&machine.root());
        std::fs::create_dir_all(machine.root().join("etc/selinux")).unwrap();
        // At the end it labels files, which a folder does not support: `setfiles` does nothing.
        std::fs::write(machine.root().join("etc/selinux/config"), "SELINUXTYPE=none\n").unwrap();
        std::fs::create_dir(machine.path("bin")).unwrap();
        let setfiles = machine.path("bin/setfiles");
        std::fs::write(&setfiles, "#!/bin/sh\ncat > /dev/null\n").unwrap();
        std::fs::set_permissions(&setfiles, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(machine.path("stub.ign"), stub.to_string()).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// Runs one stage of the first boot.
    async fn stage(&self, stage: &str) -> Output {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(["--platform", "file", "--log-to-stdout", "--fetch-timeout", "10s", "--stage", stage]);
        for (option, name) in
            [("--root", "root"), ("--config-cache", "cache"), ("--state-file", "state"), ("--neednet", "need")]
        {
            command.arg(option).arg(self.path(name));
        }
        command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.path("bin").display()));
        command.env("IGNITION_CONFIG_FILE", self.path("stub.ign")).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(std::time::Duration::from_secs(60), command.output()).await;
        output.unwrap_or_else(|_| panic!("the stage {stage} does not end")).unwrap()
    }

    /// The config that it has fetched.
    fn fetched(&self) -> Value {
        let mut config: Value = serde_json::from_slice(&std::fs::read(self.path("cache")).unwrap()).unwrap();
        drop_empty(&mut config);
        config
    }
}

/// Removes the empty objects that Ignition writes for missing fields.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(drop_empty);
            map.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
        }
        Value::Array(list) => list.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// An endpoint that requires the token, with these MachineConfigs, each for the pool of its name.
fn guarded(objects: &[MachineConfig]) -> Endpoint {
    let answers = Arc::new(AnswerStore::default());
    let pools = objects.iter().map(|object| {
        let config = ServableConfig::new(object, additions()).unwrap();
        (config.name().to_owned(), Arc::new(Answers::of_config(&config)))
    });
    answers.publish(pools.collect::<PoolAnswers>());
    let access = Access::Restricted(Credentials { tokens: vec![Token::new(TOKEN).unwrap()].into(), secrets: None });
    Endpoint { answers, access, rate_limits: RateLimits::default(), metrics: Arc::default() }
}

fn stub(endpoint: &TestServer, pool: &str, token: &str) -> Value {
    let server = format!("localhost:{}", endpoint.address.port());
    let token = Token::new(token).unwrap();
    let authority = Some(endpoint.pki.authority().as_bytes());
    Stub { server: &server, pool, authority, token: Some(&token), version: VERSION }.config().unwrap()
}

/// The accounts that the corpus mentions, as an image has them: name, id, home.
const USERS: [(&str, u32, &str); 3] =
    [("root", 0, "/root"), ("core", 1000, "/home/core"), ("admin", 1001, "/home/admin")];
/// The groups besides those of the accounts.
const GROUPS: [(&str, u32); 2] = [("wheel", 10), ("sudo", 27)];

/// Gives a folder accounts with homes.
fn inhabit(root: &Path) {
    let write = |name: &str, lines: Vec<String>| std::fs::write(root.join("etc").join(name), lines.concat()).unwrap();
    std::fs::create_dir_all(root.join("etc")).unwrap();
    let groups = || USERS.iter().map(|(name, id, _)| (*name, *id)).chain(GROUPS);
    write("passwd", USERS.map(|(name, id, home)| format!("{name}:x:{id}:{id}::{home}:/bin/sh\n")).into());
    write("shadow", USERS.map(|(name, ..)| format!("{name}:*:1::::::\n")).into());
    write("group", groups().map(|(name, id)| format!("{name}:x:{id}:\n")).collect());
    write("gshadow", groups().map(|(name, _)| format!("{name}:*::\n")).collect());
    for (_, id, home) in USERS {
        let home = root.join(home.trim_start_matches('/'));
        std::fs::create_dir_all(&home).unwrap();
        // Without root nothing is written later either.
        let _ = std::os::unix::fs::chown(&home, Some(id), Some(id));
    }
}

/// The number that an owner or a group of a config has on these machines; root's where there is none.
fn number(who: &Value, names: &[(&str, u32)]) -> u32 {
    match (who["id"].as_u64(), who["name"].as_str()) {
        (Some(id), _) => u32::try_from(id).unwrap(),
        (None, Some(name)) => names.iter().find(|(known, _)| *known == name).unwrap().1,
        (None, None) => 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_boot_from_the_endpoint_into_what_the_daemon_would_write() {
    let Some(program) = ignition() else { return };
    let objects = corpus();
    // Files belong to root unless they have another owner.
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        seaworthy_trial::skip("ignition", "the stage files needs root; only the stage fetch was run");
    }
    let server = TestServer::start(guarded(&objects)).await;
    let (mut written, mut taken_over) = (0, 0);
    for object in &objects {
        let name = object.metadata.name.as_deref().unwrap();
        let machine = Machine::new(&program, &stub(&server, name, TOKEN));
        let fetch = machine.stage("fetch").await;
        assert!(fetch.status.success(), "{name}: {}", output_text(&fetch));
        let served = ServableConfig::new(object, additions()).unwrap().serve(NEWEST).unwrap();
        let served: Value = serde_json::from_slice(&served).unwrap();
        let fetched = machine.fetched();
        for part in ["storage", "systemd", "passwd"] {
            assert_eq!(fetched.get(part), served.get(part), "{name}: {part}");
        }
        if !is_root {
            continue;
        }
        let files = machine.stage("files").await;
        assert!(files.status.success(), "{name}: {}", output_text(&files));
        written += assert_written(&machine.root(), &served, name);
        taken_over += usize::from(is_taken_over(&machine.root(), object, name));
    }
    if is_root {
        assert_eq!((objects.len(), taken_over), (61, 49));
        assert!(written > 400, "{written}");
    }
}

/// Checks that what Ignition wrote is what the daemon expects, and what it would have written itself; `false` for what the
/// daemon does not support, such as files that are appended to.
fn is_taken_over(root: &Path, object: &MachineConfig, name: &str) -> bool {
    let Ok(target) = TargetState::parse(name, Arc::new(object.spec.clone()), None) else { return false };
    // Nor does it create accounts, or change their ids.
    let users = object.spec.config.as_ref().unwrap()["passwd"]["users"].as_array().cloned().unwrap_or_default();
    let is_its_own = |key: &String| ["name", "passwordHash", "sshAuthorizedKeys"].contains(&key.as_str());
    if users.iter().any(|user| user["name"] != "core" || !user.as_object().unwrap().keys().all(is_its_own)) {
        return false;
    }
    let theirs = FolderHost::open(root).unwrap();
    // As systemd does it at the first boot.
    for unit in target.units.keys() {
        let _ = theirs.preset(&[unit]);
    }
    let is_boot = |finding: &validate::Mismatch| finding.aspect == validate::Aspect::Boot;
    let findings: Vec<_> =
        validate::validate(&theirs, &target).unwrap().into_iter().filter(|it| !is_boot(it)).collect();
    assert!(findings.is_empty(), "{}", validate::message(&target, &findings));

    let folder = tempfile::tempdir().unwrap();
    inhabit(folder.path());
    let ours = FolderHost::open(folder.path()).unwrap();
    let nothing = TargetState::parse("nothing", Arc::default(), None).unwrap();
    for step in steps(&nothing, &target, &observe(&ours, &nothing, &target).unwrap()).unwrap() {
        if !matches!(step, Step::Boot(_)) {
            perform(&ours, &step).unwrap();
        }
    }
    for path in target.paths.keys() {
        assert_eq!(entry_at(&ours, path), entry_at(&theirs, path), "{name}: {path}");
    }
    let account = |host: &FolderHost| host.user("core").unwrap().unwrap();
    assert_eq!(account(&ours), account(&theirs), "{name}");
    let keys = "/home/core/.ssh/authorized_keys.d/ignition";
    assert_eq!(entry_at(&ours, keys), entry_at(&theirs, keys), "{name}: {keys}");
    for (unit, wanted) in &target.units {
        if wanted.is_enabled.is_some() {
            assert_eq!(ours.unit_state(unit).unwrap(), theirs.unit_state(unit).unwrap(), "{name}: {unit}");
        }
    }
    true
}

/// Checks that every file, folder, link and unit of a config is on the disk; returns the number of files.
fn assert_written(root: &Path, config: &Value, name: &str) -> usize {
    let on_disk = |path: &str| root.join(path.trim_start_matches('/'));
    let users = USERS.map(|(name, id, _)| (name, id));
    let groups = [&users[..], &GROUPS].concat();
    let entries = |kind: &str| config["storage"][kind].as_array().cloned().unwrap_or_default();
    let assert_kept = |entry: &Value| {
        let path = entry["path"].as_str().unwrap();
        let found = std::fs::metadata(on_disk(path)).unwrap();
        let owners = (number(&entry["user"], &users), number(&entry["group"], &groups));
        assert_eq!((found.uid(), found.gid()), owners, "{name}: {path}");
        if let Some(mode) = entry["mode"].as_u64() {
            assert_eq!(u64::from(found.permissions().mode() & 0o7777), mode, "{name}: {path}");
        }
    };
    for file in entries("files") {
        let path = file["path"].as_str().unwrap();
        let node = Node::from_json(&file);
        let mut wanted = match node.get("contents") {
            Some(_) => body_of(&node, 1 << 20).unwrap().into_owned(),
            None => Vec::new(),
        };
        for body in node.list_of("append") {
            wanted.extend_from_slice(&seaworthy_ignition::body::bytes_of(body, 1 << 20).unwrap());
        }
        assert_eq!(std::fs::read(on_disk(path)).unwrap(), wanted, "{name}: {path}");
        assert_kept(&file);
    }
    entries("directories").iter().for_each(assert_kept);
    for link in entries("links") {
        let path = on_disk(link["path"].as_str().unwrap());
        if link["hard"] != true {
            assert_eq!(std::fs::read_link(path).unwrap().to_str(), link["target"].as_str(), "{name}");
        }
    }
    for unit in config["systemd"]["units"].as_array().into_iter().flatten() {
        let unit_name = unit["name"].as_str().unwrap();
        if unit["mask"] == true {
            continue;
        }
        if let Some(contents) = unit["contents"].as_str() {
            let path = format!("etc/systemd/system/{unit_name}");
            assert_eq!(std::fs::read_to_string(root.join(path)).unwrap(), contents, "{name}: {unit_name}");
        }
        if let Some(is_enabled) = unit["enabled"].as_bool() {
            let presets = std::fs::read_to_string(root.join("etc/systemd/system-preset/20-ignition.preset")).unwrap();
            let line = format!("{} {unit_name}\n", if is_enabled { "enable" } else { "disable" });
            assert!(presets.contains(&line), "{name}: {presets}");
        }
    }
    entries("files").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_with_a_forged_token_gets_nothing() {
    let Some(program) = ignition() else { return };
    let server = TestServer::start(guarded(&[rendered("rendered-worker-1")])).await;
    let machine = Machine::new(&program, &stub(&server, "rendered-worker-1", "forged"));
    let fetch = machine.stage("fetch").await;
    assert!(!fetch.status.success(), "{}", output_text(&fetch));
    assert!(!machine.path("cache").exists());
}
