//! From a MachineConfig to a byte on a disk: the API server, the controllers and the daemon of one machine, each a process
//! of its own, and the machine a folder or one with a systemd of its own.

mod systemd;
pub mod world;

use std::time::Duration;

use crate::served::{JSON, MERGE};
use seaworthy_host::{FolderHost, Host as _};
use serde_json::json;
use world::{CONFIGS, NODES, World, annotation};

/// A changed file is reported within a second; this is for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn machine_config_is_written_to_the_machine_and_its_node_is_done() {
    let world = World::start();
    let (root, first) = world.join();
    world.create(NODES, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}}));

    let mut daemon = world.daemon(root.path());
    world.runs(&first);
    assert!(!root.path().join("etc/machine-config-daemon/node-annotations.json").exists());

    // A file without a known action: the node is drained, and boots.
    world.apply("50-motd", "/etc/motd", "aye\n");
    let second = world.target_after(&first);
    let node = world.runs(&second);
    assert_eq!(std::fs::read_to_string(root.path().join("etc/motd")).unwrap(), "aye\n");
    assert_eq!(annotation(&node, "lastAppliedDrain"), format!("uncordon-{second}"));
    assert_eq!((annotation(&node, "reason"), annotation(&node, "post-config-action")), (String::new(), String::new()));
    let boots = || std::fs::read_to_string(root.path().join("var/lib/seaworthy/boots")).unwrap();
    assert_eq!(boots(), "2\n");

    // One that is known to need less gets less; what was there is kept, and comes back.
    world.apply("60-chrony", "/etc/chrony.d/pool.conf", "pool example.org\n");
    let third = world.target_after(&second);
    world.runs(&third);
    assert_eq!(std::fs::read_to_string(root.path().join("etc/chrony.d/pool.conf")).unwrap(), "pool example.org\n");
    assert_eq!(boots(), "2\n");
    let progress = "/apis/machineconfiguration.openshift.io/v1/machineconfignodes";
    world.until(progress, "w0", |object| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is = |type_: &str, status: &str| conditions.iter().any(|it| it["type"] == type_ && it["status"] == status);
        object["status"]["configVersion"]["current"] == third.as_str()
            && is("Updated", "True")
            && is("NodeDegraded", "False")
    });

    // A secret comes without any order.
    let path = "/etc/mco/internal-registry-pull-secret.json".to_owned();
    let secret = root.path().join(path.trim_start_matches('/'));
    let (sender, heard) = std::sync::mpsc::channel();
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    let changed = std::sync::Arc::new(move || sender.send(()).unwrap_or_default());
    let _watch = FolderHost::open(root.path()).unwrap().watch(&[path], changed).unwrap();
    let renewed = json!({"spec": {"internalRegistryPullSecret": "e30="}}).to_string();
    let configs = "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller";
    world.server.client().ask("PATCH", configs, MERGE, &renewed).unwrap().is(200);
    heard.recv_timeout(WAIT_TIMEOUT).unwrap();
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "{}");

    // A user changes a file: that is reported, and so is that the file is right again.
    let motd = root.path().join("etc/motd");
    std::fs::write(&motd, "nay\n").unwrap();
    let node = world.until(NODES, "w0", |node| annotation(node, "state") == "Degraded");
    assert!(annotation(&node, "reason").contains("/etc/motd"), "{node:#}");
    // What is in it is seen on the machine only.
    assert!(!annotation(&node, "reason").contains("nay"), "{node:#}");
    let diff = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_seaworthy"));
        let output = command.args(["daemon", "--diff", "--root"]).arg(root.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = diff();
    assert!(code == Some(1) && text.contains("\n-aye\n+nay\n"), "{code:?} {text}");
    std::fs::write(&motd, "aye\n").unwrap();
    assert_eq!(diff(), (Some(0), String::new()));
    world.runs(&third);

    // The node's credentials are good for nothing else.
    let patch = json!({"metadata": {"annotations": {"a": "b"}}}).to_string();
    world.ask_as_node("PATCH", &format!("{NODES}/other"), &patch).is(403);
    world.ask_as_node("GET", &format!("{NODES}/other"), "").is(403);
    world.ask_as_node("GET", "/api/v1/secrets", "").is(403);
    world.ask_as_node("DELETE", &format!("{CONFIGS}/{third}"), "").is(403);

    let pid = rustix::process::Pid::from_child(&daemon.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));

    // The next one begins where this one ended: what is ordered meanwhile is done.
    world.server.client().ask("DELETE", &format!("{CONFIGS}/50-motd"), JSON, "").unwrap().is(200);
    let fourth = world.target_after(&third);
    let _daemon = world.daemon(root.path());
    world.runs(&fourth);
    assert!(!motd.exists());
    assert_eq!(std::fs::read_to_string(root.path().join("etc/kept")).unwrap(), "theirs");
}

#[test]
fn a_daemon_that_is_killed_in_the_middle_and_a_server_that_goes_away_change_nothing_in_the_end() {
    let mut world = World::start();
    let (root, mut target) = world.join();
    let mut daemon = world.daemon(root.path());
    world.runs(&target);
    let paths: Vec<String> = (0..200).map(|nth| format!("/etc/chrony.d/{nth}.conf")).collect();
    for round in 0..6 {
        let text = format!("pool {round}.example.org\n");
        if round == 3 {
            world.cut_the_server();
        }
        world.apply_all("50-many", &paths, &text);
        target = world.target_after(&target);
        // It has begun, or is done already, and is killed wherever it is.
        world.until(NODES, "w0", |node| {
            let is_begun = annotation(node, "state") != "Done" || annotation(node, "currentConfig") == target;
            annotation(node, "desiredConfig") == target && is_begun
        });
        daemon.0.kill().unwrap();
        assert_eq!(daemon.0.wait().unwrap().code(), None);
        daemon = world.daemon(root.path());
        world.runs(&target);
        for path in &paths {
            let found = std::fs::read_to_string(root.path().join(path.trim_start_matches('/'))).unwrap();
            assert_eq!(found, text, "{path} in round {round}");
        }
        assert!(!root.path().join("etc/machine-config-daemon/journal").exists(), "round {round}");
    }
    assert!(!root.path().join("var/lib/seaworthy/boots").exists(), "nothing of it needs a boot");
}
