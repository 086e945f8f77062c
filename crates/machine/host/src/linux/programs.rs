//! Programs of the machine, run with a timeout.

use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{HostError, Output};

/// Longer than the slowest service takes to stop before systemd kills it, and than an image takes to arrive.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Output of a program beyond this is dropped.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;
/// How often a running program is checked for its end: soon at first, since most are short.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The limit for the rest of a program's output once it has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ERROR_BYTES: usize = 1024;

/// Runs programs.
pub trait ProgramRunner: Send + Sync {
    /// Runs a program with this input, and waits for its end.
    fn feed(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, HostError>;

    /// Runs a program and waits for its end.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        self.feed(program, arguments, &[])
    }
}

/// Runs programs on the machine itself.
pub struct SystemPrograms {
    timeout: Duration,
}

impl Default for SystemPrograms {
    fn default() -> Self {
        SystemPrograms { timeout: DEFAULT_TIMEOUT }
    }
}

impl SystemPrograms {
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl ProgramRunner for SystemPrograms {
    fn feed(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, HostError> {
        let mut command = Command::new(program);
        let fault = |why: std::io::Error| HostError::Command {
            line: line(program, arguments),
            status: "not started".to_owned(),
            message: why.to_string(),
        };
        // Messages are parsed, so they must not be translated.
        command.args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::piped());
        // A process group of its own, so that its children are stopped with it.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(fault)?;
        let stdout = child.stdout.take().map(reading);
        let stderr = child.stderr.take().map(reading);
        if let Some(mut pipe) = child.stdin.take() {
            // A program that does not read its input reports the reason by itself.
            let _ = pipe.write_all(input);
        }
        let code = wait(&mut child, self.timeout).map_err(fault)?;
        let Some(code) = code else {
            return Err(HostError::Timeout { line: line(program, arguments), seconds: self.timeout.as_secs() });
        };
        // A background process that it has left behind may hold its pipes indefinitely.
        let text = |reader: Option<Receiver<String>>| reader.and_then(|it| it.recv_timeout(OUTPUT_TIMEOUT).ok());
        Ok(Output { code, stdout: text(stdout).unwrap_or_default(), stderr: text(stderr).unwrap_or_default() })
    }
}

/// The exit code once the program has ended; `None` if it had to be stopped.
fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<Option<i32>>> {
    let start = Instant::now();
    let mut pause = MIN_POLL_INTERVAL;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code()));
        }
        if start.elapsed() >= timeout {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // A group that is gone already needs no signal.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(MAX_POLL_INTERVAL);
    }
}

fn reading(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A read error loses output only; the exit code decides.
        let _ = pipe.by_ref().take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
        // The rest is read too, so that the program is not blocked by a full pipe.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}

/// A program and its arguments as a command line.
pub(super) fn line(program: &str, arguments: &[&str]) -> String {
    let mut line = program.to_owned();
    for argument in arguments {
        line.push(' ');
        line.push_str(argument);
    }
    line
}

/// The error of a program that failed.
pub(super) fn failure(program: &str, arguments: &[&str], output: &Output) -> HostError {
    let message = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let message = message.trim();
    let mut start = message.len().saturating_sub(MAX_ERROR_BYTES);
    while !message.is_char_boundary(start) {
        start += 1;
    }
    HostError::Command {
        line: line(program, arguments),
        status: output.code.map_or_else(|| "ended by a signal".to_owned(), |code| format!("exit code {code}")),
        message: message[start..].to_owned(),
    }
}
