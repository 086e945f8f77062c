//! The server on a socket: TLS, HTTP/1.1 and HTTP/2, and limits for everything that a stranger can use up.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use seaworthy_listen::{Arrival, BindError, Door, Keypair, Limits, TlsError, reach, tls};
use thiserror::Error;
use tokio::time::Instant;
use tracing::debug;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::Identity;
use crate::authentication::PeerCertificate;
use crate::response::status::Failure;
use crate::server::Server;
use crate::serving::pki::{Pki, PkiError};
use crate::serving::slow_client::{Paced, Timely};

/// Each connection costs some tens of kilobytes; a fleet's watches need a few thousand, and often come from one address.
const LIMITS: Limits = Limits {
    connections: 8192,
    of_one_address: usize::MAX,
    newcomer: Duration::from_secs(8),
    handshake: Duration::from_secs(10),
    farewell: Duration::from_secs(1),
};
/// How long a client may take to send its headers, from the end of the handshake or of the answer before: as long as
/// the real server gives it.
const HEADERS: Duration = Duration::from_secs(32);
/// How long an answer may take, body of the request and of a long list included; the events of a watch come after
/// that.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a client may take nothing at all of what it is sent, be it the events of a watch.
const STALLED: Duration = Duration::from_secs(60);
/// How often a silent HTTP/2 client is asked whether it is still there.
const STILL_THERE: Duration = Duration::from_secs(30);
/// Requests at a time on one HTTP/2 connection: as many as the real server takes.
const STREAMS: u32 = 250;

/// Why the server does not listen.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address is taken or not ours.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no certificate.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A server that listens.
pub struct Listening {
    server: Server,
    door: Door,
    tls: Arc<ServerConfig>,
}

impl Listening {
    /// Takes the address, with a certificate for every name under which clients may reach it.
    pub async fn bind(server: Server, pki: &Pki, address: SocketAddr) -> Result<Listening, ListenError> {
        Listening::through(server, pki, Door::open(address).await?)
    }

    /// Listens where somebody has taken the address already.
    ///
    /// # Errors
    ///
    /// If there is no certificate for it.
    pub fn through(server: Server, pki: &Pki, door: Door) -> Result<Listening, ListenError> {
        let addresses = reach::addresses(door.address());
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let serving = pki.serving(&addresses, &names, server.world().now())?;
        let keypair = Keypair { certificates: &serving.certificate, key: &serving.key };
        // A client without a certificate has a token, or is anonymous.
        let tls = tls::config(keypair, Some(pki.authority()), tls::VERSIONS, &["h2", "http/1.1"])?;
        Ok(Listening { server, door, tls: Arc::new(tls) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// Serves until `stop` is done. Then watches end, and requests under way have a moment to finish.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let (server, tls) = (self.server, self.tls);
        let stop = {
            let server = server.clone();
            async move {
                stop.await;
                server.end_watches();
            }
        };
        let serve = move |arrival: Arrival| serve(server.clone(), arrival);
        self.door.serve(LIMITS, || Arc::clone(&tls), stop, serve).await;
    }
}

/// Serves one connection until it ends.
async fn serve(server: Server, arrival: Arrival) {
    let Arrival { stream, watcher, guest, .. } = arrival;
    // Whoever has shaken hands may have a watch that lasts: only those who do not even do that make room for others.
    guest.admit();
    let peer = stream.get_ref().1.peer_certificates().and_then(|chain| identity(chain.first()?));
    let service = tower_service_fn(server, peer);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS).keep_alive_interval(STILL_THERE);
    let stream = TokioIo::new(Paced::new(stream, HEADERS, STALLED));
    if let Err(error) = watcher.watch(builder.serve_connection(stream, service).into_owned()).await {
        debug!(%error, "a connection ended");
    }
}

fn tower_service_fn(
    server: Server,
    peer: Option<Identity>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = http::Response<Timely>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone {
    TowerToHyperService::new(Peer { server, peer })
}

/// The server for one connection: it knows the certificate that the client showed.
#[derive(Clone)]
struct Peer {
    server: Server,
    peer: Option<Identity>,
}

impl tower_service::Service<Request<Incoming>> for Peer {
    type Response = http::Response<Timely>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        tower_service::Service::<Request<Incoming>>::poll_ready(&mut self.server, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        // Only a client inside the process brings its identity along: from a socket it is shown by credentials.
        request.extensions_mut().remove::<Identity>();
        if let Some(identity) = &self.peer {
            request.extensions_mut().insert(PeerCertificate(identity.clone()));
        }
        let answer = self.server.call(request);
        Box::pin(async move {
            let end = Instant::now() + ANSWER;
            let answer = match tokio::time::timeout_at(end, answer).await {
                // Going wrong is an answer too.
                Ok(Ok(answer)) => answer,
                Err(_) => Failure::timed_out().into_response(&[]),
            };
            Ok(answer.map(|body| Timely::new(body, end)))
        })
    }
}

/// The user that a certificate names: the common name, with the organisations as groups.
fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    // Of several names the last one counts, as for the real server.
    let user = parsed.subject().iter_common_name().last()?.as_str().ok()?.to_owned();
    let groups = parsed.subject().iter_organization().filter_map(|group| group.as_str().ok().map(str::to_owned));
    (!user.is_empty()).then(|| Identity::authenticated(user, groups))
}
