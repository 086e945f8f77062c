//! Everything that runs, from its start to its end.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seaworthy_apiserver::{
    Folder, Housekeeping, Identity, Listening, Machine, Pki, Place, Server, Settings, StaticTokens, World as _,
};
use seaworthy_controllers::{Options, operators, process};
use seaworthy_fetch::{HostPattern, Policy};
use seaworthy_fleet::{Fleet, Pace, Setup};
use seaworthy_listen::{BindError, Door, reach};
use seaworthy_machineconfig::cluster::Client;
use seaworthy_machineconfig::operator::NAMESPACE;
use seaworthy_machineconfig::{objects, operator};
use seaworthy_node::Rhythm;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::super::apiserver::{kubeconfig, write_kubeconfig};
use super::{endpoint, holder};
use crate::cli::Up;
use crate::failure::Failure;

/// The log, in the data folder.
pub const LOG: &str = "seaworthy.log";
/// Who leads, for controllers that somebody else starts on this server.
const HOLDER: &str = "seaworthy-up";
/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// How long anything may take to end: an answer under way is a matter of milliseconds, and the whole of a second.
const FAREWELL: Duration = Duration::from_millis(500);

/// Where everything is.
pub struct Places {
    data: PathBuf,
    listen: SocketAddr,
    ignition: SocketAddr,
    /// Where remote content may come from all the same.
    allowed: Vec<HostPattern>,
}

impl Places {
    /// As somebody wants it. A story needs no place of its own.
    pub fn of(options: &Up, data: &Path) -> Places {
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, if options.demo { 0 } else { port }));
        Places {
            data: data.to_owned(),
            listen: options.listen.unwrap_or_else(|| local(6443)),
            ignition: options.ignition_listen.unwrap_or_else(|| local(seaworthy_serve::stub::PORT)),
            allowed: options.allow_host.clone(),
        }
    }
}

/// Everything that runs.
pub struct Running {
    /// Where others find the API server.
    pub address: SocketAddr,
    /// Where others find the Ignition endpoint.
    pub ignition: SocketAddr,
    /// Leads to the API server, for an administrator.
    pub kubeconfig: PathBuf,
    /// May do everything.
    pub client: Client,
    /// The machines.
    pub fleet: Fleet,
    server: Server,
    housekeeping: Housekeeping,
    stop: watch::Sender<bool>,
    failures: tokio::sync::Mutex<mpsc::Receiver<Failure>>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Starts everything but the machines.
    pub async fn start(places: &Places, is_fast: bool) -> Result<Running, Failure> {
        let world = Arc::new(Machine);
        let now = world.now();
        // A folder that is there may be somebody else's. One that is not there is made when nothing can be in the way any more.
        let open = || Folder::open(&places.data).map_err(Failure::unreadable);
        let known = if places.data.exists() { Some(open()?) } else { None };
        let door = Door::open(places.listen).await.map_err(|error| taken(&error, "--listen"))?;
        let ignition = Door::open(places.ignition).await.map_err(|error| taken(&error, "--ignition-listen"))?;
        let folder = match known {
            Some(folder) => folder,
            None => open()?,
        };
        super::log::to(&places.data.join(LOG))?;
        let pki = Pki::load(&places.data.join("pki"), now).map_err(Failure::unreadable)?;
        let keys = Arc::clone(&pki.keys);
        let settings = Settings { place: Place::Folder(folder), world, tokens: StaticTokens::default(), keys };
        let server = Server::open(settings).map_err(Failure::unreadable)?;
        server.prepare().await.map_err(Failure::unreadable)?;
        let listening = Listening::through(server.clone(), &pki, door).map_err(Failure::unreadable)?;
        let address = listening.address();
        let file = places.data.join("admin.kubeconfig");
        write_kubeconfig(&file, &kubeconfig(&pki, address, now)?)?;

        let (stop, _) = watch::channel(false);
        let (tell, failures) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        tasks.spawn(listening.serve(ended(&stop)));
        let housekeeping = server.start();
        let client = inside(&server, "seaworthy-admin", MASTERS);
        controllers(&server, &places.allowed, &stop, &tell, &mut tasks).await?;
        for object in super::objects::all(pki.authority()) {
            objects::create(&client, &object).await.map_err(Failure::wrong)?;
        }
        let endpoint = endpoint::Endpoint::prepare(&server, &pki, &places.data, ignition, address)?;
        let stubs = endpoint.stubs();
        let (address, ignition) = (reach::advertised(address), reach::advertised(endpoint.address()));
        let serving = endpoint.serve(inside(&server, "seaworthy-server", MASTERS), ended(&stop));
        tasks.spawn(async move {
            if let Err(failure) = serving.await {
                // Nobody listens only at the end.
                let _ = tell.send(failure).await;
            }
        });
        let nodes = server.clone();
        let client_of = move |name: &str| inside(&nodes, &format!("system:node:{name}"), "system:nodes");
        let pace = if is_fast { hurried() } else { Pace::default() };
        let client_of = Arc::new(client_of);
        let setup = Setup { pace, client_of, stubs: Some(stubs), ..Setup::new(client.clone()) };
        let fleet = Fleet::start(client.clone(), setup);
        let failures = tokio::sync::Mutex::new(failures);
        Ok(Running { address, ignition, kubeconfig: file, client, fleet, server, housekeeping, stop, failures, tasks })
    }

