//! The plane as a process of its own: an election, probes, and an orderly end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use seaworthy_listen::{bind, probes};
use seaworthy_runtime::{Campaign, Leadership, Terms};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cluster::{Blocked, blocked, missing_definitions};
use crate::context::Context;
use crate::install;
use crate::plane::{self, Options};

/// The lease that the leader holds.
pub const LEASE: &str = "seaworthy-controllers";

/// How long giving back the lease may take at the end.
const FAREWELL: Duration = Duration::from_millis(700);

/// Holds the lease for as long as it is polled, for a plane that runs without an election: others that come wait then.
pub async fn hold_lease(client: Client, namespace: &str, identity: &str) {
    seaworthy_runtime::leadership::hold(client, namespace, LEASE, identity).await;
}

/// How a process is run beside its plane.
pub struct Settings {
    /// Where the probes are answered.
    pub probes: Option<SocketAddr>,
    /// Whether the cluster is shared with other processes of this kind.
    pub elects: bool,
    /// Whether missing definitions are installed.
    pub installs: bool,
    /// What tells this process from others.
    pub identity: String,
}

/// A cluster that has what the plane needs, and an address for the probes that is ours.
pub struct Ready {
    client: Client,
    probes: Option<TcpListener>,
}

/// Makes sure that the plane can begin.
///
/// # Errors
///
/// If the cluster cannot be reached, definitions are missing and may not be installed, or the address is taken.
pub async fn prepare(client: Client, options: &Options, settings: &Settings) -> Result<Ready, Blocked> {
    let missing = missing_definitions(&client).await?;
    if settings.installs {
        install::install(&client, &options.namespace).await.map_err(|error| Blocked(error.to_string()))?;
    } else if !missing.is_empty() {
        return Err(Blocked(format!(
            "the cluster lacks these definitions: {}; install them with `seaworthy crds | kubectl apply --server-side -f -`, \
             or let this command do it with --install",
            missing.join(", ")
        )));
    }
    install::namespace(&client, &options.namespace).await.map_err(|error| Blocked(error.to_string()))?;
    let probes = match settings.probes {
        None => None,
        Some(address) => {
            let listener = bind(address).await;
            let listener = listener.map_err(|error| Blocked(format!("--metrics {address}: cannot listen: {error}")))?;
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "probes are answered");
            }
            Some(listener)
        }
    };
    Ok(Ready { client, probes })
}

/// Runs the plane until `stop` ends.
///
/// # Errors
///
/// If leadership is lost: then the process has to end, since what is under way may have missed it.
pub async fn run(
    Ready { client, probes }: Ready,
    options: Options,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Result<(), Blocked> {
    let mut context = Context::new(client.clone());
    let mut campaign = None;
    if settings.elects {
        let (own, leadership) = Campaign::new(client, &options.namespace, LEASE, &settings.identity, Terms::default());
        context.leadership = leadership;
        campaign = Some(own);
    }
    let (ready, is_ready) = watch::channel(false);
    let metrics = Arc::clone(&context.metrics);
    let probes = probes.map(|listener| probes::serve(listener, move || metrics.encode(), move || *is_ready.borrow()));
    let (caches, leadership, namespace) = (context.caches.set(), context.leadership.clone(), options.namespace.clone());
    let told = async {
        caches.synced().await;
        ready.send_replace(true);
        tracing::info!("the caches are filled");
        tell_leadership(&leadership, settings.elects).await;
    };
    let outcome = tokio::select! {
        () = stop => Ok(()),
        result = plane::run(context, options) => match result {
            Ok(()) => Err(lost(&namespace)),
            Err(error) => Err(blocked("read what the controllers keep in the cluster", &error)),
        },
        () = async { match &mut campaign {
            Some(campaign) => campaign.run().await,
            None => std::future::pending().await,
        } } => Err(lost(&namespace)),
        () = async { match probes {
            Some(probes) => probes.await,
            None => std::future::pending().await,
        } } => Err(Blocked("the probes are not answered any more".to_owned())),
        () = told => Ok(()),
    };
    if let Some(mut campaign) = campaign {
        match tokio::time::timeout(FAREWELL, campaign.resign()).await {
            Ok(Ok(())) => tracing::info!(lease = LEASE, "the lease is given back"),
            Ok(Err(error)) => tracing::warn!(%error, "the lease could not be given back; it lapses in 15 s"),
            Err(_) => tracing::warn!("the lease could not be given back in time; it lapses in 15 s"),
        }
    }
    outcome
}

/// Says when this process leads, and never ends.
async fn tell_leadership(leadership: &Leadership, elects: bool) {
    if elects && !leadership.holds() {
        tracing::info!(
            lease = LEASE,
            "asking for the lease; while another process holds it, this one stands by (`kubectl get lease -A` shows who does)"
        );
    }
    leadership.acquired().await;
    tracing::info!("the controllers run");
    std::future::pending().await
}

fn lost(namespace: &str) -> Blocked {
    Blocked(format!(
        "the lease {namespace}/{LEASE} is lost: another process leads now, or the server did not answer in time; this one ends, \
         so that two never act at once. Start it again"
    ))
}
