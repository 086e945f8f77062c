//! The program as its users run it: the built binary, in an environment of its own.

#![allow(dead_code, reason = "each suite uses its part")]

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The MachineConfig that most tests start from, without its spec.
pub const MACHINE_CONFIG: &str = r#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"50-worker","labels":{"machineconfiguration.openshift.io/role":"worker"}},"spec":SPEC}"#;

/// A MachineConfig `50-worker` for workers with this spec.
pub fn machine_config(spec: &str) -> String {
    MACHINE_CONFIG.replace("SPEC", spec)
}

/// A home for the program, where nothing of the user's is seen and nothing is left behind.
pub struct Program {
    home: TempDir,
}

/// What a run of the program gave.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    pub fn new() -> Self {
        Program { home: tempfile::tempdir().unwrap() }
    }

    /// A path in the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file into the home.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Where fetched content is kept unless the command line says otherwise.
    pub fn snapshots(&self) -> PathBuf {
        self.path(".cache/seaworthy/snapshots")
    }

    /// A command in the home, with nothing of the caller's environment.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seaworthy"));
        self.settle(&mut command);
        command.args(args);
        command
    }

    /// Gives a command the home and an environment of its own.
    pub fn settle(&self, command: &mut Command) {
        command.env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin").env("COLUMNS", "100");
        command.current_dir(self.home.path()).stdin(Stdio::null());
    }

    /// Runs it.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Outcome {
        Outcome::of(self.command(args).output().unwrap())
    }

    /// Runs it with a text on its standard input.
    pub fn run_with_input<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, input: &[u8]) -> Outcome {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A program that has seen enough closes the pipe; that is its right.
            scope.spawn(move || stdin.write_all(input));
            Outcome::of(child.wait_with_output().unwrap())
        })
    }
}

impl Outcome {
    pub fn of(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code();
        let code = code.unwrap_or_else(|| panic!("ended by a signal: {}\n{stdout}\n{stderr}", output.status));
        assert!(!stderr.contains("panicked"), "{stderr}");
        Outcome { code, stdout, stderr }
    }

    /// The same, when the exit code is this one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// The same, when standard error has all of these.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in:\n{}", self.stderr);
        }
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// A file that the tests come with.
pub fn given(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}
