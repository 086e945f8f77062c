//! [`Transport`]: opens connections, and sends one request on each.
//!
//! Every socket of the crate is opened in [`Transport::dial`]. It resolves a name once, checks the
//! addresses, and connects to one that passed; so a second, different answer for the same name has no effect
//! (DNS rebinding). Connections are not kept: a fetch is rare, and
//! nothing of one request can then leak into another.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HOST, HeaderMap, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use url::{Position, Url};

use crate::body::Reply;
use crate::tls::SystemRoots;
use crate::{
    CertificateStep, FailureKind, FetchSettings, Host, Policy, PolicyViolation, Proxy, Resolver, Retry, redact,
};

/// Per address, so that one that swallows packets leaves time for the next.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Compat: Ignition.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest name that the name service knows, with a final dot.
const MAX_NAME_BYTES: usize = 254;

/// Enough for the head of any sane response.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Opens connections as the policy allows.
pub(crate) struct Transport {
    pub(crate) policy: Policy,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) roots: Arc<SystemRoots>,
}

/// How to connect for one fetch: its settings, made ready for use.
///
/// A config may name its own proxy and its own authorities. Together they can read everything that
/// passes, so that nothing of the operator's may go that way: requests with the operator's
/// credentials have a link of their own, see [`Link::of_operator`].
pub(crate) struct Link {
    proxy: Proxy,
    owner: Principal,
    headers_limit: Option<Duration>,
    authorities: Vec<Arc<[u8]>>,
    tls: OnceLock<Arc<ClientConfig>>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) is_https: bool,
    pub(crate) host: Host,
    pub(crate) port: u16,
    path_and_query: String,
}

/// The principal of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Principal {
    /// Of a config: policy and proxy apply.
    Config,
    /// Of the operator, whose environment names this very endpoint for credentials: neither
    /// applies, because such endpoints are link-local and no proxy can reach them.
    Operator,
}

/// Ends a connection's task together with its owner.
#[derive(Debug)]
pub(crate) struct TaskGuard(AbortHandle);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type AnyStream = Box<dyn Stream>;

// === impl Link ===

impl Link {
    pub(crate) fn new(settings: &FetchSettings) -> Self {
        Self {
            proxy: settings.proxy.clone(),
            owner: Principal::Config,
            headers_limit: settings.response_headers_limit(),
            authorities: settings.certificate_authorities.clone(),
            tls: OnceLock::new(),
        }
    }

    /// For requests that carry the operator's credentials: only the operator's proxy and the roots
    /// of the system. Of the config's settings the time limits are left, which can do no harm.
    pub(crate) fn of_operator(settings: &FetchSettings, proxy: Proxy) -> Self {
        Self {
            proxy,
            owner: Principal::Operator,
            headers_limit: settings.response_headers_limit(),
            authorities: Vec::new(),
            tls: OnceLock::new(),
        }
    }

    fn tls(&self, roots: &SystemRoots) -> Result<Arc<ClientConfig>, FailureKind> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let config = roots.trusting(&self.authorities)?;
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

// === impl Target ===

impl Target {
    /// The target of an `http` or `https` URL.
    pub(crate) fn from_url(url: &Url) -> Result<Self, FailureKind> {
        let unusable = |reason: &str| FailureKind::Url { reason: reason.to_owned() };
        let is_https = match url.scheme() {
            "https" => true,
            "http" => false,
            scheme => {
                return Err(FailureKind::Scheme { scheme: scheme.to_owned() });
            }
        };
        // The parser has already turned every spelling of an IPv4 address into one.
        let host = match url.host() {
            Some(url::Host::Ipv4(address)) => Host::Ip(IpAddr::V4(address)),
            Some(url::Host::Ipv6(address)) => Host::Ip(IpAddr::V6(address)),
            Some(url::Host::Domain(name)) if name.len() > MAX_NAME_BYTES => {
                return Err(unusable("its host is longer than a name can be"));
            }
            Some(url::Host::Domain(name)) => Host::parse(name),
            None => return Err(unusable("it has no host")),
        };
        let port =
            url.port_or_known_default().filter(|port| *port != 0).ok_or_else(|| unusable("it has no usable port"))?;
        Ok(Self { is_https, host, port, path_and_query: url[Position::BeforePath..Position::AfterQuery].to_owned() })
    }

    /// The target of an absolute URI whose path and query are signed and must not change.
    pub(crate) fn from_uri(uri: &Uri) -> Result<Self, FailureKind> {
        let origin = format!(
            "{}://{}/",
            uri.scheme_str().unwrap_or_default(),
            uri.authority().map_or("", |authority| authority.as_str())
        );
        let origin = Url::parse(&origin).map_err(|error| FailureKind::Url { reason: error.to_string() })?;
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self { path_and_query: path_and_query.to_owned(), ..Self::from_url(&origin)? })
    }

    /// Whether requests to both may carry the same credentials.
    pub(crate) fn is_same_origin(&self, other: &Self) -> bool {
        (self.is_https, &self.host, self.port) == (other.is_https, &other.host, other.port)
    }

