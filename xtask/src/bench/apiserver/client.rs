//! Bench client with little overhead: HTTP/1.1 over TLS on persistent connections; answers are drained, not parsed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Bytes that may be read in one go: an answer of ten megabytes should not take a thousand small steps.
const READ_BUFFER_BYTES: usize = 256 << 10;
/// How much of an answer that is an error is shown.
const MAX_ERROR_BYTES: usize = 400;

/// Where a server is, and how an administrator gets in.
#[derive(Clone)]
pub struct Endpoint {
    address: SocketAddr,
    tls: TlsConnector,
    authorization: HeaderValue,
    host: HeaderValue,
}

/// One connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

/// A request with its whole body, ready to be sent.
pub type Prepared = Request<Full<Bytes>>;

impl Endpoint {
    /// The server at an address of this machine, known by the authority in this file.
    pub fn new(address: SocketAddr, authority: &Path, token: &str) -> Result<Endpoint> {
        let mut roots = RootCertStore::empty();
        let certificates =
            CertificateDer::pem_file_iter(authority).with_context(|| format!("cannot read {}", authority.display()))?;
        for certificate in certificates {
            roots.add(certificate.with_context(|| format!("cannot read {}", authority.display()))?)?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Endpoint {
            address,
            tls: TlsConnector::from(Arc::new(config)),
            authorization: HeaderValue::from_str(&format!("Bearer {token}"))?,
            host: HeaderValue::from_str(&address.to_string())?,
        })
    }

    /// Connects and shakes hands.
    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) =
            http1::Builder::new().max_buf_size(READ_BUFFER_BYTES).handshake(TokioIo::new(stream)).await?;
        // A failed connection is reported by the request that waits on it.
        tokio::spawn(connection);
        Ok(Connection { sender })
    }

    /// A request. `content_type` goes with a body; without one there is none.
    pub fn request(&self, method: Method, path: &str, body: Option<(&'static str, Vec<u8>)>) -> Result<Prepared> {
        let (content_type, body) = body.unzip();
        let mut request = Request::new(Full::new(Bytes::from(body.unwrap_or_default())));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().with_context(|| format!("{path:?} is no path"))?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(AUTHORIZATION, self.authorization.clone());
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        Ok(request)
    }
}

impl Connection {
    /// Whether the other side has hung up.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and reads the answer to its end; how long it was.
    pub async fn send(&mut self, request: Prepared) -> Result<usize> {
        let mut body = self.open(request).await?;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }

    /// Sends a request and keeps the answer.
    pub async fn fetch(&mut self, request: Prepared) -> Result<Bytes> {
        Ok(self.open(request).await?.collect().await?.to_bytes())
    }

    /// Sends a request and leaves the answer to be read.
    pub async fn open(&mut self, request: Prepared) -> Result<Incoming> {
        // Both are handles, not texts.
        let (method, uri) = (request.method().clone(), request.uri().clone());
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await.with_context(|| format!("{method} {uri}"))?;
        let (head, body) = answer.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let text = body.collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_ERROR_BYTES)]).into_owned();
        bail!("{method} {uri}: {}: {text}", head.status)
    }
}

/// The next piece of an answer that goes on, none at its end.
pub async fn piece(body: &mut Incoming) -> Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
