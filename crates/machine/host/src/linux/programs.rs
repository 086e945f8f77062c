//! Programs of the machine, run with a limit.

use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{HostError, Output};

/// Longer than the slowest service takes to stop before systemd kills it, and than an image takes to arrive.
pub(super) const LIMIT: Duration = Duration::from_secs(15 * 60);
/// As much as anybody reads of what a program says.
const KEPT: u64 = 1024 * 1024;
/// How long the rest of what a program has said is waited for once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);
const SAID: usize = 1024;

/// Somebody who runs programs.
pub trait Programs: Send + Sync {
    /// Runs one with something to read, and waits for its end.
    fn feed(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, HostError>;

    /// Runs one and waits for its end.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        self.feed(program, arguments, &[])
    }
}

/// Runs programs on the machine itself.
pub struct Machine {
    limit: Duration,
}

impl Default for Machine {
    fn default() -> Self {
        Machine { limit: LIMIT }
    }
}

impl Machine {
    /// The same with another limit.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl Programs for Machine {
    fn feed(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, HostError> {
        let mut command = Command::new(program);
        let fault = |why: std::io::Error| HostError::Command {
            line: line(program, arguments),
            status: "not started".to_owned(),
            said: why.to_string(),
        };
        // Messages are read by us: in the language that we know.
        command.args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::piped());
        // A group of its own: whatever it has started is stopped with it.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(fault)?;
        let stdout = child.stdout.take().map(reading);
        let stderr = child.stderr.take().map(reading);
        if let Some(mut pipe) = child.stdin.take() {
            // One that does not read what it is given says why in its own words.
            let _ = pipe.write_all(input);
        }
        let code = wait(&mut child, self.limit).map_err(fault)?;
        let Some(code) = code else {
            return Err(HostError::Timeout { line: line(program, arguments), seconds: self.limit.as_secs() });
        };
        // Something that it has left in the background may hold its pipes for ever.
        let said = |text: Option<Receiver<String>>| text.and_then(|text| text.recv_timeout(LAST_WORDS).ok());
        Ok(Output { code, stdout: said(stdout).unwrap_or_default(), stderr: said(stderr).unwrap_or_default() })
    }
}

/// The exit code once the program has ended; `None` if it had to be stopped.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<Option<i32>>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code()));
        }
        if start.elapsed() >= limit {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // A group that is gone already needs no signal.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

fn reading(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read is not there; the exit code decides.
        let _ = pipe.by_ref().take(KEPT).read_to_end(&mut bytes);
        // Nor is it ended by what nobody wants to read.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}

/// A program and its arguments, as one would type them.
pub(super) fn line(program: &str, arguments: &[&str]) -> String {
    let mut line = program.to_owned();
    for argument in arguments {
        line.push(' ');
        line.push_str(argument);
    }
    line
}

/// A program that did not end well.
pub(super) fn failure(program: &str, arguments: &[&str], output: &Output) -> HostError {
    let said = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let said = said.trim();
    let mut start = said.len().saturating_sub(SAID);
    while !said.is_char_boundary(start) {
        start += 1;
    }
    HostError::Command {
        line: line(program, arguments),
        status: output.code.map_or_else(|| "ended by a signal".to_owned(), |code| format!("exit code {code}")),
        said: said[start..].to_owned(),
    }
}
