//! A server with scripted responses, also malformed ones.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Everything that arrived, for finding what should not have.
    pub fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// What a server does with a request.
pub enum Reply {
    /// Sends these bytes and closes.
    Send(Vec<u8>),
    /// Sends these bytes when the turn comes to this place, closes, and calls the next one.
    InTurn(Vec<u8>, usize, tokio::sync::watch::Sender<usize>),
    /// Sends these bytes and then nothing, with the connection left open.
    Stall(Vec<u8>),
    /// Sends these bytes and then zeros as long as the client reads.
    Endless(Vec<u8>),
}

/// A whole response.
pub fn response(code: u16, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut head = format!("HTTP/1.1 {code} Because\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    Reply::Send([head.as_bytes(), b"\r\n", body].concat())
}

pub fn ok(body: impl AsRef<[u8]>) -> Reply {
    response(200, &[], body.as_ref())
}

pub fn redirect(to: &str) -> Reply {
    response(302, &[("location", to)], b"")
}

/// A server on a port of its own, until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server; the handler gets each request and how many came before it.
    pub async fn start(handler: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, handler).await
    }

    pub async fn start_tls(
        acceptor: TlsAcceptor,
        handler: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(acceptor), handler).await
    }

    async fn listen(
        acceptor: Option<TlsAcceptor>,
        handler: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler = Arc::new(handler);
        let task = tokio::spawn({
            let seen = seen.clone();
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    let (seen, handler) = (seen.clone(), handler.clone());
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        match acceptor {
                            None => serve(socket, &seen, &*handler).await,
                            Some(acceptor) => match acceptor.accept(socket).await {
                                Ok(socket) => serve(socket, &seen, &*handler).await,
                                Err(_) => None,
                            },
                        }
                    });
                }
            }
        });
        Self { address, seen, task }
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The URL of `path` on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The same by a name that the tests' resolver knows.
    pub fn url_as(&self, scheme: &str, name: &str, path: &str) -> String {
        format!("{scheme}://{name}:{}{path}", self.port())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: S,
    seen: &Mutex<Vec<Seen>>,
    handler: &(dyn Fn(&Seen, usize) -> Reply + Send + Sync),
) -> Option<()> {
    let request = read_head(&mut socket).await?;
    let reply = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        handler(&request, seen.len() - 1)
    };
    match reply {
        Reply::Send(bytes) => {
            socket.write_all(&bytes).await.ok()?;
            socket.shutdown().await.ok()
        }
        Reply::InTurn(bytes, place, turns) => {
            turns.subscribe().wait_for(|turn| *turn == place).await.ok()?;
            socket.write_all(&bytes).await.ok()?;
            socket.shutdown().await.ok()?;
            turns.send_modify(|turn| *turn += 1);
            Some(())
        }
        Reply::Stall(bytes) => {
            socket.write_all(&bytes).await.ok()?;
            socket.flush().await.ok()?;
            // Ends when the client goes.
            let mut rest = Vec::new();
            socket.read_to_end(&mut rest).await.ok().map(drop)
        }
        Reply::Endless(bytes) => {
            socket.write_all(&bytes).await.ok()?;
            loop {
                socket.write_all(&[0; 4096]).await.ok()?;
            }
        }
    }
}

/// Reads up to the end of the head; the tests send no bodies.
pub async fn read_head(socket: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
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
