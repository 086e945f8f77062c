//! A server at an address: HTTP/1.1, with TLS or without, one connection for each request.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::transport::{Exchange, Transport};

/// The trusted certificates.
pub enum Trust {
    /// Those of an authority, in PEM.
    Authority(String),
    /// Any. Only for a server on this machine.
    Any,
}

/// A server at an address.
pub struct Connection {
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
}

impl Connection {
    /// The server at a URL.
    pub fn new(url: &str, trust: &Trust) -> Result<Connection, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let host = uri.host().ok_or_else(|| format!("{url}: no host"))?.to_owned();
        let is_secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let tls = is_secure.then(|| config(trust).map(|config| TlsConnector::from(Arc::new(config)))).transpose()?;
        Ok(Connection { host, port, tls })
    }

    async fn exchange(&self, mut request: Request<Full<Bytes>>) -> Result<http::Response<Streamed>, String> {
        let address = format!("{}:{}", self.host, self.port);
        request.headers_mut().insert(HOST, HeaderValue::from_str(&address).map_err(text)?);
        let socket = TcpStream::connect(&address).await.map_err(text)?;
        match &self.tls {
            None => over(socket, request).await,
            Some(tls) => {
                let bare = self.host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(bare).map_err(text)?;
                over(tls.connect(name, socket).await.map_err(text)?, request).await
            }
        }
    }
}

impl Transport for Connection {
    fn send(&self, request: Request<Full<Bytes>>) -> Exchange<'_> {
        Box::pin(async move { Ok(self.exchange(request).await?.map(|body| body.boxed_unsync())) })
    }
}

async fn over<S>(stream: S, request: Request<Full<Bytes>>) -> Result<http::Response<Streamed>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let task = Task(tokio::spawn(connection));
    let response = sender.send_request(request).await.map_err(text)?;
    Ok(response.map(|body| Streamed { body, _task: task }))
}

/// A body together with the connection it comes from, which ends with it.
struct Streamed {
    body: Incoming,
    _task: Task,
}

struct Task(JoinHandle<hyper::Result<()>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        Pin::new(&mut self.body).poll_frame(cx).map_err(text)
    }
}

fn config(trust: &Trust) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(text)?;
    Ok(match trust {
        Trust::Authority(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(certificate.map_err(text)?).map_err(text)?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        Trust::Any => {
            let schemes = algorithms.supported_schemes();
            let verifier = Arc::new(AcceptAnyCertificate { schemes });
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    })
}

/// Accepts every certificate.
#[derive(Debug)]
struct AcceptAnyCertificate {
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

fn text(error: impl Display) -> String {
    // The causes distinguish a refused connection from a bad certificate.
    format!("{error:#}")
}
