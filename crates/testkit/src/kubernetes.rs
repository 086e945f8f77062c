//! Real control plane for one test: kube-apiserver with etcd, the garbage collector and the namespace controller.
//!
//! `cargo xtask kube up` finds and starts the programs.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::listening;

/// The path of xtask if it has been built already; `cargo xtask test` sets it.
const XTASK: &str = "SEAWORTHY_XTASK";

/// Limits how many start at a time in one process: two keep two cores busy. The number that run is limited only by the number
/// of tests at a time, since a test that waited here for its second cluster could wait for another that does the same.
static STARTS: Semaphore = Semaphore::const_new(2);

/// A real control plane that is the test's own.
///
/// A fresh one for each test, although a start costs three seconds of processor time: tests may then make cluster-wide
/// objects, count them, and break things, just as with [`Embedded`](crate::Embedded). With one for all of them, each
/// test would have to be written with the others in mind. It takes 400 MB: on a machine with many cores,
/// `--test-threads` is for that.
pub struct Kubernetes {
    config: Config,
    kubeconfig: Value,
    process: Child,
    /// The processes end when this does.
    stdin: Option<ChildStdin>,
}

impl Kubernetes {
    /// Starts a control plane, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not start: a test has no use for anything less.
    pub async fn start() -> Kubernetes {
        let _permit = STARTS.acquire().await.expect("the semaphore is never closed");
        let mut command = xtask();
        command.args(["kube", "up", "--until-stdin-ends"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("xtask starts");
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().expect("stdout is a pipe");
        let file = tokio::task::spawn_blocking(move || kubeconfig_in(stdout)).await.expect("reading does not panic");
        let file = file.expect("`cargo xtask kube up` prints the path of the kubeconfig; its error is above");
        let complete = complete_kubeconfig(Path::new(&file)).expect("the kubeconfig is JSON with an authority");
        let kubeconfig = Kubeconfig::read_from(file).expect("the kubeconfig can be read");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Kubernetes { config: config.expect("the kubeconfig is complete"), kubeconfig: complete, process, stdin }
    }

    /// The kubeconfig of a user who may do everything, as JSON, without references to files.
    pub fn kubeconfig(&self) -> &Value {
        &self.kubeconfig
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        connect(self.config.clone())
    }

    /// A client of this user, who is in these groups and in `system:authenticated`.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
        connect(config)
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Waited for, so that a test run leaves nothing behind; how it ended no longer matters.
        let _ = self.process.wait();
    }
}

/// The kubeconfig in this file with the authority in it, which is a file of its own there.
fn complete_kubeconfig(file: &Path) -> Option<Value> {
    let read: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let (mut cluster, user) = (read.pointer("/clusters/0/cluster")?.clone(), read.pointer("/users/0/user")?.clone());
    let authority = cluster.as_object_mut()?.remove("certificate-authority")?;
    let authority = std::fs::read(authority.as_str()?).ok()?;
    cluster["certificate-authority-data"] = BASE64_STANDARD.encode(authority).into();
    Some(listening::kubeconfig(cluster, user))
}

fn connect(config: Config) -> Client {
    Client::try_from(config).expect("a kubeconfig with a token and an authority makes a client")
}

fn xtask() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is two folders down");
    if let Some(program) = std::env::var_os(XTASK) {
        let mut command = Command::new(program);
        // As cargo would set it.
        command.env("CARGO_MANIFEST_DIR", root.join("xtask"));
        return command;
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).arg("xtask");
    command
}

/// Reads up to the line that names the file.
fn kubeconfig_in(stdout: ChildStdout) -> Option<String> {
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let file = lines.find_map(|line| Some(line.strip_prefix("kubeconfig:")?.trim().to_owned()));
    // Later output must be read, or its writes would fail.
    std::thread::spawn(move || lines.for_each(drop));
    file
}
