//! Processes beside this one: bound to it, and ended in good order.

use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tool;

/// A command whose process is killed when this one ends, however it ends.
pub fn bound_to_this_process(program: &Path) -> Command {
    // Part of every Debian; elsewhere a killed xtask leaves its processes behind.
    match tool::find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Asks a process to end, and kills it if it does not in this time.
pub fn end(child: &mut Child, patience: Duration) -> Result<()> {
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
    let deadline = Instant::now() + patience;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
