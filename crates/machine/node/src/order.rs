//! Order and report: what a node is ordered to run, and what it reports about that.

use std::sync::Arc;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_api::operator::NodeDisruptionPolicyClusterStatus;
use seaworthy_api::operator::machine_configuration::StorageSection;
use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, State};
use seaworthy_plan::disruption::Disruption;

use crate::decide::target::TargetState;
use crate::failure::Failure;

/// The content of a configuration, as far as it was read.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigSpec {
    /// Only the name mattered.
    NotRead,
    /// The cluster has no such MachineConfig.
    NotFound,
    Found(Arc<MachineConfigSpec>),
}

impl ConfigSpec {
    pub fn found(&self) -> Option<&Arc<MachineConfigSpec>> {
        match self {
            ConfigSpec::Found(spec) => Some(spec),
            ConfigSpec::NotRead | ConfigSpec::NotFound => None,
        }
    }
}

/// A configuration by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub name: String,
    pub spec: ConfigSpec,
    /// The image that was built for it.
    pub image: Option<String>,
}

impl Config {
    /// The image that was built for it; an empty name counts as none.
    pub(crate) fn built_image(&self) -> Option<&str> {
        self.image.as_deref().filter(|image| !image.is_empty())
    }

    /// The parsed configuration.
    pub(crate) fn target(&self) -> Result<TargetState, Failure> {
        let name = &self.name;
        let spec = match &self.spec {
            ConfigSpec::Found(spec) => spec,
            ConfigSpec::NotFound => {
                let reason =
                    format!("MachineConfig {name} not found; waiting for it to appear or for a new desiredConfig");
                return Err(Failure::degraded(reason));
            }
            ConfigSpec::NotRead => {
                return Err(Failure::degraded(format!("MachineConfig {name} could not be read; retrying")));
            }
        };
        Ok(TargetState::parse(&self.name, Arc::clone(spec), self.built_image())?)
    }
}

impl From<&TargetState> for Config {
    /// The name and the image; the content stays on the disk.
    fn from(target: &TargetState) -> Self {
        Config { name: target.name.clone(), spec: ConfigSpec::NotRead, image: target.built_image.clone() }
    }
}

/// An order: everything from the API that a decision depends on, read again before each attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// The name of the node; empty on a machine without a cluster.
    pub node: String,
    /// `None` until a controller has set it.
    pub desired: Option<Config>,
    /// The configuration that the node runs by its annotations.
    pub current: Option<Config>,
    /// The state that the node has reported last.
    pub state: Option<State>,
    /// The node's last request to the drain controller.
    pub desired_drain: Option<String>,
    /// The request that the drain controller has done last.
    pub last_applied_drain: Option<String>,
    /// Whether its pods stay, because there is no other node for them.
    pub is_single: bool,
    /// The disruption policies of the cluster; the built-in ones if there are none.
    pub policies: Option<Arc<NodeDisruptionPolicyClusterStatus>>,
    /// The value of the annotation that adopts a machine without a record of its configuration; only `true` does.
    pub adoption: Option<String>,
    /// Storage sections whose changes are not irreconcilable.
    pub allowed: Vec<StorageSection>,
}

impl Order {
    /// The state while the order is followed: a node that has failed reports that until it has succeeded.
    pub(crate) fn working_state(&self) -> State {
        match self.state {
            Some(state @ (State::Degraded | State::Unreconcilable)) => state,
            _ => State::Working,
        }
    }
}

/// What a node reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub state: State,
    /// Empty unless something is wrong or waited for.
    pub reason: String,
    /// The configuration that the disk is in, if it is in one.
    pub current: Option<Config>,
    /// The request to the drain controller, if it is new.
    pub drain_request: Option<String>,
    /// Whether it is about to boot.
    pub is_rebooting: bool,
    /// What the update does to the node.
    pub disruption: Option<Disruption>,
    pub next_attempt: NextAttempt,
    /// Reasons and notes of events.
    pub events: Vec<(NodeEvent, String)>,
}

impl Report {
    /// The machine is about to boot.
    pub(crate) fn rebooting(why: String) -> Self {
        Report {
            state: State::Working,
            reason: why,
            current: None,
            drain_request: None,
            is_rebooting: true,
            disruption: None,
            next_attempt: NextAttempt::OnChange,
            events: Vec::new(),
        }
    }

    /// The order, or what had to be read for it, has changed since it was read: it is read again.
    pub(crate) fn superseded(order: &Order) -> Self {
        Report {
            state: order.working_state(),
            is_rebooting: false,
            next_attempt: NextAttempt::Now,
            ..Report::rebooting(String::new())
        }
    }

    /// An attempt has failed on a machine that is in this configuration.
    pub(crate) fn failed(failure: Failure, current: Option<Config>) -> Self {
        Report {
            state: failure.state,
            events: vec![(failure.event, failure.reason.clone())],
            reason: failure.reason,
            current,
            drain_request: None,
            is_rebooting: false,
            disruption: None,
            next_attempt: failure.next_attempt,
        }
    }

    /// Adds a failure that is independent of the order.
    pub(crate) fn fail(&mut self, why: &str) {
        if matches!(self.state, State::Degraded | State::Unreconcilable) && !self.reason.is_empty() {
            self.reason = format!("{}; {why}", self.reason);
        } else {
            (self.state, self.reason) = (State::Degraded, why.to_owned());
            self.events.retain(|(reason, _)| *reason == NodeEvent::ConfigDriftRepaired);
        }
        self.events.push((NodeEvent::FailedToReconcile, why.to_owned()));
        self.next_attempt = NextAttempt::Backoff;
    }
}

/// When the next attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// When the order changes.
    OnChange,
    /// Also after a delay that grows with each failure.
    Backoff,
    Now,
}
