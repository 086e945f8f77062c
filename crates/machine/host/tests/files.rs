//! The same file calls on a folder of this machine and on a machine in memory.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use seaworthy_host::linux::{ProgramRunner, SystemPrograms};
use seaworthy_host::{
    Attributes, BootChange, Entry, EntryKind, FakeHost, Host, HostError, LinuxHost, Output, UnitState,
};

struct Real {
    _folder: tempfile::TempDir,
    host: LinuxHost,
}

fn real() -> Real {
    let folder = tempfile::tempdir().unwrap();
    let host = LinuxHost::with_programs(folder.path(), Box::new(Scripted::default())).unwrap();
    Real { _folder: folder, host }
}

/// Answers as `systemctl` would, and remembers.
#[derive(Default)]
struct Scripted {
    lines: Arc<std::sync::Mutex<Vec<String>>>,
}

impl ProgramRunner for Scripted {
    fn feed(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, HostError> {
        let line = format!("{program} {}", arguments.join(" "));
        let is_broken = line.contains("broken") || input.starts_with(b"broken");
        let code = if is_broken { 1 } else { 0 };
        self.lines.lock().unwrap().push(line);
        let stdout = if arguments.first() == Some(&"is-enabled") { "enabled\n" } else { "" };
        Ok(Output { code: Some(code), stdout: stdout.to_owned(), stderr: "it broke".repeat(code as usize) })
    }
}

/// Only root may change owners, so everything belongs to the user of the test.
fn own(mode: u32) -> Attributes {
    let of = tempfile::tempdir().unwrap();
    let host = LinuxHost::with_programs(of.path(), Box::new(Scripted::default())).unwrap();
    std::fs::write(of.path().join("x"), "").unwrap();
    let entry = host.entry("/x").unwrap().unwrap();
    Attributes { mode, uid: entry.uid, gid: entry.gid }
}

fn on_both(check: impl Fn(&dyn Host)) {
    check(&real().host);
    check(&FakeHost::new("m"));
}

#[test]
fn a_file_is_written_with_its_folders_and_read_back() {
    on_both(|host| {
        assert_eq!(host.read("/etc/a/b").unwrap(), None);
        host.write("/etc/a/b", b"one", own(0o600)).unwrap();
        host.write("/etc/a/b", b"two", own(0o4755)).unwrap();
        assert_eq!(host.read("/etc/a/b").unwrap().unwrap(), b"two");
        let entry = host.entry("/etc/a/b").unwrap().unwrap();
        assert_eq!((entry.kind, entry.mode), (EntryKind::File, 0o4755));
        assert_eq!(host.entry("/etc/a").unwrap().unwrap().kind, EntryKind::Directory);
        assert_eq!(host.names("/etc/a").unwrap(), ["b"]);
        assert_eq!(host.names("/nowhere").unwrap(), [""; 0]);
    });
}

#[test]
fn the_length_and_the_content_of_a_file_are_compared_without_handing_it_out() {
    on_both(|host| {
        let long: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
        for bytes in [&b""[..], b"x", &long] {
            host.write("/etc/a", bytes, own(0o644)).unwrap();
            assert_eq!(host.entry("/etc/a").unwrap().unwrap().size, bytes.len() as u64);
            assert!(host.has_content("/etc/a", bytes).unwrap());
            assert!(!host.has_content("/etc/a", &[bytes, b"y"].concat()).unwrap());
            let mut other = bytes.to_vec();
            if let Some(last) = other.last_mut() {
                *last ^= 1;
                assert!(!host.has_content("/etc/a", &other).unwrap());
            }
        }
        assert!(!host.has_content("/etc/none", b"").unwrap());
        host.keep("/etc/a", "/etc/second").unwrap();
        host.copy("/etc/a", "/etc/copy").unwrap();
        host.write("/etc/longer", &[&long[..], b"y"].concat(), own(0o644)).unwrap();
        let mut other = long.clone();
        other[150_000] ^= 1;
        host.write("/etc/other", &other, own(0o644)).unwrap();
        let same = ["a", "second", "copy", "longer", "other", "none"]
            .map(|name| host.has_same_content("/etc/a", &format!("/etc/{name}")).unwrap());
        assert_eq!(same, [true, true, true, false, false, false]);
        host.symlink("/etc/link", "/etc/a").unwrap();
        assert!(host.has_content("/etc/link", &long).is_err());
        let sizes = ["/etc", "/etc/link"].map(|path| host.entry(path).unwrap().unwrap().size);
        assert_eq!(sizes, [0, 0]);
    });
}

#[test]
fn a_copy_has_content_and_attributes_and_shares_nothing() {
    on_both(|host| {
        host.write("/etc/a", b"first", own(0o640)).unwrap();
        host.copy("/etc/a", "/var/kept/1").unwrap();
        assert_eq!(host.read("/var/kept/1").unwrap().unwrap(), b"first");
        host.set_attributes("/etc/a", own(0o600)).unwrap();
        assert_eq!(host.entry("/var/kept/1").unwrap().unwrap().mode, 0o640);
        host.symlink("/etc/l", "/nowhere").unwrap();
        host.copy("/etc/l", "/var/kept/1").unwrap();
        assert!(host.is_link_to("/var/kept/1", "/nowhere").unwrap());
        assert!(host.copy("/etc/none", "/var/kept/2").is_err());
        assert_eq!(host.names("/var/kept").unwrap(), ["1"], "nothing half made is left");
    });
}

#[test]
fn a_link_at_the_end_is_replaced_and_never_written_through() {
    on_both(|host| {
        host.write("/etc/victim", b"old", own(0o644)).unwrap();
        host.symlink("/etc/link", "/etc/victim").unwrap();
        assert!(host.is_link_to("/etc/link", "/etc/victim").unwrap());
        assert!(host.read("/etc/link").is_err());
        host.write("/etc/link", b"new", own(0o644)).unwrap();
        assert_eq!(host.read("/etc/victim").unwrap().unwrap(), b"old");
        assert_eq!(host.entry("/etc/link").unwrap().unwrap().kind, EntryKind::File);
    });
}

#[test]
fn links_above_a_file_are_followed_below_the_root_only() {
    on_both(|host| {
        host.write("/var/home/core/x", b"", own(0o644)).unwrap();
        host.symlink("/home", "/var/home").unwrap();
        host.write("/home/core/y", b"y", own(0o644)).unwrap();
        assert_eq!(host.read("/var/home/core/y").unwrap().unwrap(), b"y");
        // One that points out of the root ends below it.
        host.symlink("/out", "../../../../../../var/home").unwrap();
        host.write("/out/z", b"z", own(0o644)).unwrap();
        assert_eq!(host.read("/var/home/z").unwrap().unwrap(), b"z");
    });
}

#[rstest]
#[case("/etc/../x")]
#[case("etc/x")]
#[case("/etc//x")]
fn a_path_that_is_not_plain_is_refused(#[case] path: &str) {
    on_both(|host| {
        assert!(matches!(host.write(path, b"", own(0o644)), Err(HostError::InvalidPath { .. })));
        assert!(matches!(host.remove(path), Err(HostError::InvalidPath { .. })));
        assert!(matches!(host.read(path), Err(HostError::InvalidPath { .. })));
    });
}

#[test]
fn what_is_in_the_way_is_named() {
    on_both(|host| {
        host.write("/etc/file", b"", own(0o644)).unwrap();
        let error = host.write("/etc/file/below", b"", own(0o644)).unwrap_err().to_string();
        assert!(error.contains("/etc/file/below") && error.contains("Not a directory"), "{error}");
        host.write("/etc/d/x", b"", own(0o644)).unwrap();
        let error = host.write("/etc/d", b"", own(0o644)).unwrap_err().to_string();
        assert!(error.contains("cannot write /etc/d: ") && error.contains("Is a directory"), "{error}");
        assert!(host.remove("/etc/d").is_err());
    });
}

#[test]
fn what_is_kept_has_its_content_and_attributes_and_outlives_a_change() {
    on_both(|host| {
        host.write("/etc/a", b"first", own(0o640)).unwrap();
        host.keep("/etc/a", "/var/kept/1").unwrap();
        // Again: it is the same file already.
        host.keep("/etc/a", "/var/kept/1").unwrap();
        host.write("/etc/a", b"second", own(0o644)).unwrap();
        assert_eq!(host.read("/var/kept/1").unwrap().unwrap(), b"first");
        host.keep("/var/kept/1", "/etc/a").unwrap();
        assert_eq!(host.read("/etc/a").unwrap().unwrap(), b"first");
        assert_eq!(host.entry("/etc/a").unwrap().unwrap().mode, 0o640);
        assert_eq!(host.names("/etc").unwrap(), ["a"], "nothing half made is left");
        host.symlink("/etc/l", "/nowhere").unwrap();
        host.keep("/etc/l", "/var/kept/2").unwrap();
        assert!(host.is_link_to("/var/kept/2", "/nowhere").unwrap());
    });
}

#[test]
fn files_and_folders_are_removed_and_moved() {
    on_both(|host| {
        host.remove("/etc/none").unwrap();
        host.write("/etc/a", b"a", own(0o644)).unwrap();
        host.rename("/etc/a", "/etc/b.bak").unwrap();
        assert!(!host.exists("/etc/a").unwrap());
        assert_eq!(host.read("/etc/b.bak").unwrap().unwrap(), b"a");
        assert!(host.rename("/etc/a", "/etc/c").is_err());
        host.write("/var/j/x/y", b"", own(0o644)).unwrap();
        host.remove_directory("/var/j").unwrap();
        assert!(!host.exists("/var/j").unwrap());
        host.remove_directory("/var/j").unwrap();
    });
}

#[test]
fn a_directory_gets_its_attributes() {
    on_both(|host| {
        host.make_directory("/home/core/.ssh", own(0o700)).unwrap();
        assert!(matches!(
            host.entry("/home/core/.ssh").unwrap().unwrap(),
            Entry { kind: EntryKind::Directory, mode: 0o700, .. }
        ));
        host.write("/etc/a", b"", own(0o644)).unwrap();
        host.set_attributes("/etc/a", own(0o600)).unwrap();
        assert_eq!(host.entry("/etc/a").unwrap().unwrap().mode, 0o600);
    });
}

#[test]
fn accounts_come_from_the_machines_files() {
    let real = real();
    let host = &real.host;
    host.write("/etc/passwd", b"root:x:0:0::/root:/bin/sh\ncore:x:1000:1001::/home/core:/bin/sh\n", own(0o644))
        .unwrap();
    host.write("/etc/shadow", b"core:$6$hash:1::::::\n", own(0o600)).unwrap();
    host.write("/usr/lib/group", b"wheel:x:10:core\n", own(0o644)).unwrap();
    let core = host.user("core").unwrap().unwrap();
    assert_eq!((core.uid, core.gid, core.home.as_str(), core.password.as_str()), (1000, 1001, "/home/core", "$6$hash"));
    assert!(!format!("{core:?}").contains("hash"));
    assert_eq!(host.user("cor").unwrap(), None);
    assert_eq!(host.group("wheel").unwrap(), Some(10));
}

#[test]
fn programs_that_fail_are_named_with_their_output_and_secrets_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let programs = Scripted::default();
    let lines = Arc::clone(&programs.lines);
    let host = LinuxHost::with_programs(folder.path(), Box::new(programs)).unwrap();
    host.reload("crio.service").unwrap();
    host.enable(&["a.service", "b.service"]).unwrap();
    host.enable(&[]).unwrap();
    assert_eq!(host.unit_state("a.service").unwrap(), UnitState::Enabled);
    let error = host.restart("broken.service").unwrap_err().to_string();
    assert_eq!(error, "`systemctl restart -- broken.service` failed (exit code 1): it broke");
    let error = host.set_password("broken", "$6$secret").unwrap_err().to_string();
    assert!(!error.contains("secret") && error.contains("broken"), "{error}");
    assert!(!lines.lock().unwrap().iter().any(|line| line.contains("secret")), "a hash is in the list of processes");
    assert_eq!(
        lines.lock().unwrap()[..2],
        ["systemctl reload -- crio.service", "systemctl enable -- a.service b.service"]
    );
}

