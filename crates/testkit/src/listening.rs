//! Listening cluster: our API server in memory on a TLS socket, with the time of day, for what reaches a cluster by a kubeconfig.

use std::net::Ipv4Addr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kube::Client;
use seaworthy_apiserver::{
    Housekeeping, Pki, Server, ServerOptions, StaticTokens, StorageLocation, SystemClock, TlsServer,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::embedded;

/// A cluster inside the test process that other clients reach as they would reach any.
pub struct Listening {
    server: Server,
    kubeconfig: Value,
    /// Collects garbage and deletes namespaces, as the controllers of a cluster do.
    _housekeeping: Housekeeping,
    serving: JoinHandle<()>,
}

impl Listening {
    /// Starts an empty cluster on a port of its own.
    ///
    /// # Panics
    ///
    /// If it does not start: a test has no use for anything less.
    pub async fn start() -> Listening {
        let now = Timestamp::now();
        let pki = Pki::ephemeral(now).expect("an authority");
        let settings = ServerOptions {
            storage: StorageLocation::Memory,
            clock: Arc::new(SystemClock),
            tokens: StaticTokens::default(),
            signing_key: Arc::clone(&pki.signing_key),
        };
        let server = Server::open(settings).expect("a server in memory opens");
        server.prepare().await.expect("a server in memory takes what it needs");
        let housekeeping = server.start();
        let listening = TlsServer::bind(server.clone(), &pki, (Ipv4Addr::LOCALHOST, 0).into()).await;
        let listening = listening.expect("a port of this machine is free");
        let admin = pki.client("admin", "system:masters", now).expect("a certificate");
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        let user = json!({
            "client-certificate-data": encode(&admin.certificate),
            "client-key-data": encode(&admin.key),
        });
        let cluster = json!({
            "server": format!("https://{}", listening.address()),
            "certificate-authority-data": encode(pki.authority()),
        });
        let serving = tokio::spawn(listening.serve(std::future::pending()));
        Listening { server, kubeconfig: kubeconfig(cluster, user), _housekeeping: housekeeping, serving }
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.client_as("admin", &["system:masters"])
    }

    /// A client of this user, who is in these groups and in `system:authenticated`.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        embedded::client_as(&self.server, user, groups)
    }

    /// The kubeconfig of a user who may do everything, as JSON.
    pub fn kubeconfig(&self) -> &Value {
        &self.kubeconfig
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A kubeconfig with one cluster and one user.
pub(crate) fn kubeconfig(cluster: Value, user: Value) -> Value {
    let name = "cluster";
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    })
}
