//! State of a node: by itself, and relative to a target.
//!
//! Compat: machine-config-operator `pkg/controller/common/layered_node_state.go`.

use seaworthy_api::vocabulary::machineconfiguration::State;

use crate::fleet::{NodeView, Target};

impl NodeView<'_> {
    /// Whether Kubernetes can rely on it.
    pub fn is_ready(&self) -> bool {
        self.unready_reason.is_none()
    }

    /// Whether it runs the configuration and the image that it should.
    pub fn is_done(&self) -> bool {
        self.has_config() && self.has_image() && self.state == Some(State::Done)
    }

    /// Whether its daemon gave up, for now.
    pub fn is_degraded(&self) -> bool {
        matches!(self.state, Some(State::Degraded | State::Unreconcilable))
    }

    /// Whether its daemon gave up on the way to another configuration.
    pub fn is_failing(&self) -> bool {
        self.current_config != self.desired_config && self.is_degraded()
    }

    /// Whether its daemon does not know what it runs: an existing machine that was not adopted. It is given no order, because
    /// it would carry it out as soon as it is adopted, whatever the budget is then and even if the pool is paused.
    pub fn is_unadopted(&self) -> bool {
        self.is_degraded() && self.current_config.is_none_or(str::is_empty)
    }

    /// Whether it counts against the budget by itself: not reliable, or on its way. One that failed on its way and still
    /// runs pods does not, nor one that was not adopted.
    pub fn is_unavailable(&self) -> bool {
        !self.is_ready() || !(self.is_done() || self.is_failing() || self.is_unadopted())
    }

    /// Whether it has the order to run the target.
    pub fn is_targeted(&self, target: Target<'_>) -> bool {
        self.desired_config == Some(target.config) && self.desired_image == target.image
    }

    /// Whether it runs the target.
    pub fn is_updated(&self, target: Target<'_>) -> bool {
        self.is_done() && self.is_targeted(target)
    }

    /// Whether what it runs is the target, whatever its order is.
    pub fn runs(&self, target: Target<'_>) -> bool {
        self.current_config == Some(target.config) && self.current_image == target.image
    }

    /// Whether an earlier target broke it: it failed on the way to a target that is obsolete, or with it.
    ///
    /// Differs: upstream lets a node that failed with what it runs wait for the budget that it holds itself, because it
    /// counts such a node as away and asks for no more.
    pub fn is_broken(&self, target: Target<'_>) -> bool {
        self.is_degraded() && !self.is_targeted(target) && !self.is_unadopted()
    }

    /// Whether its order is obsolete and it has not begun: another order costs nothing, because it uses the budget already.
    pub fn is_recallable(&self, target: Target<'_>) -> bool {
        let has_begun = self.has_answered() && !self.is_waiting_for_drain();
        self.desired_config.is_some() && !has_begun && !self.is_targeted(target)
    }

    /// Whether its daemon has asked for its pods to leave for this order, and they have not: until then it changes nothing.
    /// That may take indefinitely, where a PodDisruptionBudget blocks the drain.
    fn is_waiting_for_drain(&self) -> bool {
        let drained = self.desired_drain.and_then(|request| request.strip_prefix("drain-"));
        self.is_under_way()
            && drained.is_some()
            && drained == self.desired_config
            && self.desired_drain != self.last_applied_drain
    }

    /// Whether its daemon has reported anything since it was given its order: one that has not still reports `Done`.
    pub fn has_answered(&self) -> bool {
        (self.has_config() && self.has_image()) || self.state != Some(State::Done)
    }

    /// Whether it holds a part of the budget while the pool moves to the target. Every node counts once.
    ///
    /// Differs: upstream subtracts a node that fails on the target and is not ready twice, because it counts the two sets
    /// one after the other.
    pub fn uses_budget(&self, target: Target<'_>) -> bool {
        self.is_unavailable() || (self.is_failing() && self.is_targeted(target))
    }

    /// Whether a node daemon has ever reported on it.
    pub fn has_daemon(&self) -> bool {
        self.current_config.is_some_and(|current| !current.is_empty()) || self.state.is_some()
    }

    /// Whether it is on its way to anything.
    pub fn is_under_way(&self) -> bool {
        self.desired_config.is_some() && !(self.has_config() && self.has_image()) && !self.is_failing()
    }

    /// Whether it follows its order without anything that people should know at once: its daemon has not answered yet, and
    /// still calls itself done, or works.
    pub fn is_on_course(&self) -> bool {
        !(self.has_config() && self.has_image())
            && matches!(self.state, Some(State::Done | State::Working))
            && self.desired_drain == self.last_applied_drain
            && !self.is_rebooting
    }

    fn has_config(&self) -> bool {
        self.current_config.is_some_and(|current| !current.is_empty()) && self.current_config == self.desired_config
    }

    fn has_image(&self) -> bool {
        self.current_image == self.desired_image && self.current_image != Some("")
    }
}