#[test]
fn a_machine_without_means_refuses_a_change_of_its_boot_before_it_touches_anything() {
    let real = real();
    let change = BootChange { image: Some("i".to_owned()), ..BootChange::default() };
    let error = real.host.stage(&change).unwrap_err().to_string();
    assert_eq!(
        error,
        "this machine cannot change its operating system image (osImageURL): its boot is managed by nothing; \
         rpm-ostree or bootc is needed"
    );
    let change = BootChange { append: vec!["a=1".to_owned()], ..BootChange::default() };
    assert!(real.host.stage(&change).unwrap_err().to_string().contains("grubby or update-grub"));
}

#[test]
fn kernel_arguments_through_grub_are_written_whole_so_twice_is_once() {
    let real = real();
    let host = &real.host;
    host.write("/usr/sbin/update-grub", b"", own(0o755)).unwrap();
    let change = |delete: &[&str], append: &[&str]| BootChange {
        delete: delete.iter().map(|it| (*it).to_owned()).collect(),
        append: append.iter().map(|it| (*it).to_owned()).collect(),
        ..BootChange::default()
    };
    let part = || host.read("/etc/default/grub.d/90-seaworthy.cfg").unwrap().map(|it| String::from_utf8(it).unwrap());
    host.stage(&change(&[], &["a=1", "b"])).unwrap();
    host.stage(&change(&[], &["a=1", "b"])).unwrap();
    assert_eq!(part().unwrap(), "# arguments: a=1 b\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX a=1 b\"\n");
    host.unstage(&change(&[], &["a=1", "b"])).unwrap();
    assert_eq!(part(), None);
    let error = host.stage(&change(&[], &["x=$(reboot)"])).unwrap_err().to_string();
    assert!(error.contains("x=$(reboot)"), "{error}");
}

