//! Changes without a reboot, and the reboot if they are not in effect.

use super::*;

fn sysctl(value: u32) -> Config {
    config(&format!("v{value}"), &files(vec![file("/etc/sysctl.d/90.conf", &format!("vm.swappiness = {value}\n"))]))
}

#[test]
fn a_setting_of_the_kernel_is_in_force_without_a_reboot() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    let mut node = Node::new(host, &sysctl(10));
    assert_eq!(node.obey(&sysctl(20)).state, State::Done);
    assert_eq!((node.boots, node.drains.len()), (0, 0));
    assert_eq!(node.host.text("/proc/sys/vm/swappiness").unwrap(), "20\n");
}

#[test]
fn a_setting_that_is_not_in_force_afterwards_is_taken_back_and_then_booted_into() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    let mut node = Node::new(host, &sysctl(10));
    let mut reported = Vec::new();
    node.order.desired =
        Some(config("odd", &files(vec![file("/etc/sysctl.d/90.conf", "vm.swappiness = 20\nvm.unknown = 1\n")])));
    let report = node.agent.sync(&node.order, &mut |state| {
        reported.push(state);
        true
    });
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("vm/unknown"), "{}", report.reason);
    assert_eq!(node.host.text("/proc/sys/vm/swappiness").unwrap(), "10\n");
    node.note(&report);
    let report = node.settle();
    assert_eq!((report.state, node.boots), (State::Done, 1));
    assert_eq!(node.drains, ["drain-odd", "uncordon-odd"]);
}

#[test]
fn settings_that_are_linked_there_by_the_distribution_block_nothing() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    host.put("/etc/sysctl.conf", b"# nothing\n", 0o644);
    host.symlink("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf").unwrap();
    // Of the same name in two folders the one in /etc counts, and a folder of the vendor's is read as well.
    host.put("/usr/lib/sysctl.d/90.conf", b"vm.swappiness = 1\n", 0o644);
    host.symlink("/usr/lib/sysctl.d/99-lost.conf", "nowhere").unwrap();
    let mut node = Node::new(host, &sysctl(10));
    let report = node.obey(&sysctl(20));
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}", report.reason);
}

#[test]
fn only_the_file_that_changes_is_applied_and_only_where_it_has_the_last_word() {
    let host = FakeHost::new("m");
    for (key, value) in [("vm/swappiness", "60"), ("net/ipv4/ip_forward", "0"), ("kernel/panic", "0")] {
        host.add_setting(&format!("/proc/sys/{key}"), value);
    }
    host.put("/usr/lib/sysctl.d/50-vendor.conf", b"net.ipv4.ip_forward = 0\nvm.swappiness = 30\n", 0o644);
    host.put("/usr/lib/sysctl.d/95-last.conf", b"kernel.panic = 10\n", 0o644);
    let of = |swappiness: u32| {
        let text = format!("vm.swappiness = {swappiness}\nkernel.panic = {swappiness}\n");
        config(&format!("v{swappiness}"), &files(vec![file("/etc/sysctl.d/90.conf", &text)]))
    };
    let mut node = Node::new(host, &of(1));
    // The network has its own idea since the machine has booted.
    node.host.put("/proc/sys/net/ipv4/ip_forward", b"1\n", 0o644);
    let report = node.obey(&of(2));
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}", report.reason);
    let running = |key: &str| node.host.text(&format!("/proc/sys/{key}")).unwrap();
    assert_eq!(running("vm/swappiness"), "2\n");
    assert_eq!(running("net/ipv4/ip_forward"), "1\n", "another component's");
    assert_eq!(running("kernel/panic"), "10\n", "a later file has the last word");
    assert!(!node.host.calls().iter().any(|call| call.starts_with("restart")), "{:#?}", node.host.calls());
}

#[test]
fn a_setting_that_a_later_file_has_is_not_judged_whatever_runs() {
    let host = FakeHost::new("m");
    for (key, value) in [("vm/swappiness", "60"), ("net/ipv4/ip_forward", "0")] {
        host.add_setting(&format!("/proc/sys/{key}"), value);
    }
    host.put("/etc/sysctl.d/99-site.conf", b"net.ipv4.ip_forward = 0\n", 0o644);
    let of = |swappiness: u32| {
        let text = format!("net.ipv4.ip_forward = 1\nvm.swappiness = {swappiness}\n");
        config(&format!("v{swappiness}"), &files(vec![file("/etc/sysctl.d/50-a.conf", &text)]))
    };
    let mut node = Node::new(host, &of(1));
    // Neither of the files: the network has its own idea since the machine has booted.
    node.host.put("/proc/sys/net/ipv4/ip_forward", b"2\n", 0o644);
    let report = node.obey(&of(2));
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}", report.reason);
    let running = |key: &str| node.host.text(&format!("/proc/sys/{key}")).unwrap();
    assert_eq!((running("vm/swappiness").as_str(), running("net/ipv4/ip_forward").as_str()), ("2\n", "2\n"));
}

