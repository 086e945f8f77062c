//! API client of one node's daemon: reads the node's order, and writes its report, annotations and Events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use seaworthy_api::operator::MachineConfiguration;
use seaworthy_api::operator::machine_configuration::StorageSection;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::{MACHINE_CONFIGURATION, State, node as annotation};
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_api::vocabulary::seaworthy::annotation::ADOPT;
use seaworthy_plan::disruption::policy::of_cluster;
use serde_json::{Map, Value, json};

use super::error::DaemonError;
use super::reported_state::ReportedState;
use crate::order::{Again, Config, Order, REPAIRED, Report};
use crate::paths;

/// What a control plane of one node says of itself.
const SINGLE: &str = "SingleReplica";
/// A MachineConfig is read again when it is asked for after this many others: one that is deleted while it is applied is still
/// at hand.
const REMEMBERED: usize = 4;
/// What is tried when the node says how it stands.
const WRITE: &str = "write the node's annotations";
/// How long the machine is kept waiting for the answer that its order still counts.
const CLAIM: Duration = Duration::from_secs(10);

/// The API as the daemon of one node uses it.
pub(crate) struct NodeApi {
    client: Client,
    nodes: Api<Node>,
    name: String,
    reported: ReportedState,
    /// The last note of each reason, and the recorder that counts how often it was published.
    recorders: Mutex<BTreeMap<&'static str, (String, Recorder)>>,
    /// MachineConfigs that were read lately, the last one first.
    specs: Vec<(String, Arc<MachineConfigSpec>)>,
}