#[test]
fn settings_of_the_kernel_are_applied_by_themselves_with_what_the_machine_has() {
    let folder = tempfile::tempdir().unwrap();
    let programs = Scripted::default();
    let lines = Arc::clone(&programs.lines);
    let host = LinuxHost::with_programs(folder.path(), Box::new(programs)).unwrap();
    let apply = || host.apply_settings("/etc/sysctl.d/a.conf", "vm.swappiness = 1\n");
    assert!(apply().unwrap_err().to_string().contains("neither systemd-sysctl nor sysctl"));
    host.write("/usr/sbin/sysctl", b"", own(0o755)).unwrap();
    apply().unwrap();
    host.write("/usr/lib/systemd/systemd-sysctl", b"", own(0o755)).unwrap();
    apply().unwrap();
    let file = "/run/seaworthy/sysctl.conf";
    let wanted = [format!("sysctl -p {file}"), format!("/usr/lib/systemd/systemd-sysctl {file}")];
    assert_eq!(lines.lock().unwrap()[..], wanted);
    assert!(!host.exists(file).unwrap(), "nothing is left");
}

#[test]
fn a_program_that_never_ends_is_stopped() {
    let machine = SystemPrograms::default().with_timeout(Duration::from_millis(50));
    let error = machine.run("sleep", &["600"]).unwrap_err();
    assert!(matches!(&error, HostError::Timeout { line, .. } if line == "sleep 600"), "{error}");
    let machine = SystemPrograms::default();
    assert_eq!(machine.run("echo", &["a b"]).unwrap().stdout, "a b\n");
    assert!(machine.run("no-such-program-here", &[]).unwrap_err().to_string().contains("no-such-program-here"));
}

#[test]
fn changes_of_watched_files_are_reported_by_any_writer_and_others_are_not() {
    let real = real();
    let host = &real.host;
    host.write("/etc/a/listed", b"1", own(0o644)).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let paths = ["/etc/a/listed", "/etc/later/below/x"].map(str::to_owned);
    let watch = host.watch(&paths, Arc::new(move || sender.send(()).unwrap_or_default())).unwrap();
    let root = real._folder.path();
    let timeout = Duration::from_secs(30);
    std::fs::write(root.join("etc/a/other"), "x").unwrap();
    std::fs::write(root.join("etc/a/listed"), "2").unwrap();
    receiver.recv_timeout(timeout).unwrap();
    // A folder that was not there.
    std::fs::create_dir(root.join("etc/later")).unwrap();
    receiver.recv_timeout(timeout).unwrap();
    // The end of the watch ends its thread, and with it the channel.
    drop(watch);
    while receiver.recv_timeout(timeout).is_ok() {}
    assert_eq!(receiver.recv_timeout(timeout), Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}
