//! The shell: reads the node's order from the API, has the [`Agent`] follow it, and writes down how it stands.
//!
//! - It needs its own node's credentials and no more: it reads its Node, the MachineConfigs that it names, the disruption
//!   policies and the ControllerConfig, and writes annotations of its Node and events about it.
//! - The order is read anew before every attempt, so whatever was ordered meanwhile counts. Before anything is done for an
//!   order, the node says so at the revision at which it was read: an order that was taken back meanwhile is not carried out. A node on which all is well asks
//!   nobody: its watches tell it of orders, and whether the machine is right is seen on the machine.
//! - An API that is away changes nothing on the machine: what a cut has interrupted is brought to its end before anybody is
//!   asked, what is under way goes on, and what is to be said is said later.
//! - The node's MachineConfigNode is derived from these annotations by the roll-out controller: one writer for each object.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use seaworthy_api::operator::MachineConfiguration;
use seaworthy_api::operator::machine_configuration::StorageSection;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::{MACHINE_CONFIGURATION, State, node as annotation};
use seaworthy_host::{Host, HostError};
use seaworthy_plan::policy::of_cluster;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};

use crate::agent::{Agent, Settings};
pub use crate::error::DaemonError;
use crate::monitor::Monitor;
use crate::news::{Kept, follow, watch};
use crate::order::{Again, Config, Order, Report};
use crate::places;

/// What a control plane of one node says of itself.
const SINGLE: &str = "SingleReplica";
/// A MachineConfig is read again when it is asked for after this many others: one that is deleted while it is applied is still
/// at hand.
const REMEMBERED: usize = 4;
/// What is tried when the node says how it stands.
const WRITE: &str = "write the node's annotations";
/// How long the machine is kept waiting for the answer that its order still counts.
const CLAIM: Duration = Duration::from_secs(10);

/// When the daemon looks again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// After a first failure.
    pub first_retry: Duration,
    /// After many.
    pub last_retry: Duration,
    /// Whether the machine is still what it should be.
    pub check: Duration,
}

impl Default for Rhythm {
    fn default() -> Self {
        // Upstream's back-off. Reading some hundred small files once a minute is not felt.
        Rhythm {
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(60),
            check: Duration::from_secs(60),
        }
    }
}

/// The daemon of one node.
pub struct Daemon<H> {
    nodes: Api<Node>,
    client: Client,
    name: String,
    agent: Arc<Mutex<Agent<H>>>,
    rhythm: Rhythm,
    recorder: Recorder,
    specs: Vec<(String, Arc<MachineConfigSpec>)>,
    /// What the ControllerConfig wants kept right.
    kept: Kept,
    turns: Option<Arc<Semaphore>>,
}

