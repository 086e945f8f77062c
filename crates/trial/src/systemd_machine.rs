//! Systemd machine: a real systemd in namespaces of the machine that runs the tests.
//!
//! It has a disk of its own (a folder, which persists across boots), this machine's `/usr` read-only except for `/usr/local`,
//! this machine's network, and a boot ID of its own for every boot. Its systemd starts the bus and what a test adds, nothing of
//! the distribution's. When systemd reboots it, it is off until it is booted again.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

use crate::skip;

const SCRIPT: &str = include_str!("systemd_machine.sh");
/// The path on Debian and its derivatives.
const SYSTEMD: &str = "/lib/systemd/systemd";
/// The unit of the bus, which is in another package than its program.
const BUS: &str = "/lib/systemd/system/dbus.socket";
/// The limit for a machine to boot, and to shut down.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
/// Attempts to boot a machine that does not come up.
const MAX_BOOT_ATTEMPTS: u32 = 4;
/// A machine is killed after this time, even if the test that started it was killed.
const MAX_LIFETIME_SECONDS: &str = "900";

/// A machine that is killed when this is dropped.
#[derive(Debug)]
pub struct SystemdMachine {
    folder: TempDir,
    program: PathBuf,
    /// The cgroup of its processes.
    group: PathBuf,
    running: Option<Child>,
}

impl SystemdMachine {
    /// A machine that is off, with this program at [`SystemdMachine::PROGRAM`]. `None` if this machine cannot run one; the test is
    /// recorded as skipped.
    ///
    /// # Panics
    ///
    /// If there is no room for its folder.
    pub fn new(program: &Path) -> Option<SystemdMachine> {
        let reason = |text: &str| skip("systemd in namespaces", text);
        if !Path::new(SYSTEMD).exists() {
            let missing = env::var("SEAWORTHY_SYSTEMCTL_MISSING");
            reason(missing.as_deref().unwrap_or("no systemd; install Debian's package systemd"));
            return None;
        }
        if !Path::new(BUS).exists() {
            reason("systemd has no bus to start; install Debian's package dbus");
            return None;
        }
        let made = made();
        let Ok((folder, group)) = made else { panic!("{made:?}") };
        let machine = SystemdMachine { folder, program: program.to_owned(), group, running: None };
        // The same without systemd, to detect missing permissions.
        match machine.script("/usr/bin/true").output() {
            Ok(output) if output.status.success() => Some(machine),
            Ok(output) => {
                reason(&format!("not allowed here: {}", String::from_utf8_lossy(&output.stderr).trim()));
                None
            }
            Err(error) => {
                reason(&error.to_string());
                None
            }
        }
    }

    /// The path of the program under test in the machine.
    pub const PROGRAM: &str = "/opt/program";

