//! Pause: whether a pool is left alone, and the condition that says so.
//!
//! It applies to deletion as well.

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::cluster::v1beta2::{Cluster, MachinePool};
use seaworthy_api::meta::{Condition, ConditionStatus};
use seaworthy_api::vocabulary::cluster::{ConditionReason, MachinePoolCondition, annotation};

use super::condition::{self, Fact};

/// What a pause means for a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Pause {
    /// The pool goes on.
    None,
    /// The condition has to be written, and nothing else.
    Write,
    /// The pool is left alone, for these reasons.
    Held,
}

/// Why a pool is paused; empty if it is not.
pub fn causes(pool: &MachinePool, cluster: Option<&Cluster>) -> Vec<String> {
    let is_cluster_paused = cluster.is_some_and(|cluster| cluster.spec.paused == Some(true));
    let is_annotated = annotation::PAUSED.of(&pool.metadata).is_some();
    [
        is_cluster_paused.then(|| "spec.paused of its Cluster is true".to_owned()),
        is_annotated.then(|| format!("it has the annotation {}", annotation::PAUSED)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Sets the condition, and decides what it means. A generation that changed is written alone only while the pool is paused:
/// otherwise it is part of what is written anyway.
pub fn update(conditions: &mut Vec<Condition>, causes: &[String], generation: Option<i64>, now: Timestamp) -> Pause {
    let type_ = MachinePoolCondition::Paused;
    let fact = match causes {
        [] => Fact::new(type_, ConditionStatus::False, ConditionReason::NotPaused, ""),
        causes => Fact::new(type_, ConditionStatus::True, ConditionReason::Paused, causes.join(", ")),
    };
    let find =
        |conditions: &[Condition]| conditions.iter().find(|condition| condition.type_ == type_.as_str()).cloned();
    let old = find(conditions);
    condition::set(conditions, fact, generation, now);
    let new = find(conditions);
    let says_the_same = match (&old, &new) {
        (Some(old), Some(new)) => old.status == new.status && old.reason == new.reason && old.message == new.message,
        // There is no room for the condition: it cannot be waited for.
        (None, None) => true,
        _ => false,
    };
    match (causes.is_empty(), says_the_same) {
        (true, true) => Pause::None,
        (false, true) if old == new => Pause::Held,
        _ => Pause::Write,
    }
}
