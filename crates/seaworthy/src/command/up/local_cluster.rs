//! Local cluster: API server, controllers, Ignition endpoint and simulated machines, from start to shutdown.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seaworthy_apiserver::{
    ClockAndEntropy as _, DataFolder, Housekeeping, Identity, Pki, Server, ServerOptions, StaticTokens,
    StorageLocation, SystemClock, TlsServer,
};
use seaworthy_controllers::{OperatorOptions, operators, process};
use seaworthy_fetch::{HostPattern, Policy};
use seaworthy_fleet::{Fleet, FleetOptions, FleetTimings};
use seaworthy_listen::{BindError, Listener, addresses};
use seaworthy_machineconfig::operator;
use seaworthy_node::DaemonIntervals;
use seaworthy_runtime::NAMESPACE;
use seaworthy_runtime::cluster::Client;
use seaworthy_runtime::objects;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{endpoint, port_owner};
use crate::admin_kubeconfig;
use crate::cli::Up;
use crate::failure::Failure;

/// The log, in the data folder.
pub const LOG_FILE: &str = "seaworthy.log";
/// Holder of the lease, so that other controllers on this server do not become leader.
const LEASE_HOLDER: &str = "seaworthy-up";
/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// How long the parts may take to shut down: an answer in progress takes milliseconds.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Data folder and addresses.
pub struct StartOptions {
    data: PathBuf,
    listen: SocketAddr,
    ignition: SocketAddr,
    /// Hosts that remote content may come from although their address is loopback or link-local.
    allowed: Vec<HostPattern>,
}

impl StartOptions {
    /// The options with their defaults. A demo listens on free ports.
    pub fn of(options: &Up, data: &Path) -> StartOptions {
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, if options.demo { 0 } else { port }));
        StartOptions {
            data: data.to_owned(),
            listen: options.listen.unwrap_or_else(|| local(6443)),
            ignition: options.ignition_listen.unwrap_or_else(|| local(seaworthy_serve::stub::PORT)),
            allowed: options.allow_host.clone(),
        }
    }
}

/// All running parts.
pub struct LocalCluster {
    /// Address of the API server, as clients reach it.
    pub address: SocketAddr,
    /// Address of the Ignition endpoint, as machines reach it.
    pub ignition: SocketAddr,
    /// Path of the administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Client with all rights.
    pub client: Client,
    pub fleet: Fleet,
    server: Server,
    housekeeping: Housekeeping,
    stop: watch::Sender<bool>,
    failures: tokio::sync::Mutex<mpsc::Receiver<Failure>>,
    tasks: JoinSet<()>,
}

impl LocalCluster {
    /// Starts everything but the machines.
    pub async fn start(options: &StartOptions, is_fast: bool) -> Result<LocalCluster, Failure> {
        let clock = Arc::new(SystemClock);
        let now = clock.now();
        // An existing folder may be locked by another process, so it is opened first. A new one is created only after the ports
        // are bound, so that a failed start leaves nothing behind.
        let open = || DataFolder::open(&options.data).map_err(Failure::invalid);
        let known = if options.data.exists() { Some(open()?) } else { None };
        let listener = Listener::bind(options.listen).await.map_err(|error| bind_failure(&error, "--listen"))?;
        let ignition =
            Listener::bind(options.ignition).await.map_err(|error| bind_failure(&error, "--ignition-listen"))?;
        let folder = match known {
            Some(folder) => folder,
            None => open()?,
        };
        super::log::start(&options.data.join(LOG_FILE))?;
        let pki = Pki::load(&options.data.join("pki"), now).map_err(Failure::invalid)?;
        let signing_key = Arc::clone(&pki.signing_key);
        let settings = ServerOptions {
            storage: StorageLocation::Folder(folder),
            clock,
            tokens: StaticTokens::default(),
            signing_key,
        };
        let server = Server::open(settings).map_err(Failure::invalid)?;
        server.prepare().await.map_err(Failure::invalid)?;
        let listening = TlsServer::with_listener(server.clone(), &pki, listener).map_err(Failure::invalid)?;
        let address = listening.address();
        let file = options.data.join("admin.kubeconfig");
        admin_kubeconfig::write(&file, &pki, address, now)?;

        let (stop, _) = watch::channel(false);
        let (failure_sender, failures) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        tasks.spawn(listening.serve(shutdown_requested(&stop)));
        let housekeeping = server.start();
        let client = in_process_client(&server, "seaworthy-admin", MASTERS);
        controllers(&server, &options.allowed, &stop, &failure_sender, &mut tasks).await?;
        for object in super::objects::all(pki.authority()) {
            objects::create(&client, &object).await.map_err(Failure::failed)?;
        }
        let endpoint = endpoint::Endpoint::prepare(&server, &pki, &options.data, ignition, address)?;
        let stubs = endpoint.stubs();
        let (address, ignition) = (addresses::advertised(address), addresses::advertised(endpoint.address()));
        let serving =
            endpoint.serve(in_process_client(&server, "seaworthy-server", MASTERS), shutdown_requested(&stop));
        tasks.spawn(async move {
            if let Err(failure) = serving.await {
                // The receiver is gone only during shutdown.
                let _ = failure_sender.send(failure).await;
            }
        });
        let nodes = server.clone();
        let client_of = move |name: &str| in_process_client(&nodes, &format!("system:node:{name}"), "system:nodes");
        let timings = if is_fast { demo_timings() } else { FleetTimings::default() };
        let client_of = Arc::new(client_of);
        let fleet_options =
            FleetOptions { timings, client_of, stubs: Some(stubs), ..FleetOptions::new(client.clone()) };
        let fleet = Fleet::start(client.clone(), fleet_options);
        let failures = tokio::sync::Mutex::new(failures);
        Ok(LocalCluster {
            address,
            ignition,
            kubeconfig: file,
            client,
            fleet,
            server,
            housekeeping,
            stop,
            failures,
            tasks,
        })
    }

