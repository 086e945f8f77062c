//! `seaworthy apiserver`: the embedded Kubernetes API server.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seaworthy_apiserver::{
    ClockAndEntropy as _, DataFolder, Pki, Server, ServerOptions, StaticTokens, StorageLocation, SystemClock, TlsServer,
};
use seaworthy_resident::disable_huge_pages;

use crate::cli::Apiserver;
use crate::failure::{EXIT_OK, Failure};
use crate::idle_memory;
use crate::terminal;

/// The user of the kubeconfig that the server writes, and its group, which may do everything.
const ADMIN: (&str, &str) = ("seaworthy-admin", "system:masters");

/// Serves until it receives a stop signal.
pub fn run(options: &Apiserver) -> Result<u8, Failure> {
    disable_huge_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::invalid(format!("cannot start: {error}")))?;
    runtime.block_on(serve(options))
}

async fn serve(options: &Apiserver) -> Result<u8, Failure> {
    tokio::spawn(idle_memory::release_periodically());
    let clock = Arc::new(SystemClock);
    let now = clock.now();
    let tokens = match &options.token_auth_file {
        Some(file) => StaticTokens::load(file).map_err(Failure::invalid)?,
        None => StaticTokens::default(),
    };
    // Before anything is written there: the folder may belong to another process.
    let folder = DataFolder::open(&options.data).map_err(Failure::invalid)?;
    let pki = Pki::load(&options.data.join("pki"), now).map_err(Failure::invalid)?;
    let signing_key = pki.signing_key.clone();
    let server_options = ServerOptions { storage: StorageLocation::Folder(folder), clock, tokens, signing_key };
    let server = Server::open(server_options).map_err(Failure::invalid)?;
    server.prepare().await.map_err(Failure::invalid)?;
    let listening = TlsServer::bind(server.clone(), &pki, options.listen).await.map_err(Failure::invalid)?;
    let address = listening.address();
    let file = options.kubeconfig_out.clone().unwrap_or_else(|| options.data.join("admin.kubeconfig"));
    write_kubeconfig(&file, &kubeconfig(&pki, address, now)?)?;
    // Before the address is printed: a reader of it may send a signal, and expects an orderly shutdown.
    let stopped = shutdown_signal();
    println!("https://{address}");
    terminal::note(&format!("kubectl --kubeconfig {} get namespaces", file.display()));
    let housekeeping = server.start();
    listening.serve(stopped).await;
    housekeeping.stop().await;
    server.store().close().await;
    Ok(EXIT_OK)
}

/// Listens for SIGINT, SIGTERM and SIGHUP from the call on; completes when one arrives.
pub fn shutdown_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    // A process that was started with `nohup` outlives the terminal.
    let hangup = if is_ignored(SignalKind::hangup()) { None } else { signal(SignalKind::hangup()).ok() };
    async move {
        let hung_up = async {
            match hangup {
                Some(mut hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        match (interrupt, terminate) {
            (Ok(mut interrupt), Ok(mut terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hung_up => {}
                }
            }
            // Without handlers the default action of the signals ends the process.
            _ => std::future::pending().await,
        }
    }
}

/// Whether the process was started with a signal ignored.
fn is_ignored(signal: tokio::signal::unix::SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}

/// A complete kubeconfig: the server, its authority, and an administrator's certificate.
pub fn kubeconfig(pki: &Pki, address: SocketAddr, now: jiff::Timestamp) -> Result<String, Failure> {
    let admin = pki.client(ADMIN.0, ADMIN.1, now).map_err(Failure::invalid)?;
    let encode = |text: &str| STANDARD.encode(text);
    let host = if address.ip().is_unspecified() {
        SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port())
    } else {
        address
    };
    Ok(format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: seaworthy\n  cluster:\n    server: https://{host}\n    \
         certificate-authority-data: {}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
         client-key-data: {}\ncontexts:\n- name: seaworthy\n  context:\n    cluster: seaworthy\n    user: {user}\n\
         current-context: seaworthy\n",
        encode(pki.authority()),
        encode(&admin.certificate),
        encode(&admin.key),
        user = ADMIN.0,
    ))
}

/// Writes the file so that its owner alone can read it.
pub fn write_kubeconfig(path: &Path, text: &str) -> Result<(), Failure> {
    write(path, text).map_err(|error| {
        Failure::invalid(format!(
            "cannot write the kubeconfig {}: {error}; --kubeconfig-out needs a path in an existing folder",
            path.display()
        ))
    })
}

/// Writes a file so that its owner alone can read it.
pub fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    write(path, text).map_err(|error| Failure::invalid(format!("cannot write {}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // A file that was there before keeps the mode that it had.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}
