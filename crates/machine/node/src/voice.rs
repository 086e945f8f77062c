//! What a daemon has said of its node last, and whether somebody else has said otherwise since: that is put right.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use serde_json::{Map, Value};
use tokio::time::Instant;

/// How often it is put right at most: two daemons of one name would do so for ever.
pub(crate) const CORRECTION: Duration = Duration::from_secs(30);

/// The state of a node and its reason, at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Words {
    revision: u64,
    said: [Option<String>; 2],
}

/// The annotations that a node is spoken of with.
const KEYS: [Annotation; 2] = [annotation::STATE, annotation::REASON];

impl Words {
    /// Words that stand on a node. A revision that is no number cannot be compared, so nothing is made of it.
    fn at(node: &Node, said: [Option<String>; 2]) -> Option<Words> {
        let revision = node.metadata.resource_version.as_deref()?.parse().ok()?;
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

    /// We have said this, and what we have not said was so when the node was `read`; with that it has come to be `written`. Says
    /// whether somebody has contradicted it already.
    pub(crate) fn said(&self, read: &Node, said: &Map<String, Value>, written: &Node) -> bool {
        let word = |key: Annotation| match said.get(key.as_str()) {
            Some(value) => value.as_str().map(str::to_owned),
            None => key.of(&read.metadata).map(str::to_owned),
        };
        let mut memory = self.memory();
        memory.said = Words::at(written, KEYS.map(word));
        memory.is_contradicted()
    }

    /// This was heard; says whether it is to be put right.
    pub(crate) fn heard(&self, node: &Node) -> bool {
        let mut memory = self.memory();
        memory.heard = Words::at(node, KEYS.map(|key| key.of(&node.metadata).map(str::to_owned)));
        memory.is_contradicted()
    }

    /// Whether something that was heard is to be put right by now.
    pub(crate) fn is_contradicted(&self) -> bool {
        self.memory().is_contradicted()
    }
}

impl Memory {
    fn is_contradicted(&mut self) -> bool {
        let (Some(ours), Some(heard)) = (&self.said, &self.heard) else { return false };
        // Words of ours that come late are nobody else's.
        let is_other = heard.revision >= ours.revision && heard.said != ours.said;
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

    /// Says that it is done.
    fn done(voice: &Voice, revision: u32) -> bool {
        let said = json!({annotation::STATE.as_str(): "Done"});
        voice.said(&node(1, "Working"), said.as_object().unwrap(), &node(revision, "Done"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_else_says_later_is_contradicted_and_not_again_and_again() {
        let voice = Voice::default();
        assert!(!voice.heard(&node(1, "Working")), "nothing was said");
        assert!(!done(&voice, 2));
        assert!(!voice.heard(&node(1, "Working")), "late");
        assert!(!voice.heard(&node(3, "Done")), "the kubelet wrote something");
        assert!(voice.heard(&node(4, "Degraded")));
        voice.begin();
        assert!(!voice.heard(&node(5, "Working")), "that may be us");
        assert!(!done(&voice, 6));
        assert!(!voice.heard(&node(7, "Degraded")), "too soon");
        tokio::time::advance(CORRECTION).await;
        assert!(voice.is_contradicted(), "nobody has to say it again");
        assert!(!voice.is_contradicted());
        // Heard while it was worked.
        voice.begin();
        tokio::time::advance(CORRECTION).await;
        assert!(!voice.heard(&node(10, "Degraded")));
        assert!(done(&voice, 9));
        // Said between our reading and our writing.
        voice.begin();
        tokio::time::advance(CORRECTION).await;
        assert!(!done(&voice, 11));
        let mut mixed = node(11, "Done");
        let reason = (annotation::REASON.as_str().to_owned(), "x".to_owned());
        mixed.metadata.annotations.as_mut().unwrap().extend([reason]);
        assert!(voice.heard(&mixed));
    }
}
