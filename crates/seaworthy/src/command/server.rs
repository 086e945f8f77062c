//! `seaworthy server`: the Ignition endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use seaworthy_listen::{probes, tls};
use seaworthy_resident::disable_huge_pages;
use seaworthy_runtime::cluster;
use seaworthy_serve::access::{Credentials, read_tokens};
use seaworthy_serve::bootstrap_folder::BootstrapFolder;
use seaworthy_serve::certificates::CertificateFiles;
use seaworthy_serve::cluster_source::{ClusterOptions, ClusterSource};
use seaworthy_serve::periodic::run_periodically;
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::server::LIMITS;
use seaworthy_serve::token_file::TokenFile;
use seaworthy_serve::{Access, AnswerStore, Certificates, Endpoint, EndpointServer};

use crate::cli::{Server, TlsVersion};
use crate::failure::{EXIT_OK, Failure};
use crate::process::{shutdown_signal, start_log};
use crate::{idle_memory, terminal};

/// How often the certificate and token files are checked for changes.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Threads that encoded answers end soon after that, and release their memory.
const THREAD_KEEP_ALIVE_TIMEOUT: Duration = Duration::from_millis(200);
/// Files that may be open besides connections: watches, probes, the log, a folder that is read.
const OTHER_FILES: u64 = 128;
/// Burst of an address as a multiple of its rate: a rack that is switched on comes from behind one address.
const BURST_FACTOR: f64 = 10.0;

/// Serves until it receives a stop signal.
pub fn run(options: &Server) -> Result<u8, Failure> {
    start_log(options.log_format);
    // A thousand connections are many small things, of which each touches little of what it asks for.
    disable_huge_pages();
    allow_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(THREAD_KEEP_ALIVE_TIMEOUT)
        .build()
        .map_err(|error| Failure::invalid(format!("cannot start: {error}")))?;
    let result = runtime.block_on(serve(options));
    // No one waits for a read that hangs.
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
    let mut credentials = Credentials::default();
    if let Some(file) = &options.token_file {
        credentials.tokens = read_tokens(file).map_err(Failure::invalid)?.into();
    }
    let tokens = credentials.tokens.clone();
    if options.bootstrap.is_some() && !options.open && options.token_file.is_none() && options.client_ca.is_none() {
        return Err(Failure::invalid(
            "no machine could authenticate: without a cluster there are no bootstrap tokens; pass --token-file or \
             --client-ca, or serve any client with --open",
        ));
    }
    let files = CertificateFiles {
        certificate: options.cert.clone(),
        key: options.key.clone(),
        client_ca: options.client_ca.clone(),
    };
    let versions = match options.tls_min_version {
        TlsVersion::Tls12 => tls::DEFAULT_VERSIONS,
        TlsVersion::Tls13 => tls::TLS13_ONLY,
    };
    let certificates = Arc::new(Certificates::load(files, versions).map_err(Failure::invalid)?);
    let answers = Arc::new(AnswerStore::default());
    let source = match &options.bootstrap {
        Some(base) => {
            let folder = folder(options, base.clone())?;
            folder.check().map_err(Failure::invalid)?;
            tokio::spawn(folder.run(Arc::clone(&answers)))
        }
        None => {
            let client = cluster::connect(options.kubeconfig.as_deref(), None).await.map_err(Failure::invalid)?;
            let cluster = ClusterSource::new(ClusterOptions {
                apiserver_url: options.apiserver_url.clone().unwrap_or_default(),
                token_folder: options.bootstrap_token.clone(),
                namespace: options.namespace.clone(),
            });
            credentials.secrets = Some(cluster.secrets());
            tokio::spawn(cluster.run(client, Arc::clone(&answers)))
        }
    };
    let access = match options.open {
        true => Access::Open,
        false => Access::Restricted(credentials),
    };
    if options.open {
        terminal::warning("any client that reaches the port gets the configuration, secrets included (--open)");
    }
    let rate_limits = match f64::from(options.rate_limit) {
        0.0 => RateLimits::default(),
        per_second => RateLimits::new(per_second, per_second * BURST_FACTOR),
    };
    let endpoint = Arc::new(Endpoint { answers, access, rate_limits, metrics: Arc::default() });
    let server = EndpointServer::bind(Arc::clone(&endpoint), Arc::clone(&certificates), options.listen).await;
    let server = server.map_err(Failure::invalid)?;
    let probes = match options.metrics {
        Some(address) => Some(probes(endpoint, address).await?),
        None => None,
    };
    // Before the address is printed: a reader of it may send a signal, and expects an orderly shutdown.
    let stopped = shutdown_signal();
    println!("https://{}", server.address());
    // Separate tasks: if reading one file hangs, the other is still reloaded.
    tokio::spawn(watch_certificate(certificates));
    if let Some(file) = options.token_file.clone() {
        let mut file = TokenFile::new(file, tokens);
        tokio::spawn(run_periodically(FILE_CHECK_INTERVAL, move || file.reload()));
    }
    tokio::spawn(idle_memory::release_periodically());
    tokio::select! {
        () = server.serve(stopped) => {}
        () = async { match probes {
            Some(probes) => probes.await,
            None => std::future::pending().await,
        } } => return Err(Failure::invalid("the probe server has stopped")),
        // It ends only on failure: without it, what is served would become stale.
        _ = source => return Err(Failure::invalid("the source of configurations has stopped; see the log")),
    }
    Ok(EXIT_OK)
}

/// Serves metrics and probes.
async fn probes(endpoint: Arc<Endpoint>, address: SocketAddr) -> Result<impl Future<Output = ()>, Failure> {
    let listener = seaworthy_listen::bind(address).await;
    let listener =
        listener.map_err(|error| Failure::invalid(format!("--metrics {address}: cannot listen: {error}")))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "serving probes");
    }
    let counted = Arc::clone(&endpoint);
    Ok(probes::serve(listener, move || counted.page(), move || endpoint.is_ready(), String::new))
}

/// Reads the certificate again whenever it has changed.
async fn watch_certificate(certificates: Arc<Certificates>) {
    let mut reported = None;
    run_periodically(FILE_CHECK_INTERVAL, move || match certificates.reload() {
        Ok(is_new) => {
            reported = None;
            if is_new {
                tracing::info!("reloaded the certificate");
            }
        }
        Err(error) => {
            let text = error.to_string();
            if reported.as_ref() != Some(&text) {
                tracing::warn!(error = text, "cannot reload the certificate, serving the previous one");
                reported = Some(text);
            }
        }
    })
    .await;
}

fn folder(options: &Server, base: PathBuf) -> Result<BootstrapFolder, Failure> {
    let registries = options.registry_ca.iter().map(|text| match text.split_once('=') {
        Some((registry, file)) => Ok((registry.to_owned(), PathBuf::from(file))),
        None => Err(Failure::invalid(format!("--registry-ca {text}: expected REGISTRY=FILE"))),
    });
    let registries: Result<Vec<_>, Failure> = registries.collect();
    Ok(BootstrapFolder { base, kubeconfig: options.node_kubeconfig.clone(), registries: registries? })
}
