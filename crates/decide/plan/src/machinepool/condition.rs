//! Conditions of the current version: what the old ones cannot say, with the culprit by name.
//!
//! - The time of a condition moves with its status only.
//! - Conditions of other writers are kept as they are.
//!
//! Differs: upstream writes `Paused` only, although all of these are documented; without them nothing says why a pool is not
//! where it should be, or that its workload cluster does not answer.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::meta::{Condition, ConditionStatus};
use seaworthy_api::text::Text;
use seaworthy_api::unknown::Unknown;
use seaworthy_api::vocabulary::cluster::{ConditionReason, MachinePoolCondition};
use seaworthy_api::words::Open;
use seaworthy_change::to_second;
use seaworthy_values::list;
use seaworthy_values::text::truncate;
use serde_json::Value;

use super::field::Fields;
use super::old_condition::ready_condition;

/// How many conditions the definition of pools accepts.
const MAX_CONDITIONS: usize = 32;
/// The longest message.
const MAX_MESSAGE_BYTES: usize = 32_768;
/// The longest reason.
const MAX_REASON_BYTES: usize = 1024;
/// How many culprits are named one by one; the report has them all.
const MAX_NAMED: usize = 10;

/// What a condition should say.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    pub type_: MachinePoolCondition,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
}

impl Fact {
    pub fn new(
        type_: MachinePoolCondition,
        status: ConditionStatus,
        reason: ConditionReason,
        message: impl Into<String>,
    ) -> Fact {
        Fact { type_, status, reason: reason.as_str().to_owned(), message: message.into() }
    }

    /// Whether a provider's object is ready: as its condition `Ready` has it, or as its contract's field.
    pub fn mirrored(type_: MachinePoolCondition, fields: Fields<'_, '_>, is_ready: bool, waiting: &str) -> Fact {
        let (status, reason, message) = match is_ready {
            true => (ConditionStatus::True, ConditionReason::Ready, ""),
            false => (ConditionStatus::False, ConditionReason::NotReady, waiting),
        };
        let fallback = Fact::new(type_, status, reason, message);
        let Some(source) = ready_condition(fields) else { return fallback };
        let text = |key: &str| source.get(key).and_then(Value::as_str).unwrap_or_default();
        let Ok(status) = text("status").parse() else { return fallback };
        let reason = match (text("reason"), status) {
            (reason, _) if is_reason(reason) => reason,
            (_, ConditionStatus::True) => ConditionReason::Ready.as_str(),
            _ => ConditionReason::NotReady.as_str(),
        };
        Fact { type_, status, reason: reason.to_owned(), message: text("message").to_owned() }
    }
}

/// The first of these by name, the others as a number.
pub fn named<T: ToString>(items: &[T]) -> String {
    list::clauses(items.iter().map(ToString::to_string), MAX_NAMED)
}

/// Makes a condition say this about a generation of the pool.
pub fn set(conditions: &mut Vec<Condition>, fact: Fact, generation: Option<i64>, now: Timestamp) {
    let at = conditions.iter().position(|condition| condition.type_ == fact.type_.as_str());
    let old = at.map(|at| &conditions[at]);
    let since = old.filter(|old| old.status == fact.status).map(|old| old.last_transition_time.clone());
    let condition = Condition {
        last_transition_time: since.unwrap_or_else(|| Time(to_second(now))),
        message: Text::from(truncate(&fact.message, MAX_MESSAGE_BYTES)),
        observed_generation: generation,
        reason: Text::from(fact.reason),
        status: Open::Known(fact.status),
        type_: Text::from(fact.type_.as_str()),
        unknown: old.map(|old| old.unknown.clone()).unwrap_or_else(Unknown::default),
    };
    match at {
        Some(at) => conditions[at] = condition,
        // More are refused, and with them the whole status.
        None if conditions.len() >= MAX_CONDITIONS => {}
        None => conditions.push(condition),
    }
}

/// Whether the API accepts a text as the reason of a condition.
fn is_reason(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte);
    let is_end = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.len() <= MAX_REASON_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.as_bytes().last().is_some_and(is_end)
        && text.bytes().all(is_inside)
}
