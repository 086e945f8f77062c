//! `seaworthy apiserver`: the embedded Kubernetes API server.

use std::sync::Arc;

use seaworthy_apiserver::{
    ClockAndEntropy as _, DataFolder, Pki, Server, ServerOptions, StaticTokens, StorageLocation, SystemClock, TlsServer,
};
use seaworthy_resident::disable_huge_pages;

use crate::cli::Apiserver;
use crate::failure::{EXIT_OK, Failure};
use crate::process::{runtime, shutdown_signal};
use crate::{admin_kubeconfig, idle_memory, terminal};

/// Serves until it receives a stop signal.
pub fn run(options: &Apiserver) -> Result<u8, Failure> {
    disable_huge_pages();
    runtime()?.block_on(serve(options))
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
    admin_kubeconfig::write(&file, &pki, address, now)?;
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