    fn authority(&self) -> String {
        match (self.is_https, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

// === impl Transport ===

impl Transport {
    /// Sends one request and waits for the head of its response.
    pub(crate) async fn send(
        &self,
        link: &Link,
        behalf: Principal,
        target: &Target,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Reply>, FailureKind> {
        let proxy = match behalf {
            Principal::Config => {
                // Also with a proxy in between: it must not bypass the policy.
                self.policy.check_host(&target.host, target.port)?;
                link.proxy.for_connection(target.is_https, &target.host, target.port)
            }
            Principal::Operator => None,
        };
        let mut parts = Request::new(()).into_parts().0;
        parts.method = method;
        parts.headers = headers;
        let mut stream = match proxy {
            None => self.dial(behalf, &target.host, target.port).await?,
            Some(proxy) => {
                let proxy = ProxyTarget::parse(proxy)?;
                let failed = |failure| proxy.proxy_failure(failure);
                // The operator's own proxy may be where no config may lead us.
                let stream = self.dial(link.owner, &proxy.target.host, proxy.target.port);
                let mut stream = stream.await.map_err(failed)?;
                if proxy.target.is_https {
                    let encrypted = self.encrypt(link, &proxy.target, stream);
                    stream = encrypted.await.map_err(failed)?;
                }
                if target.is_https {
                    tunnel(link, &proxy, target, stream).await?
                } else {
                    if let Some(authorization) = &proxy.authorization {
                        let value = authorization.clone();
                        parts.headers.insert(PROXY_AUTHORIZATION, value);
                    }
                    stream
                }
            }
        };
        if target.is_https {
            stream = self.encrypt(link, target, stream).await?;
        }
        let is_absolute = proxy.is_some() && !target.is_https;
        let uri = if is_absolute {
            format!("http://{}{}", target.authority(), target.path_and_query)
        } else {
            target.path_and_query.clone()
        };
        parts.uri = uri.parse().map_err(|_| FailureKind::Url {
            reason: "its path or query has characters that must be percent-encoded".to_owned(),
        })?;
        let host = HeaderValue::from_str(&target.authority()).map_err(|_| FailureKind::Url {
            reason: "its host has characters that a request cannot carry".to_owned(),
        })?;
        parts.headers.insert(HOST, host);
        let request = Request::from_parts(parts, Full::new(body));
        let (response, connection) = exchange(stream, request, link.headers_limit).await?;
        Ok(response.map(|incoming| Reply::new(incoming, connection)))
    }

    /// Opens a connection to a host, if the policy allows one of its addresses.
    async fn dial(&self, behalf: Principal, host: &Host, port: u16) -> Result<AnyStream, FailureKind> {
        let addresses = match host {
            Host::Ip(address) => vec![*address],
            Host::Name(name) => {
                let found = self.resolver.resolve(name).await;
                found.map_err(|error| FailureKind::Unreachable {
                    reason: format!("cannot resolve {name}: {error}"),
                    step: "correct the name, or check the DNS server",
                })?
            }
        };
        let judge = |address: &IpAddr| match behalf {
            Principal::Config => self.policy.check_address(host, *address, port),
            Principal::Operator => Ok(()),
        };
        // Of several addresses, those that pass are tried; only if none does, it is refused.
        let (passed, refused): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| judge(address).is_ok());
        if let ([], [address, ..]) = (&passed[..], &refused[..]) {
            judge(address)?;
        }
        let mut failure = FailureKind::Unreachable {
            reason: format!("{host} has no address"),
            step: "correct the name, or check the DNS server",
        };
        for address in passed {
            let address = SocketAddr::new(address, port);
            match within(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(stream) => {
                    // Small requests must not wait for more to send; failing that is harmless.
                    let _ = stream.set_nodelay(true);
                    return Ok(Box::new(stream));
                }
                Err(error) => {
                    let to = match host {
                        Host::Name(name) => format!("{name} at {address}"),
                        Host::Ip(_) => address.to_string(),
                    };
                    let reason = format!("cannot connect to {to}: {error}");
                    failure = match error.kind() {
                        // The server may be slow, or behind a network that loses packets.
                        io::ErrorKind::TimedOut => transport(reason),
                        _ => FailureKind::Unreachable { reason, step: "start the server, or correct the URL" },
                    };
                }
            }
        }
        Err(failure)
    }

    async fn encrypt(&self, link: &Link, target: &Target, stream: AnyStream) -> Result<AnyStream, FailureKind> {
        let name = match &target.host {
            Host::Ip(address) => ServerName::IpAddress((*address).into()),
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| FailureKind::Url {
                reason: format!("{name:?} is not a name that a certificate can have"),
            })?,
        };
        let connector = TlsConnector::from(link.tls(&self.roots)?);
        match within(TLS_TIMEOUT, connector.connect(name, stream)).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(encryption_failure(link, target, &error)),
        }
    }
}

/// A proxy, ready to be connected to.
struct ProxyTarget {
    target: Target,
    authorization: Option<HeaderValue>,
    shown: String,
}

impl ProxyTarget {
    fn parse(proxy: &str) -> Result<Self, FailureKind> {
        let shown = redact(proxy);
        let unusable = |reason: String| FailureKind::Proxy {
            proxy: shown.clone(),
            reason: format!("{reason}; expected an http or https URL"),
            retry: Retry::Never,
        };
        // Compat: Go's client takes a bare `host:port` for an http proxy.
        let url = if proxy.contains("://") { Url::parse(proxy) } else { Url::parse(&format!("http://{proxy}")) };
        let url = url.map_err(|error| unusable(error.to_string()))?;
        let target = Target::from_url(&url).map_err(|failure| unusable(failure.to_string()))?;
        Ok(Self { target, authorization: basic_authorization(&url), shown })
    }

