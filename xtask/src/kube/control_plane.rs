//! Control plane on this machine's loopback: the real etcd, kube-apiserver and two controllers.
//!
//! - It is the reference of the recorded conversations: RBAC, anonymous access as by default, the default admission
//!   plugins except `ServiceAccount`, tokens for service accounts, the garbage collector and the namespace controller.
//! - Its processes end with this one, however this one ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::kube::binaries::{APISERVER, Binaries, CONTROLLER_MANAGER, ETCD};
use crate::process::{self, bound_to_this_process};

/// A control plane that runs. It ends when this is dropped.
pub struct ControlPlane {
    /// Where the API server is.
    pub url: String,
    /// The token of an administrator.
    pub token: String,
    /// The authority behind the API server's certificate, in PEM.
    pub authority: PathBuf,
    /// All of that for kubectl.
    pub kubeconfig: PathBuf,
    /// Whether the garbage collector and the namespace controller run.
    pub has_controllers: bool,
    /// The processes, newest first: the order in which they end.
    processes: Vec<Process>,
    folder: Folder,
}

struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// A folder that is removed at the end if it is temporary.
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    is_temporary: bool,
}

/// On a busy machine with two cores the API server takes half a minute.
const START_TIMEOUT: Duration = Duration::from_secs(180);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the start is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// A free port may be taken by another process before it is used.
const MAX_ATTEMPTS: usize = 3;

impl ControlPlane {
    /// Starts everything and waits until it is ready.
    pub fn start(binaries: &Binaries, data: Option<PathBuf>) -> Result<ControlPlane> {
        for _ in 1..MAX_ATTEMPTS {
            match ControlPlane::attempt(binaries, data.clone()) {
                Err(error) if error.to_string().contains("address already in use") => {}
                other => return other,
            }
        }
        ControlPlane::attempt(binaries, data)
    }

    fn attempt(binaries: &Binaries, data: Option<PathBuf>) -> Result<ControlPlane> {
        let mut running = ControlPlane::begin(binaries, data)?;
        running.wait_until_ready(&binaries.kubectl)?;
        if let Some(program) = &binaries.controller_manager {
            running.launch(CONTROLLER_MANAGER, program, controller_manager_flags(&running.kubeconfig))?;
            running.has_controllers = true;
        }
        Ok(running)
    }

    /// Starts etcd and the API server and nothing else, and waits for nothing.
    pub fn begin(binaries: &Binaries, data: Option<PathBuf>) -> Result<ControlPlane> {
        let folder = Folder::make(data)?;
        let at = |name: &str| folder.path.join(name);
        let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let url = format!("https://127.0.0.1:{port}");
        let token = random()?;
        // kube-apiserver makes its own authority and puts it behind the certificate in the same file.
        let (certificates, authority) = (at("certificates"), at("certificates").join("apiserver.crt"));
        let tokens = at("tokens.csv");
        write_secret(&tokens, &format!("{token},admin,admin,system:masters\n"))?;
        let kubeconfig = at("kubeconfig");
        write_secret(&kubeconfig, &kubeconfig_text(&url, &token, &authority))?;
        let mut running =
            ControlPlane { url, token, authority, kubeconfig, has_controllers: false, processes: Vec::new(), folder };
        running.launch(ETCD, &binaries.etcd, etcd_flags(&running.folder.path.join("etcd"), etcd_port, peer_port))?;
        running.launch(APISERVER, &binaries.apiserver, apiserver_flags(etcd_port, port, &certificates, &tokens))?;
        Ok(running)
    }

