//! A machine with a real systemd, as namespaces of the one that the tests run on.
//!
//! It has a disk of its own (a folder, which stays from one boot to the next), this machine's `/usr` read-only but for
//! `/usr/local`, this machine's network, and a boot id of its own for every boot. Its systemd starts the bus and what a test adds, nothing of the
//! distribution's. When systemd reboots it, it is off until it is booted again.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

use crate::skip;

const SCRIPT: &str = include_str!("machine.sh");
/// Where Debian and its kin have it.
const SYSTEMD: &str = "/lib/systemd/systemd";
/// The bus as a unit, which comes in another package than its program.
const BUS: &str = "/lib/systemd/system/dbus.socket";
/// A machine that is not up by then will not be, nor off.
const BOOT: Duration = Duration::from_secs(120);
/// How often a machine that does not come up is switched on.
const SWITCHES: u32 = 4;
/// No machine lasts longer than this many seconds, even when the test that made it was killed.
const LIFE: &str = "900";

/// A machine; it ends with the test.
#[derive(Debug)]
pub struct Machine {
    folder: TempDir,
    program: PathBuf,
    /// The cgroup of all that runs in it.
    group: PathBuf,
    running: Option<Child>,
}

impl Machine {
    /// A machine that is off, with this program at [`Machine::PROGRAM`]; or on record why there can be none here.
    ///
    /// # Panics
    ///
    /// If there is no room for its folder.
    pub fn new(program: &Path) -> Option<Machine> {
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
        let machine = Machine { folder, program: program.to_owned(), group, running: None };
        // All of it but systemd: what is not allowed here is known before anything is judged.
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

    /// Where the program under test is in the machine.
    pub const PROGRAM: &str = "/opt/program";

    fn script(&self, first: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--signal=KILL", LIFE, "sh"]).arg(self.folder.path().join("machine.sh"));
        command.arg(self.folder.path()).arg(&self.program).arg(first).stdin(Stdio::null());
        command
    }

    /// Switches it on, and waits until all that it starts at boot has been started.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub fn boot(&mut self) {
        self.end();
        // Of machines that boot beside each other one in some dozens hangs, why is not known: it is switched off and on again.
        for switch in 1..=SWITCHES {
            let result = self.switch_on();
            let Ok(is_up) = result else { panic!("the machine cannot be switched on: {result:?}") };
            if is_up {
                return;
            }
            eprintln!("the machine does not come up, {switch} of {SWITCHES} times:\n{}", self.hindrance());
            self.end();
        }
        panic!("the machine does not come up within {BOOT:?}");
    }

    /// Switches it on; says whether it has come up.
    fn switch_on(&mut self) -> std::io::Result<bool> {
        // Another one each time: one that was switched off in the moment in which it came up has said so to nobody.
        let told = self.folder.path().join("told");
        fs::remove_file(&told)?;
        make_pipe(&told)?;
        // Both ends, so that it can be opened before anybody writes, and is not at its end when they are done.
        let mut pipe = File::options().read(true).write(true).open(&told)?;
        let (up, is_up) = mpsc::channel();
        let heard = BufReader::new(pipe.try_clone()?);
        std::thread::spawn(move || up.send(heard.lines().next().is_some_and(|line| line.is_ok_and(|it| it == "up"))));
        let said = File::create(self.folder.path().join("said"))?;
        self.running = Some(self.script(SYSTEMD).stdout(said.try_clone()?).stderr(said).spawn()?);
        let is_up = is_up.recv_timeout(BOOT / SWITCHES) == Ok(true);
        if !is_up {
            // Whoever listens need not do so any longer.
            pipe.write_all(b"off\n")?;
        }
        Ok(is_up)
    }

    /// What is known of why it does not come up: what was said on its way, and what systemd still has to do.
    fn hindrance(&self) -> String {
        let mut text = fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        if self.first().is_some() {
            let jobs = self.run("timeout", &["10", "systemctl", "--no-pager", "list-jobs"]);
            text.push_str(&String::from_utf8_lossy(&jobs.stdout));
            text.push_str(&String::from_utf8_lossy(&jobs.stderr));
        }
        text
    }

    /// Waits until it has switched itself off, which is also what a reboot begins with.
    ///
    /// # Panics
    ///
    /// If it is off already, or stays on.
    pub fn wait_until_off(&mut self) {
        let first = self.first();
        let Some(mut child) = self.running.take() else { panic!("the machine is off already") };
        let (off, is_off) = mpsc::channel();
        std::thread::spawn(move || off.send(child.wait().is_ok()));
        let is_off = is_off.recv_timeout(BOOT) == Ok(true);
        if !is_off {
            kill(first);
        }
        self.clear();
        assert!(is_off, "the machine is still on after {BOOT:?}");
    }

    /// Runs a command in it as a service of its own, for which nobody waits: the only way to outlive what it does to the
    /// machine, since whoever came from outside is held by systemd's last steps and holds them up in turn.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(&self, arguments: &[&str]) {
        let output = self.command("systemd-run").args(["--no-block", "--collect"]).args(arguments).output();
        assert!(output.as_ref().is_ok_and(|output| output.status.success()), "{arguments:?}: {output:?}");
    }

    /// Cuts its power: everything in it is gone between two instructions. What was written stays, as this machine has it.
    pub fn cut(&mut self) {
        self.end();
    }

    /// A command that runs in it.
    ///
    /// # Panics
    ///
    /// If it is off.
    pub fn command(&self, program: &str) -> Command {
        let Some(first) = self.first() else { panic!("the machine is off") };
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

    /// Where something on its disk is for us.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path.trim_start_matches('/'))
    }

    /// The first process of the machine, by our count: the only child of `unshare`, which is the only child of `timeout`.
    fn first(&self) -> Option<u32> {
        let mut process = self.running.as_ref()?.id();
        for _ in 0..2 {
            let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
            process = children.split_whitespace().next()?.parse().ok()?;
        }
        Some(process)
    }

    fn end(&mut self) {
        let first = self.first();
        if let Some(mut child) = self.running.take() {
            kill(first);
            let _ = child.wait();
        }
        self.clear();
    }

    /// Takes away the cgroups that it leaves behind, the deepest first.
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

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}

fn kill(process: Option<u32>) {
    if let Some(process) = process {
        // One that is gone needs none.
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    }
}

/// The folder of a machine, and the cgroup that it is going to have.
fn made() -> std::io::Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("machine.sh"), SCRIPT)?;
    let ours = fs::read_to_string("/proc/self/cgroup")?;
    let in_one = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let (mount, prefix) = if in_one { ("/sys/fs/cgroup", "0::") } else { ("/sys/fs/cgroup/systemd", "name=systemd:") };
    let place = ours.lines().find_map(|line| line.split_once(prefix)).map_or("/", |(_, place)| place);
    let name = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let group = Path::new(mount).join(place.trim_start_matches('/')).join(format!("seaworthy-trial{name}"));
    fs::write(folder.path().join("group"), group.as_os_str().as_encoded_bytes())?;
    make_pipe(&folder.path().join("told"))?;
    Ok((folder, group))
}

fn make_pipe(path: &Path) -> std::io::Result<()> {
    let status = Command::new("mkfifo").arg(path).status()?;
    if status.success() { Ok(()) } else { Err(std::io::Error::other("mkfifo fails")) }
}
