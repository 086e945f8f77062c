//! The controllers process: probes, one supervisor and one leader election for each operator, and an orderly stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select_all};
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

/// How long releasing the leases may take when the process stops.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(700);

/// Holds leases for as long as it is polled, for a process without an election: processes with one wait for them.
pub async fn hold_leases(client: Client, namespace: &str, leases: &[String], identity: &str) {
    let held = leases
        .iter()
        .map(|lease| seaworthy_runtime::leadership::hold_lease(client.clone(), namespace, lease, identity));
    join_all(held).await;
}

pub struct ProcessOptions {
    pub selection: OperatorSelection,
    /// The address of probes and metrics.
    pub probes: Option<SocketAddr>,
    /// Whether other processes of this kind may run on the cluster, so that one is elected.
    pub elects_leader: bool,
    /// Whether the definitions of the selected operators are installed.
    pub installs_definitions: bool,
    /// The name of this process in the leases.
    pub identity: String,
    /// The namespace of the leases, and of what operators store for themselves.
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
    operators: Vec<SelectedOperator>,
    options: ProcessOptions,
    probes: Option<TcpListener>,
}

/// An operator that this process runs.
struct SelectedOperator {
    operator: Arc<dyn Operator>,
    enabled: EnabledControllers,
}

impl PreparedProcess {
    /// The address of the probes, with the port that was chosen for 0.
    pub fn probes_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref()?.local_addr().ok()
    }

    /// The leases of the operators that run.
    pub fn leases(&self) -> Vec<String> {
        self.operators.iter().map(|selected| selected.operator.lease()).collect()
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
    let selected: Vec<SelectedOperator> = operators
        .into_iter()
        .filter_map(|operator| {
            let enabled = options.selection.enabled_controllers(operator.name())?;
            Some(SelectedOperator { operator: Arc::from(operator), enabled })
        })
        .collect();
    if options.installs_definitions {
        let account = controllers_account(&options.namespace);
        let wanted: Vec<_> =
            selected.iter().flat_map(|selected| selected.operator.manifest(&account).definitions).collect();
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
/// If a lease is lost: then the process has to end, since what is in flight may have missed it.
pub async fn run(prepared: PreparedProcess, stop: impl Future<Output = ()>) -> Result<(), ClusterError> {
    let PreparedProcess { client, operators, options, probes } = prepared;
    let ProcessOptions { elects_leader, identity, namespace, clock, metrics, .. } = options;
    let availability =
        Availability::new(operators.iter().map(|selected| selected.operator.name()), Arc::clone(&metrics));
    let context = OperatorContext {
        client: client.clone(),
        leadership: Leadership::always(),
        metrics: Arc::clone(&metrics),
        clock,
        build: build().into(),
        namespace: namespace.as_str().into(),
    };
    let (mut electors, mut leaderships, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for selected in &operators {
        let mut context = context.clone();
        if elects_leader {
            let (lease, timings) = (selected.operator.lease(), LeaseTimings::default());
            let (elector, leadership) = LeaderElector::new(client.clone(), &namespace, &lease, &identity, timings);
            leaderships.push((lease, leadership.clone()));
            context.leadership = leadership;
            electors.push(elector);
        }
        contexts.push(context);
    }
    let probes = probes.map(|listener| {
        let (ready, report) = (availability.clone(), availability.clone());
        probes::serve(listener, move || metrics.encode(), move || ready.is_ready(), move || report.report())
    });
    let outcome = tokio::select! {
        () = stop => Ok(()),
        () = supervise_all(&operators, &contexts, &client, &availability) => Ok(()),
        lease = first_lost(&leaderships) => Err(lost(&namespace, &lease)),
        lease = campaign(&mut electors) => Err(lost(&namespace, &lease)),
        () = async { match probes {
            Some(probes) => probes.await,
            None => std::future::pending().await,
        } } => Err(ClusterError("probes are no longer served: the listener failed; start the process again".to_owned())),
        () = log_leadership(&leaderships) => Ok(()),
    };
    join_all(electors.iter_mut().map(release)).await;
    outcome
}

/// Runs one supervisor for each operator, for as long as it is polled.
async fn supervise_all(
    operators: &[SelectedOperator],
    contexts: &[OperatorContext],
    client: &Client,
    availability: &Availability,
) {
    let served = Definitions::default();
    let supervisors = operators.iter().zip(contexts).map(|(SelectedOperator { operator, enabled }, context)| {
        operator::supervise(operator, enabled, context, &served, availability)
    });
    tokio::join!(served.run(client), join_all(supervisors));
}

/// Acquires and renews all leases for as long as it is polled. Returns the first one that is lost.
async fn campaign(electors: &mut [LeaderElector]) -> String {
    let campaigns = electors.iter_mut().map(|elector| {
        Box::pin(async move {
            elector.run().await;
            elector.lease().to_owned()
        })
    });
    first(campaigns).await
}

/// Waits until leadership of an operator, once acquired, is lost. Returns its lease.
async fn first_lost(leaderships: &[(String, Leadership)]) -> String {
    let lost = leaderships.iter().map(|(lease, leadership)| {
        Box::pin(async move {
            leadership.acquired().await;
            leadership.lost().await;
            lease.clone()
        })
    });
    first(lost).await
}

/// The first result; pending if there is none.
async fn first<F: Future<Output = String> + Unpin>(futures: impl Iterator<Item = F>) -> String {
    let futures: Vec<F> = futures.collect();
    match futures.is_empty() {
        true => std::future::pending().await,
        false => select_all(futures).await.0,
    }
}

/// Releases a lease when the process stops.
async fn release(elector: &mut LeaderElector) {
    let lease = elector.lease().to_owned();
    match tokio::time::timeout(RELEASE_TIMEOUT, elector.release()).await {
        Ok(Ok(())) => tracing::info!(lease, "lease released"),
        Ok(Err(error)) => tracing::warn!(lease, %error, "cannot release the lease; it expires in 15 s"),
        Err(_) => tracing::warn!(lease, "cannot release the lease in time; it expires in 15 s"),
    }
}

/// Logs when this process starts to lead an operator. Never returns.
async fn log_leadership(leaderships: &[(String, Leadership)]) {
    let logs = leaderships.iter().map(|(lease, leadership)| async move {
        if !leadership.holds() {
            tracing::info!(
                lease,
                "waiting for the lease; standby while another process holds it (`kubectl get lease -A` shows the holder)"
            );
        }
        leadership.acquired().await;
        tracing::info!(lease, "leading");
    });
    join_all(logs).await;
    std::future::pending().await
}

fn lost(namespace: &str, lease: &str) -> ClusterError {
    ClusterError(format!(
        "lost the lease {namespace}/{lease}: another process leads now, or the API server did not respond in time; this process \
         exits, so that two never act at once. Start it again"
    ))
}

/// The name of this process in the leases: host name, process id and start time.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host =
        host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned()));
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    format!("{host}_{}_{}", std::process::id(), Timestamp::now().as_microsecond())
}
