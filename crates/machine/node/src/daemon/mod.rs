//! The shell: reads the node's order from the API, has the [`Agent`] follow it, and writes down how it stands.
//!
//! - It needs its own node's credentials and no more: it reads its Node, the MachineConfigs that it names, the disruption
//!   policies and the ControllerConfig, and writes annotations of its Node and events about it.
//! - The order is read anew before every attempt, so whatever was ordered meanwhile counts. Before anything is done for an
//!   order, the node says so at the revision at which it was read: an order that was taken back meanwhile is not carried out.
//! - A node on which all is well asks nobody: its watches tell it of orders, and whether the machine is right is seen on the
//!   machine, from time to time and when one of its files is touched.
//! - An API that is away changes nothing on the machine: what a cut has interrupted is brought to its end before anybody is
//!   asked, what is under way goes on, and what is to be said is said later.
//! - The node's MachineConfigNode is derived from these annotations by the roll-out controller: one writer for each object.

mod debounce;
mod error;
mod node_api;
mod reported_state;
mod watches;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher;
use kube::{Api, Client};
use seaworthy_api::vocabulary::machineconfiguration::{State, node as annotation};
use seaworthy_host::{Host, HostError};
use serde_json::json;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::agent::{Agent, Settings};
use crate::clock::Clock;
use crate::drift::file_watch::FileWatch;
use crate::order::{Again, Report};
use crate::paths;
use debounce::Debounce;
pub use error::DaemonError;
use node_api::{NodeApi, claim};
use watches::{Kept, watch_controller_config, watch_node};

/// When the daemon looks again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// After a first failure.
    pub first_retry: Duration,
    /// After many.
    pub last_retry: Duration,
    /// Whether the machine is still what it should be.
    pub check: Duration,
    /// After the first news of a change to its files: who changes one seldom changes only that one.
    pub settle: Duration,
    /// Whether a boot that was asked for has come.
    pub boot: Duration,
}

impl Default for Rhythm {
    fn default() -> Self {
        // Upstream's back-off. Reading some hundred small files once a minute is not felt.
        Rhythm {
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(60),
            check: Duration::from_secs(60),
            settle: Duration::from_secs(1),
            boot: Duration::from_secs(30),
        }
    }
}

/// The daemon of one node.
pub struct Daemon<H> {
    api: NodeApi,
    agent: Arc<Mutex<Agent<H>>>,
    rhythm: Rhythm,
    /// What the ControllerConfig wants kept right.
    kept: Kept,
    turns: Option<Arc<Semaphore>>,
}

