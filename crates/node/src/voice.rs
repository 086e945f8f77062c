//! What a daemon has said of its node last, and whether somebody else has said otherwise since: that is put right.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use tokio::time::Instant;

/// How often it is put right at most: two daemons of one name would do so for ever.
const CORRECTION: Duration = Duration::from_secs(30);

/// The state of a node and its reason, at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Words {
    revision: u64,
    said: [Option<String>; 2],
}

impl Words {
    /// What stands on a node. A revision that is no number cannot be compared, so nothing is made of it.
    fn of(node: &Node) -> Option<Words> {
        let revision = node.metadata.resource_version.as_deref()?.parse().ok()?;
        let said = [annotation::STATE, annotation::REASON].map(|key| key.of(&node.metadata).map(str::to_owned));
        Some(Words { revision, said })
    }
}

/// What was said and heard.
#[derive(Debug, Default)]
struct Memory {
    /// By us; nothing while we work, because then that changes.
    said: Option<Words>,
    /// By anybody.
    heard: Option<Words>,
    corrected: Option<Instant>,
}

/// The voice of one daemon.
#[derive(Clone, Debug, Default)]
pub(crate) struct Voice(Arc<Mutex<Memory>>);

impl Voice {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on something else may be said, by us.
    pub(crate) fn begin(&self) {
        self.memory().said = None;
    }

    /// This stands on the node, and all of it is ours; says whether somebody has contradicted it already.
    pub(crate) fn said(&self, node: &Node) -> bool {
        let mut memory = self.memory();
        memory.said = Words::of(node);
        memory.is_contradicted()
    }

    /// This was heard; says whether it is to be put right.
    pub(crate) fn heard(&self, node: &Node) -> bool {
        let mut memory = self.memory();
        memory.heard = Words::of(node);
        memory.is_contradicted()
    }
}

impl Memory {
    fn is_contradicted(&mut self) -> bool {
        let (Some(ours), Some(heard)) = (&self.said, &self.heard) else { return false };
        // Words of ours that come late are nobody else's.
        let is_other = heard.revision > ours.revision && heard.said != ours.said;
        let is_time = self.corrected.is_none_or(|corrected| corrected.elapsed() >= CORRECTION);
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

    #[tokio::test(start_paused = true)]
    async fn what_somebody_else_says_later_is_contradicted_and_not_again_and_again() {
        let voice = Voice::default();
        assert!(!voice.heard(&node(1, "Working")), "nothing was said");
        assert!(!voice.said(&node(2, "Done")));
        assert!(!voice.heard(&node(1, "Working")), "late");
        assert!(!voice.heard(&node(3, "Done")), "the kubelet wrote something");
        assert!(voice.heard(&node(4, "Degraded")));
        voice.begin();
        assert!(!voice.heard(&node(5, "Working")), "that may be us");
        assert!(!voice.said(&node(6, "Done")));
        assert!(!voice.heard(&node(7, "Degraded")), "too soon");
        tokio::time::advance(CORRECTION).await;
        assert!(voice.heard(&node(8, "Degraded")));
        // Heard while it was worked.
        voice.begin();
        tokio::time::advance(CORRECTION).await;
        assert!(!voice.heard(&node(10, "Degraded")));
        assert!(voice.said(&node(9, "Done")));
    }
}
