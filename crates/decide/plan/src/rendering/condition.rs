//! Render condition: `RenderDegraded` of a pool, with every culprit named.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use seaworthy_api::machineconfiguration::{MachineConfigPool, StatusCondition};
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::machineconfiguration::{PoolCondition, RenderReason};
use seaworthy_api::words::Word as _;
use seaworthy_render::Finding;
use seaworthy_values::list;

/// How many culprits are named one by one; a condition is read by people.
const MAX_NAMED: usize = 10;

/// Why there is no new rendered MachineConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderFailure {
    /// For programs.
    pub reason: RenderReason,
    /// For people, every culprit named.
    pub message: String,
}

impl RenderFailure {
    /// A failure with the most severe reason among these findings.
    pub fn of_findings(findings: &[Finding]) -> RenderFailure {
        let errors: Vec<&Finding> = findings.iter().filter(|finding| finding.is_error()).collect();
        let reason = errors.iter().map(|finding| reason_of(finding.code)).max_by_key(|reason| gravity(*reason));
        // The condition is on the pool that it is about.
        let reported = |finding: &&Finding| Finding { pool: None, ..(*finding).clone() }.to_string();
        let mut message = list::clauses(errors.iter().map(reported), MAX_NAMED);
        if errors.len() > MAX_NAMED {
            message.push_str(": `seaworthy lint` names them all");
        }
        RenderFailure { reason: reason.unwrap_or(RenderReason::InvalidMachineConfig), message }
    }
}

/// The reason for the code of a finding.
fn reason_of(code: &str) -> RenderReason {
    match code {
        "no-machine-configs" | "empty-selector" => RenderReason::NoMachineConfigs,
        "too-large" => RenderReason::TooLarge,
        code => {
            let mut named = RenderReason::ALL.iter().copied().filter(|reason| reason.as_str() == code);
            named.next().unwrap_or(RenderReason::InvalidMachineConfig)
        }
    }
}

/// Of several reasons the one to act on first: what a person must edit comes before what may pass.
fn gravity(reason: RenderReason) -> u8 {
    match reason {
        RenderReason::RemoteFetchFailed => 0,
        RenderReason::InputsNotReady => 1,
        RenderReason::NoMachineConfigs => 2,
        RenderReason::TooLarge => 3,
        RenderReason::RemoteVerificationFailed => 4,
        RenderReason::Irreconcilable => 5,
        RenderReason::InvalidMachineConfig => 6,
        RenderReason::PinnedConfigurationUnusable => 7,
        RenderReason::ControllerConfigMissing => 8,
    }
}

/// The conditions that the pool should have after this outcome; `None` if it has them already.
///
/// The API keeps the list of conditions whole, so the others go back as they are, under the revision they were read at.
pub fn conditions(
    pool: &MachineConfigPool,
    outcome: Result<(), &RenderFailure>,
    now: &Time,
) -> Option<Vec<StatusCondition>> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let (status, reason, message) = match outcome {
        Ok(()) => (ConditionStatus::False, "Rendered", String::new()),
        Err(failure) => {
            let message = format!("Failed to render configuration for pool {name}: {}", failure.message);
            (ConditionStatus::True, failure.reason.as_str(), message)
        }
    };
    let old = pool.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let type_ = PoolCondition::RenderDegraded.as_str();
    let at = old.iter().position(|condition| condition.type_.as_deref() == Some(type_));
    let before = at.map(|at| &old[at]);
    let is_same_status = before.is_some_and(|before| before.status.as_deref() == Some(status.as_str()));
    let since = before.filter(|_| is_same_status).and_then(|before| before.last_transition_time.clone());
    let condition = StatusCondition {
        type_: Some(type_.to_owned()),
        status: Some(status.as_str().to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        unknown: before.map(|before| before.unknown.clone()).unwrap_or_default(),
    };
    if before == Some(&condition) {
        return None;
    }
    let mut conditions = old;
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    Some(conditions)
}

/// Why a pool cannot be rendered, by its own condition.
pub fn reason(pool: &MachineConfigPool) -> Option<RenderReason> {
    let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_failure = |condition: &&StatusCondition| {
        condition.type_.as_deref() == Some(PoolCondition::RenderDegraded.as_str())
            && condition.status.as_deref() == Some(ConditionStatus::True.as_str())
    };
    conditions.into_iter().find(is_failure)?.reason.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use seaworthy_ignition::Severity;
    use seaworthy_render::FieldLocation;

    use super::*;

    fn finding(code: &'static str, name: &str) -> Finding {
        Finding {
            severity: Severity::Error,
            code,
            pool: None,
            subject: String::new(),
            places: vec![FieldLocation {
                kind: "MachineConfig",
                name: name.to_owned(),
                path: "spec".to_owned(),
                remote: None,
            }],
            message: "it is wrong".to_owned(),
        }
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn with(conditions: Option<Vec<StatusCondition>>) -> MachineConfigPool {
        let mut pool = MachineConfigPool::default();
        pool.metadata.name = Some("worker".to_owned());
        pool.status = Some(Default::default());
        if let Some(status) = &mut pool.status {
            status.conditions = conditions;
        }
        pool
    }

    #[test]
    fn every_culprit_is_named_and_the_gravest_reason_is_given() {
        let failure =
            RenderFailure::of_findings(&[finding("RemoteFetchFailed", "50-a"), finding("wrong-type", "60-b")]);
        assert_eq!(failure.reason, RenderReason::InvalidMachineConfig);
        assert!(failure.message.contains("50-a") && failure.message.contains("60-b"), "{}", failure.message);
    }

    #[test]
    fn many_culprits_are_counted() {
        let findings: Vec<Finding> = (0..13).map(|nth| finding("too-large", &format!("mc-{nth}"))).collect();
        let failure = RenderFailure::of_findings(&findings);
        assert_eq!(failure.reason, RenderReason::TooLarge);
        assert!(failure.message.ends_with("and 3 more: `seaworthy lint` names them all"), "{}", failure.message);
    }

    #[test]
    fn same_outcome_writes_nothing_and_time_moves_with_the_status_only() {
        let failure = RenderFailure { reason: RenderReason::TooLarge, message: "a".to_owned() };
        let first = conditions(&with(None), Err(&failure), &at(1)).unwrap();
        assert_eq!(conditions(&with(Some(first.clone())), Err(&failure), &at(2)), None);
        let other = RenderFailure { message: "b".to_owned(), ..failure };
        let second = conditions(&with(Some(first)), Err(&other), &at(3)).unwrap();
        assert_eq!(second[0].last_transition_time, Some(at(1)));
        let third = conditions(&with(Some(second)), Ok(()), &at(4)).unwrap();
        assert_eq!(third[0].last_transition_time, Some(at(4)));
        assert_eq!(third[0].status.as_deref(), Some("False"));
    }

    #[test]
    fn conditions_of_others_stay() {
        let other = StatusCondition { type_: Some("Updated".to_owned()), ..StatusCondition::default() };
        let conditions = conditions(&with(Some(vec![other.clone()])), Ok(()), &at(1)).unwrap();
        assert_eq!(conditions[0], other);
        assert_eq!(conditions.len(), 2);
    }
}
