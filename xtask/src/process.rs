//! Child processes: bound to this one, read line by line, and ended in order.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
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

/// How often a silent process is checked for its end: its descendants may still hold the output open.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often a process that was asked to end is checked.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Reads what a process prints, line by line, until it has ended; false if it printed nothing for `timeout`. Lines are bytes,
/// because it may print anything.
pub fn read_lines(child: &mut Child, timeout: Duration, mut line: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
    let piped = child.stdout.take().context("its output is not piped")?;
    // Read on a thread: a read from a pipe has no timeout.
    let (sender, lines) = mpsc::sync_channel(64);
    thread::spawn(move || {
        for read in BufReader::new(piped).split(b'\n') {
            if sender.send(read).is_err() {
                return;
            }
        }
    });
    let mut last_read = Instant::now();
    loop {
        match lines.recv_timeout(timeout.min(POLL_INTERVAL)) {
            Ok(read) => {
                let mut read = read?;
                read.push(b'\n');
                line(&read)?;
                last_read = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => return Ok(true),
            Err(RecvTimeoutError::Timeout) if last_read.elapsed() >= timeout => return Ok(false),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Kills a process and all that it has started, and waits for it.
pub fn end_with_descendants(child: &mut Child) -> Result<()> {
    for id in with_descendants(child.id()) {
        // One that has ended meanwhile is what is wanted.
        let _ = kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGKILL);
    }
    child.wait()?;
    Ok(())
}

/// A process and those below it, parents first.
fn with_descendants(id: u32) -> Vec<u32> {
    let mut all = vec![id];
    let mut next = 0;
    while let Some(parent) = all.get(next) {
        // One list for each thread that has started any.
        let threads = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let children: Vec<u32> =
            lists.flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>()).flatten().collect();
        all.extend(children);
        next += 1;
    }
    all
}

/// Sends SIGTERM to a process, and kills it after `timeout`.
pub fn end(child: &mut Child, timeout: Duration) -> Result<()> {
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
    let deadline = Instant::now() + timeout;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
        }
        thread::sleep(STOP_POLL_INTERVAL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::{end_with_descendants, read_lines, with_descendants};

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn lines_of(child: &mut Child, timeout: Duration) -> (bool, Vec<String>) {
        let mut lines = Vec::new();
        let has_ended = read_lines(child, timeout, |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        });
        (has_ended.unwrap(), lines)
    }

    #[test]
    fn output_is_read_to_the_end() {
        let mut child = shell("echo a; echo; printf b");
        assert_eq!(
            lines_of(&mut child, Duration::from_secs(60)),
            (true, vec!["a\n".into(), "\n".into(), "b\n".into()])
        );
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn silent_process_is_reported_and_ended_with_its_descendants() {
        let mut child = shell("sleep 1000 & echo a; wait");
        assert_eq!(lines_of(&mut child, Duration::from_secs(5)), (false, vec!["a\n".into()]));
        let all = with_descendants(child.id());
        assert_eq!(all.len(), 2, "the shell and what it started");
        end_with_descendants(&mut child).unwrap();
        // Its parent is gone, so the init process reaps it.
        let state = |id: u32| std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
        let runs = |id: u32| state(id).is_some_and(|stat| !stat.contains(") Z "));
        let deadline = Instant::now() + Duration::from_secs(60);
        while all.iter().any(|id| runs(*id)) {
            assert!(Instant::now() < deadline, "one of {all:?} still runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn process_that_has_ended_is_not_waited_for_because_of_what_it_left() {
        let mut child = shell("sleep 1000 & echo $!");
        let (has_ended, lines) = lines_of(&mut child, Duration::from_secs(600));
        let left = lines[0].trim().parse().unwrap();
        super::kill(super::Pid::from_raw(left), super::Signal::SIGKILL).unwrap();
        assert!(has_ended, "the shell has");
    }
}
