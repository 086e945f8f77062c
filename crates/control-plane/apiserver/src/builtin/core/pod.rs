//! Pod: containers that run together on one node.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::builtin::core::pod_admission::admit_pod;
use crate::builtin::core::pod_defaults::{default_requests_to_limits, fill_condition_times, fill_pod_spec, fill_spec};
use crate::builtin::rules::pod::{address, name_causes, validate_change, validate_spec};
use crate::object::field_access::{FieldAccess, fill, map_mut};
use crate::object::quantity::Quantity;
use crate::object::{Metadata, Object};
use crate::request::Verb;
use crate::resource::built_in_kind::{
    BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, STATUS, SelectableField, Subresource, SubresourceAction,
    TableColumn, isolate_status,
};
use crate::response::table::{self, NONE};

pub static POD: BuiltInKind = BuiltInKind {
    plural: "pods",
    singular: "pod",
    kind: "Pod",
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        Subresource {
            name: "binding",
            kind: ("", "v1", "Binding"),
            verbs: &[Verb::Create],
            action: SubresourceAction::Bind,
        },
        Subresource {
            name: "eviction",
            kind: ("policy", "v1", "Eviction"),
            verbs: &[Verb::Create],
            action: SubresourceAction::Evict,
        },
        STATUS,
    ],
    definition: "io.k8s.api.core.v1.Pod",
    behaviour: KindBehaviour {
        answers_deleted: true,
        generation: GenerationPolicy::SpecChanges,
        is_graceful: true,
        ..KindBehaviour::PLAIN
    },
    selectable: &[
        SelectableField::text("spec.nodeName"),
        SelectableField::text("spec.restartPolicy"),
        SelectableField::text("spec.schedulerName"),
        SelectableField::text("spec.serviceAccountName"),
        SelectableField { label: "spec.hostNetwork", path: "spec.hostNetwork", default: "false" },
        SelectableField::text("status.phase"),
        SelectableField::text("status.podIP"),
        SelectableField::text("status.podIPs"),
        SelectableField::text("status.nominatedNodeName"),
    ],
    defaults,
    prepare,
    mutate: admit_pod,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Ready", "How many of its containers are ready."),
        TableColumn::text("Status", "What it is doing, or why it is not."),
        TableColumn::text("Restarts", "How often its containers were started again."),
        TableColumn::AGE,
        TableColumn::wide("IP", "Its address."),
        TableColumn::wide("Node", "Where it runs."),
        TableColumn::wide("Nominated Node", "Where it will run once others made room."),
        TableColumn::wide("Readiness Gates", "How many of the conditions hold that it waits for."),
    ],
    cells,
    default_grace_seconds,
    ..BuiltInKind::BASE
};

/// A pod without a node, or one that has ended, is deleted at once.
fn default_grace_seconds(pod: &Object) -> Option<i64> {
    let is_placed = !pod.text("spec.nodeName").is_empty();
    let has_ended = matches!(pod.text("status.phase"), "Succeeded" | "Failed");
    (is_placed && !has_ended).then(|| pod.number("spec.terminationGracePeriodSeconds").unwrap_or(0))
}

fn defaults(object: &mut Object) {
    if let Some(spec) = map_mut(object, "spec") {
        fill_pod_spec(spec);
        fill_spec(spec);
    }
    if let Some(status) = map_mut(object, "status") {
        fill(status, "phase", "Pending");
        // The first address is also in a field of its own.
        let first = status.list("podIPs").first().map(|own| own.text("ip").to_owned());
        match (status.text("podIP").to_owned(), first) {
            (own, None) if !own.is_empty() => {
                status.insert("podIPs".to_owned(), json!([{"ip": own}]));
            }
            (own, Some(first)) if own.is_empty() => {
                status.insert("podIP".to_owned(), first.into());
            }
            (own, Some(first)) if own != first => {
                status.insert("podIPs".to_owned(), json!([{"ip": own}]));
            }
            _ => {}
        }
    }
    fill_condition_times(object, &["lastProbeTime", "lastTransitionTime"]);
}

fn prepare(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    let Some(old) = old else {
        if let Some(spec) = map_mut(object, "spec") {
            default_requests_to_limits(spec);
        }
        let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
        if !object.list("spec.schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": object.meta_text("creationTimestamp"),
            }]);
        }
        object.insert("status".to_owned(), status);
        if let Some(spec) = map_mut(object, "spec")
            && spec.number("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        {
            // A negative grace period becomes 1.
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
        return;
    };
    isolate_status(object, Some(old), part);
    // The QoS class follows from requests and limits, which are immutable.
    if let (Some(status), Some(qos_class)) = (map_mut(object, "status"), old.at("status.qosClass")) {
        fill(status, "qosClass", qos_class.clone());
    }
}

