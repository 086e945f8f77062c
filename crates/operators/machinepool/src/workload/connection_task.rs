//! Connection task: does what [`ConnectionState`] decides for one workload cluster, and publishes the outcome to its pools.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use seaworthy_change::to_second;
use seaworthy_runtime::{AnyCache as _, Applier, Clock, Key};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::connection_state::{
    ConnectionAction, ConnectionEvent, ConnectionState, ConnectionStep, Outage, ProbeResult,
};
use super::kubeconfig::{self, KubeconfigSecret, probe, read_secret};
use super::node_cache::NodeCache;
use crate::cluster_facts::ClusterFacts;
use crate::metrics::{ClusterLabels, MachinePoolMetrics};
use crate::task_guard::TaskGuard;

/// How long the first list of Nodes may take: ten thousand of them are 200 MB.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// A workload cluster that can be read and written.
pub struct Connection {
    pub applier: Applier,
    pub nodes: Arc<NodeCache>,
}

/// What pools know of a connection.
#[derive(Clone)]
pub enum ConnectionView {
    /// It is being made. Its pools are marked when it is known what became of it.
    Pending,
    /// There is nothing to connect to yet.
    Idle,
    Down(Outage),
    Up(Arc<Connection>),
}

/// Whose pools are marked when it changes.
pub struct PublishedView {
    view: Mutex<ConnectionView>,
    on_change: Box<dyn Fn() + Send + Sync>,
}

impl PublishedView {
    pub fn new(on_change: impl Fn() + Send + Sync + 'static) -> PublishedView {
        PublishedView { view: Mutex::new(ConnectionView::Pending), on_change: Box::new(on_change) }
    }

    pub fn get(&self) -> ConnectionView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, view: ConnectionView) {
        let is_news = {
            let mut held = self.view.lock().unwrap_or_else(PoisonError::into_inner);
            let is_same = match (&*held, &view) {
                (ConnectionView::Idle, ConnectionView::Idle) => true,
                (ConnectionView::Down(held), ConnectionView::Down(new)) => held == new,
                (ConnectionView::Up(held), ConnectionView::Up(new)) => Arc::ptr_eq(held, new),
                // There is nothing to decide on until it is known what becomes of it.
                (_, ConnectionView::Pending) => true,
                _ => false,
            };
            *held = view;
            !is_same
        };
        if is_news {
            (self.on_change)();
        }
    }
}

pub struct ConnectionTask {
    pub cluster: Key,
    /// Reads the Secret.
    pub management: Client,
    pub facts: watch::Receiver<ClusterFacts>,
    pub nodes: Arc<NodeCache>,
    /// Makes the applier of a connection.
    pub applier: Box<dyn Fn(Client) -> Applier + Send + Sync>,
    /// Limits how many clusters connect at a time.
    pub permits: Arc<Semaphore>,
    pub clock: Clock,
    pub metrics: Arc<MachinePoolMetrics>,
    pub view: Arc<PublishedView>,
}

/// A connection with what keeps it current.
struct Live {
    client: Client,
    /// The address of the server, for messages.
    address: String,
    secret: KubeconfigSecret,
    connection: Arc<Connection>,
    _watch: TaskGuard,
}

