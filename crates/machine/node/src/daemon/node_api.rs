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
use seaworthy_api::vocabulary::machineconfiguration::{MACHINE_CONFIGURATION, NodeEvent, State, node as annotation};
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_api::vocabulary::seaworthy::annotation::ADOPT;
use seaworthy_plan::disruption::policy::of_cluster;
use serde_json::{Map, Value, json};

use super::error::DaemonError;
use super::reported_state::ReportedState;
use crate::order::{Config, ConfigSpec, NextAttempt, Order, Report};
use crate::paths;

/// The topology of a control plane of one node.
const SINGLE_REPLICA: &str = "SingleReplica";
/// MachineConfigs in the cache, so that one that is deleted while it is applied is still available.
const MAX_CACHED_CONFIGS: usize = 4;
/// The operation in errors about reports.
const WRITE_ANNOTATIONS: &str = "write the node's annotations";
/// The limit for the confirmation that an order is still current; the machine's update waits for it.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(10);

/// API client of the daemon of one node.
pub(crate) struct NodeApi {
    client: Client,
    nodes: Api<Node>,
    name: String,
    reported: ReportedState,
    /// The last note of each reason, and the recorder that counts how often it was published.
    recorders: Mutex<BTreeMap<NodeEvent, (String, Recorder)>>,
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

    /// Drops the cached MachineConfigs.
    pub(crate) fn forget_configs(&mut self) {
        self.specs = Vec::new();
    }

    pub(crate) async fn read(&self) -> Result<Node, DaemonError> {
        let node = self.nodes.get(&self.name).await;
        node.map_err(|error| DaemonError::api(&format!("read node {}", self.name), error))
    }

    /// Whether a node does not name its configuration yet. One that was adopted without one counts as well: its machine may have
    /// been recreated since.
    pub(crate) fn is_new(node: &Node) -> bool {
        let is_unset = |text: &str| text.is_empty() || text == UNCONFIGURED;
        annotation::CURRENT_CONFIG.of(&node.metadata).is_none_or(is_unset)
    }

