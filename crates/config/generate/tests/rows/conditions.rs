//! The history in the status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use seaworthy_api::machineconfiguration::StatusCondition;
use seaworthy_api::vocabulary::machineconfiguration::GeneratorReason;
use seaworthy_generate::conditions::{SettingsOutcome, with_outcome, without_derived};
use serde_json::json;

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn failure(message: &str) -> SettingsOutcome {
    SettingsOutcome::failure(GeneratorReason::Invalid, message)
}

/// Type, status, message and second.
fn reported(conditions: &[StatusCondition]) -> Vec<(&str, &str, &str, i64)> {
    let text = |text: &'_ Option<String>| -> &'_ str { Box::leak(text.clone().unwrap().into_boxed_str()) };
    let seconds = |condition: &StatusCondition| condition.last_transition_time.as_ref().unwrap().0.as_second();
    conditions.iter().map(|c| (text(&c.type_), text(&c.status), text(&c.message), seconds(c))).collect()
}

#[rstest]
#[case::kc_37(SettingsOutcome::success(), "True", "Success")]
#[case::kc_38(failure("Error: it broke"), "False", "Error: it broke")]
#[case::kc_39(failure("could not find MachineConfig: x"), "False", "could not find MachineConfig: x")]
fn an_outcome_is_a_condition(#[case] outcome: SettingsOutcome, #[case] status: &str, #[case] message: &str) {
    assert_eq!(reported(&[outcome.accepted(&at(1))]), [("Accepted", status, message, 1)]);
}

#[rstest]
#[case::kc_40_accepted(SettingsOutcome::success(), "Success")]
#[case::kc_40_refused(failure("no"), "Failure")]
fn an_outcome_has_a_twin_of_older_releases(#[case] outcome: SettingsOutcome, #[case] kind: &str) {
    let twin = outcome.legacy(&at(1));
    assert_eq!(reported(&[twin]), [(kind, "True", outcome.message.as_str(), 1)]);
}

#[rstest]
#[case::error(failure("Error: bad"), "Failure", "Error: bad")]
#[case::error_with_format(failure("could not find MachineConfig: x"), "Failure", "could not find MachineConfig: x")]
#[case::success(SettingsOutcome::success(), "Success", "Success")]
#[case::success_with_text(SettingsOutcome { message: "done twice".into(), ..SettingsOutcome::success() }, "Success", "done twice")]
fn cr_39_the_last_condition_is_success_or_failure_and_always_true(
    #[case] outcome: SettingsOutcome,
    #[case] kind: &str,
    #[case] message: &str,
) {
    let conditions = with_outcome(&[], &outcome, &[], &at(1));
    assert_eq!(reported(&conditions).last(), Some(&(kind, "True", message, 1)));
}

#[test]
fn kc_41_the_first_outcome_is_one_entry() {
    let conditions = with_outcome(&[], &SettingsOutcome::success(), &[], &at(1));
    assert_eq!(reported(&conditions), [("Accepted", "True", "Success", 1), ("Success", "True", "Success", 1)]);
}

#[test]
fn kc_42_the_same_outcome_again_changes_its_time_only() {
    let mut conditions = with_outcome(&[], &failure("no"), &[], &at(1));
    conditions = with_outcome(&conditions, &SettingsOutcome::success(), &[], &at(2));
    conditions = with_outcome(&conditions, &SettingsOutcome::success(), &[], &at(3));
    assert_eq!(
        reported(&without_derived(&conditions)),
        [("Accepted", "False", "no", 1), ("Accepted", "True", "Success", 3)]
    );
}

#[test]
fn kc_43_the_oldest_of_three_goes() {
    let mut conditions = Vec::new();
    for (second, message) in ["a", "b", "c", "d"].into_iter().enumerate() {
        conditions = with_outcome(&conditions, &failure(message), &[], &at(second as i64));
    }
    let reported = reported(&conditions);
    assert_eq!(reported.iter().map(|entry| entry.2).collect::<Vec<_>>(), ["b", "c", "d", "d"]);
    assert_eq!(reported.last().unwrap().0, "Failure");
}

#[test]
fn kc_44_what_is_derived_is_not_history() {
    let condition = |kind: &str| serde_json::from_value::<StatusCondition>(json!({"type": kind})).unwrap();
    let left = without_derived(&["Success", "Accepted", "Failure", "Overridden", "UnknownSettings"].map(condition));
    assert_eq!(left, [condition("Accepted")]);
}
