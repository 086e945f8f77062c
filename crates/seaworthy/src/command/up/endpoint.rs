//! Ignition endpoint of `seaworthy up`: its certificate, and the bootstrap token of new machines.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use seaworthy_apiserver::{Pki, Server};
use seaworthy_fleet::StubSource;
use seaworthy_listen::{Listener, addresses, tls};
use seaworthy_runtime::NAMESPACE;
use seaworthy_runtime::cluster::Client;
use seaworthy_runtime::objects;
use seaworthy_serve::access::{Credentials, SECRET_NAMESPACE, SECRET_TYPE, Tokens};
use seaworthy_serve::certificates::CertificateFiles;
use seaworthy_serve::cluster_source::{ClusterOptions, ClusterSource};
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::stub::{self, Stub};
use seaworthy_serve::{Access, AnswerStore, Certificates, EndpointServer, Token};
use serde_json::json;

use crate::admin_kubeconfig::write_private;
use crate::failure::Failure;

/// The folder with the token and the authority, in the data folder.
pub const TOKEN_FOLDER: &str = "bootstrap-token";

/// The endpoint, before it serves.
pub struct Endpoint {
    server: EndpointServer,
    cluster: Arc<ClusterSource>,
    answers: Arc<AnswerStore>,
    authority: String,
    token: String,
}

impl Endpoint {
    /// Prepares certificate and token for a listener that is bound already.
    pub fn prepare(
        server: &Server,
        pki: &Pki,
        data: &Path,
        listener: Listener,
        apiserver: SocketAddr,
    ) -> Result<Endpoint, Failure> {
        let (now, addresses) = (server.clock().now(), addresses::reachable(listener.address()));
        let serving = pki.serving(&addresses, &["localhost"], now).map_err(Failure::invalid)?;
        let files = CertificateFiles {
            certificate: data.join("pki/ignition.crt"),
            key: data.join("pki/ignition.key"),
            client_ca: None,
        };
        write_private(&files.certificate, &serving.certificate)?;
        write_private(&files.key, &serving.key)?;
        let certificates = Arc::new(Certificates::load(files, tls::DEFAULT_VERSIONS).map_err(Failure::invalid)?);

        let folder = data.join(TOKEN_FOLDER);
        // The data folder is its owner's alone, and so is what is in it.
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::invalid(format!("cannot create {}: {error}", folder.display())))?;
        let token = token(server, &folder.join("token"))?;
        write_private(&folder.join("ca.crt"), pki.authority())?;
        let options = ClusterOptions {
            apiserver_url: format!("https://{}", addresses::advertised(apiserver)),
            token_folder: folder,
            namespace: NAMESPACE.to_owned(),
        };
        let cluster = ClusterSource::new(options);
        let answers = Arc::new(AnswerStore::default());
        let credentials = Credentials { tokens: Tokens::default(), secrets: Some(cluster.secrets()) };
        let endpoint = seaworthy_serve::Endpoint {
            answers: Arc::clone(&answers),
            access: Access::Restricted(credentials),
            rate_limits: RateLimits::default(),
            metrics: Arc::default(),
        };
        let server = EndpointServer::with_listener(Arc::new(endpoint), certificates, listener);
        Ok(Endpoint { server, cluster, answers, authority: pki.authority().to_owned(), token })
    }

    /// The stub of new machines, for each pool.
    pub fn stubs(&self) -> StubSource {
        let (mut address, authority) = (self.address(), self.authority.clone());
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let (server, token) = (address.to_string(), Token::new(&self.token));
        Arc::new(move |pool: &str| {
            let (authority, token) = (Some(authority.as_bytes()), token.as_ref());
            let stub = Stub { server: &server, pool, authority, token, version: stub::VERSION };
            // A pool with an invalid name has no machines; an empty stub fails with an error on the machine.
            stub.config().unwrap_or_default()
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Serves until `stop` is done.
    ///
    /// # Errors
    ///
    /// If the endpoint cannot serve, or could serve stale configurations only.
    pub async fn serve(self, client: Client, stop: impl Future<Output = ()>) -> Result<(), Failure> {
        let failed = |why: &str| Failure::failed(format!("the Ignition endpoint cannot serve new machines: {why}"));
        let mut stop = std::pin::pin!(stop);
        let secret = secret(&self.token);
        tokio::select! {
            made = objects::create(&client, &secret) => {
                made.map_err(|error| failed(&format!("cannot create their bootstrap token in the cluster: {error}")))?;
            }
            () = &mut stop => return Ok(()),
        }
        tokio::select! {
            () = self.server.serve(stop) => Ok(()),
            () = self.cluster.run(client, self.answers) => Err(failed("the watches on the cluster have stopped; see \
                                                                     the log")),
        }
    }
}

/// The token of the folder, or a new one.
fn token(server: &Server, path: &Path) -> Result<String, Failure> {
    let is_token = |text: &str| text.len() == 23 && text.as_bytes()[6] == b'.';
    if let Ok(text) = std::fs::read_to_string(path)
        && is_token(text.trim())
    {
        return Ok(text.trim().to_owned());
    }
    let mut bytes = [0; 22];
    server.clock().entropy(&mut bytes);
    // 36 does not divide 256, which costs less than one bit of entropy.
    let word: String =
        bytes.iter().map(|byte| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[usize::from(*byte) % 36])).collect();
    let token = format!("{}.{}", &word[..6], &word[6..]);
    write_private(path, &format!("{token}\n"))?;
    Ok(token)
}

/// The Secret that makes a token one of the cluster's.
fn secret(token: &str) -> serde_json::Value {
    let (id, word) = token.split_once('.').unwrap_or((token, ""));
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": SECRET_NAMESPACE},
        "type": SECRET_TYPE,
        "stringData": {
            "token-id": id, "token-secret": word, "usage-bootstrap-authentication": "true",
            "description": "new machines of seaworthy up",
        },
    })
}
