//! The Ignition endpoint of `seaworthy up`: its certificate, and the token that new machines show.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use seaworthy_apiserver::{Pki, Server};
use seaworthy_fleet::Stubs;
use seaworthy_listen::{Door, reach, tls};
use seaworthy_machineconfig::cluster::Client;
use seaworthy_machineconfig::objects;
use seaworthy_machineconfig::operator::NAMESPACE;
use seaworthy_serve::access::{Keys, SECRET_NAMESPACE, SECRET_TYPE, Tokens};
use seaworthy_serve::certificates::Files;
use seaworthy_serve::cluster::{Cluster, Settings};
use seaworthy_serve::rate::Rates;
use seaworthy_serve::stub::{self, Stub};
use seaworthy_serve::{Access, Certificates, Listening, Shelf, Token};
use serde_json::json;

use super::super::apiserver::write_private;
use crate::failure::Failure;

/// The folder with the token and the authority, in the data folder.
pub const TOKENS: &str = "bootstrap-token";

/// The endpoint, before it serves.
pub struct Endpoint {
    listening: Listening,
    cluster: Arc<Cluster>,
    shelf: Arc<Shelf>,
    authority: String,
    token: String,
}

impl Endpoint {
    /// Prepares what machines show and are shown at a door that is open.
    pub fn prepare(
        server: &Server,
        pki: &Pki,
        data: &Path,
        door: Door,
        apiserver: SocketAddr,
    ) -> Result<Endpoint, Failure> {
        let (now, addresses) = (server.world().now(), reach::addresses(door.address()));
        let serving = pki.serving(&addresses, &["localhost"], now).map_err(Failure::unreadable)?;
        let files =
            Files { certificate: data.join("pki/ignition.crt"), key: data.join("pki/ignition.key"), clients: None };
        write_private(&files.certificate, &serving.certificate)?;
        write_private(&files.key, &serving.key)?;
        let certificates = Arc::new(Certificates::load(files, tls::VERSIONS).map_err(Failure::unreadable)?);

        let folder = data.join(TOKENS);
        // The data folder is its owner's alone, and so is what is in it.
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::unreadable(format!("cannot create {}: {error}", folder.display())))?;
        let token = token(server, &folder.join("token"))?;
        write_private(&folder.join("ca.crt"), pki.authority())?;
        let settings = Settings {
            apiserver_url: format!("https://{}", reach::advertised(apiserver)),
            token_folder: folder,
            namespace: NAMESPACE.to_owned(),
        };
        let cluster = Cluster::new(settings);
        let shelf = Arc::new(Shelf::default());
        let keys = Keys { tokens: Tokens::default(), secrets: Some(cluster.secrets()) };
        let endpoint = seaworthy_serve::Endpoint {
            shelf: Arc::clone(&shelf),
            access: Access::Asked(keys),
            rates: Rates::default(),
            metrics: Arc::default(),
        };
        let listening = Listening::through(Arc::new(endpoint), certificates, door);
        Ok(Endpoint { listening, cluster, shelf, authority: pki.authority().to_owned(), token })
    }

    /// What new machines are given to find their configuration.
    pub fn stubs(&self) -> Stubs {
        let (mut address, authority) = (self.address(), self.authority.clone());
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let (server, token) = (address.to_string(), Token::new(&self.token));
        Arc::new(move |pool: &str| {
            let (authority, token) = (Some(authority.as_bytes()), token.as_ref());
            let stub = Stub { server: &server, pool, authority, token, version: stub::VERSION };
            // A pool without a proper name has no machines; one that asks all the same is told that its stub leads nowhere.
            stub.config().unwrap_or_default()
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Serves until `stop` is done.
    ///
    /// # Errors
    ///
    /// If machines would get nothing, or what is no longer true.
    pub async fn serve(self, client: Client, stop: impl Future<Output = ()>) -> Result<(), Failure> {
        let failed = |why: &str| Failure::wrong(format!("the Ignition endpoint cannot serve new machines: {why}"));
        let mut stop = std::pin::pin!(stop);
        let secret = secret(&self.token);
        tokio::select! {
            made = objects::create(&client, &secret) => {
                made.map_err(|error| failed(&format!("cannot create their bootstrap token in the cluster: {error}")))?;
            }
            () = &mut stop => return Ok(()),
        }
        tokio::select! {
            () = self.listening.serve(stop) => Ok(()),
            () = self.cluster.run(client, self.shelf) => Err(failed("the watches on the cluster have stopped; see \
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
    server.world().entropy(&mut bytes);
    // 36 does not divide 256, which costs less than a bit of what cannot be guessed.
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
