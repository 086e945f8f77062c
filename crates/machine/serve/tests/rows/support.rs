//! Fixtures: configs, an endpoint, a server with a TLS client.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig};
use seaworthy_apiserver::{CertifiedKey, Pki};
use seaworthy_ignition::{Node, Version, body_of};
use seaworthy_listen::{ConnectionLimits, tls};
use seaworthy_serve::answers::{Answers, PoolAnswers};
use seaworthy_serve::certificates::CertificateFiles;
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::response_body::ResponseBody;
use seaworthy_serve::servable_config::{Additions, Authorities};
use seaworthy_serve::server::{ClientTimeouts, LIMITS};
use seaworthy_serve::{Access, AnswerStore, Certificates, Endpoint, EndpointServer, Peer};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

/// An `Accept` header for a version.
pub fn accepts(version: &str) -> String {
    format!("application/vnd.coreos.ignition+json;version={version}, */*;q=0.1")
}

pub fn machine_config(name: &str, spec: Value) -> MachineConfig {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name},
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// A rendered MachineConfig with content of every kind that all versions can express.
pub fn rendered(name: &str) -> MachineConfig {
    machine_config(
        name,
        json!({
            "config": {
                "ignition": {"version": "3.5.0"},
                "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA key"]}]},
                "storage": {"files": [
                    {"path": "/etc/motd", "mode": 0o644, "overwrite": true, "contents": {"source": "data:,ahoy%0A"}},
                    {"path": "/usr/local/bin/tune", "mode": 0o755, "contents": {
                        "source": "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==", "compression": "gzip",
                    }},
                ]},
                "systemd": {"units": [{"name": "tune.service", "enabled": true,
                    "contents": "[Service]\nExecStart=/usr/local/bin/tune\n[Install]\nWantedBy=multi-user.target\n"}]},
            },
            "kernelArguments": ["nosmt"],
            "osImageURL": "quay.io/example/os@sha256:aaaa",
        }),
    )
}

pub fn controller_config() -> ControllerConfig {
    serde_json::from_value(controller_config_json()).unwrap()
}

pub fn controller_config_json() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "clusterDNSIP": "10.96.0.10",
            "cloudProviderConfig": "",
            "etcdDiscoveryDomain": "",
            "ipFamilies": "IPv4",
            "kubeAPIServerServingCAData": "Y2E=",
            "osImageURL": "",
            "releaseImage": "",
            "rootCAData": "Y2E=",
            "additionalTrustBundle": null,
            "images": {},
            "baseOSContainerImage": "quay.io/example/os@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {}, "spec": {"cloudConfig": {"name": ""}}},
            "dns": {"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {}, "spec": {"baseDomain": "example.com"}},
            "proxy": null,
        },
    })
}

pub fn additions() -> Additions {
    Additions {
        authorities: Authorities::of(&controller_config()).unwrap(),
        kubeconfig: "apiVersion: v1\nkind: Config\n".to_owned(),
        registries: Vec::new(),
    }
}

/// The paths of a served config's files, in order.
pub fn paths(config: &Value) -> Vec<&str> {
    config["storage"]["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
}

/// The contents that a served config writes to a path.
pub fn written(config: &Value, path: &str) -> String {
    let files = config["storage"]["files"].as_array().unwrap();
    let mut found = files.iter().filter(|file| file["path"] == path);
    let file = found.next().unwrap_or_else(|| panic!("there is no {path} in {:?}", paths(config)));
    assert!(found.next().is_none(), "{path} is there twice");
    String::from_utf8(body_of(&Node::from_json(file), 1 << 20).map(Cow::into_owned).unwrap()).unwrap()
}

/// The empty config, in every version.
pub fn empty() -> Answers {
    Answers::of(|version| Ok(serde_json::to_vec(&Node::empty_config(version.as_str()).to_json()).unwrap()))
}

/// An open endpoint with the pool `master`, whose config is empty, and `broken`, which has none.
pub fn endpoint() -> Endpoint {
    let answers = Arc::new(AnswerStore::default());
    let broken = Answers::refused("MachineConfig x: it is broken");
    answers.publish(PoolAnswers::from([
        ("master".to_owned(), Arc::new(empty())),
        ("broken".to_owned(), Arc::new(broken)),
    ]));
    Endpoint { answers, access: Access::Open, rate_limits: RateLimits::default(), metrics: Arc::default() }
}

/// A client without a certificate.
pub const UNAUTHENTICATED: Peer =
    Peer { address: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1234), has_certificate: false };

/// A response with its body.
pub struct Reply {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The version of the config, if there is one.
    pub fn version(&self) -> Option<String> {
        let config: Value = serde_json::from_slice(&self.body).ok()?;
        config["ignition"]["version"].as_str().map(str::to_owned)
    }
}

