//! The process: leader election, probes, one supervisor for each operator, and an orderly stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client};
use seaworthy_listen::{bind, probes};
use seaworthy_machineconfig::cluster::{Blocked, blocked};
use seaworthy_machineconfig::context::build;
use seaworthy_runtime::{
    Availability, Campaign, Clock, Definitions, Leadership, Metrics, Operator, OperatorContext, Parts, Terms, install,
    operator,
};
use tokio::net::TcpListener;

use crate::selection::Selection;

/// The lease that the leader holds.
pub const LEASE: &str = "seaworthy-controllers";

/// How long releasing the lease may take when the process stops.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(700);

/// Holds the lease for as long as it is polled, for a process without an election: later ones wait for it.
pub async fn hold_lease(client: Client, namespace: &str, identity: &str) {
    seaworthy_runtime::leadership::hold(client, namespace, LEASE, identity).await;
}

/// How the process runs.
pub struct Settings {
    /// Which operators run.
    pub selection: Selection,
    /// Where probes and metrics are served.
    pub probes: Option<SocketAddr>,
    /// Whether the cluster is shared with other processes of this kind.
    pub elects: bool,
    /// Whether the definitions of the selected operators are installed.
    pub installs: bool,
    /// The name of this process in the lease.
    pub identity: String,
    /// The namespace of the lease, and of what operators store for themselves.
    pub namespace: String,
    /// The clock of the operators.
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
}

impl Settings {
    /// All operators in a namespace, by the system's clock, with an election and without probes.
    pub fn new(namespace: &str) -> Settings {
        Settings {
            selection: Selection::all(),
            probes: None,
            elects: true,
            installs: false,
            identity: identity(),
            namespace: namespace.to_owned(),
            clock: Arc::new(Timestamp::now),
            metrics: Arc::default(),
        }
    }
}

/// A process that can start: its cluster answers, its address is bound.
pub struct Prepared {
    client: Client,
    operators: Vec<(Box<dyn Operator>, Parts)>,
    settings: Settings,
    probes: Option<TcpListener>,
}

impl Prepared {
    /// Where probes are served, with the port that was chosen for 0.
    pub fn probes_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref()?.local_addr().ok()
    }
}

/// Checks the cluster, installs definitions if that was asked for, and binds the address of the probes.
///
/// # Errors
///
/// If the cluster cannot be reached, definitions or the namespace cannot be written, or the address cannot be bound.
pub async fn prepare(
    client: Client,
    operators: Vec<Box<dyn Operator>>,
    settings: Settings,
) -> Result<Prepared, Blocked> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = api.list_metadata(&ListParams::default().limit(1)).await;
    found.map_err(|error| blocked("list CustomResourceDefinitions", &error))?;
    let selected: Vec<(Box<dyn Operator>, Parts)> = operators
        .into_iter()
        .filter_map(|operator| {
            let parts = settings.selection.parts(operator.name())?;
            Some((operator, parts))
        })
        .collect();
    if settings.installs {
        let wanted: Vec<_> = selected.iter().flat_map(|(operator, _)| operator.definitions()).collect();
        install::install(&client, &wanted, &settings.namespace).await
    } else {
        install::namespace(&client, &settings.namespace).await
    }
    .map_err(|error| Blocked(error.to_string()))?;
    let probes = match settings.probes {
        None => None,
        Some(address) => {
            let listener = bind(address).await;
            let listener = listener.map_err(|error| Blocked(format!("--metrics {address}: cannot listen: {error}")))?;
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "serving probes");
            }
            Some(listener)
        }
    };
    Ok(Prepared { client, operators: selected, settings, probes })
}

/// Runs the operators until `stop` ends.
///
/// # Errors
///
/// If leadership is lost: then the process has to end, since what is in flight may have missed it.
pub async fn run(prepared: Prepared, stop: impl Future<Output = ()>) -> Result<(), Blocked> {
    let Prepared { client, operators, settings, probes } = prepared;
    let Settings { elects, identity, namespace, clock, metrics, .. } = settings;
    let mut leadership = Leadership::alone();
    let mut campaign = None;
    if elects {
        let (own, shared) = Campaign::new(client.clone(), &namespace, LEASE, &identity, Terms::default());
        leadership = shared;
        campaign = Some(own);
    }
    let names = operators.iter().map(|(operator, _)| operator.name());
    let availability = Availability::new(names, Arc::clone(&metrics));
    let context = OperatorContext {
        client: client.clone(),
        leadership: leadership.clone(),
        metrics: Arc::clone(&metrics),
        clock,
        build: build().into(),
        namespace: namespace.as_str().into(),
    };
    let probes = probes.map(|listener| {
        let (ready, report) = (availability.clone(), availability.clone());
        probes::serve(listener, move || metrics.encode(), move || ready.is_ready(), move || report.report())
    });
    let outcome = tokio::select! {
        () = stop => Ok(()),
        () = supervise_all(&operators, &context, &availability) => Ok(()),
        () = async { leadership.acquired().await; leadership.lost().await } => Err(lost(&namespace)),
        () = async { match &mut campaign {
            Some(campaign) => campaign.run().await,
            None => std::future::pending().await,
        } } => Err(lost(&namespace)),
        () = async { match probes {
            Some(probes) => probes.await,
            None => std::future::pending().await,
        } } => Err(Blocked("probes are no longer served: the listener failed; start the process again".to_owned())),
        () = log_leadership(&leadership, elects) => Ok(()),
    };
    if let Some(mut campaign) = campaign {
        match tokio::time::timeout(RELEASE_TIMEOUT, campaign.resign()).await {
            Ok(Ok(())) => tracing::info!(lease = LEASE, "lease released"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot release the lease; it expires in 15 s"),
            Err(_) => tracing::warn!("cannot release the lease in time; it expires in 15 s"),
        }
    }
    outcome
}

/// Supervises every operator by itself, for as long as it is polled.
pub async fn supervise_all(
    operators: &[(Box<dyn Operator>, Parts)],
    context: &OperatorContext,
    availability: &Availability,
) {
    let served = Definitions::default();
    let supervisors = operators
        .iter()
        .map(|(operator, parts)| operator::supervise(&**operator, parts, context, &served, availability));
    tokio::join!(served.run(&context.client), join_all(supervisors));
}

/// Logs when this process leads, and never ends.
async fn log_leadership(leadership: &Leadership, elects: bool) {
    if elects && !leadership.holds() {
        tracing::info!(
            lease = LEASE,
            "waiting for the lease; while another process holds it, this one stands by (`kubectl get lease -A` shows the holder)"
        );
    }
    leadership.acquired().await;
    tracing::info!("leading: the controllers run");
    std::future::pending().await
}

fn lost(namespace: &str) -> Blocked {
    Blocked(format!(
        "the lease {namespace}/{LEASE} is lost: another process leads now, or the server did not answer in time; this one ends, \
         so that two never act at once. Start it again"
    ))
}

/// The name of this process in the lease: host name, process id and start time.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host =
        host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned()));
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    format!("{host}_{}_{}", std::process::id(), Timestamp::now().as_microsecond())
}