    /// Completes when an essential part has failed.
    pub async fn failed(&self) -> Failure {
        match self.failures.lock().await.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Shuts everything down in order, the machines first.
    pub async fn stop(self) {
        let LocalCluster { fleet, server, housekeeping, stop, mut tasks, .. } = self;
        drop(fleet);
        stop.send_replace(true);
        let end = async {
            while tasks.join_next().await.is_some() {}
            housekeeping.stop().await;
        };
        // Tasks that are not done by then lose nothing: every answered write is on disk.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, end).await;
        server.store().close().await;
    }
}

/// Completes when shutdown begins.
fn shutdown_requested(stop: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + 'static {
    let mut stop = stop.subscribe();
    async move {
        // A dropped sender means shutdown as well.
        let _ = stop.wait_for(|is_over| *is_over).await;
    }
}

/// An in-process client that acts as a user of a group.
fn in_process_client(server: &Server, user: &str, group: &str) -> Client {
    Client::new(server.in_process(Identity::authenticated(user, [group.to_owned()])), "default")
}

/// Runs the controllers. No other process can open the folder, so there is no election; the leases keep other controllers on
/// this server from becoming leader.
async fn controllers(
    server: &Server,
    allowed: &[HostPattern],
    stop: &watch::Sender<bool>,
    failure_sender: &mpsc::Sender<Failure>,
    tasks: &mut JoinSet<()>,
) -> Result<(), Failure> {
    let machineconfig = operator::MachineConfigOptions {
        remote: Policy::allowing(allowed.iter().cloned()),
        ..operator::MachineConfigOptions::default()
    };
    let settings = process::ProcessOptions {
        elects_leader: false,
        installs_definitions: true,
        ..process::ProcessOptions::new(NAMESPACE)
    };
    let client = in_process_client(server, "seaworthy-controllers", MASTERS);
    let operators = operators::all(OperatorOptions { machineconfig });
    let prepared = process::prepare(client.clone(), operators, settings).await.map_err(Failure::failed)?;
    let (leases, over) = (prepared.leases(), shutdown_requested(stop));
    tasks.spawn(async move {
        tokio::select! {
            () = process::hold_leases(client, NAMESPACE, &leases, LEASE_HOLDER) => {}
            () = over => {}
        }
    });
    let (shutdown, failure_sender) = (shutdown_requested(stop), failure_sender.clone());
    tasks.spawn(async move {
        if let Err(error) = process::run(prepared, shutdown).await {
            // The receiver is gone only during shutdown.
            let _ = failure_sender.send(Failure::failed(error)).await;
        }
    });
    Ok(())
}

/// Short delays, so that the demo takes seconds.
fn demo_timings() -> FleetTimings {
    let intervals = DaemonIntervals { initial_retry_delay: Duration::from_millis(200), ..DaemonIntervals::default() };
    FleetTimings {
        boot_delay: Duration::from_millis(400),
        pod_termination_delay: Duration::from_millis(200),
        intervals,
        ..FleetTimings::default()
    }
}

/// The failure for an address that cannot be bound.
fn bind_failure(error: &BindError, option: &str) -> Failure {
    let BindError { address, cause } = error;
    let who = match cause.kind() {
        std::io::ErrorKind::AddrInUse => match port_owner::of(address.port()) {
            Some(owner) => format!("in use by {owner}; stop that process, or"),
            None => "address in use; stop the process that uses it, or".to_owned(),
        },
        _ => format!("{cause};"),
    };
    Failure::invalid(format!(
        "cannot listen on {address}: {who} choose another address with {option} (port 0 picks a free port)"
    ))
}