    fn script(&self, first: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "--signal=KILL", MAX_LIFETIME_SECONDS, "sh"])
            .arg(self.folder.path().join("systemd_machine.sh"));
        command.arg(self.folder.path()).arg(&self.program).arg(first).stdin(Stdio::null());
        command
    }

    /// Boots it, and waits until all units of the boot are started.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub fn boot(&mut self) {
        self.end();
        // Of machines that boot at the same time one in some dozens hangs, for an unknown reason: it is stopped and booted again.
        for attempt in 1..=MAX_BOOT_ATTEMPTS {
            let result = self.try_boot();
            let Ok(is_up) = result else { panic!("the machine cannot be started: {result:?}") };
            if is_up {
                return;
            }
            eprintln!("the machine does not boot, attempt {attempt} of {MAX_BOOT_ATTEMPTS}:\n{}", self.diagnosis());
            self.end();
        }
        panic!("the machine does not boot within {BOOT_TIMEOUT:?}");
    }

    /// Starts it; returns whether it has booted.
    fn try_boot(&mut self) -> std::io::Result<bool> {
        // A new one each time: a machine that was stopped while it reported may have left data in the old one.
        let state_pipe = self.folder.path().join("state");
        fs::remove_file(&state_pipe)?;
        make_pipe(&state_pipe)?;
        // Both ends, so that it can be opened before the machine writes, and does not end when that closes it.
        let mut pipe = File::options().read(true).write(true).open(&state_pipe)?;
        let (up, is_up) = mpsc::channel();
        let reader = BufReader::new(pipe.try_clone()?);
        std::thread::spawn(move || up.send(reader.lines().next().is_some_and(|line| line.is_ok_and(|it| it == "up"))));
        let output = File::create(self.folder.path().join("output"))?;
        self.running = Some(self.script(SYSTEMD).stdout(output.try_clone()?).stderr(output).spawn()?);
        let is_up = is_up.recv_timeout(BOOT_TIMEOUT / MAX_BOOT_ATTEMPTS) == Ok(true);
        if !is_up {
            // Ends the reading thread.
            pipe.write_all(b"off\n")?;
        }
        Ok(is_up)
    }

    /// Information about a failed boot: its output, and systemd's pending jobs.
    fn diagnosis(&self) -> String {
        let mut text = fs::read_to_string(self.folder.path().join("output")).unwrap_or_default();
        if self.init_pid().is_some() {
            let jobs = self.run("timeout", &["10", "systemctl", "--no-pager", "list-jobs"]);
            text.push_str(&String::from_utf8_lossy(&jobs.stdout));
            text.push_str(&String::from_utf8_lossy(&jobs.stderr));
        }
        text
    }

    /// Waits until it has shut down, which is also the first part of a reboot.
    ///
    /// # Panics
    ///
    /// If it is off already, or stays on.
    pub fn wait_until_off(&mut self) {
        let first = self.init_pid();
        let Some(mut child) = self.running.take() else { panic!("the machine is off already") };
        let (off, is_off) = mpsc::channel();
        std::thread::spawn(move || off.send(child.wait().is_ok()));
        let is_off = is_off.recv_timeout(BOOT_TIMEOUT) == Ok(true);
        if !is_off {
            kill(first);
        }
        self.clear();
        assert!(is_off, "the machine is still on after {BOOT_TIMEOUT:?}");
    }

    /// Starts a command in it as a service, without waiting for it: a command that reboots the machine must not be a child of a
    /// process outside, which would block the shutdown.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(&self, arguments: &[&str]) {
        let output = self.command("systemd-run").args(["--no-block", "--collect"]).args(arguments).output();
        assert!(output.as_ref().is_ok_and(|output| output.status.success()), "{arguments:?}: {output:?}");
    }

    /// Cuts its power: all its processes are killed. Written files stay, since this machine has them in memory.
    pub fn cut(&mut self) {
        self.end();
    }

    /// A command that runs in it.
    ///
    /// # Panics
    ///
    /// If it is off.
    pub fn command(&self, program: &str) -> Command {
        let Some(first) = self.init_pid() else { panic!("the machine is off") };
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            &first.to_string(),
            "--pid",
            "--mount",
            "--uts",
            "--ipc",
            "--cgroup",
            "--root",
            "--wd",
        ]);
        command.arg(program).stdin(Stdio::null());
        command
    }

    /// Runs a command in it.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Output {
        match self.command(program).args(arguments).output() {
            Ok(output) => output,
            Err(error) => panic!("{program}: {error}"),
        }
    }

    /// A path on its disk, as seen from outside.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path.trim_start_matches('/'))
    }

    /// The PID of its init, as seen from outside: the only child of `unshare`, which is the only child of `timeout`.
    fn init_pid(&self) -> Option<u32> {
        let mut process = self.running.as_ref()?.id();
        for _ in 0..2 {
            let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
            process = children.split_whitespace().next()?.parse().ok()?;
        }
        Some(process)
    }

    fn end(&mut self) {
        let first = self.init_pid();
        if let Some(mut child) = self.running.take() {
            kill(first);
            let _ = child.wait();
        }
        self.clear();
    }

    /// Removes the cgroups that it leaves behind, the deepest first.
    fn clear(&self) {
        fn remove(folder: &Path) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            let _ = fs::remove_dir(folder);
        }
        remove(&self.group);
    }
}

impl Drop for SystemdMachine {
    fn drop(&mut self) {
        self.end();
    }
}

fn kill(process: Option<u32>) {
    if let Some(process) = process {
        // An error means that it has ended already.
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    }
}

/// The folder of a machine, and the path of its cgroup.
fn made() -> std::io::Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("systemd_machine.sh"), SCRIPT)?;
    let ours = fs::read_to_string("/proc/self/cgroup")?;
    let in_one = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let (mount, prefix) = if in_one { ("/sys/fs/cgroup", "0::") } else { ("/sys/fs/cgroup/systemd", "name=systemd:") };
    let place = ours.lines().find_map(|line| line.split_once(prefix)).map_or("/", |(_, place)| place);
    let name = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let group = Path::new(mount).join(place.trim_start_matches('/')).join(format!("seaworthy-trial{name}"));
    fs::write(folder.path().join("group"), group.as_os_str().as_encoded_bytes())?;
    make_pipe(&folder.path().join("state"))?;
    Ok((folder, group))
}

fn make_pipe(path: &Path) -> std::io::Result<()> {
    let status = Command::new("mkfifo").arg(path).status()?;
    if status.success() { Ok(()) } else { Err(std::io::Error::other("mkfifo fails")) }
}