impl NodeApi {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        NodeApi {
            nodes: Api::all(client.clone()),
            client,
            name: name.to_owned(),
            reported: ReportedState::default(),
            recorders: Mutex::default(),
            specs: Vec::new(),
        }
    }

    /// Uses another client from now on.
    pub(crate) fn reconnect(&mut self, client: Client) {
        self.nodes = Api::all(client.clone());
        self.recorders = Mutex::default();
        self.client = client;
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        self.nodes.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn reported(&self) -> &ReportedState {
        &self.reported
    }

    /// Drops the MachineConfigs that were kept.
    pub(crate) fn forget_configs(&mut self) {
        self.specs = Vec::new();
    }

    /// The node.
    pub(crate) async fn read(&self) -> Result<Node, DaemonError> {
        let node = self.nodes.get(&self.name).await;
        node.map_err(|error| DaemonError::api(&format!("read node {}", self.name), error))
    }

    /// Whether a node does not name its configuration yet. One that was taken in with none does not either: the machine may have
    /// been made again since.
    pub(crate) fn is_new(node: &Node) -> bool {
        let is_nothing = |text: &str| text.is_empty() || text == UNCONFIGURED;
        annotation::CURRENT_CONFIG.of(&node.metadata).is_none_or(is_nothing)
    }

    /// Gives a node that is new to the cluster the annotations that its machine was made with.
    pub(crate) async fn introduce(&self, node: &Node, initial: &[u8]) -> Result<Node, DaemonError> {
        let unreadable = |why: String| DaemonError::Unreadable { path: paths::INITIAL_ANNOTATIONS, why };
        let given: BTreeMap<String, String> =
            serde_json::from_slice(initial).map_err(|error| unreadable(error.to_string()))?;
        let current = given
            .get(annotation::CURRENT_CONFIG.as_str())
            .filter(|name| !name.is_empty())
            .ok_or_else(|| unreadable(format!("it has no {}", annotation::CURRENT_CONFIG.as_str())))?;
        tracing::info!(node = self.name, "joins with {current}");
        // What somebody has ordered already stays.
        let has = |key: &str| {
            let found = node.metadata.annotations.as_ref().and_then(|all| all.get(key));
            found.is_some_and(|text| text != UNCONFIGURED)
        };
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

    pub(crate) async fn order(&mut self, node: &Node) -> Result<Order, DaemonError> {
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
            node: self.name.clone(),
            desired,
            current,
            state: said_state(node),
            desired_drain: text(annotation::DESIRED_DRAIN),
            last_applied_drain: text(annotation::LAST_APPLIED_DRAIN),
            is_single: text(annotation::CONTROL_PLANE_TOPOLOGY).as_deref() == Some(SINGLE),
            adoption: text(ADOPT),
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

    /// Writes a report, as far as it is new; returns whether it holds: another writer has not contradicted it, and what it asks
    /// for could still be asked.
    pub(crate) async fn report(
        &self,
        node: &Node,
        report: &Report,
        certificates: Option<&str>,
    ) -> Result<bool, DaemonError> {
        let mut said = Map::new();
        let mut set = |key: Annotation, value: Option<&str>| {
            if key.of(&node.metadata) != value {
                said.insert(key.as_str().to_owned(), json!(value));
            }
        };
        // A node that has failed says why until it has succeeded, or has something else to say that is worse than being under way.
        // An attempt that has changed something is followed by another one, which says how that stands.
        let is_quiet = report.again == Again::Now;
        if report.is_rebooting {
            set(annotation::POST_CONFIG_ACTION, Some("Rebooting"));
            let has_failed = matches!(said_state(node), Some(State::Degraded | State::Unreconcilable));
            let is_explained = annotation::REASON.of(&node.metadata).is_some_and(|reason| !reason.is_empty());
            if !(has_failed && is_explained) {
                set(annotation::REASON, Some(&shorten(&report.reason)));
            }
        } else if !is_quiet {
            if annotation::POST_CONFIG_ACTION.of(&node.metadata).is_some_and(|action| !action.is_empty()) {
                set(annotation::POST_CONFIG_ACTION, Some(""));
            }
            let is_failing = matches!(report.state, State::Degraded | State::Unreconcilable);
            if !is_failing || !report.reason.is_empty() {
                set(annotation::REASON, Some(&shorten(&report.reason)));
            }
            set(annotation::STATE, Some(report.state.as_str()));
        }
        // Differs: it is the version that was the first to want these certificates, and not the newest, because otherwise every
        // change of the ControllerConfig's status would be a write for every node.
        if certificates.is_some() {
            set(annotation::LAST_SYNCED_CONTROLLER_CONFIG, certificates);
        }
        if let Some(wish) = &report.ask {
            set(annotation::DESIRED_DRAIN, Some(wish));
        }
        // Also one that fails says what it has, where its Node was made anew: it would be taken for one that nobody has taken in.
        let is_unknown = annotation::CURRENT_CONFIG.of(&node.metadata).is_none_or(str::is_empty);
        let is_done = report.state == State::Done && !report.is_rebooting;
        if let Some(current) = report.current.as_ref().filter(|_| is_unknown && !is_done && !is_quiet) {
            set(annotation::CURRENT_CONFIG, Some(&current.name));
            set(annotation::CURRENT_IMAGE, current.image.as_deref());
        }
        if let Some(current) = report.current.as_ref().filter(|_| is_done) {
            set(annotation::CURRENT_CONFIG, Some(&current.name));
            // Who was told nothing yet is told what he has, as a new machine is.
            if annotation::DESIRED_CONFIG.of(&node.metadata).is_none_or(str::is_empty) {
                set(annotation::DESIRED_CONFIG, Some(&current.name));
            }
            set(annotation::CURRENT_IMAGE, current.image.as_deref());
        }
        for (reason, note) in &report.events {
            let is_bad = matches!(report.state, State::Degraded | State::Unreconcilable) && *reason != REPAIRED;
            match is_bad {
                true => tracing::warn!(node = self.name, reason, "{note}"),
                false => tracing::info!(node = self.name, reason, "{note}"),
            }
            let event = Event {
                type_: if is_bad { EventType::Warning } else { EventType::Normal },
                reason: (*reason).to_owned(),
                note: Some(note.chars().take(1000).collect()),
                action: "Update".to_owned(),
                secondary: None,
            };
            // An event that cannot be written is told by the annotations all the same.
            let _ = self.recorder(reason, note).publish(&event, &node.object_ref(&())).await;
        }
        // A drain is the first thing that is done for an order.
        if report.ask.is_some() && !said.is_empty() {
            return claim(&self.nodes, node, Value::Object(said)).await;
        }
        let written = match said.is_empty() {
            true => None,
            false => {
                let written = self.write(Value::Object(said.clone())).await;
                Some(written.map_err(|error| DaemonError::api(WRITE, error))?)
            }
        };
        let is_at_rest = !is_quiet && !report.is_rebooting;
        Ok(!(is_at_rest && self.reported.written(node, &said, written.as_ref().unwrap_or(node))))
    }

    /// Reports an error that keeps the order from being read.
    pub(crate) async fn report_error(&self, error: &DaemonError) -> Result<(), DaemonError> {
        let said = json!({
            annotation::STATE.as_str(): State::Degraded.as_str(),
            annotation::REASON.as_str(): shorten(&error.to_string()),
        });
        self.write(said).await.map(drop).map_err(|error| DaemonError::api(WRITE, error))
    }

    /// The recorder for an Event. One that has published the same note counts it; another note is another Event, because the
    /// note of a series is that of its first.
    fn recorder(&self, reason: &'static str, note: &str) -> Recorder {
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, recorder)) = recorders.get(reason)
            && last == note
        {
            return recorder.clone();
        }
        let reporter = Reporter { controller: "seaworthy-daemon".to_owned(), instance: Some(self.name.clone()) };
        let recorder = Recorder::new(self.client.clone(), reporter);
        recorders.insert(reason, (note.to_owned(), recorder.clone()));
        recorder
    }

    async fn write(&self, annotations: Value) -> Result<Node, kube::Error> {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.nodes.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await
    }
}

/// Says on a Node that an order is begun, unless the Node is another than the one that the order was read from: then the answer
/// is no, and the order is read again.
pub(crate) async fn claim(nodes: &Api<Node>, read: &Node, said: Value) -> Result<bool, DaemonError> {
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

/// How a node has said that it stands.
fn said_state(node: &Node) -> Option<State> {
    annotation::STATE.of(&node.metadata).and_then(|state| state.parse().ok())
}

/// A reason as long as an annotation may be.
fn shorten(reason: &str) -> String {
    reason.chars().take(annotation::REASON_LIMIT).collect()
}