    /// Done when something has failed that nothing works without.
    pub async fn failed(&self) -> Failure {
        match self.failures.lock().await.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Ends everything in good order, the machines first.
    pub async fn stop(self) {
        let Running { fleet, server, housekeeping, stop, mut tasks, .. } = self;
        drop(fleet);
        stop.send_replace(true);
        let end = async {
            while tasks.join_next().await.is_some() {}
            housekeeping.stop().await;
        };
        // Whoever is not done then has been told, and loses nothing: what was answered is on the disk.
        let _ = tokio::time::timeout(FAREWELL, end).await;
        server.store().close().await;
    }
}

/// Done when everything is to end.
fn ended(stop: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + 'static {
    let mut stop = stop.subscribe();
    async move {
        // Whoever could say so is gone: then it is over too.
        let _ = stop.wait_for(|is_over| *is_over).await;
    }
}

/// A client of a user, who is in a group.
fn inside(server: &Server, user: &str, group: &str) -> Client {
    Client::new(server.inside(Identity::authenticated(user, [group.to_owned()])), "default")
}

/// Runs the controllers. Nobody else can have the folder, so there is no election; whoever else runs controllers on this server
/// sees that somebody leads.
async fn controllers(
    server: &Server,
    allowed: &[HostPattern],
    stop: &watch::Sender<bool>,
    tell: &mpsc::Sender<Failure>,
    tasks: &mut JoinSet<()>,
) -> Result<(), Failure> {
    let machineconfig =
        operator::Options { remote: Policy::allowing(allowed.iter().cloned()), ..operator::Options::default() };
    let settings = process::Settings { elects: false, installs: true, ..process::Settings::new(NAMESPACE) };
    let client = inside(server, "seaworthy-controllers", MASTERS);
    let operators = operators::all(Options { machineconfig });
    let prepared = process::prepare(client.clone(), operators, settings).await.map_err(Failure::wrong)?;
    let over = ended(stop);
    tasks.spawn(async move {
        tokio::select! {
            () = process::hold_lease(client, NAMESPACE, HOLDER) => {}
            () = over => {}
        }
    });
    let (ended, tell) = (ended(stop), tell.clone());
    tasks.spawn(async move {
        if let Err(error) = process::run(prepared, ended).await {
            // Nobody listens only at the end.
            let _ = tell.send(Failure::wrong(error)).await;
        }
    });
    Ok(())
}

/// For a story that is not to bore.
fn hurried() -> Pace {
    let rhythm = Rhythm { first_retry: Duration::from_millis(200), ..Rhythm::default() };
    Pace { boot: Duration::from_millis(400), pod_end: Duration::from_millis(200), rhythm, ..Pace::default() }
}

/// What is said when an address cannot be had.
fn taken(error: &BindError, option: &str) -> Failure {
    let BindError { address, cause } = error;
    let who = match cause.kind() {
        std::io::ErrorKind::AddrInUse => match holder::of(address.port()) {
            Some(holder) => format!("in use by {holder}; stop that process, or"),
            None => "address in use; stop the process that uses it, or".to_owned(),
        },
        _ => format!("{cause};"),
    };
    Failure::unreadable(format!(
        "cannot listen on {address}: {who} choose another address with {option} (port 0 picks a free port)"
    ))
}