impl<H: Host + 'static> Daemon<H> {
    /// The daemon of a node, over its machine.
    pub fn new(client: Client, name: &str, host: H, settings: Settings, rhythm: Rhythm) -> Self {
        Daemon {
            api: NodeApi::new(client, name),
            agent: Arc::new(Mutex::new(Agent::new(host, settings))),
            rhythm,
            kept: Kept::default(),
            turns: None,
        }
    }

    /// Has the machine touched only while it is its turn: many daemons in one process need few threads.
    pub fn with_turns(self, turns: Arc<Semaphore>) -> Self {
        Daemon { turns: Some(turns), ..self }
    }

    /// The same with another clock. It is given before anything is begun.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        if let Some(agent) = Arc::get_mut(&mut self.agent) {
            agent.get_mut().set_clock(clock);
        }
        self
    }

    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it; if somebody did, all would have their turn.
        Arc::clone(self.turns.as_ref()?).acquire_owned().await.ok()
    }

    /// Goes on with another client: credentials are renewed from time to time.
    pub fn reconnect(&mut self, client: Client) {
        self.api.reconnect(client);
    }

    /// Done when nothing is under way on the machine. Whoever ends the process waits for it: ending in the middle of an update
    /// would be survived, and would take it back.
    pub fn quiet(&self) -> impl Future<Output = ()> + use<H> {
        let agent = Arc::clone(&self.agent);
        async move { drop(agent.lock().await) }
    }

    /// Follows orders, from one boot to the next. A machine that runs ends us when it boots; one that does not boot is heard of
    /// again.
    pub async fn follow(&mut self) {
        loop {
            self.run().await;
            let is_running = self.agent.lock().await.host().is_running();
            if is_running {
                tokio::time::sleep(self.rhythm.boot).await;
            }
        }
    }

    /// Follows orders until the machine is about to boot, or for ever.
    pub async fn run(&mut self) {
        if self.begin().await {
            return;
        }
        let changed = Arc::new(Notify::new());
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.api.name()));
        let orders = watch_node(self.api.nodes(), config, self.api.reported().clone(), Arc::clone(&changed));
        let configs = Api::all(self.api.client());
        let certificates = watch_controller_config(configs, Arc::clone(&self.kept), Arc::clone(&changed));
        let work = async {
            let mut retry = self.rhythm.first_retry;
            let mut is_checking = false;
            let mut files = FileWatch::default();
            let drifted = Arc::new(Notify::new());
            let Rhythm { settle, last_retry, check, .. } = self.rhythm;
            let mut debounce = Debounce::new(settle, last_retry, check);
            loop {
                let (again, is_well) = match self.attempt(is_checking).await {
                    Ok(report) if report.is_rebooting => return,
                    Ok(report) => {
                        self.watch_files(&mut files, &report, &drifted).await;
                        let is_well = report.state == State::Done;
                        if is_well && report.again == Again::OnChange {
                            // What the machine is in stands on its disk; the next order is read anew.
                            self.api.forget_configs();
                        }
                        (report.again, is_well)
                    }
                    Err(error) => {
                        tracing::warn!(node = self.api.name(), "{error}");
                        (Again::Backoff, false)
                    }
                };
                // Nothing has failed that a change of the order does not put right at once.
                let pause = match again {
                    Again::Now => continue,
                    Again::OnChange => {
                        retry = self.rhythm.first_retry;
                        self.rhythm.check
                    }
                    Again::Backoff => {
                        let pause = retry;
                        retry = (retry * 2).min(self.rhythm.last_retry);
                        pause
                    }
                };
                is_checking = self.rest(pause, is_well, &mut debounce, &changed, &drifted).await;
            }
        };
        tokio::select! {
            () = orders => {}
            () = certificates => {}
            () = work => {}
        }
    }

    /// Brings what was under way to its end; says whether the machine is about to boot.
    async fn begin(&self) -> bool {
        let mut agent = Arc::clone(&self.agent).lock_owned().await;
        let turn = self.turn().await;
        let begun = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let is_rebooting = agent.recover();
            is_rebooting.and_then(|it| agent.prepare().map(|()| it).map_err(|error| error.to_string()))
        });
        match begun.await {
            Ok(Ok(is_rebooting)) => is_rebooting,
            // Whatever it is, the first attempt meets it again, and says so on the node.
            Ok(Err(error)) => {
                tracing::warn!(node = self.api.name(), "{error}");
                false
            }
            Err(error) => {
                tracing::warn!(node = self.api.name(), "{error}");
                false
            }
        }
    }

    /// Rests until there is something to be done; says whether the machine is to be looked at. Somebody who touches files all
    /// the time keeps the machine's own daemon busy, and nobody else.
    async fn rest(
        &self,
        pause: Duration,
        is_well: bool,
        debounce: &mut Debounce,
        changed: &Notify,
        drifted: &Notify,
    ) -> bool {
        let mut until = Instant::now() + pause;
        loop {
            let is_heard = tokio::select! {
                () = changed.notified() => return false,
                () = drifted.notified() => true,
                () = tokio::time::sleep_until(until) => false,
            };
            if is_heard {
                tokio::select! {
                    () = changed.notified() => return true,
                    () = tokio::time::sleep(debounce.pause(Instant::now())) => {}
                }
            }
            let is_due = match (is_well, is_heard) {
                (true, _) => !self.is_right().await,
                (false, true) => !self.is_as_seen().await,
                (false, false) => true,
            };
            if is_due {
                if is_heard {
                    debounce.acted(Instant::now());
                }
                return true;
            }
            if !is_heard {
                until = Instant::now() + pause;
            }
        }
    }

    /// Whether nothing has changed on a machine that is not what it should be.
    async fn is_as_seen(&self) -> bool {
        let mut agent = Arc::clone(&self.agent).lock_owned().await;
        tokio::task::spawn_blocking(move || agent.is_as_seen()).await.unwrap_or(false)
    }

    /// Whether the machine is still what it should be, as far as it is seen without asking anybody.
    async fn is_right(&self) -> bool {
        let kept = Arc::clone(&self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let agent = Arc::clone(&self.agent).lock_owned().await;
        let looked = tokio::task::spawn_blocking(move || {
            agent.is_right() && agent.keep_right(&kept).map(|written| tell(&written.unwrap_or_default())).is_ok()
        });
        // What could not be looked at is looked at in earnest.
        looked.await.unwrap_or(false)
    }

    /// Watches the machine's files while no update is in progress.
    async fn watch_files(&self, files: &mut FileWatch, report: &Report, drifted: &Arc<Notify>) {
        if report.again == Again::Now || report.state == State::Working {
            files.stop();
            return;
        }
        let agent = self.agent.lock().await;
        let Ok(Some(target)) = agent.on_disk_config() else { return };
        let drifted = Arc::clone(drifted);
        // Without it drift is still found, only later.
        if let Err(error) = files.start(agent.host(), &target, Arc::new(move || drifted.notify_one())) {
            tracing::warn!(node = self.api.name(), "{error}");
        }
    }

    /// A node that is new to the cluster gets the annotations that its machine was made with.
    async fn introduce(&self, node: Node) -> Result<Node, DaemonError> {
        if !NodeApi::is_new(&node) {
            return Ok(node);
        }
        match self.agent.lock().await.host().read(paths::INITIAL_ANNOTATIONS)? {
            Some(initial) => self.api.introduce(&node, &initial).await,
            None => Ok(node),
        }
    }

    /// Reads the order, follows it as far as it goes now, and writes down how the node stands.
    pub async fn attempt(&mut self, is_checking: bool) -> Result<Report, DaemonError> {
        let node = self.api.read().await?;
        let node = match self.introduce(node).await {
            Ok(node) => node,
            Err(error) => {
                self.api.report_error(&error).await?;
                return Err(error);
            }
        };
        let order = self.api.order(&node).await?;
        let agent = Arc::clone(&self.agent);
        let runtime = tokio::runtime::Handle::current();
        self.api.reported().begin();
        let (nodes, read) = (self.api.nodes(), node.clone());
        let kept = Arc::clone(&self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let mut agent = agent.lock_owned().await;
        let turn = self.turn().await;
        let task = tokio::task::spawn_blocking(move || {
            // It ends with the work, also if nobody waits for that any longer.
            let _turn = turn;
            let mut unheard = None;
            let mut may_begin = |state: State| {
                let mut said = json!({annotation::STATE.as_str(): state.as_str()});
                if state == State::Working {
                    // What was waited for has come.
                    said[annotation::REASON.as_str()] = json!("");
                }
                match runtime.block_on(claim(&nodes, &read, said)) {
                    Ok(is_ours) => is_ours,
                    Err(error) => {
                        unheard = Some(error);
                        false
                    }
                }
            };
            let mut report = match is_checking {
                true => agent.check(&order, &mut may_begin),
                false => agent.sync(&order, &mut may_begin),
            };
            if let Some(error) = unheard {
                return Err(error);
            }
            let mut is_kept = false;
            if !report.is_rebooting && report.again != Again::Now {
                match agent.keep_right(&kept) {
                    Ok(Some(written)) => {
                        is_kept = true;
                        tell(&written);
                    }
                    Ok(None) => {}
                    Err(why) => report.fail(&format!("certificates of the ControllerConfig: {why}")),
                }
            }
            Ok((report, kept.version.clone().filter(|_| is_kept)))
        });
        let (mut report, certificates) = match task.await {
            Ok(done) => done?,
            Err(error) => {
                let why = HostError::Unable { what: "follow its order".to_owned(), why: error.to_string() };
                return Err(why.into());
            }
        };
        if !self.api.report(&node, &report, certificates.as_deref()).await? {
            report.again = Again::Now;
        }
        Ok(report)
    }
}

/// Certificates that were put right.
fn tell(written: &[String]) {
    written.iter().for_each(|path| tracing::info!(path, "written"));
}
