//! What a node is ordered to do, and what it reports.

use std::sync::Arc;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_api::operator::NodeDisruptionPolicyClusterStatus;
use seaworthy_api::operator::machine_configuration::StorageSection;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_plan::disruption::Disruption;

use crate::decide::target::Target;
use crate::failure::Failure;

/// The event that tells what was put right. It stays good news, whatever has gone wrong beside it.
pub const REPAIRED: &str = "ConfigDriftRepaired";

/// A configuration by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// What is in it; `None` if the cluster has no such MachineConfig.
    pub spec: Option<Arc<MachineConfigSpec>>,
    /// The image that was built for it.
    pub image: Option<String>,
}

impl Config {
    /// The image that was built for it; an empty name counts as none.
    pub(crate) fn built_image(&self) -> Option<&str> {
        self.image.as_deref().filter(|image| !image.is_empty())
    }

    /// The parsed configuration.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        let Some(spec) = &self.spec else {
            let reason = format!("MachineConfig {} does not exist; it is waited for, or for another order", self.name);
            return Err(Failure::degraded(reason));
        };
        Ok(Target::parse(&self.name, spec, self.built_image())?)
    }
}

impl From<&Target> for Config {
    /// The name and the image; the content stays on the disk.
    fn from(target: &Target) -> Self {
        Config { name: target.name.clone(), spec: None, image: target.built_image.clone() }
    }
}

/// What a node is ordered to do: everything that a decision may look at, read anew each time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// The name of the node; empty if nobody gives it orders.
    pub node: String,
    /// What it should run; `None` before anybody has said so.
    pub desired: Option<Config>,
    /// What the cluster believes that it runs.
    pub current: Option<Config>,
    /// What it has reported last.
    pub state: Option<State>,
    /// What it has asked the drain controller for.
    pub desired_drain: Option<String>,
    /// What the drain controller has done last.
    pub last_applied_drain: Option<String>,
    /// Whether its pods stay, because there is no other node for them.
    pub is_single: bool,
    /// The disruption policies of the cluster; the built-in ones if there are none.
    pub policies: Option<Arc<NodeDisruptionPolicyClusterStatus>>,
    /// What its owner says of taking it in, should nothing say how it is: only `true` means that it was never configured.
    pub adoption: Option<String>,
    /// Parts of the storage that may differ.
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
    /// How it stands.
    pub state: State,
    /// Why; empty when all is well.
    pub reason: String,
    /// The configuration that the disk is in, if it is in one.
    pub current: Option<Config>,
    /// What it asks the drain controller for, if that is new.
    pub ask: Option<String>,
    /// Whether it is about to boot.
    pub is_rebooting: bool,
    /// What the update does to the node.
    pub disruption: Option<Disruption>,
    /// When it is worth looking again.
    pub again: Again,
    /// What happened, for events.
    pub events: Vec<(&'static str, String)>,
}

impl Report {
    /// The machine is about to boot.
    pub(crate) fn rebooting(why: String) -> Self {
        Report {
            state: State::Working,
            reason: why,
            current: None,
            ask: None,
            is_rebooting: true,
            disruption: None,
            again: Again::OnChange,
            events: Vec::new(),
        }
    }

    /// The order has changed since it was read: it is read again.
    pub(crate) fn overtaken(order: &Order) -> Self {
        Report {
            state: order.working_state(),
            is_rebooting: false,
            again: Again::Now,
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
            ask: None,
            is_rebooting: false,
            disruption: None,
            again: failure.again,
        }
    }

    /// Something has gone wrong beside the order.
    pub(crate) fn fail(&mut self, why: &str) {
        if matches!(self.state, State::Degraded | State::Unreconcilable) && !self.reason.is_empty() {
            self.reason = format!("{}; {why}", self.reason);
        } else {
            (self.state, self.reason) = (State::Degraded, why.to_owned());
            self.events.retain(|(reason, _)| *reason == REPAIRED);
        }
        self.events.push(("FailedToReconcile", why.to_owned()));
        self.again = Again::Backoff;
    }
}

/// When it is worth looking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// When the order changes.
    OnChange,
    /// After a while as well, each time a longer one.
    Backoff,
    /// At once.
    Now,
}