impl ConnectionTask {
    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let mut live = None;
        let is_ready = self.facts.borrow_and_update().is_ready();
        let mut step = ConnectionState::default().next(ConnectionEvent::Cluster { is_ready }, self.now());
        loop {
            self.publish(&step, &mut live);
            let event = match step.action {
                ConnectionAction::Wait => self.wait(step.wake).await,
                ConnectionAction::Connect => match self.connect().await {
                    Ok(connected) => {
                        let secret = connected.secret.resource_version.clone();
                        live = Some(connected);
                        ConnectionEvent::Connected { secret }
                    }
                    Err((secret, reason)) => ConnectionEvent::ConnectFailed { secret, reason },
                },
                ConnectionAction::Probe => self.probe(live.as_mut()).await,
                ConnectionAction::ReadSecret => {
                    let secret = read_secret(&self.management, &self.cluster).await.ok().flatten();
                    ConnectionEvent::SecretRead { secret: secret.map(|secret| secret.resource_version) }
                }
            };
            step = step.state.next(event, self.now());
        }
    }

    /// The time in seconds, which is what conditions show.
    fn now(&self) -> Timestamp {
        to_second((self.clock)())
    }

    fn publish(&self, step: &ConnectionStep, live: &mut Option<Live>) {
        let view = match (&step.state, &live) {
            (ConnectionState::Idle, _) => ConnectionView::Idle,
            (ConnectionState::Connected { .. }, Some(live)) => ConnectionView::Up(Arc::clone(&live.connection)),
            (
                ConnectionState::Connecting { outage: Some(outage), .. } | ConnectionState::Disconnected { outage, .. },
                _,
            ) => ConnectionView::Down(outage.clone()),
            (ConnectionState::Connecting { outage: None, .. } | ConnectionState::Connected { .. }, _) => {
                ConnectionView::Pending
            }
        };
        let is_up = matches!(view, ConnectionView::Up(_));
        if !is_up {
            // Ends the watch too.
            *live = None;
        }
        self.metrics.cluster_connected.get_or_create(&ClusterLabels::of(&self.cluster)).set(i64::from(is_up));
        self.view.set(view);
    }

    async fn wait(&mut self, wake: Option<Duration>) -> ConnectionEvent {
        let due = async {
            match wake {
                Some(delay) => tokio::time::sleep(delay).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => ConnectionEvent::Due,
            changed = self.facts.changed() => {
                if changed.is_err() {
                    // The Cluster is forgotten, and this task with it.
                    return std::future::pending().await;
                }
                ConnectionEvent::Cluster { is_ready: self.facts.borrow_and_update().is_ready() }
            }
        }
    }

    /// Connects and lists the Nodes. The error has the version of the Secret, if there is one, and the reason.
    async fn connect(&self) -> Result<Live, (Option<String>, String)> {
        let _permit = self.permits.acquire().await;
        let secret = match read_secret(&self.management, &self.cluster).await {
            Ok(Some(secret)) => secret,
            Ok(None) => {
                let name = kubeconfig::secret_name(&self.cluster);
                return Err((None, format!("there is no Secret {name}; expected its kubeconfig there")));
            }
            Err(reason) => return Err((None, reason)),
        };
        match self.connect_with(secret.clone()).await {
            Ok(live) => {
                tracing::info!(cluster = ?self.cluster, "workload cluster connected");
                Ok(live)
            }
            Err(reason) => {
                tracing::warn!(cluster = ?self.cluster, reason, "workload cluster cannot be reached");
                Err((Some(secret.resource_version), reason))
            }
        }
    }

    async fn connect_with(&self, secret: KubeconfigSecret) -> Result<Live, String> {
        let (client, address) = secret.client().await?;
        let failed = |reason: &str| format!("{address}: {reason}");
        match probe(&client).await {
            ProbeResult::Alive => {}
            ProbeResult::Unauthorized => return Err(failed("it does not accept the credentials of its kubeconfig")),
            ProbeResult::Failed(reason) => return Err(failed(&reason)),
        }
        let list = self.nodes.next_list();
        let watch = TaskGuard::spawn(Arc::clone(&self.nodes).watch(&client));
        match timeout(LIST_TIMEOUT, list).await {
            Ok(listed) => listed.map_err(|reason| failed(&reason))?,
            Err(_) => {
                let seconds = LIST_TIMEOUT.as_secs();
                return Err(failed(&format!("Nodes cannot be listed: no list within {seconds} s")));
            }
        }
        let connection = Connection { applier: (self.applier)(client.clone()), nodes: Arc::clone(&self.nodes) };
        Ok(Live { client, address, secret, connection: Arc::new(connection), _watch: watch })
    }

    /// Reads the Secret and probes the server, both at once.
    async fn probe(&self, live: Option<&mut Live>) -> ConnectionEvent {
        let Some(live) = live else {
            return ConnectionEvent::Probed { secret: None, result: ProbeResult::Unauthorized };
        };
        let (secret, mut result) = tokio::join!(read_secret(&self.management, &self.cluster), probe(&live.client));
        // A user who may not see Nodes any more is answered by the server all the same.
        if let (ProbeResult::Alive, Some(reason)) = (&result, self.nodes.lasting_failure()) {
            result = ProbeResult::Failed(reason);
        }
        if let ProbeResult::Failed(reason) = &mut result {
            *reason = format!("{}: {reason}", live.address);
            tracing::debug!(cluster = ?self.cluster, reason, "probe of a workload cluster failed");
        }
        // A Secret that cannot be read, or is gone for a moment, does not end a connection that works.
        let secret = secret.ok().flatten().map(|found| {
            // Labels of the Secret may change without its content.
            if !found.has_value_of(&live.secret) {
                return found.resource_version;
            }
            live.secret.resource_version.clone()
        });
        ConnectionEvent::Probed { secret, result }
    }
}
