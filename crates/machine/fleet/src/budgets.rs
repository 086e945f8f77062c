//! Status of PodDisruptionBudgets, as the disruption controller of a cluster computes it. Pure.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use seaworthy_api::meta::{LabelSelector, Selection};
use serde_json::{Map, Value, json};

use crate::objects::{Pod, is_ready};

/// The status of a budget among the pods of its namespace, as a patch; `None` if it is up to date.
pub fn status<'p>(budget: &PodDisruptionBudget, pods: impl Iterator<Item = &'p Pod>) -> Option<Value> {
    let spec = budget.spec.as_ref()?;
    let selector: LabelSelector = serde_json::from_value(serde_json::to_value(spec.selector.as_ref()?).ok()?).ok()?;
    let selection = Selection::of(&selector).ok()?;
    let pods: Vec<&Pod> = pods.filter(|pod| selection.matches(pod.metadata.labels.as_ref())).collect();
    let has = budget.status.clone().unwrap_or_default();
    let leaving = has.disrupted_pods.clone().unwrap_or_default();
    let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    let has_ready = |pod: &Pod| is_ready(pod.status.as_ref().and_then(|status| status.conditions.as_deref()));
    let is_healthy = |pod: &&&Pod| has_ready(pod) && !is_going(pod) && !leaving.contains_key(&name(pod));
    let expected = count(pods.len());
    let healthy = count(pods.iter().filter(is_healthy).count());
    let wanted = match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => scaled(least, expected),
        (None, Some(most)) => (expected - scaled(most, expected)).max(0),
        (None, None) => 0,
    };
    let allowed = if expected == 0 { 0 } else { (healthy - wanted).max(0) };
    // A terminating pod is no longer healthy by itself.
    let over: Map<String, Value> = leaving
        .keys()
        .filter(|left| !pods.iter().any(|pod| name(pod) == **left && !is_going(pod)))
        .map(|left| (left.clone(), Value::Null))
        .collect();
    let is_up_to_date = has.observed_generation == budget.metadata.generation
        && has.expected_pods == Some(expected)
        && has.current_healthy == Some(healthy)
        && has.desired_healthy == Some(wanted)
        && has.disruptions_allowed == Some(allowed);
    if is_up_to_date && over.is_empty() {
        return None;
    }
    Some(json!({
        "observedGeneration": budget.metadata.generation,
        "expectedPods": expected,
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "disruptionsAllowed": allowed,
        "disruptedPods": over,
    }))
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A number, or a percentage of all, rounded up.
fn scaled(value: &IntOrString, all: i32) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let share: i64 = text.trim_end_matches('%').parse().unwrap_or(100);
            i32::try_from((i64::from(all) * share + 99) / 100).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pod(name: &str, is_ready: bool, is_going: bool) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "status": {"conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]},
        });
        if is_going {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(pod).unwrap()
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        let value = json!({"metadata": {"name": "b", "generation": 2}, "spec": spec, "status": status});
        serde_json::from_value(value).unwrap()
    }

    #[rstest]
    #[case(json!({"minAvailable": 2}), 2, 1)]
    #[case(json!({"minAvailable": "100%"}), 4, 0)]
    #[case(json!({"maxUnavailable": 2}), 2, 1)]
    #[case(json!({"maxUnavailable": "30%"}), 2, 1)]
    fn pods_that_work_and_stay_count(#[case] spec: Value, #[case] wanted: i32, #[case] allowed: i32) {
        let pods = [pod("a", true, false), pod("b", true, false), pod("c", true, false), pod("d", true, true)];
        let status = status(&budget(spec, json!({})), pods.iter()).unwrap();
        assert_eq!(
            (&status["currentHealthy"], &status["desiredHealthy"], &status["disruptionsAllowed"]),
            (&json!(3), &json!(wanted), &json!(allowed))
        );
    }

    #[test]
    fn pod_that_was_let_go_counts_no_more_and_is_forgotten_when_it_goes() {
        let evicted = json!({"disruptedPods": {"a": "2026-01-01T00:00:00Z"}});
        let counted = |is_going| {
            let pods = [pod("a", true, is_going), pod("b", true, false)];
            status(&budget(json!({"minAvailable": 1}), evicted.clone()), pods.iter()).unwrap()
        };
        assert_eq!((&counted(false)["disruptionsAllowed"], &counted(false)["disruptedPods"]), (&json!(0), &json!({})));
        assert_eq!(counted(true)["disruptedPods"], json!({"a": null}));
    }

    #[test]
    fn status_that_is_up_to_date_is_not_written_again() {
        let status_now = json!({"observedGeneration": 2, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1,
                          "disruptionsAllowed": 0});
        assert_eq!(status(&budget(json!({"minAvailable": 1}), status_now), [pod("a", true, false)].iter()), None);
    }
}
