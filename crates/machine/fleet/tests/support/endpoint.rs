//! The real endpoint on a socket of its own, for machines that boot.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use seaworthy_apiserver::Pki;
use seaworthy_fleet::Stubs;
use seaworthy_listen::tls;
use seaworthy_machineconfig::operator::NAMESPACE;
use seaworthy_serve::access::{Keys, SECRET_NAMESPACE, SECRET_TYPE, Tokens};
use seaworthy_serve::certificates::Files;
use seaworthy_serve::cluster::{Cluster, Settings};
use seaworthy_serve::rate::Rates;
use seaworthy_serve::stub::{self, Stub};
use seaworthy_serve::{Access, Certificates, Endpoint, Listening, Shelf, Token};
use serde_json::json;
use tokio::task::JoinSet;

/// What machines show at the door.
pub const TOKEN: &str = "abcdef.0123456789abcdef";

/// The endpoint of a cluster, for as long as this lives.
pub struct Harbour {
    address: SocketAddr,
    authority: String,
    _folder: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

impl Harbour {
    pub async fn open(client: &Client) -> Harbour {
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
        let files = Files { certificate: path("tls.crt"), key: path("tls.key"), clients: None };
        let certificates = Arc::new(Certificates::load(files, tls::VERSIONS).unwrap());
        let cluster = Cluster::new(Settings {
            apiserver_url: "https://api.example:6443".to_owned(),
            token_folder: folder.path().to_owned(),
            namespace: NAMESPACE.to_owned(),
        });
        let shelf = Arc::new(Shelf::default());
        let access = Access::Asked(Keys { tokens: Tokens::default(), secrets: Some(cluster.secrets()) });
        let endpoint =
            Endpoint { shelf: Arc::clone(&shelf), access, rates: Rates::default(), metrics: Default::default() };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = Listening::bind(Arc::new(endpoint), certificates, address).await.unwrap();
        let address = listening.address();
        let mut tasks = JoinSet::new();
        tasks.spawn(listening.serve(std::future::pending()));
        tasks.spawn(cluster.run(client.clone(), shelf));
        Harbour { address, authority: pki.authority().to_owned(), _folder: folder, _tasks: tasks }
    }

    /// What new machines are given, with a token to show.
    pub fn stubs(&self, token: &str) -> Stubs {
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
