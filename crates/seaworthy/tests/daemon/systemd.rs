//! The daemon as a service of a machine with a real systemd: service restarts, reboots and a power cut.

use seaworthy_trial::SystemdMachine;
use serde_json::{Value, json};

use crate::daemon::world::{NODES, World, annotation};

const DAEMON: &str = "\
[Unit]
After=dbus.socket

[Service]
ExecStart=/opt/program daemon --node-name w0 --kubeconfig /etc/seaworthy/kubeconfig
Restart=always

[Install]
WantedBy=multi-user.target
";

fn boot_id(machine: &SystemdMachine) -> Vec<u8> {
    machine.run("cat", &["/proc/sys/kernel/random/boot_id"]).stdout
}

fn shown(machine: &SystemdMachine, unit: &str, property: &str) -> String {
    let output = machine.run("systemctl", &["show", "--value", "--property", property, unit]);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn with_unit(text: &str) -> Value {
    let unit = json!({"name": "tick.service", "enabled": true, "contents": text});
    json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": [unit]}})
}

#[test]
fn a_machine_with_systemd_follows_its_orders_through_restarts_boots_and_a_power_cut() {
    let Some(mut machine) = SystemdMachine::new(env!("CARGO_BIN_EXE_seaworthy").as_ref()) else { return };
    let world = World::start();
    let first = world.join_at(&machine.path("/"));
    let wants = machine.path("/etc/systemd/system/multi-user.target.wants");
    std::fs::create_dir_all(&wants).unwrap();
    std::fs::write(machine.path("/etc/systemd/system/seaworthy.service"), DAEMON).unwrap();
    std::os::unix::fs::symlink("/etc/systemd/system/seaworthy.service", wants.join("seaworthy.service")).unwrap();
    std::fs::create_dir_all(machine.path("/etc/seaworthy")).unwrap();
    std::fs::copy(world.credentials(), machine.path("/etc/seaworthy/kubeconfig")).unwrap();
    machine.boot();
    world.runs(&first);
    assert_eq!(shown(&machine, "seaworthy-before-kubelet.service", "UnitFileState"), "enabled");

    // A unit of the user's: started, and restarted when it changes, while the machine goes on.
    let boot = boot_id(&machine);
    world.apply_config(
        "50-tick",
        &with_unit("[Service]\nExecStart=/bin/sleep 1001\n[Install]\nWantedBy=multi-user.target\n"),
    );
    let second = world.target_after(&first);
    world.runs(&second);
    let process = shown(&machine, "tick.service", "MainPID");
    assert_eq!(shown(&machine, "tick.service", "ActiveState"), "active");
    world.apply_config(
        "50-tick",
        &with_unit("[Service]\nExecStart=/bin/sleep 1002\n[Install]\nWantedBy=multi-user.target\n"),
    );
    let third = world.target_after(&second);
    world.runs(&third);
    assert_ne!(shown(&machine, "tick.service", "MainPID"), process);
    assert!(shown(&machine, "tick.service", "ExecStart").contains("1002"));
    assert_eq!(boot_id(&machine), boot);

    // A file without a known action: systemd boots the machine, and the daemon goes on where it was.
    world.apply("60-motd", "/etc/motd", "aye\n");
    let fourth = world.target_after(&third);
    machine.wait_until_off();
    machine.boot();
    world.runs(&fourth);
    assert_ne!(boot_id(&machine), boot);
    assert_eq!(std::fs::read_to_string(machine.path("/etc/motd")).unwrap(), "aye\n");
    assert_eq!(shown(&machine, "tick.service", "ActiveState"), "active");

    // The power is cut in the middle of five hundred files, or just before or after them.
    let paths: Vec<String> = (0..500).map(|nth| format!("/etc/nmstate/openshift/{nth}")).collect();
    let mut target = fourth;
    for round in 0..3 {
        let text = format!("round {round}\n");
        world.apply_all("70-many", &paths, &text);
        let next = world.target_after(&target);
        world.until(NODES, "w0", |node| {
            annotation(node, "desiredConfig") == next && annotation(node, "state") != "Done"
        });
        machine.cut();
        machine.boot();
        world.runs(&next);
        for path in &paths {
            assert_eq!(std::fs::read_to_string(machine.path(path)).unwrap(), text, "{path}");
        }
        assert!(!machine.path("/etc/machine-config-daemon/journal").exists());
        target = next;
    }
}
