//! Test server that gives exactly the configured answers, wrong ones included.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// What a server does with a request.
pub enum Reply {
    /// Sends these bytes and closes.
    Send(Vec<u8>),
    /// Sends these bytes and then nothing, with the connection left open.
    Stall(Vec<u8>),
    /// Sends these bytes and then zeros as long as the client reads.
    Endless(Vec<u8>),
}

/// A whole response.
pub fn response(code: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut head = format!("HTTP/1.1 {code} Because\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    Reply::Send([head.as_bytes(), b"\r\n", body].concat())
}

pub fn ok(body: impl AsRef<[u8]>) -> Reply {
    response(200, &[], body)
}

pub fn redirect(to: &str) -> Reply {
    response(302, &[("location", to)], "")
}

type Handler = dyn Fn(&Seen, usize) -> Reply + Send + Sync;

/// A server on a port of its own, until the tests end.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts a server; the handler gets each request and how many came before it.
    pub fn start(handler: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, Arc::new(handler))
    }

    /// The same behind encryption.
    pub fn start_tls(config: ServerConfig, handler: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(Some(Arc::new(config)), Arc::new(handler))
    }

    fn listen(config: Option<Arc<ServerConfig>>, handler: Arc<Handler>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = Self { address, seen: seen.clone() };
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (seen, handler, config) = (seen.clone(), handler.clone(), config.clone());
                thread::spawn(move || converse(socket, config, &seen, &*handler));
            }
        });
        server
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The URL of `path` on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// An address where no process listens.
pub fn closed_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn converse(
    socket: TcpStream,
    config: Option<Arc<ServerConfig>>,
    seen: &Mutex<Vec<Seen>>,
    handler: &Handler,
) -> Option<()> {
    match config {
        None => answer(socket, seen, handler),
        Some(config) => answer(StreamOwned::new(ServerConnection::new(config).unwrap(), socket), seen, handler),
    }
}

fn answer(mut stream: impl Read + Write, seen: &Mutex<Vec<Seen>>, handler: &Handler) -> Option<()> {
    let request = read_head(&mut stream)?;
    let reply = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        handler(&request, seen.len() - 1)
    };
    match reply {
        Reply::Send(bytes) => stream.write_all(&bytes).and_then(|()| stream.flush()).ok(),
        Reply::Stall(bytes) => {
            stream.write_all(&bytes).and_then(|()| stream.flush()).ok()?;
            // Ends when the client goes.
            stream.read_to_end(&mut Vec::new()).ok().map(drop)
        }
        Reply::Endless(bytes) => {
            stream.write_all(&bytes).ok()?;
            loop {
                stream.write_all(&[0; 4096]).ok()?;
            }
        }
    }
}

/// Reads up to the end of the head; no client sends a body.
fn read_head(stream: &mut impl Read) -> Option<Seen> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some(Seen { method, target, headers })
}
