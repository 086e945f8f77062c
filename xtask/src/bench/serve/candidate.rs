//! Candidate: a server under measurement, ours or nginx. Both present the same certificate, speak TLS 1.3 only,
//! have as many workers as the machine has cores, and write a line for each request to a file.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hyper::Method;

use super::super::apiserver::client::Endpoint;
use super::super::memory::Memory;
use super::{POLL_INTERVAL, START_TIMEOUT, config, retry, workers};
use crate::kube::control_plane::{random, write_secret};
use crate::process::{self, bound_to_this_process};
use crate::workspace::stdout_of;

/// How long a server may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// What is asked for.
pub const CONFIG_PATH: &str = "/config/master";
/// In which version.
pub const ACCEPT: &str = "application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1";

/// What both servers share.
pub struct ServerSetup {
    folder: PathBuf,
    /// The certificate, which is its own authority.
    pub certificate: PathBuf,
    key: PathBuf,
    /// The token of machines. nginx ignores it.
    pub token: String,
}

/// A server that runs. It ends when this is dropped.
pub struct Candidate {
    /// Where it is.
    pub address: SocketAddr,
    child: Child,
    log: PathBuf,
    /// Kept open: the server may print more.
    _stdout: Option<BufReader<ChildStdout>>,
}

impl ServerSetup {
    /// Makes a certificate, a token and a config in a folder.
    pub fn create(folder: &Path, openssl: &Path) -> Result<ServerSetup> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        let mut command = Command::new(openssl);
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]);
        command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
        // Its own authority and a server's certificate in one, which clients that look closely take only like this.
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-out").arg(&certificate).arg("-keyout").arg(&key);
        stdout_of(&mut command)?;
        config::write(&folder.join("base"))?;
        fs::write(folder.join("kubeconfig"), "apiVersion: v1\nkind: Config\n")?;
        let token = random()?;
        write_secret(&folder.join("tokens"), &format!("{token}\n"))?;
        Ok(ServerSetup { folder: folder.to_path_buf(), certificate, key, token })
    }
}

impl Candidate {
    /// `seaworthy server`, which serves from a folder to clients with the token.
    pub fn ours(program: &Path, setup: &ServerSetup) -> Result<Candidate> {
        let log = setup.folder.join("seaworthy.log");
        let mut command = bound_to_this_process(program);
        command.args(["server", "--listen", "127.0.0.1:0", "--tls-min-version", "VersionTLS13", "--rate-limit", "0"]);
        command.arg("--cert").arg(&setup.certificate).arg("--key").arg(&setup.key);
        command.arg("--bootstrap").arg(setup.folder.join("base"));
        command.arg("--node-kubeconfig").arg(setup.folder.join("kubeconfig"));
        command.arg("--token-file").arg(setup.folder.join("tokens"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file(&log)?);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().context("the server has no stdout")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let address = line.trim_end().strip_prefix("https://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let status = child.wait()?;
            bail!("seaworthy server ended with {status}:\n{}", fs::read_to_string(&log).unwrap_or_default());
        };
        Ok(Candidate { address, child, log, _stdout: Some(stdout) })
    }

    /// nginx, which serves these bytes from a file to any client.
    pub fn nginx(program: &Path, setup: &ServerSetup, body: &[u8]) -> Result<Candidate> {
        let folder = setup.folder.join("nginx");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(folder.join("master.json"), body)?;
        // Another process may take the port before it is used; then nginx's log has the error.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = folder.join("error.log");
        fs::write(folder.join("nginx.conf"), configuration(&folder, setup, port))?;
        let mut command = bound_to_this_process(program);
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).arg("-e").arg(&log);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file(&folder.join("stderr.log"))?);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut candidate = Candidate { address: (Ipv4Addr::LOCALHOST, port).into(), child, log, _stdout: None };
        let begun = Instant::now();
        while std::net::TcpStream::connect(candidate.address).is_err() {
            candidate.check()?;
            if begun.elapsed() > START_TIMEOUT {
                bail!("nginx does not listen after {} s", START_TIMEOUT.as_secs());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(candidate)
    }

    /// A client that asks as a machine does.
    pub fn client(&self, setup: &ServerSetup) -> Result<Client> {
        Ok(Client { endpoint: Endpoint::new(self.address, &setup.certificate, &setup.token)? })
    }

    /// What it serves, as soon as it does.
    pub async fn served(&self, setup: &ServerSetup) -> Result<Vec<u8>> {
        let client = self.client(setup)?;
        retry(|| async {
            let mut connection = client.endpoint.connect().await?;
            Ok(connection.fetch(client.request()?).await?.to_vec())
        })
        .await
    }

    /// Memory of its processes.
    pub fn memory(&self) -> Result<Memory> {
        Memory::of(&self.family())
    }

    /// The time that its processes have worked.
    pub fn worked(&self) -> Result<Duration> {
        self.family().into_iter().try_fold(Duration::ZERO, |sum, id| Ok(sum + worked(id)?))
    }

    /// Shuts it down.
    pub fn stop(mut self) -> Result<()> {
        self.check()?;
        process::end(&mut self.child, STOP_TIMEOUT)
    }

    /// The process and its children: nginx works in those.
    fn family(&self) -> Vec<u32> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        std::iter::once(id).chain(children.split_whitespace().filter_map(|child| child.parse().ok())).collect()
    }

    fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            bail!("the server ended with {status}:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        Ok(())
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // Dropped without `stop` only if there is another error to report.
        let _ = process::end(&mut self.child, STOP_TIMEOUT);
    }
}

/// Asks as a machine does.
pub struct Client {
    /// How to reach the server.
    pub endpoint: Endpoint,
}

impl Client {
    /// The request of a machine that boots.
    pub fn request(&self) -> Result<super::super::apiserver::client::Prepared> {
        let mut request = self.endpoint.request(Method::GET, CONFIG_PATH, None)?;
        request.headers_mut().insert(hyper::header::ACCEPT, hyper::header::HeaderValue::from_static(ACCEPT));
        Ok(request)
    }
}

/// Everything that makes nginx faster at this is on; what it does by default and we do not, tickets, is off.
fn configuration(folder: &Path, setup: &ServerSetup, port: u16) -> String {
    let user = if nix::unistd::geteuid().is_root() { "user root;\n" } else { "" };
    let (folder, workers) = (folder.display(), workers());
    let (certificate, key) = (setup.certificate.display(), setup.key.display());
    format!(
        "{user}daemon off;
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
    access_log {folder}/access.log;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=10;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    default_type application/json;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl backlog=4096;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.3;
        ssl_session_tickets off;
        ssl_session_cache off;
        location = {CONFIG_PATH} {{ alias {folder}/master.json; }}
    }}
}}
"
    )
}

fn file(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot make {}", path.display()))
}

/// The time that a process has worked, for itself and in the kernel.
fn worked(id: u32) -> Result<Duration> {
    let file = format!("/proc/{id}/stat");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let ticks = ticks(&text).with_context(|| format!("{file} does not have the time of the process"))?;
    // The kernel counts in hundredths of a second in /proc.
    Ok(Duration::from_millis(ticks * 10))
}

/// What the kernel has counted, from its line on a process. The name in brackets may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn time_is_read_from_the_kernels_text() {
        assert_eq!(ticks("7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 120 34 5 6 20 0 1 0"), Some(154));
        assert_eq!(ticks("7 (a"), None);
    }
}
