//! `pods/eviction`: deletes a pod if its PodDisruptionBudgets allow it.

use seaworthy_store::{Key, Record};
use serde_json::{Value, json};

use crate::admission;
use crate::clock;
use crate::object::field_access::{FieldAccess, map_mut};
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::options::DeleteOptions;
use crate::response::Answer;
use crate::response::status::{Cause, Failure};
use crate::selector::LabelSelector;
use crate::server::decode;
use crate::write;

use super::{done, sent, set_condition};

const DISRUPTION_BUDGETS: &str = "policy/poddisruptionbudgets";

/// The most entries of `status.disruptedPods`. More mean that no controller removes them.
const MAX_DISRUPTED_PODS: usize = 2000;

const BUDGET_VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Evicts the pod.
pub async fn evict(call: &Call) -> Result<Answer, Failure> {
    let eviction = sent(call, "Eviction", &["policy/v1", "policy/v1beta1"])?;
    let name = &call.path.name;
    if !eviction.name().is_empty() && eviction.name() != name {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::read(&call.query, eviction.get("deleteOptions"))?;
    let warnings = admission::review_subresource(call, &eviction, options.is_dry_run)?;
    let key = write::object_key(call, name);
    for attempt in 1.. {
        let pod = call.server.store().get(&key).map(|record| decode(&record));
        let pod = pod.ok_or_else(|| Failure::not_found(call.resource.group_resource(), name))?;
        let grounds = match is_exempt(&pod) {
            true => EvictionGrounds::NoBudget,
            false => use_budget(call, &pod, &options).await?,
        };
        if !options.is_dry_run && !pod.is_deleting() {
            match set_disruption_target(call, &key, &pod, grounds).await {
                // The pod changed and may be ready now: check the budget again.
                Err(failure) if failure.code == 409 && attempt < write::MAX_ATTEMPTS => continue,
                announced => announced?,
            }
        }
        // Evict only this pod, not a new one with the same name.
        options.preconditions.uid.get_or_insert_with(|| pod.uid().to_owned());
        break;
    }
    write::delete_object(&call.server, &call.resource, &key, &options).await?;
    Ok(Answer { warnings, ..done(call) })
}

/// Sets the condition `DisruptionTarget`. A pod that is evicted because it is not ready must not have changed since.
async fn set_disruption_target(call: &Call, key: &Key, seen: &Object, grounds: EvictionGrounds) -> Result<(), Failure> {
    let now = clock::rfc3339(call.server.clock().now());
    let announced = write::amend(&call.server, &call.resource, key, |pod| {
        if grounds == EvictionGrounds::Unready && pod.revision_text() != seen.revision_text() {
            return Err(Failure::modified(call.resource.group_resource(), pod.name()));
        }
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null,
        });
        set_condition(pod, condition, &now);
        Ok(())
    });
    announced.await.map(|_| ())
}

/// Whether a pod does not count for budgets: it is not running.
fn is_exempt(pod: &Object) -> bool {
    pod.is_deleting() || matches!(pod.text("status.phase"), "Succeeded" | "Failed" | "Pending")
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.list("status.conditions");
    conditions.iter().any(|condition| condition.text("type") == "Ready" && condition.text("status") == "True")
}

/// Why an eviction is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictionGrounds {
    /// No budget matches the pod.
    NoBudget,
    /// A budget matches, and the pod is not ready.
    Unready,
    /// A budget counted the disruption.
    Disruption,
}

