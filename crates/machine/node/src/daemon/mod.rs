//! Daemon: reads the node's order from the API, has the [`Agent`] carry it out, and reports the result.
//!
//! - It needs its own node's credentials and no more: it reads its Node, the MachineConfigs that it names, the disruption
//!   policies and the ControllerConfig, and writes annotations of its Node and events about it.
//! - The order is read again before every attempt. Before anything is done for an order, the node reports so at the revision at
//!   which the order was read: an order that was reverted meanwhile is not carried out.
//! - A node without drift sends no requests: its watches bring orders, and drift is detected on the machine, periodically and
//!   when one of its files changes.
//! - An unavailable API changes nothing on the machine: an interrupted update is completed or undone before any request, a
//!   running update continues, and reports are written later.
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

use crate::agent::{Agent, AgentOptions};
use crate::clock::DaemonClock;
use crate::drift::file_watch::FileWatch;
use crate::order::{NextAttempt, Report};
use crate::paths;
use debounce::Debounce;
pub use error::DaemonError;
use node_api::{NodeApi, claim};
use watches::{SharedCertificates, watch_controller_config, watch_node};

/// Delays and intervals of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonIntervals {
    /// The delay after a first failure; it doubles with each further one.
    pub initial_retry_delay: Duration,
    pub max_retry_delay: Duration,
    /// The interval of checks for drift.
    pub drift_check_interval: Duration,
    /// The delay after the first change of a file, since changes seldom come alone.
    pub debounce_delay: Duration,
    /// The interval of checks whether a requested reboot has happened.
    pub reboot_check_interval: Duration,
}

impl Default for DaemonIntervals {
    fn default() -> Self {
        // Upstream's back-off. Reading some hundred small files once a minute costs nothing noticeable.
        DaemonIntervals {
            initial_retry_delay: Duration::from_secs(1),
            max_retry_delay: Duration::from_secs(60),
            drift_check_interval: Duration::from_secs(60),
            debounce_delay: Duration::from_secs(1),
            reboot_check_interval: Duration::from_secs(30),
        }
    }
}

/// The daemon of one node.
pub struct Daemon<H> {
    api: NodeApi,
    agent: Arc<Mutex<Agent<H>>>,
    intervals: DaemonIntervals,
    certificates: SharedCertificates,
    permits: Option<Arc<Semaphore>>,
}