#[test]
fn settings_that_are_taken_back_run_as_they_ran_before() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    host.add_setting("/proc/sys/kernel/panic", "0");
    let mut node = Node::new(host, &sysctl(10));
    // One more setting, and one that is not to be had: it is not in force afterwards.
    let text = "vm.swappiness = 20\nkernel.panic = 5\nvm.unknown = 1\n";
    node.order.desired = Some(config("odd", &files(vec![file("/etc/sysctl.d/90.conf", text)])));
    let report = node.step();
    assert_eq!(report.state, State::Degraded, "{}", report.reason);
    let running = |key: &str| node.host.text(&format!("/proc/sys/{key}")).unwrap();
    assert_eq!((running("vm/swappiness").as_str(), running("kernel/panic").as_str()), ("10\n", "0\n"));
}

#[test]
fn what_only_our_knowledge_asks_for_is_done_by_a_reboot_where_it_fails() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    let mut node = Node::new(host, &sysctl(10));
    node.host.fail("settings /etc/sysctl.d/90.conf", "Operation not permitted");
    let report = node.obey(&sysctl(20));
    assert_eq!((report.state, node.boots), (State::Degraded, 0), "{}", report.reason);
    let report = node.settle();
    assert_eq!((report.state, node.boots), (State::Done, 1), "{}", report.reason);
    assert_eq!(node.host.text("/etc/sysctl.d/90.conf").unwrap(), "vm.swappiness = 20\n");
}

#[test]
fn configuration_that_needs_a_reboot_by_the_record_of_an_earlier_version_gets_one() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    let mut node = Node::new(host, &sysctl(10));
    let record = br#"{"config":"v20","why":"vm/swappiness should be 20 and is 10","is_final":false}"#;
    node.host.put(paths::LEGACY_REBOOT_REQUIRED, record, 0o644);
    let report = node.obey(&sysctl(20));
    assert_eq!((report.state, node.boots), (State::Done, 1), "{}", report.reason);
    // The record is about no other configuration, and goes with the next order.
    let report = node.obey(&sysctl(30));
    assert_eq!((report.state, node.boots), (State::Done, 1), "{}", report.reason);
    assert!(!node.host.exists(paths::LEGACY_REBOOT_REQUIRED).unwrap());
    assert!(!node.host.exists(paths::REBOOT_REQUIRED).unwrap());
}

#[test]
fn a_service_that_fails_after_its_restart_is_taken_back_by_name() {
    let of = |nice: u32| {
        let unit = format!("[Service]\nNice={nice}\n");
        spec(with(json!({"systemd": {"units": [{"name": "a.service", "enabled": true, "contents": unit}]}})))
    };
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of(1)));
    node.host.add_service("a.service", &["/etc/systemd/system/a.service"]);
    node.host.fail_service("a.service");
    node.order.desired = Some(config("new", &of(2)));
    let report = node.agent.sync(&node.order, &mut |_| true);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("a.service has failed after restart"), "{}", report.reason);
}

#[test]
fn a_unit_is_restarted_and_a_module_loaded_without_a_reboot() {
    let of = |nice: u32, module: &str| {
        let unit = format!("[Service]\nNice={nice}\n");
        spec(with(json!({
            "storage": {"files": [file("/etc/modules-load.d/a.conf", module)]},
            "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": unit}]},
        })))
    };
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of(1, "dummy\n")));
    let report = node.obey(&config("new", &of(2, "dummy\nbr_netfilter\n")));
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}", report.reason);
    let calls = node.host.calls();
    let at = |call: &str| calls.iter().position(|it| it == call).unwrap_or_else(|| panic!("{call}: {calls:#?}"));
    assert!(at("daemon-reload ") < at("restart a.service"));
    assert_eq!(node.host.loaded("a.service", "/etc/systemd/system/a.service").unwrap(), "[Service]\nNice=2\n");
    assert!(node.host.text("/proc/modules").unwrap().contains("br_netfilter"));
    // Taken away again, it needs a boot.
    node.obey(&config("less", &of(2, "dummy\n")));
    assert_eq!(node.boots, 1);
}
