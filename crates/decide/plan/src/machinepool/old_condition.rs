//! Old conditions: the conditions in `status.deprecated.v1beta1`, which readers of earlier versions rely on.
//!
//! - A condition that says the same keeps its time; any difference moves it.
//! - Conditions of other writers are kept as they are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::cluster::OldCondition;
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::unknown::Unknown;
use seaworthy_api::vocabulary::cluster::{ConditionReason, OldMachinePoolCondition, Severity};
use seaworthy_api::words::Open;
use seaworthy_change::to_second;
use seaworthy_values::text::truncate;
use serde_json::Value;

use super::field::Fields;

/// The longest message that the definition of pools accepts.
const MAX_MESSAGE_BYTES: usize = 10_240;
/// The longest reason.
const MAX_REASON_BYTES: usize = 256;

/// The conditions that the summary is made of, in the order of their weight.
const SUMMARIZED: [OldMachinePoolCondition; 3] = [
    OldMachinePoolCondition::BootstrapReady,
    OldMachinePoolCondition::InfrastructureReady,
    OldMachinePoolCondition::ReplicasReady,
];

/// What an old condition should say.
#[derive(Clone, Debug, PartialEq)]
pub struct OldFact {
    pub type_: OldMachinePoolCondition,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub severity: Option<Open<Severity>>,
    pub reason: Option<String>,
    pub message: Option<String>,
    /// Since when, if the condition is copied from another object.
    pub since: Option<Time>,
}

impl OldFact {
    /// The fact holds.
    pub fn holds(type_: OldMachinePoolCondition) -> OldFact {
        let status = ConditionStatus::True.as_str().to_owned();
        OldFact { type_, status, severity: None, reason: None, message: None, since: None }
    }

    /// The fact does not hold.
    pub fn fails(
        type_: OldMachinePoolCondition,
        severity: Severity,
        reason: ConditionReason,
        message: Option<String>,
    ) -> OldFact {
        OldFact {
            type_,
            status: ConditionStatus::False.as_str().to_owned(),
            severity: Some(severity.into()),
            reason: Some(reason.as_str().to_owned()),
            message,
            since: None,
        }
    }

    /// The condition `Ready` of a provider's object, as this condition of the pool; `None` if it has none.
    pub fn mirrored(type_: OldMachinePoolCondition, fields: Fields<'_, '_>) -> Option<OldFact> {
        let source = ready_condition(fields)?;
        let text = |key: &str, limit: usize| {
            let found = source.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            found.map(|text| truncate(text, limit).into_owned())
        };
        let severity = text("severity", 32).map(|text| text.parse().map_or(Open::Other(text), Open::Known));
        Some(OldFact {
            type_,
            status: text("status", 32)?,
            severity,
            reason: text("reason", MAX_REASON_BYTES),
            message: text("message", MAX_MESSAGE_BYTES),
            since: source.get("lastTransitionTime").and_then(|time| serde_json::from_value(time.clone()).ok()),
        })
    }
}

/// The condition `Ready` of a provider's object. One that is malformed is taken for absent: it decides nothing.
pub fn ready_condition<'a>(fields: Fields<'a, '_>) -> Option<&'a Value> {
    let mut conditions = fields.get("/status/conditions")?.as_array()?.iter();
    conditions.find(|condition| {
        condition.get("type").and_then(Value::as_str) == Some(OldMachinePoolCondition::Ready.as_str())
    })
}

/// Makes a condition say this.
pub fn set(conditions: &mut Vec<OldCondition>, fact: OldFact, now: Timestamp) {
    let OldFact { type_, status, severity, reason, message, since } = fact;
    let message = message.map(|message| truncate(&message, MAX_MESSAGE_BYTES).into_owned());
    let at = conditions.iter().position(|condition| condition.type_ == type_.as_str());
    let now = Time(to_second(now));
    let mut condition = OldCondition {
        last_transition_time: since.filter(|_| at.is_none()).unwrap_or(now),
        message,
        reason,
        severity,
        status,
        type_: type_.as_str().to_owned(),
        unknown: Unknown::default(),
    };
    match at {
        Some(at) => {
            let old = &conditions[at];
            condition.unknown = old.unknown.clone();
            let is_same = OldCondition { last_transition_time: old.last_transition_time.clone(), ..condition.clone() };
            if is_same != *old {
                conditions[at] = condition;
            }
        }
        None => conditions.push(condition),
    }
}

/// The order in which old conditions are written: the summary first, the others by name.
pub fn sort(conditions: &mut [OldCondition]) {
    let is_other = |condition: &OldCondition| condition.type_ != OldMachinePoolCondition::Ready.as_str();
    conditions.sort_by(|a, b| is_other(a).cmp(&is_other(b)).then_with(|| a.type_.cmp(&b.type_)));
}

/// The summary of the pool's own conditions; `None` if it has none of them.
pub fn summary(conditions: &[OldCondition]) -> Option<OldFact> {
    let of_type =
        |type_: &OldMachinePoolCondition| conditions.iter().find(|condition| condition.type_ == type_.as_str());
    // Of several in the same group the first is taken: `min_by_key` returns it.
    let top = SUMMARIZED.iter().filter_map(of_type).min_by_key(|condition| group(condition))?;
    let type_ = OldMachinePoolCondition::Ready;
    if top.status == ConditionStatus::True.as_str() {
        return Some(OldFact::holds(type_));
    }
    let is_false = top.status == ConditionStatus::False.as_str();
    Some(OldFact {
        type_,
        status: top.status.clone(),
        severity: is_false.then(|| top.severity.clone().unwrap_or(Open::Known(Severity::Info))),
        reason: top.reason.clone(),
        message: top.message.clone(),
        since: None,
    })
}

/// The weight of a condition in the summary, the heaviest first.
///
/// Differs: a condition that does not hold and has no severity counts as one with `Info`, because upstream puts it below those
/// that hold, and reports a pool as ready that is not.
fn group(condition: &OldCondition) -> u8 {
    match (condition.status.as_str(), condition.severity.as_ref().and_then(Open::known)) {
        ("False", Some(Severity::Error)) => 0,
        ("False", Some(Severity::Warning)) => 1,
        ("False", _) => 2,
        ("True", _) => 3,
        ("Unknown", _) => 4,
        _ => 5,
    }
}