impl<H: Host + 'static> Daemon<H> {
    pub fn new(client: Client, name: &str, host: H, options: AgentOptions, intervals: DaemonIntervals) -> Self {
        Daemon {
            api: NodeApi::new(client, name),
            agent: Arc::new(Mutex::new(Agent::new(host, options))),
            intervals,
            certificates: SharedCertificates::default(),
            permits: None,
        }
    }

    /// Accesses the machine only with a permit, so that many daemons in one process need few threads.
    pub fn with_permits(self, permits: Arc<Semaphore>) -> Self {
        Daemon { permits: Some(permits), ..self }
    }

    /// Sets the clock, before the daemon is started.
    pub fn with_clock(mut self, clock: DaemonClock) -> Self {
        if let Some(agent) = Arc::get_mut(&mut self.agent) {
            agent.get_mut().set_clock(clock);
        }
        self
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed; a closed one would not limit.
        Arc::clone(self.permits.as_ref()?).acquire_owned().await.ok()
    }

    /// Replaces the client, when the credentials are renewed.
    pub fn reconnect(&mut self, client: Client) {
        self.api.reconnect(client);
    }

    /// Completes when nothing is under way on the machine. The process waits for it before it ends: an update that is interrupted
    /// is reverted by the next start.
    pub fn wait_idle(&self) -> impl Future<Output = ()> + use<H> {
        let agent = Arc::clone(&self.agent);
        async move { drop(agent.lock().await) }
    }

    /// Follows orders across reboots. The reboot of a running machine ends the process; on a machine that does not reboot the
    /// daemon continues.
    pub async fn follow(&mut self) {
        loop {
            self.run().await;
            let is_running = self.agent.lock().await.host().is_running();
            if is_running {
                tokio::time::sleep(self.intervals.reboot_check_interval).await;
            }
        }
    }

    /// Follows orders until the machine is about to boot.
    pub async fn run(&mut self) {
        if self.recover().await {
            return;
        }
        let changed = Arc::new(Notify::new());
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.api.name()));
        let node_watch = watch_node(self.api.nodes(), config, self.api.reported().clone(), Arc::clone(&changed));
        let configs = Api::all(self.api.client());
        let config_watch = watch_controller_config(configs, Arc::clone(&self.certificates), Arc::clone(&changed));
        let work = async {
            let mut retry = self.intervals.initial_retry_delay;
            let mut is_checking = false;
            let mut files = FileWatch::default();
            let drifted = Arc::new(Notify::new());
            let DaemonIntervals { debounce_delay, max_retry_delay, drift_check_interval, .. } = self.intervals;
            let mut debounce = Debounce::new(debounce_delay, max_retry_delay, drift_check_interval);
            loop {
                let (next_attempt, is_well) = match self.attempt(is_checking).await {
                    Ok(report) if report.is_rebooting => return,
                    Ok(report) => {
                        self.watch_files(&mut files, &report, &drifted).await;
                        let is_well = report.state == State::Done;
                        if is_well && report.next_attempt == NextAttempt::OnChange {
                            // The current configuration is on the disk; the next order is read again.
                            self.api.forget_configs();
                        }
                        (report.next_attempt, is_well)
                    }
                    Err(error) => {
                        tracing::warn!(node = self.api.name(), "{error}");
                        (NextAttempt::Backoff, false)
                    }
                };
                let pause = match next_attempt {
                    NextAttempt::Now => continue,
                    NextAttempt::OnChange => {
                        retry = self.intervals.initial_retry_delay;
                        self.intervals.drift_check_interval
                    }
                    NextAttempt::Backoff => {
                        let pause = retry;
                        retry = (retry * 2).min(self.intervals.max_retry_delay);
                        pause
                    }
                };
                is_checking = self.wait_for_work(pause, is_well, &mut debounce, &changed, &drifted).await;
            }
        };
        tokio::select! {
            () = node_watch => {}
            () = config_watch => {}
            () = work => {}
        }
    }

    /// Completes or reverts an update that was interrupted; returns whether the machine is about to boot.
    async fn recover(&self) -> bool {
        let mut agent = Arc::clone(&self.agent).lock_owned().await;
        let permit = self.permit().await;
        let recovered = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let is_rebooting = agent.recover();
            is_rebooting.and_then(|it| agent.prepare().map(|()| it).map_err(|error| error.to_string()))
        });
        match recovered.await {
            Ok(Ok(is_rebooting)) => is_rebooting,
            // The first attempt has the same error, and reports it on the node.
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

    /// Waits until there is something to do; returns whether the machine is to be checked. Files that change all the time cause
    /// work on this machine only, and no requests.
    async fn wait_for_work(
        &self,
        pause: Duration,
        is_well: bool,
        debounce: &mut Debounce,
        changed: &Notify,
        drifted: &Notify,
    ) -> bool {
        let mut until = Instant::now() + pause;
        loop {
            let has_file_changed = tokio::select! {
                () = changed.notified() => return false,
                () = drifted.notified() => true,
                () = tokio::time::sleep_until(until) => false,
            };
            if has_file_changed {
                tokio::select! {
                    () = changed.notified() => return true,
                    () = tokio::time::sleep(debounce.delay(Instant::now())) => {}
                }
            }
            let is_due = match (is_well, has_file_changed) {
                (true, _) => !self.is_in_sync().await,
                (false, true) => !self.is_unchanged().await,
                (false, false) => true,
            };
            if is_due {
                if has_file_changed {
                    debounce.acted(Instant::now());
                }
                return true;
            }
            if !has_file_changed {
                until = Instant::now() + pause;
            }
        }
    }

    /// Whether nothing has changed on a machine that has drift.
    async fn is_unchanged(&self) -> bool {
        let mut agent = Arc::clone(&self.agent).lock_owned().await;
        tokio::task::spawn_blocking(move || agent.is_unchanged()).await.unwrap_or(false)
    }

    /// Whether the machine has neither drift nor an update, as far as that is known without the API.
    async fn is_in_sync(&self) -> bool {
        let certificates = Arc::clone(&self.certificates.lock().unwrap_or_else(PoisonError::into_inner));
        let agent = Arc::clone(&self.agent).lock_owned().await;
        let checked = tokio::task::spawn_blocking(move || {
            agent.is_in_sync()
                && agent
                    .sync_certificates(&certificates)
                    .map(|written| log_written(&written.unwrap_or_default()))
                    .is_ok()
        });
        // A check that fails is followed by an attempt.
        checked.await.unwrap_or(false)
    }

    /// Watches the machine's files while no update is in progress.
    async fn watch_files(&self, files: &mut FileWatch, report: &Report, drifted: &Arc<Notify>) {
        if report.next_attempt == NextAttempt::Now || report.state == State::Working {
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

    /// Writes the annotations that the machine was made with to a node that is new to the cluster.
    async fn set_initial_annotations(&self, node: Node) -> Result<Node, DaemonError> {
        if !NodeApi::is_new(&node) {
            return Ok(node);
        }
        match self.agent.lock().await.host().read(paths::INITIAL_ANNOTATIONS)? {
            Some(initial) => self.api.set_initial_annotations(&node, &initial).await,
            None => Ok(node),
        }
    }

    /// Reads the order, carries it out as far as it can be done now, and reports the result.
    pub async fn attempt(&mut self, is_checking: bool) -> Result<Report, DaemonError> {
        let node = self.api.read().await?;
        let node = match self.set_initial_annotations(node).await {
            Ok(node) => node,
            Err(error) => {
                self.api.report_error(&error).await?;
                return Err(error);
            }
        };
        let is_recorded = self.agent.lock().await.host().exists(paths::CURRENT_CONFIG).unwrap_or_default();
        let order = self.api.order(&node, is_recorded).await?;
        let agent = Arc::clone(&self.agent);
        let runtime = tokio::runtime::Handle::current();
        self.api.reported().start_attempt();
        let (nodes, read) = (self.api.nodes(), node.clone());
        let certificates = Arc::clone(&self.certificates.lock().unwrap_or_else(PoisonError::into_inner));
        let mut agent = agent.lock_owned().await;
        let permit = self.permit().await;
        let task = tokio::task::spawn_blocking(move || {
            // Held until the work ends, even if this future is dropped.
            let _permit = permit;
            let mut claim_error = None;
            let mut may_begin = |state: State| {
                let mut annotations = json!({annotation::STATE.as_str(): state.as_str()});
                if state == State::Working {
                    // The wait that the reason was about is over.
                    annotations[annotation::REASON.as_str()] = json!("");
                }
                match runtime.block_on(claim(&nodes, &read, annotations)) {
                    Ok(is_claimed) => is_claimed,
                    Err(error) => {
                        claim_error = Some(error);
                        false
                    }
                }
            };
            let mut report = match is_checking {
                true => agent.check(&order, &mut may_begin),
                false => agent.sync(&order, &mut may_begin),
            };
            if let Some(error) = claim_error {
                return Err(error);
            }
            let mut is_synced = false;
            if !report.is_rebooting && report.next_attempt != NextAttempt::Now {
                match agent.sync_certificates(&certificates) {
                    Ok(Some(written)) => {
                        is_synced = true;
                        log_written(&written);
                    }
                    Ok(None) => {}
                    Err(why) => report.fail(&format!("certificates of the ControllerConfig: {why}")),
                }
            }
            Ok((report, certificates.version.clone().filter(|_| is_synced)))
        });
        let (mut report, certificates_version) = match task.await {
            Ok(done) => done?,
            Err(error) => {
                let why = HostError::Unsupported { what: "follow its order".to_owned(), why: error.to_string() };
                return Err(why.into());
            }
        };
        if !self.api.report(&node, &report, certificates_version.as_deref()).await? {
            report.next_attempt = NextAttempt::Now;
        }
        Ok(report)
    }
}

fn log_written(written: &[String]) {
    written.iter().for_each(|path| tracing::info!(path, "written"));
}