/// Uses one disruption of the pod's budget, if it has one.
async fn use_budget(call: &Call, pod: &Object, options: &DeleteOptions) -> Result<EvictionGrounds, Failure> {
    let server = &call.server;
    let records = server.store().list(DISRUPTION_BUDGETS, Some(&call.path.namespace)).records;
    let budgets: Vec<Object> = records.iter().map(|record: &std::sync::Arc<Record>| decode(record)).collect();
    let mut budgets = budgets.iter().filter(|budget| concerns(budget, pod));
    let Some(budget) = budgets.next() else { return Ok(EvictionGrounds::NoBudget) };
    if budgets.next().is_some() {
        return Err(Failure::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    if !is_ready(pod) {
        // A pod that is not ready may go if enough others are healthy.
        let (healthy, wanted) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
        let policy = budget.text("spec.unhealthyPodEvictionPolicy");
        if policy == "AlwaysAllow" || (healthy >= wanted && wanted > 0) {
            return Ok(EvictionGrounds::Unready);
        }
    }
    let resource = call
        .registry
        .of_storage(DISRUPTION_BUDGETS)
        .ok_or_else(|| Failure::internal("PodDisruptionBudgets are not served"))?;
    let key = Key::new(DISRUPTION_BUDGETS, call.path.namespace.as_str(), budget.name());
    let now = clock::rfc3339(server.clock().now());
    if options.is_dry_run {
        return count_disruption(&mut budget.clone(), pod.name(), &now).map(|()| EvictionGrounds::Disruption);
    }
    write::amend(server, resource, &key, |budget| count_disruption(budget, pod.name(), &now))
        .await
        .map(|_| EvictionGrounds::Disruption)
}

fn concerns(budget: &Object, pod: &Object) -> bool {
    let selector = budget.at("spec.selector").and_then(LabelSelector::of_object);
    let labels = pod.metadata().map("labels");
    selector.is_some_and(|selector| selector.matches(|key| labels.and_then(|labels| labels.get(key)?.as_str())))
}

fn count(budget: &Object, key: &str) -> i64 {
    budget.number(&format!("status.{key}")).unwrap_or(0)
}

/// Counts one disruption in a budget, or refuses it.
fn count_disruption(budget: &mut Object, pod: &str, now: &str) -> Result<(), Failure> {
    let name = budget.name().to_owned();
    if count(budget, "observedGeneration") < budget.generation() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(why, Some(10)));
    }
    let allowed = count(budget, "disruptionsAllowed");
    if allowed < 0 || budget.map("status.disruptedPods").is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        let why = if allowed < 0 { "pdb disruptions allowed is negative" } else { "DisruptedPods map too big" };
        let named = crate::response::status::GroupResource { group: "policy", resource: "poddisruptionbudgets" };
        return Err(Failure::forbidden(named, &name, why));
    }
    if allowed == 0 {
        let (wanted, healthy) = (count(budget, "desiredHealthy"), count(budget, "currentHealthy"));
        let why = format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently");
        return Err(refused(why, None));
    }
    let generation = count(budget, "observedGeneration");
    if let Some(status) = map_mut(budget, "status") {
        status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
        let remembered = status.entry("disruptedPods").or_insert_with(|| json!({}));
        if let Some(remembered) = remembered.as_object_mut() {
            remembered.insert(pod.to_owned(), Value::from(now));
        }
    }
    let (status, reason) = if allowed > 1 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
        "observedGeneration": generation,
    });
    set_condition(budget, condition, now);
    Ok(())
}

fn refused(why: String, seconds: Option<u32>) -> Failure {
    let mut failure = Failure::too_many_requests(BUDGET_VIOLATED, 0);
    failure.retry_after = seconds;
    let cause = Cause { reason: "DisruptionBudget", message: why, field: String::new() };
    failure.details.get_or_insert_default().causes.push(cause);
    failure
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn budget(status: Value) -> Object {
        json!({"metadata": {"name": "b", "generation": 1}, "status": status}).as_object().unwrap().clone()
    }

    #[test]
    fn disruption_is_counted_and_its_pod_remembered() {
        let mut budget = budget(json!({"observedGeneration": 1, "disruptionsAllowed": 1}));
        count_disruption(&mut budget, "p", "now").unwrap();
        assert_eq!(count(&budget, "disruptionsAllowed"), 0);
        assert_eq!(budget.text("status.disruptedPods.p"), "now");
        assert_eq!(budget.list("status.conditions")[0]["status"], "False");
        assert_eq!(count_disruption(&mut budget, "q", "now").unwrap_err().code, 429);
    }

    #[rstest]
    #[case(json!({"observedGeneration": 0, "disruptionsAllowed": 1}), 429)]
    #[case(json!({"observedGeneration": 1, "disruptionsAllowed": 0}), 429)]
    #[case(json!({"observedGeneration": 1, "disruptionsAllowed": -1}), 403)]
    fn budget_that_is_used_up_or_unknown_refuses(#[case] status: Value, #[case] code: u16) {
        assert_eq!(count_disruption(&mut budget(status), "p", "now").unwrap_err().code, code);
    }
}