/// The QoS class of a pod.
fn qos_class(pod: &Object) -> &'static str {
    let containers = || pod.list("spec.initContainers").iter().chain(pod.list("spec.containers"));
    let amount = |container: &Value, part: &str, name: &str| {
        let amounts = container.map("resources").and_then(|resources| resources.map(part)).cloned();
        amounts.and_then(|amounts| Quantity::parse(amounts.text(name))).filter(|amount| !amount.is_zero())
    };
    let names = ["cpu", "memory"];
    let asks = |container: &Value| {
        names
            .iter()
            .any(|name| amount(container, "requests", name).is_some() || amount(container, "limits", name).is_some())
    };
    let is_exact = |container: &Value| {
        names.iter().all(|name| {
            let (limit, request) = (amount(container, "limits", name), amount(container, "requests", name));
            limit.is_some() && (request.is_none() || request == limit)
        })
    };
    // Pod-level resources decide, if there are any.
    let whole = pod.get("spec").filter(|spec| spec.get("resources").is_some());
    if let Some(whole) = whole {
        return match (asks(whole), is_exact(whole)) {
            (false, _) => "BestEffort",
            (true, true) => "Guaranteed",
            (true, false) => "Burstable",
        };
    }
    match () {
        () if !containers().any(asks) => "BestEffort",
        () if containers().all(is_exact) => "Guaranteed",
        () => "Burstable",
    }
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    if part != ObjectPart::Main {
        return validate_status(object, old);
    }
    let Some(spec) = object.map("spec") else { return vec![Cause::required("spec", "")] };
    let Some(old) = old.and_then(|old| old.map("spec")) else {
        let mut causes = validate_spec(spec, "spec");
        if !spec.list("ephemeralContainers").is_empty() {
            causes.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        }
        if !spec.list("schedulingGates").is_empty() && !spec.text("nodeName").is_empty() {
            let why = "cannot be set until all schedulingGates have been cleared";
            causes.push(Cause::forbidden("spec.nodeName", why));
        }
        return causes;
    };
    // Problems that the stored pod has already are ignored.
    let before = validate_spec(old, "spec");
    let mut causes = validate_spec(spec, "spec");
    causes.retain(|cause| !before.contains(cause) && !cause.field.ends_with(".name"));
    let changes = validate_change(spec, old);
    if changes.iter().any(|cause| cause.field != "spec.activeDeadlineSeconds") {
        causes.retain(|cause| cause.field.ends_with(".image"));
    }
    causes.extend(changes);
    causes
}

fn validate_status(object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(old) = old else { return causes };
    let node = object.text("status.nominatedNodeName");
    if !node.is_empty() && node != old.text("status.nominatedNodeName") {
        causes.extend(name_causes("status.nominatedNodeName", node, names::dns_subdomain));
    }
    let qos_class = object.text("status.qosClass");
    if !qos_class.is_empty() && qos_class != old.text("status.qosClass") {
        causes.push(Cause::invalid("status.qosClass", qos_class, "field is immutable"));
    }
    let addresses = object.list("status.podIPs");
    let (mut fours, mut sixes) = (0, 0);
    for (at, own) in addresses.iter().enumerate() {
        causes.extend(address(format!("status.podIPs[{at}]"), own.text("ip")));
        if own.text("ip").contains(':') { sixes += 1 } else { fours += 1 }
    }
    if causes.is_empty() && (fours > 1 || sixes > 1) {
        let shown = addresses.iter().map(|own| json!({"IP": own.text("ip")})).collect::<Value>();
        let why = "may specify no more than one IP for each IP family";
        causes.push(Cause::invalid("status.podIPs", &shown, why));
    }
    for (at, condition) in object.list("status.conditions").iter().enumerate() {
        let kind = condition.text("type");
        if !old.list("status.conditions").iter().any(|known| known.text("type") == kind) {
            causes.extend(name_causes(format!("status.conditions[{at}].Type"), kind, names::qualified_name));
        }
    }
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let statuses = object.list("status.containerStatuses");
    let is_ready = |status: &&Value| status.flag("ready") && status.at("state.running").is_some();
    let ready = statuses.iter().filter(is_ready).count();
    let total = object.list("spec.containers").len();
    let addresses = object.list("status.podIPs").iter().map(|address| address.text("ip"));
    let address = addresses.chain([object.text("status.podIP")]).find(|address| !address.is_empty());
    vec![
        object.name().into(),
        format!("{ready}/{total}").into(),
        state(object).into(),
        restarts(statuses, now).into(),
        table::age(object, now),
        address.unwrap_or(NONE).into(),
        table::or_none(object.text("spec.nodeName")),
        table::or_none(object.text("status.nominatedNodeName")),
        gates(object).into(),
    ]
}

