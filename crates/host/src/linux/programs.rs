//! Programs of the machine, run with a limit.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{HostError, Output};

/// Longer than the slowest service takes to stop before systemd kills it, and than an image takes to arrive.
pub(super) const LIMIT: Duration = Duration::from_secs(15 * 60);
/// As much as anybody reads of what a program says.
const KEPT: usize = 1024 * 1024;
const SAID: usize = 1024;

/// Somebody who runs programs.
pub trait Programs: Send + Sync {
    /// Runs one and waits for its end.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError>;
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
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        let mut command = Command::new(program);
        let fault = |why: std::io::Error| HostError::Command {
            line: line(program, arguments),
            status: "not started".to_owned(),
            said: why.to_string(),
        };
        // Messages are read by us: in the language that we know.
        command.args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(fault)?;
        let stdout = child.stdout.take().map(|pipe| thread::spawn(move || text(pipe)));
        let stderr = child.stderr.take().map(|pipe| thread::spawn(move || text(pipe)));
        let code = wait(&mut child, self.limit).map_err(fault)?;
        let Some(code) = code else {
            return Err(HostError::Timeout { line: line(program, arguments), seconds: self.limit.as_secs() });
        };
        let joined = |thread: Option<thread::JoinHandle<String>>| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        Ok(Output { code, stdout: joined(stdout), stderr: joined(stderr) })
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
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

fn text(pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not there; the exit code decides.
    let _ = pipe.take(KEPT as u64).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
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
