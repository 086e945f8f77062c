//! The real Ignition endpoint on a socket, for simulated machines.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use seaworthy_apiserver::Pki;
use seaworthy_fleet::StubSource;
use seaworthy_listen::tls;
use seaworthy_runtime::NAMESPACE;
use seaworthy_serve::access::{Credentials, SECRET_NAMESPACE, SECRET_TYPE, Tokens};
use seaworthy_serve::certificates::CertificateFiles;
use seaworthy_serve::cluster_source::{ClusterOptions, ClusterSource};
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::stub::{self, Stub};
use seaworthy_serve::{Access, AnswerStore, Certificates, Endpoint, EndpointServer, Token};
use serde_json::json;
use tokio::task::JoinSet;

/// The token that machines send.
pub const TOKEN: &str = "abcdef.0123456789abcdef";

/// The endpoint of a cluster, for as long as this lives.
pub struct TestEndpoint {
    address: SocketAddr,
    authority: String,
    _folder: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

impl TestEndpoint {
    pub async fn open(client: &Client) -> TestEndpoint {
        let secret = json!({
            "metadata": {"name": "bootstrap-token-abcdef"},
            "type": SECRET_TYPE,
            "stringData": {
                "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            },
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        Api::namespaced(client.clone(), SECRET_NAMESPACE).create(&PostParams::default(), &secret).await.unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let now = jiff::Timestamp::now();
        let pki = Pki::ephemeral(now).unwrap();
        let serving = pki.serving(&[IpAddr::V4(Ipv4Addr::LOCALHOST)], &["localhost"], now).unwrap();
        for (name, text) in [
            ("tls.crt", &*serving.certificate),
            ("tls.key", &*serving.key),
            ("token", TOKEN),
            ("ca.crt", pki.authority()),
        ] {
            std::fs::write(path(name), text).unwrap();
        }
        let files = CertificateFiles { certificate: path("tls.crt"), key: path("tls.key"), client_ca: None };
        let certificates = Arc::new(Certificates::load(files, tls::DEFAULT_VERSIONS).unwrap());
        let cluster = ClusterSource::new(ClusterOptions {
            apiserver_url: "https://api.example:6443".to_owned(),
            token_folder: folder.path().to_owned(),
            namespace: NAMESPACE.to_owned(),
        });
        let answers = Arc::new(AnswerStore::default());
        let access = Access::Restricted(Credentials { tokens: Tokens::default(), secrets: Some(cluster.secrets()) });
        let endpoint = Endpoint {
            answers: Arc::clone(&answers),
            access,
            rate_limits: RateLimits::default(),
            metrics: Default::default(),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = EndpointServer::bind(Arc::new(endpoint), certificates, address).await.unwrap();
        let address = server.address();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve(std::future::pending()));
        tasks.spawn(cluster.run(client.clone(), answers));
        TestEndpoint { address, authority: pki.authority().to_owned(), _folder: folder, _tasks: tasks }
    }

    /// What new machines are given, with a token to show.
    pub fn stubs(&self, token: &str) -> StubSource {
        let (server, authority, token) = (self.address.to_string(), self.authority.clone(), Token::new(token).unwrap());
        Arc::new(move |pool: &str| {
            let stub = Stub {
                server: &server,
                pool,
                authority: Some(authority.as_bytes()),
                token: Some(&token),
                version: stub::VERSION,
            };
            stub.config().unwrap()
        })
    }
}