/// The `STATUS` column.
fn state(object: &Object) -> String {
    let own = [object.text("status.reason"), object.text("status.phase")];
    let mut state = own.into_iter().find(|word| !word.is_empty()).unwrap_or_default().to_owned();
    let is_gated =
        |condition: &&Value| condition.text("type") == "PodScheduled" && condition.text("reason") == "SchedulingGated";
    if object.list("status.conditions").iter().any(|condition| is_gated(&condition)) {
        state = "SchedulingGated".to_owned();
    }
    let init_state = init_state(object);
    if let Some(init_state) = &init_state {
        state.clone_from(init_state);
    } else {
        let mut is_running = false;
        for status in object.list("status.containerStatuses").iter().rev() {
            if let Some(word) = stopped(status) {
                state = word;
            } else if status.flag("ready") && status.at("state.running").is_some() {
                is_running = true;
            }
        }
        // One container has completed, another one runs.
        if state == "Completed" && is_running {
            let conditions = object.list("status.conditions");
            let is_ready = conditions.iter().any(|one| one.text("type") == "Ready" && one.text("status") == "True");
            state = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    match (object.is_deleting(), object.text("status.reason"), object.text("status.phase")) {
        (true, "NodeLost", _) => "Unknown".to_owned(),
        (true, _, phase) if !matches!(phase, "Succeeded" | "Failed") => "Terminating".to_owned(),
        _ => state,
    }
}

/// Why a container does not run, if it does not.
fn stopped(status: &Value) -> Option<String> {
    let waiting = status.at("state.waiting").map(|waiting| waiting.text("reason")).filter(|word| !word.is_empty());
    if let Some(word) = waiting {
        return Some(word.to_owned());
    }
    let terminated = status.at("state.terminated")?;
    match (terminated.text("reason"), terminated.number("signal").unwrap_or(0)) {
        ("", 0) => Some(format!("ExitCode:{}", terminated.number("exitCode").unwrap_or(0))),
        ("", signal) => Some(format!("Signal:{signal}")),
        (word, _) => Some(word.to_owned()),
    }
}

/// The state of the init containers, if they have not completed.
fn init_state(object: &Object) -> Option<String> {
    let total = object.list("spec.initContainers").len();
    for (at, status) in object.list("status.initContainerStatuses").iter().enumerate() {
        let code = status.at("state.terminated").map(|terminated| terminated.number("exitCode").unwrap_or(0));
        match code {
            Some(0) => {}
            Some(_) => return stopped(status).map(|word| format!("Init:{word}")),
            None => {
                let waiting = status.text("state.waiting.reason");
                return Some(match waiting {
                    "" | "PodInitializing" => format!("Init:{at}/{total}"),
                    word => format!("Init:{word}"),
                });
            }
        }
    }
    None
}

fn restarts(statuses: &[Value], now: Timestamp) -> String {
    let count: i64 = statuses.iter().filter_map(|status| status.number("restartCount")).sum();
    let last = statuses.iter().map(|status| status.text("lastState.terminated.finishedAt")).max().unwrap_or_default();
    match (count, last) {
        (0, _) | (_, "") => count.to_string(),
        (count, last) => format!("{count} ({} ago)", table::since(last, now)),
    }
}

fn gates(object: &Object) -> String {
    let gates = object.list("spec.readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let holds = |gate: &&Value| {
        let conditions = object.list("status.conditions").iter();
        conditions.into_iter().any(|one| one.text("type") == gate.text("conditionType") && one.text("status") == "True")
    };
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[rstest]
    #[case(json!([{}]), "BestEffort")]
    #[case(json!([{"resources": {"requests": {"cpu": "1"}}}]), "Burstable")]
    #[case(json!([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]), "Guaranteed")]
    #[case(json!([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, {}]), "Burstable")]
    #[case(json!([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}}}]), "Guaranteed")]
    #[case(json!([{"resources": {"limits": {"cpu": "0"}}}]), "BestEffort")]
    fn quality_follows_from_requests_and_limits(#[case] containers: Value, #[case] wanted: &str) {
        assert_eq!(qos_class(&object(json!({"spec": {"containers": containers}}))), wanted);
    }

    #[rstest]
    #[case(json!({"status": {"phase": "Pending"}}), "Pending")]
    #[case(json!({"status": {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}), "CrashLoopBackOff")]
    #[case(json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted")]
    #[case(json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}), "Terminating")]
    #[case(json!({"spec": {"initContainers": [{}, {}]}, "status": {"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}]}}), "Init:1/2")]
    #[case(json!({"status": {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}}), "ExitCode:3")]
    fn state_is_what_kubectl_prints(#[case] pod: Value, #[case] wanted: &str) {
        assert_eq!(state(&object(pod)), wanted);
    }

    #[test]
    fn status_of_a_new_pod_is_the_servers() {
        let mut pod = object(json!({"spec": {"containers": [{}]}, "status": {"phase": "Running"}}));
        prepare(&mut pod, None, ObjectPart::Main);
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }
}