    /// Writes the annotations that the machine was made with to a node that is new to the cluster.
    pub(crate) async fn set_initial_annotations(&self, node: &Node, initial: &[u8]) -> Result<Node, DaemonError> {
        let unreadable = |why: String| DaemonError::Unreadable { path: paths::INITIAL_ANNOTATIONS, why };
        let given: BTreeMap<String, String> =
            serde_json::from_slice(initial).map_err(|error| unreadable(error.to_string()))?;
        let current = given
            .get(annotation::CURRENT_CONFIG.as_str())
            .filter(|name| !name.is_empty())
            .ok_or_else(|| unreadable(format!("it has no {}", annotation::CURRENT_CONFIG.as_str())))?;
        tracing::info!(node = self.name, "joining with {current}");
        // An order that was given already stays.
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

    /// The order of a node. The content of its current configuration is read only if the disk has no record of it.
    pub(crate) async fn order(&mut self, node: &Node, is_recorded: bool) -> Result<Order, DaemonError> {
        let text = |key: Annotation| key.of(&node.metadata).filter(|text| !text.is_empty()).map(str::to_owned);
        let desired = match text(annotation::DESIRED_CONFIG) {
            Some(name) => Some(self.config(name, text(annotation::DESIRED_IMAGE)).await?),
            None => None,
        };
        let image = text(annotation::CURRENT_IMAGE);
        let current = match text(annotation::CURRENT_CONFIG) {
            Some(name) if is_recorded => Some(Config { name, spec: ConfigSpec::NotRead, image }),
            Some(name) => Some(self.config(name, image).await?),
            None => None,
        };
        let settings: Result<Option<MachineConfiguration>, _> =
            Api::all(self.client.clone()).get_opt(MACHINE_CONFIGURATION).await;
        let settings = settings.map_err(|error| DaemonError::api("read the disruption policies", error))?;
        let spec = settings.map(|settings| settings.spec).unwrap_or_default();
        // Differs: the policies are computed from the spec, because upstream waits for another controller to copy them into a
        // status, and fails every update of a cluster that has no such object.
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
            state: reported_state(node),
            desired_drain: text(annotation::DESIRED_DRAIN),
            last_applied_drain: text(annotation::LAST_APPLIED_DRAIN),
            is_single: text(annotation::CONTROL_PLANE_TOPOLOGY).as_deref() == Some(SINGLE_REPLICA),
            adoption: text(ADOPT),
            policies: Some(Arc::new(policies)),
            allowed,
        })
    }

    async fn config(&mut self, name: String, image: Option<String>) -> Result<Config, DaemonError> {
        // The content of a rendered MachineConfig never changes, since its name has the digest.
        let known = self.specs.iter().find(|(known, _)| *known == name).map(|(_, spec)| Arc::clone(spec));
        let spec = match known {
            Some(spec) => ConfigSpec::Found(spec),
            None => {
                let configs: Api<MachineConfig> = Api::all(self.client.clone());
                let found = configs.get_opt(&name).await;
                let found = found.map_err(|error| DaemonError::api(&format!("read MachineConfig {name}"), error))?;
                found.map_or(ConfigSpec::NotFound, |found| {
                    let spec = Arc::new(found.spec);
                    self.specs.insert(0, (name.clone(), Arc::clone(&spec)));
                    self.specs.truncate(MAX_CACHED_CONFIGS);
                    ConfigSpec::Found(spec)
                })
            }
        };
        Ok(Config { name, spec, image })
    }

    /// Writes a report, as far as it is new; returns whether it holds: no other writer has contradicted it, and its drain request
    /// could still be made.
    pub(crate) async fn report(
        &self,
        node: &Node,
        report: &Report,
        certificates: Option<&str>,
    ) -> Result<bool, DaemonError> {
        let mut changes = Map::new();
        let mut set = |key: Annotation, value: Option<&str>| {
            if key.of(&node.metadata) != value {
                changes.insert(key.as_str().to_owned(), json!(value));
            }
        };
        // A node that has failed keeps its reason until it has succeeded or has failed otherwise.
        // An attempt that has changed something is followed by another one, which reports the result.
        let is_quiet = report.next_attempt == NextAttempt::Now;
        if report.is_rebooting {
            set(annotation::POST_CONFIG_ACTION, Some("Rebooting"));
            let has_failed = matches!(reported_state(node), Some(State::Degraded | State::Unreconcilable));
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
        // Differs: it is the first version with these certificates, and not the newest, because otherwise every change of the
        // ControllerConfig's status would be a write for every node.
        if certificates.is_some() {
            set(annotation::LAST_SYNCED_CONTROLLER_CONFIG, certificates);
        }
        if let Some(request) = &report.drain_request {
            set(annotation::DESIRED_DRAIN, Some(request));
        }
        // A node that fails reports its configuration too, if its Node was recreated: otherwise it would seem not adopted.
        let is_unknown = annotation::CURRENT_CONFIG.of(&node.metadata).is_none_or(str::is_empty);
        let is_done = report.state == State::Done && !report.is_rebooting;
        if let Some(current) = report.current.as_ref().filter(|_| is_unknown && !is_done && !is_quiet) {
            set(annotation::CURRENT_CONFIG, Some(&current.name));
            set(annotation::CURRENT_IMAGE, current.image.as_deref());
        }
        if let Some(current) = report.current.as_ref().filter(|_| is_done) {
            set(annotation::CURRENT_CONFIG, Some(&current.name));
            // A node without an order gets its present configuration as the order, as a new machine does.
            if annotation::DESIRED_CONFIG.of(&node.metadata).is_none_or(str::is_empty) {
                set(annotation::DESIRED_CONFIG, Some(&current.name));
            }
            set(annotation::CURRENT_IMAGE, current.image.as_deref());
        }
        for (reason, note) in &report.events {
            // That files were repaired is no failure, even in a report of one.
            let is_bad = matches!(report.state, State::Degraded | State::Unreconcilable)
                && *reason != NodeEvent::ConfigDriftRepaired;
            match is_bad {
                true => tracing::warn!(node = self.name, %reason, "{note}"),
                false => tracing::info!(node = self.name, %reason, "{note}"),
            }
            let event = Event {
                type_: if is_bad { EventType::Warning } else { EventType::Normal },
                reason: reason.as_str().to_owned(),
                note: Some(note.chars().take(1000).collect()),
                action: "Update".to_owned(),
                secondary: None,
            };
            // The annotations have the same facts as an event that cannot be written.
            let _ = self.recorder(*reason, note).publish(&event, &node.object_ref(&())).await;
        }
        // The drain is the first action for an order.
        if report.drain_request.is_some() && !changes.is_empty() {
            return claim(&self.nodes, node, Value::Object(changes)).await;
        }
        let written = match changes.is_empty() {
            true => None,
            false => {
                let written = self.write(Value::Object(changes.clone())).await;
                Some(written.map_err(|error| DaemonError::api(WRITE_ANNOTATIONS, error))?)
            }
        };
        let is_at_rest = !is_quiet && !report.is_rebooting;
        Ok(!(is_at_rest && self.reported.written(node, &changes, written.as_ref().unwrap_or(node))))
    }

    /// Reports an error that keeps the order from being read.
    pub(crate) async fn report_error(&self, error: &DaemonError) -> Result<(), DaemonError> {
        let annotations = json!({
            annotation::STATE.as_str(): State::Degraded.as_str(),
            annotation::REASON.as_str(): shorten(&error.to_string()),
        });
        self.write(annotations).await.map(drop).map_err(|error| DaemonError::api(WRITE_ANNOTATIONS, error))
    }

    /// The recorder for an Event. The one that has published the same note last counts it as a series; another note is another
    /// Event, because a series has the note of its first.
    fn recorder(&self, reason: NodeEvent, note: &str) -> Recorder {
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, recorder)) = recorders.get(&reason)
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

/// Reports on a Node that an order is begun. Returns false if the Node has changed since the order was read; then the order is
/// read again.
pub(crate) async fn claim(nodes: &Api<Node>, read: &Node, annotations: Value) -> Result<bool, DaemonError> {
    let mut patch = json!({"metadata": {"annotations": annotations}});
    patch["metadata"]["resourceVersion"] = json!(read.metadata.resource_version);
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    match tokio::time::timeout(CLAIM_TIMEOUT, nodes.patch(&read.name_any(), &params, &patch)).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(kube::Error::Api(status))) if status.is_conflict() => Ok(false),
        Ok(Err(error)) => Err(DaemonError::api(WRITE_ANNOTATIONS, error)),
        Err(_) => Err(DaemonError::Timeout { seconds: CLAIM_TIMEOUT.as_secs() }),
    }
}

fn reported_state(node: &Node) -> Option<State> {
    annotation::STATE.of(&node.metadata).and_then(|state| state.parse().ok())
}

/// A reason, cut to the limit of the annotation: that limit counts characters, and readers of upstream's reasons know no ellipsis.
fn shorten(reason: &str) -> String {
    reason.chars().take(annotation::MAX_REASON_CHARS).collect()
}
