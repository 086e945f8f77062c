//! A proxy that forwards every connection to one server, whatever the requested target.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::server::{Seen, read_head};

pub struct TestProxy {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl TestProxy {
    pub async fn leading_to(upstream: SocketAddr) -> Self {
        Self::start(upstream, None).await
    }

    pub async fn start(upstream: SocketAddr, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn({
            let seen = seen.clone();
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    let (seen, acceptor) = (seen.clone(), acceptor.clone());
                    tokio::spawn(async move {
                        match acceptor {
                            None => lead(socket, upstream, &seen).await,
                            Some(acceptor) => {
                                let socket = acceptor.accept(socket).await.ok()?;
                                lead(socket, upstream, &seen).await
                            }
                        }
                    });
                }
            }
        });
        Self { address, seen, task }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn lead<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: S,
    upstream: SocketAddr,
    seen: &Mutex<Vec<Seen>>,
) -> Option<()> {
    let request = read_head(&mut socket).await?;
    seen.lock().unwrap().push(request.clone());
    let mut upstream = TcpStream::connect(upstream).await.ok()?;
    if request.method == "CONNECT" {
        let opened = b"HTTP/1.1 200 Connection established\r\n\r\n";
        socket.write_all(opened).await.ok()?;
    } else {
        // Only the tests' servers read this, and they look at nothing but the target.
        let head = format!("{} {} HTTP/1.1\r\n\r\n", request.method, request.target);
        upstream.write_all(head.as_bytes()).await.ok()?;
    }
    copy_bidirectional(&mut socket, &mut upstream).await.ok().map(drop)
}
