//! `seaworthy apiserver` as a process of its own, and a client over TLS that waits for each answer.
//!
//! The client is plain threads and sockets: what is acknowledged is what was read from the socket to the last byte.

#![allow(dead_code, reason = "each suite uses its part")]

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// The administrator's token.
pub const TOKEN: &str = "token-of-the-tests";

/// Where the ConfigMaps of the default namespace are.
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// Longer than any answer takes.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The command for a server that keeps its data in `folder/data`.
///
/// Arguments that are given take the place of these.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    command_of(Path::new(env!("CARGO_BIN_EXE_seaworthy")), folder, args)
}

/// The same for another build of the program.
pub fn command_of(program: &Path, folder: &Path, args: &[&str]) -> Command {
    let tokens = folder.join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},admin,1,\"system:masters\"\n")).unwrap();
    let mut command = Command::new(program);
    command.arg("apiserver");
    for (option, value) in [
        ("--listen", OsStr::new("127.0.0.1:0")),
        ("--data", folder.join("data").as_os_str()),
        ("--token-auth-file", tokens.as_os_str()),
    ] {
        if !args.contains(&option) {
            command.arg(option).arg(value);
        }
    }
    command.args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server that runs.
pub struct Served {
    pub process: Child,
    pub address: SocketAddr,
    pub tls: Arc<ClientConfig>,
}

impl Served {
    /// Starts one that keeps its data in `folder/data`.
    pub fn start(folder: &Path) -> Served {
        let mut process = command(folder, &[]).spawn().unwrap();
        match Served::wait(&mut process, folder) {
            Some((address, tls)) => Served { process, address, tls },
            None => {
                let mut stderr = String::new();
                process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                panic!("the server does not start: {} {stderr}", process.wait().unwrap());
            }
        }
    }

    /// Waits until it says where it is; none if it ends before.
    pub fn wait(process: &mut Child, folder: &Path) -> Option<(SocketAddr, Arc<ClientConfig>)> {
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("https://")?.strip_suffix('\n')?.parse().unwrap();
        Some((address, tls(&folder.join("data/admin.kubeconfig"))))
    }

    pub fn client(&self) -> Client {
        self.reach().client().unwrap()
    }

    pub fn reach(&self) -> Reach {
        Reach { address: self.address, tls: self.tls.clone() }
    }

    /// Kills it, as power does that goes.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.code().is_none(), "it ended by itself: {status}");
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), rustix::process::Signal::TERM)
            .unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn tls(kubeconfig: &Path) -> Arc<ClientConfig> {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let authority = text.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data: ")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&STANDARD.decode(authority).unwrap()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// What it takes to connect.
#[derive(Clone)]
pub struct Reach {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Reach {
    pub fn client(&self) -> io::Result<Client> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let connection =
            ClientConnection::new(self.tls.clone(), "localhost".try_into().unwrap()).map_err(io::Error::other)?;
        Ok(Client { stream: BufReader::new(StreamOwned::new(connection, stream)) })
    }
}

/// A connection.
pub struct Client {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub body: Value,
}

impl Reply {
    /// The body of an answer that must have this code.
    #[track_caller]
    pub fn is(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }
}

impl Client {
    /// Sends the head and body of a request.
    pub fn send(&mut self, method: &str, path: &str, kind: &str, body: &str) -> io::Result<()> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.write(&[head.as_bytes(), body.as_bytes()].concat())
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Sends a request and reads its answer.
    pub fn ask(&mut self, method: &str, path: &str, kind: &str, body: &str) -> io::Result<Reply> {
        self.send(method, path, kind, body)?;
        self.reply()
    }

    /// Reads one answer.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let (code, length) = self.head()?;
        let mut body = Vec::new();
        match length {
            Some(length) => {
                body.resize(length, 0);
                self.stream.read_exact(&mut body)?;
            }
            None => {
                while let Some(chunk) = self.chunk()? {
                    body.extend(chunk);
                }
            }
        }
        Ok(Reply { code, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
    }

    /// Begins a watch. What comes is read with [`Watching::next`].
    pub fn watch(mut self, path: &str) -> io::Result<Watching> {
        self.send("GET", path, JSON, "")?;
        let (code, length) = self.head()?;
        assert_eq!((code, length), (200, None));
        Ok(Watching { client: self, waiting: Vec::new() })
    }

    /// Reads an answer before the answer, such as "go on", and gives its code.
    pub fn interim(&mut self) -> io::Result<u16> {
        self.head().map(|(code, _)| code)
    }

    /// The code, and the length if it is known beforehand.
    fn head(&mut self) -> io::Result<(u16, Option<usize>)> {
        let status = self.line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.unwrap_or_else(|| panic!("no answer of HTTP: {status:?}"));
        let mut length = None;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok((code, length));
            }
            length = line.strip_prefix("content-length: ").map(|length| length.parse().unwrap()).or(length);
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        // Half a line is none: the server is gone.
        line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line()?, 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok((size > 0).then_some(chunk))
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        // Closing in order or not: there is nothing to read any more.
        !matches!(self.stream.read(&mut [0]), Ok(1..))
    }
}

/// A watch.
pub struct Watching {
    client: Client,
    waiting: Vec<u8>,
}

impl Watching {
    /// The next event; none at the end of the answer.
    pub fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some(end) = self.waiting.iter().position(|byte| *byte == b'\n') {
                let rest = self.waiting.split_off(end + 1);
                let line = std::mem::replace(&mut self.waiting, rest);
                return Ok(Some(serde_json::from_slice(&line).unwrap()));
            }
            match self.client.chunk()? {
                Some(chunk) => self.waiting.extend(chunk),
                None => return Ok(None),
            }
        }
    }
}

/// The revision of an object or a list.
pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
