//! Conditions of KubeletConfigs and ContainerRuntimeConfigs: a short history of outcomes, then the last outcome again in the form
//! of older releases.
//!
//! - Readers of older releases look at the last condition of the list; so it is always `Success` or `Failure`.
//! - Of the history the newest [`MAX_OUTCOMES`] stay. Notices are between the two.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use seaworthy_api::machineconfiguration::{SettingsStatus, StatusCondition};
use seaworthy_api::vocabulary::machineconfiguration::{GeneratorCondition, GeneratorReason};

/// How many outcomes are kept.
const MAX_OUTCOMES: usize = 3;

/// The outcome of a decision about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsOutcome {
    /// Whether the settings are in force.
    pub is_accepted: bool,
    /// Why, for programs.
    pub reason: GeneratorReason,
    /// Why, for people.
    pub message: String,
}

/// Something worth knowing beside the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Which fact this is.
    pub condition: GeneratorCondition,
    /// Why, for programs.
    pub reason: GeneratorReason,
    /// Why, for people.
    pub message: String,
}

impl SettingsOutcome {
    /// Everything was done.
    pub fn success() -> Self {
        SettingsOutcome { is_accepted: true, reason: GeneratorReason::Applied, message: "Success".to_owned() }
    }

    /// Something was not.
    pub fn failure(reason: GeneratorReason, message: impl Into<String>) -> Self {
        SettingsOutcome { is_accepted: false, reason, message: message.into() }
    }

    /// The outcome as the condition `Accepted`.
    pub fn accepted(&self, now: &Time) -> StatusCondition {
        condition(GeneratorCondition::Accepted, self.is_accepted, self.reason, &self.message, now)
    }

    /// The outcome in the form of older releases.
    pub fn legacy(&self, now: &Time) -> StatusCondition {
        let kind = if self.is_accepted { GeneratorCondition::Success } else { GeneratorCondition::Failure };
        condition(kind, true, self.reason, &self.message, now)
    }
}

/// The status after an outcome; `None` if it says the same already, apart from times.
pub(crate) fn status(
    old: Option<&SettingsStatus>,
    generation: Option<i64>,
    outcome: &SettingsOutcome,
    notices: &[Notice],
    now: &Time,
) -> Option<SettingsStatus> {
    let history = old.and_then(|old| old.conditions.as_deref()).unwrap_or_default();
    let conditions = with_outcome(history, outcome, notices, now);
    // Differs: upstream writes the status on every run to refresh its time; an idle fleet would never stop writing.
    let is_known =
        old.is_some_and(|old| old.observed_generation == generation) && are_same_but_for_times(history, &conditions);
    if is_known {
        return None;
    }
    Some(SettingsStatus {
        conditions: Some(conditions),
        observed_generation: generation,
        unknown: old.map(|old| old.unknown.clone()).unwrap_or_default(),
    })
}

/// A history with one more outcome.
pub fn with_outcome(
    history: &[StatusCondition],
    outcome: &SettingsOutcome,
    notices: &[Notice],
    now: &Time,
) -> Vec<StatusCondition> {
    let mut conditions = without_derived(history);
    let accepted = outcome.accepted(now);
    match conditions.last_mut() {
        // Differs: upstream corrects the time only, so the status may be that of another outcome with the same words.
        Some(last) if last.message == accepted.message => *last = accepted,
        _ => conditions.push(accepted),
    }
    conditions.drain(..conditions.len().saturating_sub(MAX_OUTCOMES));
    conditions.extend(notices.iter().map(|notice| {
        let mut made = condition(notice.condition, true, notice.reason, &notice.message, now);
        let known = history.iter().find(|known| known.type_ == made.type_ && known.message == made.message);
        if let Some(time) = known.and_then(|known| known.last_transition_time.clone()) {
            made.last_transition_time = Some(time);
        }
        made
    }));
    conditions.push(outcome.legacy(now));
    conditions
}

/// The history alone: without the conditions that are derived again each time.
pub fn without_derived(conditions: &[StatusCondition]) -> Vec<StatusCondition> {
    let is_derived = |condition: &StatusCondition| {
        let kind = condition.type_.as_deref().and_then(|kind| kind.parse::<GeneratorCondition>().ok());
        kind.is_some_and(|kind| kind != GeneratorCondition::Accepted)
    };
    conditions.iter().filter(|condition| !is_derived(condition)).cloned().collect()
}

fn are_same_but_for_times(a: &[StatusCondition], b: &[StatusCondition]) -> bool {
    let timeless = |condition: &StatusCondition| StatusCondition { last_transition_time: None, ..condition.clone() };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| timeless(a) == timeless(b))
}

fn condition(
    kind: GeneratorCondition,
    is_true: bool,
    reason: GeneratorReason,
    message: &str,
    now: &Time,
) -> StatusCondition {
    StatusCondition {
        last_transition_time: Some(now.clone()),
        message: Some(message.to_owned()),
        reason: Some(reason.as_str().to_owned()),
        status: Some(if is_true { "True" } else { "False" }.to_owned()),
        type_: Some(kind.as_str().to_owned()),
        unknown: <_>::default(),
    }
}
