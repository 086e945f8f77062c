//! `seaworthy apiserver`: the embedded Kubernetes API server.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seaworthy_apiserver::{Listening, Machine, Pki, Place, Server, Settings, StaticTokens, World as _};

use crate::cli::Apiserver;
use crate::failure::{Failure, OK};
use crate::paint;

/// The user of the kubeconfig that the server writes, and its group, which may do everything.
const ADMIN: (&str, &str) = ("seaworthy-admin", "system:masters");

/// Serves until it is told to stop.
pub fn run(options: &Apiserver) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unreadable(format!("cannot start: {error}")))?;
    runtime.block_on(serve(options))
}

async fn serve(options: &Apiserver) -> Result<u8, Failure> {
    let world = Arc::new(Machine);
    let now = world.now();
    let tokens = match &options.token_auth_file {
        Some(file) => StaticTokens::load(file).map_err(Failure::unreadable)?,
        None => StaticTokens::default(),
    };
    if options.data.exists() && !options.data.is_dir() {
        let data = options.data.display();
        let why = format!("{data} is a file; --data takes a folder, which is made if it is not there");
        return Err(Failure::unreadable(why));
    }
    let pki = Pki::load(&options.data.join("pki"), now).map_err(Failure::unreadable)?;
    let keys = pki.keys.clone();
    let settings = Settings { place: Place::Folder(options.data.clone()), world, tokens, keys };
    let server = Server::open(settings).map_err(Failure::unreadable)?;
    server.prepare().await.map_err(Failure::unreadable)?;
    let listening = Listening::bind(server.clone(), &pki, options.listen).await.map_err(Failure::unreadable)?;
    let address = listening.address();
    let file = options.kubeconfig_out.clone().unwrap_or_else(|| options.data.join("admin.kubeconfig"));
    write_kubeconfig(&file, &kubeconfig(&pki, address, now)?)?;
    println!("https://{address}");
    paint::note(&format!("kubectl --kubeconfig {} get namespaces", file.display()));
    let housekeeping = server.start();
    listening.serve(stopped()).await;
    housekeeping.stop().await;
    server.store().close().await;
    Ok(OK)
}

/// Waits for Ctrl-C or a request to end.
pub(super) async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    match (interrupt, terminate) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // A process that cannot hear signals ends by them.
        _ => std::future::pending().await,
    }
}

/// A complete kubeconfig: the server, its authority, and an administrator's certificate.
fn kubeconfig(pki: &Pki, address: SocketAddr, now: jiff::Timestamp) -> Result<String, Failure> {
    let admin = pki.client(ADMIN.0, ADMIN.1, now).map_err(Failure::unreadable)?;
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
fn write_kubeconfig(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::unreadable(format!("cannot write the kubeconfig {}: {error}", path.display()));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed)?;
    // A file that was there before keeps the mode that it had.
    file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