pub fn ask(endpoint: &Endpoint, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    ask_as(endpoint, UNAUTHENTICATED, method, path, headers)
}

pub fn ask_as(endpoint: &Endpoint, peer: Peer, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = endpoint.answer(&request.body(()).unwrap(), peer, Instant::now());
    let (parts, body) = response.into_parts();
    let body = whole(body);
    Reply { status: parts.status.as_u16(), headers: parts.headers, body }
}

/// The bytes of a body that is complete.
fn whole(body: ResponseBody) -> Bytes {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(body.collect()).poll(&mut context) {
        std::task::Poll::Ready(collected) => collected.unwrap().to_bytes(),
        std::task::Poll::Pending => panic!("the body is not complete"),
    }
}

/// An endpoint that listens, until this is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    pub pki: Pki,
    pub certificates: Arc<Certificates>,
    pub files: CertificateFiles,
    _folder: tempfile::TempDir,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl TestServer {
    pub async fn start(endpoint: Endpoint) -> TestServer {
        TestServer::with_timeouts(endpoint, ClientTimeouts::default()).await
    }

    pub async fn with_timeouts(endpoint: Endpoint, timeouts: ClientTimeouts) -> TestServer {
        TestServer::with_limits(endpoint, timeouts, LIMITS).await
    }

    pub async fn with_limits(endpoint: Endpoint, timeouts: ClientTimeouts, limits: ConnectionLimits) -> TestServer {
        TestServer::with_versions(endpoint, timeouts, limits, tls::DEFAULT_VERSIONS).await
    }

    pub async fn with_versions(
        endpoint: Endpoint,
        timeouts: ClientTimeouts,
        limits: ConnectionLimits,
        versions: &'static [&'static rustls::SupportedProtocolVersion],
    ) -> TestServer {
        let pki = Pki::ephemeral(jiff::Timestamp::now()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = CertificateFiles {
            certificate: path("tls.crt"),
            key: path("tls.key"),
            client_ca: Some(path("clients.crt")),
        };
        write_serving(&pki, &files);
        std::fs::write(path("clients.crt"), pki.authority()).unwrap();
        let certificates = Arc::new(Certificates::load(files.clone(), versions).unwrap());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = EndpointServer::bind(Arc::new(endpoint), Arc::clone(&certificates), address).await.unwrap();
        let server = server.with_timeouts(timeouts).with_limits(limits);
        let address = server.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(server.serve(async move {
            let _ = stopped.await;
        }));
        TestServer { address, pki, certificates, files, _folder: folder, stop, served }
    }

    /// Stops the server; the handle is done when it has stopped.
    pub fn stop(self) -> JoinHandle<()> {
        drop(self.stop);
        self.served
    }

    /// Connects, with a client certificate if there is one.
    pub async fn connect(&self, own: Option<&CertifiedKey>) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_with(own, rustls::ALL_VERSIONS, &["http/1.1"]).await
    }

    pub async fn connect_with(
        &self,
        own: Option<&CertifiedKey>,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.handshake(TcpStream::connect(self.address).await?, own, versions, protocols).await
    }

    /// Completes the TLS handshake on an open connection.
    pub async fn handshake(
        &self,
        stream: TcpStream,
        own: Option<&CertifiedKey>,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pki.authority().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// One request on a connection of its own.
    pub async fn get(&self, path: &str, headers: &[(&str, &str)], own: Option<&CertifiedKey>) -> Reply {
        let stream = self.connect(own).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response: Response<_> = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Reply { status: parts.status.as_u16(), headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
    }
}

/// Writes a fresh certificate for this machine.
pub fn write_serving(pki: &Pki, files: &CertificateFiles) {
    let serving = pki.serving(&[Ipv4Addr::LOCALHOST.into()], &["localhost"], jiff::Timestamp::now()).unwrap();
    std::fs::write(&files.certificate, serving.certificate).unwrap();
    std::fs::write(&files.key, serving.key).unwrap();
}

/// A program of Debian's package `ignition`; `None` when there is none, which is then on record.
pub fn tool(program: &str, variable: &str, elsewhere: &str) -> Option<PathBuf> {
    seaworthy_trial::program(variable, program, &[elsewhere], "ignition")
}

/// All versions that are served.
pub fn versions() -> [Version; 6] {
    Version::WRITABLE
}

/// Everything that is logged, as text.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

/// While there is only one subscriber, tracing caches per call site whether it is enabled, and most tests have no subscriber.
/// This one makes it ask every subscriber.
static SECOND_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

impl Log {
    pub fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        LazyLock::force(&SECOND_SUBSCRIBER);
        let sink = self.clone();
        let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        lines.with_writer(move || sink.clone()).finish()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
