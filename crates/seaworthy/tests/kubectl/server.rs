//! The server that the pages run on: ours, started for them, or an external one.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Leads to a server that runs already.
const GIVEN: &str = "KUBECONFIG_UNDER_TEST";

pub enum Server {
    Given(PathBuf),
    Ours { process: Child, data: TempDir },
}

impl Server {
    pub fn is_given() -> bool {
        std::env::var_os(GIVEN).is_some()
    }

    pub fn under_test() -> Self {
        if let Some(file) = std::env::var_os(GIVEN) {
            return Server::Given(file.into());
        }
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_seaworthy"));
        command.args(["apiserver", "--listen", "127.0.0.1:0", "--data"]).arg(data.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        // It says where it is once it can be asked.
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("https://"), "{line:?}");
        Server::Ours { process, data }
    }

    /// What leads kubectl to it.
    pub fn kubeconfig(&self) -> PathBuf {
        match self {
            Server::Given(file) => file.clone(),
            Server::Ours { data, .. } => data.path().join("data/admin.kubeconfig"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Server::Ours { process, .. } = self {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