    /// Where logs, certificates and data are.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// The ids of the processes.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.child.id()).collect()
    }

    /// Fails if one of the processes has ended.
    pub fn check(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", process.name, last_lines(&process.log));
            }
        }
        Ok(())
    }

    /// Ends everything.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn launch(&mut self, name: &'static str, program: &Path, flags: Vec<String>) -> Result<()> {
        let log = self.folder.path.join(format!("{name}.log"));
        let out = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut command = bound_to_this_process(program);
        command.args(flags).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        // In a group of its own, so that Ctrl-C reaches only this process: an API server that loses its etcd first
        // takes a minute to end.
        command.process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        self.processes.insert(0, Process { name, child, log });
        Ok(())
    }

    fn wait_until_ready(&mut self, kubectl: &Path) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            self.check()?;
            let mut ask = Command::new(kubectl);
            ask.arg("--kubeconfig").arg(&self.kubeconfig).args(["get", "--raw", "/readyz"]);
            let answer = ask.output().with_context(|| format!("cannot start {}", kubectl.display()))?;
            if answer.status.success() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let text = String::from_utf8_lossy(&answer.stderr).trim_end().to_owned();
                bail!("{APISERVER} is not ready after {} s: {text}", START_TIMEOUT.as_secs());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn end(&mut self) -> Result<()> {
        for mut process in std::mem::take(&mut self.processes) {
            if self.folder.is_temporary {
                // Whatever they would still write is gone with the folder.
                process.child.kill()?;
                process.child.wait()?;
                continue;
            }
            process::end(&mut process.child, STOP_TIMEOUT)?;
        }
        Ok(())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Dropped without `stop` only if there is another error to report.
        let _ = self.end();
    }
}

impl Folder {
    /// This one, or a new one for the time being.
    pub fn make(data: Option<PathBuf>) -> Result<Folder> {
        let folder = match data {
            Some(path) => Folder { path: std::path::absolute(path)?, is_temporary: false },
            None => {
                let path = std::env::temp_dir().join(format!("seaworthy-kube-{}", random()?));
                Folder { path, is_temporary: true }
            }
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&folder.path).with_context(|| format!("cannot make {}", folder.path.display()))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            // Something left in the folder for temporary files is no reason to fail.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn etcd_flags(data: &Path, port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    vec![
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=warn".to_owned(),
    ]
}

fn apiserver_flags(etcd_port: u16, port: u16, certificates: &Path, tokens: &Path) -> Vec<String> {
    // The key is made before it is read here, so one key serves both the certificate and the tokens.
    let key = certificates.join("apiserver.key");
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // Endpoints must not be on loopback, and no client needs them.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", certificates.display()),
        format!("--token-auth-file={}", tokens.display()),
        "--authorization-mode=RBAC".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        // As every cluster that people have: the daemon manages its machine, and network plugins do.
        "--allow-privileged=true".to_owned(),
        // As clusters have it, and as ours does.
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", key.display()),
        format!("--service-account-signing-key-file={}", key.display()),
    ]
}

fn controller_manager_flags(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]
}

fn kubeconfig_text(url: &str, token: &str, authority: &Path) -> String {
    let name = "kube";
    let text = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    });
    format!("{text:#}\n")
}

pub fn write_secret(file: &Path, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = options.open(file).with_context(|| format!("cannot make {}", file.display()))?;
    out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
}

/// Another process may take the port before it is used; then the start is repeated, see [`MAX_ATTEMPTS`].
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn random() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes).context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::{ControlPlane, Folder, kubeconfig_text, write_secret};
    use crate::kube::binaries::Binaries;
    use crate::tool;

    #[test]
    fn temporary_folder_is_private_and_goes_away() {
        let folder = Folder::make(None).unwrap();
        let path = folder.path.clone();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        write_secret(&path.join("token"), "x").unwrap();
        assert_eq!((mode(&path), mode(&path.join("token"))), (0o700, 0o600));
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn kubeconfig_leads_to_the_server_with_the_token() {
        let text = kubeconfig_text("https://127.0.0.1:1", "secret", Path::new("/ca"));
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:1");
        assert_eq!(config["clusters"][0]["cluster"]["certificate-authority"], "/ca");
        assert_eq!(config["users"][0]["user"]["token"], "secret");
    }

    #[test]
    fn program_that_ends_at_once_is_reported_with_its_output() {
        let ends = || tool::find("false").unwrap();
        let binaries = Binaries { apiserver: ends(), etcd: ends(), kubectl: ends(), controller_manager: None };
        let error = ControlPlane::start(&binaries, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ended with"), "{error}");
    }
}
