//! The controllers process: leader election, probes, one supervisor for each operator, and an orderly stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client};
use seaworthy_deploy::controllers_account;
use seaworthy_listen::{bind, probes};
use seaworthy_runtime::build;
use seaworthy_runtime::cluster::{ClusterError, call_error};
use seaworthy_runtime::{
    Availability, Clock, Definitions, EnabledControllers, LeaderElector, Leadership, LeaseTimings, Metrics, Operator,
    OperatorContext, install, operator,
};
use tokio::net::TcpListener;

use crate::operator_selection::OperatorSelection;

/// The lease that the leader holds.
pub const LEASE: &str = "seaworthy-controllers";

/// How long releasing the lease may take when the process stops.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(700);

/// Holds the lease for as long as it is polled, for a process without an election: processes with one wait for it.
pub async fn hold_lease(client: Client, namespace: &str, identity: &str) {
    seaworthy_runtime::leadership::hold_lease(client, namespace, LEASE, identity).await;
}

pub struct ProcessOptions {
    pub selection: OperatorSelection,
    /// The address of probes and metrics.
    pub probes: Option<SocketAddr>,
    /// Whether other processes of this kind may run on the cluster, so that one is elected.
    pub elects_leader: bool,
    /// Whether the definitions of the selected operators are installed.
    pub installs_definitions: bool,
    /// The name of this process in the lease.
    pub identity: String,
    /// The namespace of the lease, and of what operators store for themselves.
    pub namespace: String,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
}

impl ProcessOptions {
    /// All operators in a namespace, with the system's clock, with an election and without probes.
    pub fn new(namespace: &str) -> ProcessOptions {
        ProcessOptions {
            selection: OperatorSelection::all(),
            probes: None,
            elects_leader: true,
            installs_definitions: false,
            identity: identity(),
            namespace: namespace.to_owned(),
            clock: Arc::new(Timestamp::now),
            metrics: Arc::default(),
        }
    }
}

/// A process that can start: its cluster is reachable, its address is bound.
pub struct PreparedProcess {
    client: Client,
    operators: Vec<(Arc<dyn Operator>, EnabledControllers)>,
    options: ProcessOptions,
    probes: Option<TcpListener>,
}

impl PreparedProcess {
    /// The address of the probes, with the port that was chosen for 0.
    pub fn probes_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref()?.local_addr().ok()
    }
}

/// Checks the cluster, installs definitions if the options request it, and binds the address of the probes.
///
/// # Errors
///
/// If the cluster cannot be reached, definitions or the namespace cannot be written, or the address cannot be bound.
pub async fn prepare(
    client: Client,
    operators: Vec<Box<dyn Operator>>,
    options: ProcessOptions,
) -> Result<PreparedProcess, ClusterError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = api.list_metadata(&ListParams::default().limit(1)).await;
    found.map_err(|error| call_error("list CustomResourceDefinitions", &error))?;
    let selected: Vec<(Arc<dyn Operator>, EnabledControllers)> = operators
        .into_iter()
        .filter_map(|operator| {
            let enabled = options.selection.enabled_controllers(operator.name())?;
            Some((Arc::from(operator), enabled))
        })
        .collect();
    if options.installs_definitions {
        let account = controllers_account(&options.namespace);
        let wanted: Vec<_> =
            selected.iter().flat_map(|(operator, _)| operator.manifest(&account).definitions).collect();
        install::install(&client, &wanted, &options.namespace).await
    } else {
        install::namespace(&client, &options.namespace).await
    }
    .map_err(|error| ClusterError(error.to_string()))?;
    let probes = match options.probes {
        None => None,
        Some(address) => {
            let listener = bind(address).await;
            let listener =
                listener.map_err(|error| ClusterError(format!("--metrics {address}: cannot listen: {error}")))?;
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "serving probes");
            }
            Some(listener)
        }
    };
    Ok(PreparedProcess { client, operators: selected, options, probes })
}

/// Runs the operators until `stop` ends.
///
/// # Errors
///
/// If leadership is lost: then the process has to end, since what is in flight may have missed it.
pub async fn run(prepared: PreparedProcess, stop: impl Future<Output = ()>) -> Result<(), ClusterError> {
    let PreparedProcess { client, operators, options, probes } = prepared;
    let ProcessOptions { elects_leader, identity, namespace, clock, metrics, .. } = options;
    let mut leadership = Leadership::always();
    let mut elector = None;
    if elects_leader {
        let (own, shared) = LeaderElector::new(client.clone(), &namespace, LEASE, &identity, LeaseTimings::default());
        leadership = shared;
        elector = Some(own);
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
        () = async { match &mut elector {
            Some(elector) => elector.run().await,
            None => std::future::pending().await,
        } } => Err(lost(&namespace)),
        () = async { match probes {
            Some(probes) => probes.await,
            None => std::future::pending().await,
        } } => Err(ClusterError("probes are no longer served: the listener failed; start the process again".to_owned())),
        () = log_leadership(&leadership, elects_leader) => Ok(()),
    };
    if let Some(mut elector) = elector {
        match tokio::time::timeout(RELEASE_TIMEOUT, elector.release()).await {
            Ok(Ok(())) => tracing::info!(lease = LEASE, "lease released"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot release the lease; it expires in 15 s"),
            Err(_) => tracing::warn!("cannot release the lease in time; it expires in 15 s"),
        }
    }
    outcome
}

/// Runs one supervisor for each operator, for as long as it is polled.
async fn supervise_all(
    operators: &[(Arc<dyn Operator>, EnabledControllers)],
    context: &OperatorContext,
    availability: &Availability,
) {
    let served = Definitions::default();
    let supervisors = operators
        .iter()
        .map(|(operator, enabled)| operator::supervise(operator, enabled, context, &served, availability));
    tokio::join!(served.run(&context.client), join_all(supervisors));
}

/// Logs when this process starts to lead. Never returns.
async fn log_leadership(leadership: &Leadership, elects_leader: bool) {
    if elects_leader && !leadership.holds() {
        tracing::info!(
            lease = LEASE,
            "waiting for the lease; standby while another process holds it (`kubectl get lease -A` shows the holder)"
        );
    }
    leadership.acquired().await;
    if elects_leader {
        tracing::info!(lease = LEASE, "leading");
    }
    std::future::pending().await
}

fn lost(namespace: &str) -> ClusterError {
    ClusterError(format!(
        "lost the lease {namespace}/{LEASE}: another process leads now, or the API server did not respond in time; this process \
         exits, so that two never act at once. Start it again"
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
