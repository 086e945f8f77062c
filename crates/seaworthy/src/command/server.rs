//! `seaworthy server`: the Ignition endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use seaworthy_listen::{probes, tls};
use seaworthy_resident::take_small_pages;
use seaworthy_serve::access::{Keys, read_tokens};
use seaworthy_serve::bootstrap::Folder;
use seaworthy_serve::certificates::Files;
use seaworthy_serve::cluster::{self, Cluster, Settings};
use seaworthy_serve::listen::LIMITS;
use seaworthy_serve::looks::again_and_again;
use seaworthy_serve::rate::Rates;
use seaworthy_serve::token_file::TokenFile;
use seaworthy_serve::{Access, Certificates, Endpoint, Listening, Shelf};

use super::apiserver::stopped;
use crate::at_rest;
use crate::cli::{Server, TlsVersion};
use crate::failure::{Failure, OK};
use crate::paint;

/// How often the files of the certificate and of tokens are looked at: they are small, so often.
const LOOK: Duration = Duration::from_secs(2);
/// Files that may be open besides connections: watches, probes, the log, a folder that is read.
const OTHER_FILES: u64 = 128;
/// How many times its rate an address may ask at once: a rack that is switched on comes from behind one address.
const AT_ONCE: f64 = 10.0;

/// Serves until it is told to stop.
pub fn run(options: &Server) -> Result<u8, Failure> {
    super::controllers::log(options.log_format);
    // A thousand connections are many small things, of which each touches little of what it asks for.
    take_small_pages();
    allow_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // What encoded the answers ends soon after it has, and its memory with it.
        .thread_keep_alive(Duration::from_millis(200))
        .build()
        .map_err(|error| Failure::unreadable(format!("cannot start: {error}")))?;
    let result = runtime.block_on(serve(options));
    // A file that cannot be read is waited for by nobody.
    runtime.shutdown_background();
    result
}

/// Raises the number of files that may be open as far as connections need it: what a service is started with is often less.
fn allow_connections() {
    let wanted = LIMITS.connections as u64 + OTHER_FILES;
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| match soft < wanted {
        true => setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard).map(|()| wanted.min(hard)),
        false => Ok(soft),
    });
    match raised {
        Ok(files) if files >= wanted => {}
        // It works all the same: clients beyond it wait.
        Ok(files) => tracing::warn!(files, wanted, "the open file limit is lower than the connection limit"),
        Err(error) => tracing::warn!(%error, wanted, "cannot raise the open file limit"),
    }
}

async fn serve(options: &Server) -> Result<u8, Failure> {
    let mut keys = Keys::default();
    if let Some(file) = &options.token_file {
        keys.tokens = read_tokens(file).map_err(Failure::unreadable)?.into();
    }
    let tokens = keys.tokens.clone();
    if options.bootstrap.is_some() && !options.open && options.token_file.is_none() && options.client_ca.is_none() {
        return Err(Failure::unreadable(
            "no machine could authenticate: without a cluster there are no bootstrap tokens; pass --token-file or \
             --client-ca, or serve any client with --open",
        ));
    }
    let files =
        Files { certificate: options.cert.clone(), key: options.key.clone(), clients: options.client_ca.clone() };
    let versions = match options.tls_min_version {
        TlsVersion::Tls12 => tls::VERSIONS,
        TlsVersion::Tls13 => tls::NEWEST,
    };
    let certificates = Arc::new(Certificates::load(files, versions).map_err(Failure::unreadable)?);
    let shelf = Arc::new(Shelf::default());
    let source = match &options.bootstrap {
        Some(base) => {
            let folder = folder(options, base.clone())?;
            folder.check().map_err(Failure::unreadable)?;
            tokio::spawn(folder.run(Arc::clone(&shelf)))
        }
        None => {
            let client = cluster::connect(options.kubeconfig.as_deref()).await.map_err(Failure::unreadable)?;
            let cluster = Cluster::new(Settings {
                apiserver_url: options.apiserver_url.clone().unwrap_or_default(),
                token_folder: options.bootstrap_token.clone(),
                namespace: options.namespace.clone(),
            });
            keys.secrets = Some(cluster.secrets());
            tokio::spawn(cluster.run(client, Arc::clone(&shelf)))
        }
    };
    let access = match options.open {
        true => Access::Open,
        false => Access::Asked(keys),
    };
    if options.open {
        paint::warning("any client that reaches the port gets the configuration, secrets included (--open)");
    }
    let rates = match f64::from(options.rate_limit) {
        0.0 => Rates::default(),
        a_second => Rates::new(a_second, a_second * AT_ONCE),
    };
    let endpoint = Arc::new(Endpoint { shelf, access, rates, metrics: Arc::default() });
    let listening = Listening::bind(Arc::clone(&endpoint), Arc::clone(&certificates), options.listen).await;
    let listening = listening.map_err(Failure::unreadable)?;
    let probes = match options.metrics {
        Some(address) => Some(probes(endpoint, address).await?),
        None => None,
    };
    // Before anybody knows that it runs: whoever does may end it, and means an orderly end.
    let stopped = stopped();
    println!("https://{}", listening.address());
    // Apart from each other: one that hangs must not let the other grow old.
    tokio::spawn(look_at_certificate(certificates));
    if let Some(file) = options.token_file.clone() {
        let mut file = TokenFile::new(file, tokens);
        tokio::spawn(again_and_again(LOOK, move || file.look()));
    }
    tokio::spawn(at_rest::stay_small());
    tokio::select! {
        () = listening.serve(stopped) => {}
        () = async { match probes {
            Some(probes) => probes.await,
            None => std::future::pending().await,
        } } => return Err(Failure::unreadable("the probe server has stopped")),
        // It ends only if it cannot go on: without it, what is served would grow old.
        _ = source => return Err(Failure::unreadable("the source of configurations has stopped; see the log")),
    }
    Ok(OK)
}

/// Answers what others ask about this process.
async fn probes(endpoint: Arc<Endpoint>, address: SocketAddr) -> Result<impl Future<Output = ()>, Failure> {
    let listener = seaworthy_listen::bind(address).await;
    let listener =
        listener.map_err(|error| Failure::unreadable(format!("--metrics {address}: cannot listen: {error}")))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "serving probes");
    }
    let counted = Arc::clone(&endpoint);
    Ok(probes::serve(listener, move || counted.page(), move || endpoint.is_ready(), String::new))
}

/// Reads the certificate again whenever it has changed.
async fn look_at_certificate(certificates: Arc<Certificates>) {
    let mut told = None;
    again_and_again(LOOK, move || match certificates.reload() {
        Ok(is_new) => {
            told = None;
            if is_new {
                tracing::info!("reloaded the certificate");
            }
        }
        Err(error) => {
            let text = error.to_string();
            if told.as_ref() != Some(&text) {
                tracing::warn!(error = text, "cannot reload the certificate, serving the previous one");
                told = Some(text);
            }
        }
    })
    .await;
}

fn folder(options: &Server, base: PathBuf) -> Result<Folder, Failure> {
    let registries = options.registry_ca.iter().map(|text| match text.split_once('=') {
        Some((registry, file)) => Ok((registry.to_owned(), PathBuf::from(file))),
        None => Err(Failure::unreadable(format!("--registry-ca {text}: expected REGISTRY=FILE"))),
    });
    let registries: Result<Vec<_>, Failure> = registries.collect();
    Ok(Folder { base, kubeconfig: options.node_kubeconfig.clone(), registries: registries? })
}
