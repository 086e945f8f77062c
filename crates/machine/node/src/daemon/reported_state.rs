//! Reported state: the state that a daemon has written to its Node last, and whether another writer has changed it since. Such
//! a change is corrected.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use serde_json::{Map, Value};
use tokio::time::Instant;

/// The shortest time between two corrections, since two daemons of one name would correct each other all the time.
pub(crate) const CORRECTION_INTERVAL: Duration = Duration::from_secs(30);

/// The state of a node and its reason, at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StateAtRevision {
    revision: u64,
    texts: [Option<String>; 2],
}

/// The annotations of the state and its reason.
const KEYS: [Annotation; 2] = [annotation::STATE, annotation::REASON];

impl StateAtRevision {
    /// `None` if the revision is not a number and cannot be compared.
    fn at(node: &Node, texts: [Option<String>; 2]) -> Option<StateAtRevision> {
        let revision = node.metadata.resource_version.as_deref()?.parse().ok()?;
        Some(StateAtRevision { revision, texts })
    }
}

#[derive(Debug, Default)]
struct StateHistory {
    /// Written by this daemon; `None` during an attempt, which may change it.
    written: Option<StateAtRevision>,
    /// Written by any writer.
    observed: Option<StateAtRevision>,
    corrected: Option<Instant>,
}

/// The state that one daemon has reported. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedState(Arc<Mutex<StateHistory>>);

impl ReportedState {
    fn history(&self) -> MutexGuard<'_, StateHistory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt begins: from now on this daemon may report another state.
    pub(crate) fn start_attempt(&self) {
        self.history().written = None;
    }

    /// These annotations were set on the node that was `read`, which is `written` since. Returns whether another writer has
    /// contradicted them already.
    pub(crate) fn written(&self, read: &Node, set: &Map<String, Value>, written: &Node) -> bool {
        let text = |key: Annotation| match set.get(key.as_str()) {
            Some(value) => value.as_str().map(str::to_owned),
            None => key.of(&read.metadata).map(str::to_owned),
        };
        let mut history = self.history();
        history.written = StateAtRevision::at(written, KEYS.map(text));
        history.is_contradicted()
    }

    /// The node was observed; returns whether its state is to be corrected.
    pub(crate) fn observed(&self, node: &Node) -> bool {
        let mut history = self.history();
        history.observed = StateAtRevision::at(node, KEYS.map(|key| key.of(&node.metadata).map(str::to_owned)));
        history.is_contradicted()
    }

    /// Whether the state that was observed last is to be corrected by now.
    pub(crate) fn is_contradicted(&self) -> bool {
        self.history().is_contradicted()
    }
}

impl StateHistory {
    fn is_contradicted(&mut self) -> bool {
        let (Some(ours), Some(observed)) = (&self.written, &self.observed) else { return false };
        // An older state of our own that is observed late is no contradiction.
        let is_other = observed.revision >= ours.revision && observed.texts != ours.texts;
        let is_time = self.corrected.is_none_or(|corrected| corrected.elapsed() >= CORRECTION_INTERVAL);
        if is_other && is_time {
            self.corrected = Some(Instant::now());
        }
        is_other && is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(revision: u32, state: &str) -> Node {
        let metadata = json!({
            "resourceVersion": revision.to_string(), "annotations": {annotation::STATE.as_str(): state},
        });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    /// Reports that it is done.
    fn done(reported: &ReportedState, revision: u32) -> bool {
        let annotations = json!({annotation::STATE.as_str(): "Done"});
        reported.written(&node(1, "Working"), annotations.as_object().unwrap(), &node(revision, "Done"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_of_another_writer_is_corrected_and_not_too_often() {
        let reported = ReportedState::default();
        assert!(!reported.observed(&node(1, "Working")), "nothing is reported yet");
        assert!(!done(&reported, 2));
        assert!(!reported.observed(&node(1, "Working")), "late");
        assert!(!reported.observed(&node(3, "Done")), "the kubelet wrote something");
        assert!(reported.observed(&node(4, "Degraded")));
        reported.start_attempt();
        assert!(!reported.observed(&node(5, "Working")), "that may be us");
        assert!(!done(&reported, 6));
        assert!(!reported.observed(&node(7, "Degraded")), "too soon");
        tokio::time::advance(CORRECTION_INTERVAL).await;
        assert!(reported.is_contradicted(), "no other change is needed");
        assert!(!reported.is_contradicted());
        // Observed during an attempt.
        reported.start_attempt();
        tokio::time::advance(CORRECTION_INTERVAL).await;
        assert!(!reported.observed(&node(10, "Degraded")));
        assert!(done(&reported, 9));
        // Written between our reading and our writing.
        reported.start_attempt();
        tokio::time::advance(CORRECTION_INTERVAL).await;
        assert!(!done(&reported, 11));
        let mut mixed = node(11, "Done");
        let reason = (annotation::REASON.as_str().to_owned(), "x".to_owned());
        mixed.metadata.annotations.as_mut().unwrap().extend([reason]);
        assert!(reported.observed(&mixed));
    }
}