    /// Marks a failure as one of the connection to the proxy.
    fn proxy_failure(&self, failure: FailureKind) -> FailureKind {
        match failure {
            FailureKind::Refused(refusal) => FailureKind::Refused(PolicyViolation {
                subject: format!("proxy {}: {}", self.shown, refusal.subject),
                ..refusal
            }),
            other => FailureKind::Proxy {
                proxy: self.shown.clone(),
                retry: other.retry(),
                reason: match other {
                    FailureKind::Unreachable { reason, .. } => format!("{reason}; check its address, or start it"),
                    other => other.to_string(),
                },
            },
        }
    }
}

/// The user information of a URL as an `Authorization` or `Proxy-Authorization` value.
pub(crate) fn basic_authorization(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let mut pair = decode(url.username());
    pair.push(b':');
    pair.extend(decode(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Opens a tunnel through a proxy to the target.
async fn tunnel(
    link: &Link,
    proxy: &ProxyTarget,
    target: &Target,
    stream: AnyStream,
) -> Result<AnyStream, FailureKind> {
    let failed = |reason: String, retry: Retry| FailureKind::Proxy { proxy: proxy.shown.clone(), reason, retry };
    let authority = format!("{}:{}", target.host, target.port);
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(&authority)
        .header(HOST, &authority)
        .body(Full::new(Bytes::new()))
        .map_err(|_| failed(format!("{authority} cannot be requested"), Retry::Never))?;
    if let Some(authorization) = &proxy.authorization {
        let value = authorization.clone();
        request.headers_mut().insert(PROXY_AUTHORIZATION, value);
    }
    let exchanged = exchange(stream, request, link.headers_limit).await;
    let (response, connection) = exchanged.map_err(|failure| proxy.proxy_failure(failure))?;
    let status = response.status();
    if !status.is_success() {
        let reason = format!("CONNECT {authority} failed: {status}");
        return Err(failed(reason, if status.is_server_error() { Retry::UntilTimeout } else { Retry::Never }));
    }
    let upgraded = hyper::upgrade::on(response)
        .await
        .map_err(|error| failed(format!("connection lost: {error}"), Retry::UntilTimeout))?;
    // The task ends by itself once it has handed the connection over.
    drop(connection);
    Ok(Box::new(TokioIo::new(upgraded)))
}

/// One request and the head of its response on a fresh connection.
async fn exchange(
    stream: AnyStream,
    request: Request<Full<Bytes>>,
    headers_limit: Option<Duration>,
) -> Result<(Response<hyper::body::Incoming>, TaskGuard), FailureKind> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| transport(format!("connection lost: {error}")))?;
    // Its errors also reach the sender or the body.
    let task = tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    let guard = TaskGuard(task.abort_handle());
    let response = sender.send_request(request);
    let response = match headers_limit {
        None => response.await,
        Some(limit) => match tokio::time::timeout(limit, response).await {
            Ok(response) => response,
            Err(_) => return Err(FailureKind::HeadersTimeout { limit }),
        },
    };
    let response = response.map_err(|error| transport(format!("invalid HTTP response: {error}")))?;
    Ok((response, guard))
}

fn transport(reason: String) -> FailureKind {
    FailureKind::Transport { reason }
}

/// An untrusted certificate and a server without TLS are permanent; other failures may be temporary.
fn encryption_failure(link: &Link, target: &Target, error: &io::Error) -> FailureKind {
    let host = target.host.to_string();
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(error)) => {
            let is_operators = link.owner == Principal::Operator;
            let (reason, step) = certificate_trouble(error, is_operators);
            FailureKind::Certificate { host, reason, step, is_operators }
        }
        Some(rustls::Error::InvalidMessage(_)) => FailureKind::NotEncrypted { host, port: target.port },
        _ => transport(format!("no encrypted connection to {host}: {error}")),
    }
}

/// What is wrong with a certificate, and what to do about it.
fn certificate_trouble(error: &CertificateError, is_operators: bool) -> (String, CertificateStep) {
    let step = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateStep::Renew,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => CertificateStep::SetClock,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateStep::MatchName
        }
        // The library below has no words for this one: its own error is passed on as it is.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            let reason = "it is a CA certificate, not a server certificate".to_owned();
            return (reason, CertificateStep::IssueForServer);
        }
        _ if is_operators => CertificateStep::AddRoot,
        _ => CertificateStep::AddAuthority,
    };
    (error.to_string(), step)
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs()))),
    }
}
