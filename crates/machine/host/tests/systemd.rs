//! Units on a real systemd: the host is called, and the result is checked from outside.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use seaworthy_host::linux::ProgramRunner;
use seaworthy_host::{Attributes, Host as _, HostError, LinuxHost, Output, UnitState};
use seaworthy_trial::SystemdMachine;

const UNITS: &str = "/etc/systemd/system";

/// Set for the child in the machine; in any other run it has nothing to do.
const INSIDE: &str = "SEAWORTHY_IN_MACHINE";

/// Runs one of the ignored tests below in the machine.
fn inside(machine: &SystemdMachine, test: &str) {
    let mut command = machine.command("env");
    command.arg(format!("{INSIDE}=1")).args([SystemdMachine::PROGRAM, test, "--exact", "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// Programs that must not be run, since there is a bus.
struct Unwanted;

impl ProgramRunner for Unwanted {
    fn feed(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, HostError> {
        panic!("{program} {arguments:?} is run, though there is a bus");
    }
}

fn host_with_bus() -> Option<LinuxHost> {
    std::env::var_os(INSIDE)?;
    Some(LinuxHost::with_bus(Path::new("/"), Box::new(Unwanted), "unix:path=/run/dbus/system_bus_socket").unwrap())
}

fn host() -> Option<LinuxHost> {
    std::env::var_os(INSIDE)?;
    Some(LinuxHost::open().unwrap())
}

fn systemctl(arguments: &[&str]) -> String {
    let output = Command::new("systemctl").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn unit(host: &LinuxHost, name: &str, text: &str) {
    host.write(&format!("{UNITS}/{name}"), text.as_bytes(), Attributes::of_root(0o644)).unwrap();
}

/// What systemd says of a unit.
fn shown(unit: &str, property: &str) -> String {
    systemctl(&["show", "--value", "--property", property, unit])
}

const TICK: &str = "[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/sh -c 'echo again >> /run/reloads'\n[Install]\nWantedBy=multi-user.target\n";

#[test]
#[ignore = "runs in the machine"]
fn child_changes_units() {
    let Some(host) = host_with_bus() else { return };
    assert_eq!(host.unit_state("tick.service").unwrap(), UnitState::NotFound);
    unit(&host, "tick.service", TICK);
    host.daemon_reload().unwrap();
    assert_eq!(host.unit_state("tick.service").unwrap(), UnitState::Disabled);
    assert_eq!(shown("tick.service", "ActiveState"), "inactive");

    host.enable(&["tick.service"]).unwrap();
    assert_eq!(host.unit_state("tick.service").unwrap(), UnitState::Enabled);
    assert!(fs::symlink_metadata("/etc/systemd/system/multi-user.target.wants/tick.service").is_ok());
    assert_eq!(shown("tick.service", "ActiveState"), "inactive", "to be started at boot is not to be started");

    host.restart("tick.service").unwrap();
    assert_eq!(shown("tick.service", "ActiveState"), "active");
    assert!(!host.has_failed("tick.service").unwrap());
    let first = shown("tick.service", "MainPID");
    host.restart("tick.service").unwrap();
    let second = shown("tick.service", "MainPID");
    assert_ne!(first, second);
    host.reload("tick.service").unwrap();
    assert_eq!(fs::read_to_string("/run/reloads").unwrap(), "again\n");
    assert_eq!(shown("tick.service", "MainPID"), second, "a reload is no restart");

    // A drop-in counts once systemd has read it.
    let drop_in = "[Service]\nEnvironment=TICK=2\n";
    host.write(&format!("{UNITS}/tick.service.d/10-env.conf"), drop_in.as_bytes(), Attributes::of_root(0o644)).unwrap();
    host.daemon_reload().unwrap();
    assert_eq!(shown("tick.service", "Environment"), "TICK=2");

    // Masked as Ignition does it, with a link to nowhere.
    unit(&host, "mute.service", TICK);
    host.symlink(&format!("{UNITS}/mute.service"), "/dev/null").unwrap();
    host.daemon_reload().unwrap();
    assert_eq!(host.unit_state("mute.service").unwrap(), UnitState::Masked);
    refused(host.restart("mute.service"), "mute.service");

    // What the vendor wants.
    let wanted = b"disable tick.service\nenable tock.service\n";
    host.write("/etc/systemd/system-preset/20-test.preset", wanted, Attributes::of_root(0o644)).unwrap();
    unit(&host, "tock.service", TICK);
    host.daemon_reload().unwrap();
    host.preset(&["tick.service", "tock.service"]).unwrap();
    assert_eq!(host.unit_state("tick.service").unwrap(), UnitState::Disabled);
    assert_eq!(host.unit_state("tock.service").unwrap(), UnitState::Enabled);
    host.disable(&["tock.service"]).unwrap();
    assert_eq!(host.unit_state("tock.service").unwrap(), UnitState::Disabled);
}

fn refused(result: Result<(), HostError>, unit: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(unit), "{error}");
}

#[test]
#[ignore = "runs in the machine"]
fn child_meets_failures() {
    let Some(host) = host_with_bus() else { return };
    refused(host.restart("nowhere.service"), "nowhere.service");
    refused(host.reload("nowhere.service"), "nowhere.service");

    unit(&host, "sick.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n");
    // Deaf to the order to stop: systemd ends it when its time is over.
    let deaf = "[Service]\nExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'\nTimeoutStopSec=1\n";
    unit(&host, "deaf.service", deaf);
    unit(&host, "brief.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n");
    unit(&host, "sealed.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    host.daemon_reload().unwrap();
    refused(host.restart("sick.service"), "sick.service");
    assert!(host.has_failed("sick.service").unwrap());
    assert!(!host.has_failed("nowhere.service").unwrap());
    // It ends at once, and well.
    host.restart("brief.service").unwrap();
    assert!(!host.has_failed("brief.service").unwrap());
    host.restart("deaf.service").unwrap();
    let first = shown("deaf.service", "MainPID");
    host.restart("deaf.service").unwrap();
    assert_ne!(first, shown("deaf.service", "MainPID"));

    // It runs, and knows no way to read its configuration again.
    host.restart("sealed.service").unwrap();
    refused(host.reload("sealed.service"), "sealed.service");
    assert!(!host.has_failed("sealed.service").unwrap());
}

#[test]
#[ignore = "runs in the machine"]
fn child_loses_the_bus() {
    let Some(host) = host() else { return };
    unit(&host, "tick.service", TICK);
    host.daemon_reload().unwrap();
    host.restart("tick.service").unwrap();
    systemctl(&["stop", "dbus.socket", "dbus.service"]);

    assert!(!host.has_failed("tick.service").unwrap());
    host.enable(&["tick.service"]).unwrap();
    assert_eq!(host.unit_state("tick.service").unwrap(), UnitState::Enabled);
    let before = shown("tick.service", "MainPID");
    host.restart("tick.service").unwrap();
    assert_ne!(before, shown("tick.service", "MainPID"));

    systemctl(&["start", "dbus.socket"]);
    host.reload("tick.service").unwrap();
    host.disable(&["tick.service"]).unwrap();
    assert_eq!(host.unit_state("tick.service").unwrap(), UnitState::Disabled);
}

#[test]
#[ignore = "runs in the machine"]
fn child_reboots() {
    let Some(host) = host() else { return };
    unit(&host, "tick.service", TICK);
    unit(&host, "tock.service", TICK);
    host.daemon_reload().unwrap();
    host.enable(&["tick.service"]).unwrap();
    host.restart("tock.service").unwrap();
    host.sync().unwrap();
    host.reboot("a test of reboots").unwrap();
}

fn machine() -> Option<SystemdMachine> {
    let mut machine = SystemdMachine::new(&std::env::current_exe().unwrap())?;
    machine.boot();
    Some(machine)
}

#[test]
fn a_real_systemd_does_what_it_is_asked() {
    if let Some(machine) = machine() {
        inside(&machine, "child_changes_units");
    }
}

#[test]
fn a_real_systemd_refuses_by_name() {
    if let Some(machine) = machine() {
        inside(&machine, "child_meets_failures");
    }
}

#[test]
fn without_a_bus_a_real_systemd_is_asked_through_systemctl() {
    if let Some(machine) = machine() {
        inside(&machine, "child_loses_the_bus");
    }
}

#[test]
fn a_reboot_ends_everything_and_starts_what_is_enabled() {
    let Some(mut machine) = machine() else { return };
    let id = |machine: &SystemdMachine| machine.run("cat", &["/proc/sys/kernel/random/boot_id"]).stdout;
    let before = id(&machine);
    let inside = format!("--setenv={INSIDE}=1");
    machine.start(&[&inside, SystemdMachine::PROGRAM, "child_reboots", "--exact", "--ignored"]);
    machine.wait_until_off();
    machine.boot();
    assert_ne!(id(&machine), before);
    let is_active = |unit: &str| machine.run("systemctl", &["is-active", unit]).status.success();
    assert!(is_active("tick.service"));
    assert!(!is_active("tock.service"));
}