impl<H: Host + 'static> Daemon<H> {
    /// The daemon of a node, over its machine.
    pub fn new(client: Client, name: &str, host: H, settings: Settings, rhythm: Rhythm) -> Self {
        let reporter = Reporter { controller: "seaworthy-daemon".to_owned(), instance: Some(name.to_owned()) };
        Daemon {
            nodes: Api::all(client.clone()),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            name: name.to_owned(),
            agent: Arc::new(Mutex::new(Agent::new(host, settings))),
            rhythm,
            specs: Vec::new(),
            kept: Kept::default(),
            turns: None,
        }
    }

    /// Has the machine touched only while it is its turn: many daemons in one process need few threads.
    pub fn with_turns(self, turns: Arc<Semaphore>) -> Self {
        Daemon { turns: Some(turns), ..self }
    }

    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it; if somebody did, all would have their turn.
        Arc::clone(self.turns.as_ref()?).acquire_owned().await.ok()
    }

    /// Goes on with another client: credentials are renewed from time to time.
    pub fn reconnect(&mut self, client: Client) {
        let reporter = Reporter { controller: "seaworthy-daemon".to_owned(), instance: Some(self.name.clone()) };
        self.nodes = Api::all(client.clone());
        self.recorder = Recorder::new(client.clone(), reporter);
        self.client = client;
    }

    /// Done when nothing is under way on the machine. Whoever ends the process waits for it: ending in the middle of an update
    /// would be survived, and would take it back.
    pub fn quiet(&self) -> impl Future<Output = ()> + use<H> {
        let agent = Arc::clone(&self.agent);
        async move { drop(agent.lock().await) }
    }

    /// Follows orders until the machine is about to boot, or for ever.
    pub async fn run(&mut self) {
        if self.begin().await {
            return;
        }
        let changed = Arc::new(Notify::new());
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let watch = watch(self.nodes.clone(), config, Arc::clone(&changed));
        let certificates = follow(Api::all(self.client.clone()), Arc::clone(&self.kept), Arc::clone(&changed));
        let work = async {
            let mut retry = self.rhythm.first_retry;
            let mut is_checking = false;
            let mut monitor = Monitor::default();
            let drifted = Arc::new(Notify::new());
            loop {
                let (again, is_well) = match self.attempt(is_checking).await {
                    Ok(report) if report.is_rebooting => return,
                    Ok(report) => {
                        self.listen(&mut monitor, &report, &drifted).await;
                        let is_well = report.state == State::Done;
                        if is_well && report.again == Again::OnChange {
                            // What the machine is in stands on its disk; the next order is read anew.
                            self.specs = Vec::new();
                        }
                        (report.again, is_well)
                    }
                    Err(error) => {
                        tracing::warn!(node = self.name, "{error}");
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
                is_checking = loop {
                    tokio::select! {
                        () = changed.notified() => break false,
                        () = drifted.notified() => break true,
                        () = tokio::time::sleep(pause) => {}
                    }
                    if !is_well || !self.is_right().await {
                        break true;
                    }
                };
            }
        };
        tokio::select! {
            () = watch => {}
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
                tracing::warn!(node = self.name, "{error}");
                false
            }
            Err(error) => {
                tracing::warn!(node = self.name, "{error}");
                false
            }
        }
    }

    /// Whether the machine is still what it should be, as far as it is seen without asking anybody.
    async fn is_right(&self) -> bool {
        let kept = Arc::clone(&self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let agent = Arc::clone(&self.agent).lock_owned().await;
        let looked = tokio::task::spawn_blocking(move || agent.is_right() && agent.keep_right(&kept).is_ok());
        // What could not be looked at is looked at in earnest.
        looked.await.unwrap_or(false)
    }

    /// Listens for changes of the machine's files while nothing is under way.
    async fn listen(&self, monitor: &mut Monitor, report: &Report, drifted: &Arc<Notify>) {
        if report.again == Again::Now || report.state == State::Working {
            monitor.stop();
            return;
        }
        let agent = self.agent.lock().await;
        let Ok(Some(target)) = agent.on_disk_config() else { return };
        let drifted = Arc::clone(drifted);
        // Without it drift is still found, only later.
        if let Err(error) = monitor.start(agent.host(), &target, Arc::new(move || drifted.notify_one())) {
            tracing::warn!(node = self.name, "{error}");
        }
    }

    /// Reads the order, follows it as far as it goes now, and writes down how the node stands.
    pub async fn attempt(&mut self, is_checking: bool) -> Result<Report, DaemonError> {
        let node = self.nodes.get(&self.name).await;
        let node = node.map_err(|error| DaemonError::api(&format!("read node {}", self.name), error))?;
        let node = match self.introduce(&node).await {
            Ok(node) => node,
            Err(error) => {
                let said = json!({
                    annotation::STATE.as_str(): State::Degraded.as_str(),
                    annotation::REASON.as_str(): shorten(&error.to_string()),
                });
                self.write(said).await.map_err(|error| DaemonError::api(WRITE, error))?;
                return Err(error);
            }
        };
        let order = self.order(&node).await?;
        let agent = Arc::clone(&self.agent);
        let runtime = tokio::runtime::Handle::current();
        let (nodes, read) = (self.nodes.clone(), node.clone());
        let kept = Arc::clone(&self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let mut agent = agent.lock_owned().await;
        let turn = self.turn().await;
        let task = tokio::task::spawn_blocking(move || {
            // It ends with the work, also if nobody waits for that any longer.
            let _turn = turn;
            let mut unheard = None;
            let mut may_begin = |state: State| {
                let said = json!({annotation::STATE.as_str(): state.as_str()});
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
            if report.state == State::Done && !report.is_rebooting && report.again != Again::Now {
                match agent.keep_right(&kept) {
                    Ok(written) => written.iter().for_each(|path| tracing::info!(path, "written")),
                    Err(why) => {
                        (report.state, report.again) = (State::Degraded, Again::Backoff);
                        report.reason = format!("certificates of the ControllerConfig: {why}");
                    }
                }
            }
            Ok(report)
        });
        let mut report = match task.await {
            Ok(report) => report?,
            Err(error) => {
                let why = HostError::Unable { what: "follow its order".to_owned(), why: error.to_string() };
                return Err(why.into());
            }
        };
        if !self.say(&node, &report).await? {
            report.again = Again::Now;
        }
        Ok(report)
    }

    /// A node that is new to the cluster gets the annotations that its machine was made with.
    async fn introduce(&self, node: &Node) -> Result<Node, DaemonError> {
        if annotation::CURRENT_CONFIG.of(&node.metadata).is_some_and(|name| !name.is_empty()) {
            return Ok(node.clone());
        }
        let bytes = self.agent.lock().await.host().read(places::INITIAL_ANNOTATIONS)?;
        let Some(bytes) = bytes else { return Ok(node.clone()) };
        let unreadable = |why: String| DaemonError::Unreadable { path: places::INITIAL_ANNOTATIONS, why };
        let given: BTreeMap<String, String> =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        let current = given
            .get(annotation::CURRENT_CONFIG.as_str())
            .filter(|name| !name.is_empty())
            .ok_or_else(|| unreadable(format!("it has no {}", annotation::CURRENT_CONFIG.as_str())))?;
        tracing::info!(node = self.name, "joins with {current}");
        // What somebody has ordered already stays.
        let has = |key: &str| node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
        let ours = [
            annotation::CURRENT_CONFIG,
            annotation::DESIRED_CONFIG,
            annotation::FIRST_PIVOT_CONFIG,
            annotation::CURRENT_IMAGE,
            annotation::DESIRED_IMAGE,
        ];
        let new: Map<String, Value> = ours
            .iter()
            .filter(|key| !has(key.as_str()))
            .filter_map(|key| Some((key.as_str().to_owned(), json!(given.get(key.as_str())?))))
            .collect();
        self.write(Value::Object(new)).await.map_err(|error| DaemonError::api("write the first annotations", error))
    }

    async fn order(&mut self, node: &Node) -> Result<Order, DaemonError> {
        let text = |key: Annotation| key.of(&node.metadata).filter(|text| !text.is_empty()).map(str::to_owned);
        let desired = match text(annotation::DESIRED_CONFIG) {
            Some(name) => Some(self.config(name, text(annotation::DESIRED_IMAGE)).await?),
            None => None,
        };
        let current = match text(annotation::CURRENT_CONFIG) {
            Some(name) => Some(self.config(name, text(annotation::CURRENT_IMAGE)).await?),
            None => None,
        };
        let settings: Result<Option<MachineConfiguration>, _> =
            Api::all(self.client.clone()).get_opt(MACHINE_CONFIGURATION).await;
        let settings = settings.map_err(|error| DaemonError::api("read the disruption policies", error))?;
        let spec = settings.map(|settings| settings.spec).unwrap_or_default();
        // Differs: the policies are worked out from what the user wrote, because upstream waits for another controller to copy
        // them into a status, and fails every update of a cluster that has no such object.
        let policies = of_cluster(spec.node_disruption_policy.as_ref());
        let allowed: Vec<StorageSection> = spec
            .irreconcilable_validation_overrides
            .iter()
            .flat_map(|overrides| overrides.storage.iter().flatten())
            .filter_map(|section| section.known())
            .collect();
        Ok(Order {
            desired,
            current,
            state: text(annotation::STATE).and_then(|state| state.parse().ok()),
            desired_drain: text(annotation::DESIRED_DRAIN),
            last_applied_drain: text(annotation::LAST_APPLIED_DRAIN),
            is_single: text(annotation::CONTROL_PLANE_TOPOLOGY).as_deref() == Some(SINGLE),
            policies: Some(Arc::new(policies)),
            allowed,
        })
    }

    async fn config(&mut self, name: String, image: Option<String>) -> Result<Config, DaemonError> {
        // What is in a rendered MachineConfig never changes: its name says so.
        let known = self.specs.iter().find(|(known, _)| *known == name).map(|(_, spec)| Arc::clone(spec));
        let spec = match known {
            Some(spec) => Some(spec),
            None => {
                let configs: Api<MachineConfig> = Api::all(self.client.clone());
                let found = configs.get_opt(&name).await;
                let found = found.map_err(|error| DaemonError::api(&format!("read MachineConfig {name}"), error))?;
                found.map(|found| {
                    let spec = Arc::new(found.spec);
                    self.specs.insert(0, (name.clone(), Arc::clone(&spec)));
                    self.specs.truncate(REMEMBERED);
                    spec
                })
            }
        };
        Ok(Config { name, spec, image })
    }

    /// Writes how the node stands, as far as that is new; says whether what it asks for could still be asked.
    async fn say(&self, node: &Node, report: &Report) -> Result<bool, DaemonError> {
        let mut said = Map::new();
        let mut set = |key: Annotation, value: Option<&str>| {
            if key.of(&node.metadata) != value {
                said.insert(key.as_str().to_owned(), json!(value));
            }
        };
        // An attempt that has changed something is followed by another one, which says how that stands.
        let is_quiet = report.again == Again::Now;
        if report.is_rebooting {
            set(annotation::POST_CONFIG_ACTION, Some("Rebooting"));
        } else if !is_quiet {
            if annotation::POST_CONFIG_ACTION.of(&node.metadata).is_some_and(|action| !action.is_empty()) {
                set(annotation::POST_CONFIG_ACTION, Some(""));
            }
            // A node that has failed says why until it has succeeded.
            let is_failing = matches!(report.state, State::Degraded | State::Unreconcilable);
            if !is_failing || !report.reason.is_empty() {
                set(annotation::REASON, Some(&shorten(&report.reason)));
            }
            set(annotation::STATE, Some(report.state.as_str()));
        }
        if let Some(wish) = &report.ask {
            set(annotation::DESIRED_DRAIN, Some(wish));
        }
        if report.state == State::Done
            && !report.is_rebooting
            && let Some(current) = &report.current
        {
            set(annotation::CURRENT_CONFIG, Some(&current.name));
            set(annotation::CURRENT_IMAGE, current.image.as_deref());
        }
        for (reason, note) in &report.events {
            let is_bad = matches!(report.state, State::Degraded | State::Unreconcilable);
            let event = Event {
                type_: if is_bad { EventType::Warning } else { EventType::Normal },
                reason: (*reason).to_owned(),
                note: Some(note.chars().take(1000).collect()),
                action: "Update".to_owned(),
                secondary: None,
            };
            // An event that cannot be written is told by the annotations all the same.
            let _ = self.recorder.publish(&event, &node.object_ref(&())).await;
        }
        if said.is_empty() {
            return Ok(true);
        }
        // A drain is the first thing that is done for an order.
        if report.ask.is_some() {
            return claim(&self.nodes, node, Value::Object(said)).await;
        }
        let written = self.write(Value::Object(said)).await;
        written.map(|_| true).map_err(|error| DaemonError::api(WRITE, error))
    }

    async fn write(&self, annotations: Value) -> Result<Node, kube::Error> {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.nodes.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await
    }
}

/// Says on a Node that an order is begun, unless the Node is another than the one that the order was read from: then the answer
/// is no, and the order is read again.
async fn claim(nodes: &Api<Node>, read: &Node, said: Value) -> Result<bool, DaemonError> {
    let mut patch = json!({"metadata": {"annotations": said}});
    patch["metadata"]["resourceVersion"] = json!(read.metadata.resource_version);
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    match tokio::time::timeout(CLAIM, nodes.patch(&read.name_any(), &params, &patch)).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(kube::Error::Api(status))) if status.is_conflict() => Ok(false),
        Ok(Err(error)) => Err(DaemonError::api(WRITE, error)),
        Err(_) => Err(DaemonError::Silent { seconds: CLAIM.as_secs() }),
    }
}

/// A reason as long as an annotation may be.
fn shorten(reason: &str) -> String {
    reason.chars().take(annotation::REASON_LIMIT).collect()
}
