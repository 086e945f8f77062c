//! MachineConfigNodes: one per node, with its order and its steps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;

use crate::support::{NOW, annotate, node};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::SignedDuration;
use seaworthy_api::machineconfiguration::MachineConfigNode;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_change::{Action, Change};
use seaworthy_plan::fleet::{NodeView, Target};
use seaworthy_plan::rollout::waiting::Reason;
use seaworthy_plan::status::node_status::{NodeStatusInputs, changes, desired, differs, is_current, orphans};
use serde_json::json;

const TARGET: Target<'static> = Target { config: "1", image: None };

/// What a test changes about the inputs.
#[derive(Default)]
struct Given<'a> {
    waiting: Option<&'a Reason>,
    is_chosen: bool,
    blocker: Option<&'a str>,
    old: Option<&'a MachineConfigNode>,
    later: SignedDuration,
}

fn made(node: &Node, given: &Given<'_>) -> MachineConfigNode {
    let view = NodeView::of(node, given.old);
    let inputs = NodeStatusInputs {
        node: &view,
        pool: Some("worker"),
        target: Some(TARGET),
        is_chosen: given.is_chosen,
        waiting: given.waiting,
        blocker: given.blocker,
        now: NOW + given.later,
    };
    let object = desired(&inputs);
    // Whatever the case: the quick answer and the whole object agree on whether anything is to be written.
    for old in [given.old, Some(&object)] {
        let view = NodeView::of(node, old);
        let inputs = NodeStatusInputs { node: &view, ..inputs };
        assert_eq!(is_current(&inputs, false), differs(old, &desired(&inputs)) == (false, false), "{old:#?}");
    }
    object
}

/// Status, reason and message of a condition.
fn condition_of(object: &MachineConfigNode, type_: &str) -> [String; 3] {
    let conditions = object.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let found = conditions.iter().find(|found| found.type_ == type_).unwrap();
    [found.status.as_str(), found.reason.as_str(), found.message.as_str()].map(str::to_owned)
}

/// The conditions that are not False.
fn raised(object: &MachineConfigNode) -> Vec<String> {
    let conditions = object.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let is_raised = |found: &&seaworthy_api::meta::Condition| found.status.as_str() != "False";
    let shown = |found: &seaworthy_api::meta::Condition| format!("{} {}", found.type_, found.status);
    conditions.iter().filter(is_raised).map(shown).collect()
}

#[test]
fn a_new_one_has_every_step_and_belongs_to_its_node() {
    let mut node = node("w1", "0/0R");
    node.metadata.uid = Some("u1".to_owned());
    let object = made(&node, &Given { waiting: Some(&Reason::Cordoned), ..Given::default() });
    assert_eq!(object.metadata.name.as_deref(), Some("w1"));
    let owner = &object.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()), ("Node", "w1", "u1"));
    let spec = serde_json::to_value(&object.spec).unwrap();
    assert_eq!(spec, json!({"node": {"name": "w1"}, "pool": {"name": "worker"}, "configVersion": {"desired": "0"}}));
    let expected = ["False", "NotYetOccurred", "This node has not yet entered the Drained phase"];
    assert_eq!(condition_of(&object, "Drained"), expected);
    assert_eq!(object.status.as_ref().unwrap().conditions.as_ref().unwrap().len(), 15);
    assert_eq!(object.status.unwrap().observed_generation, Some(1));
}

#[test]
fn unknown_values_are_not_yet_set() {
    let mut node = node("w1", "0/0R");
    node.metadata.annotations = None;
    let view = NodeView::of(&node, None);
    let inputs = NodeStatusInputs {
        node: &view,
        pool: None,
        target: None,
        is_chosen: false,
        waiting: None,
        blocker: None,
        now: NOW,
    };
    let object = desired(&inputs);
    assert_eq!(object.spec.pool.name, "not-yet-set");
    assert_eq!(object.spec.config_version.desired, "not-yet-set");
    let [status, reason, message] = condition_of(&object, "Updated");
    assert_eq!([status, reason], ["False", "NotInPool"]);
    assert!(message.contains("`kubectl label node NAME node-role.kubernetes.io/worker=`"), "{message}");
}

#[test]
fn order_is_reported_before_it_is_given_and_so_is_the_reason_for_waiting() {
    let node = node("w1", "0/0R");
    let chosen = made(&node, &Given { is_chosen: true, ..Given::default() });
    assert_eq!(chosen.spec.config_version.desired, "1");
    let reason = Reason::Budget { max: 1, used_by: [].into() };
    let waits = made(&node, &Given { waiting: Some(&reason), ..Given::default() });
    assert_eq!(waits.spec.config_version.desired, "0");
    assert_eq!(condition_of(&waits, "Updated"), ["False", "Budget", "waiting: budget 1 is used up"]);
}

#[test]
fn the_steps_follow_the_node_and_are_over_when_it_is_done() {
    let updating = Reason::Updating { node: seaworthy_plan::rollout::waiting::Holder::new("w1", None, NOW) };
    let mut node = node("w1", "0/1R");
    let step = |node: &Node, old: Option<&MachineConfigNode>, waiting| {
        let mut object = made(node, &Given { waiting, old, ..Given::default() });
        object.metadata.generation = Some(1);
        object
    };
    annotate(&mut node, annotation::DESIRED_DRAIN, "drain-1");
    let first = step(&node, None, Some(&updating));
    assert_eq!(
        raised(&first),
        ["UpdatePrepared True", "UpdateExecuted Unknown", "Drained Unknown", "Cordoned Unknown"]
    );
    node.spec.as_mut().unwrap().unschedulable = Some(true);
    annotate(&mut node, annotation::LAST_APPLIED_DRAIN, "drain-1");
    let drained = step(&node, Some(&first), Some(&updating));
    assert_eq!(
        raised(&drained),
        ["UpdatePrepared True", "UpdateExecuted Unknown", "Drained True", "AppliedFilesAndOS Unknown", "Cordoned True"]
    );
    annotate(&mut node, annotation::POST_CONFIG_ACTION, "Rebooting");
    let rebooting = step(&node, Some(&drained), Some(&updating));
    assert!(raised(&rebooting).contains(&"AppliedFilesAndOS True".to_owned()));
    assert!(raised(&rebooting).contains(&"RebootedNode Unknown".to_owned()));

    let node = support::node("w1", "1/1R");
    let done = step(&node, Some(&rebooting), None);
    assert_eq!(raised(&done), ["Updated True"]);
    assert_eq!(condition_of(&done, "Drained"), ["False", "Updated", "1: all steps are complete"]);
    assert_eq!(differs(Some(&done), &step(&node, Some(&done), None)), (false, false));
}

#[test]
fn a_failed_node_has_the_message_of_its_daemon() {
    let mut node = node("w1", "0/1R Degraded");
    annotate(&mut node, annotation::REASON, "disk full");
    let reason = Reason::Failed { message: "disk full".to_owned() };
    let object = made(&node, &Given { waiting: Some(&reason), ..Given::default() });
    assert_eq!(condition_of(&object, "NodeDegraded"), ["True", "Failed", "disk full"]);
    assert_eq!(condition_of(&object, "Updated"), ["False", "Failed", "failed: disk full"]);
}

#[test]
fn what_is_in_the_way_of_a_drain_is_in_the_step_and_comes_back_as_a_reason() {
    let mut node = node("w1", "0/1R");
    annotate(&mut node, annotation::DESIRED_DRAIN, "drain-1");
    let object = made(&node, &Given { blocker: Some("PDB shop/db (pod db-1)"), ..Given::default() });
    assert_eq!(condition_of(&object, "Drained"), ["Unknown", "DrainBlocked", "PDB shop/db (pod db-1)"]);

    let pool = support::pool("worker", "1", json!({}));
    let view = NodeView::of(&node, Some(&object));
    let first_boot_pools = seaworthy_plan::fleet::first_boot::FirstBootPools::default();
    let members = [&view];
    let mut inputs = support::inputs(&pool, &members, &first_boot_pools);
    inputs.now = NOW + SignedDuration::from_mins(14);
    let decided = support::owned(&seaworthy_plan::rollout::decide(&inputs));
    assert_eq!(decided.waiting["w1"], "drain blocked by PDB shop/db (pod db-1), 14 min");
}

#[test]
fn rows_d45_and_d46_only_what_differs_is_written() {
    let node = node("w1", "1/1R");
    let mut object = made(&node, &Given::default());
    object.metadata.generation = Some(1);
    let again = |node: &Node, old: &MachineConfigNode| {
        let given = Given { old: Some(old), later: SignedDuration::from_hours(3), ..Given::default() };
        differs(Some(old), &made(node, &given))
    };
    assert_eq!(again(&node, &object), (false, false));
    // Another order, another condition, a generation that was not seen.
    let working = support::node("w1", "1/2R");
    assert_eq!(again(&working, &object), (true, true));
    let mut failed = node.clone();
    annotate(&mut failed, annotation::STATE, "Degraded");
    assert_eq!(again(&failed, &object), (false, true));
    object.metadata.generation = Some(2);
    assert_eq!(again(&node, &object), (false, true));
    assert_eq!(differs(None, &object), (true, true));
}

#[test]
fn one_whose_node_is_gone_is_an_orphan() {
    let [here, gone] = ["w1", "w2"].map(|name| node(name, "1/1R"));
    let objects = [&here, &gone].map(|node| made(node, &Given::default()));
    let orphans = orphans(&objects, &[NodeView::of(&here, None)]);
    assert_eq!(orphans, [&objects[1]]);
}

#[test]
fn what_others_wrote_stays() {
    let node = node("w1", "1/1R");
    let mut object = made(&node, &Given::default());
    object.metadata.generation = Some(1);
    let status = object.status.as_mut().unwrap();
    let foreign = json!({"type": "PinnedImageSetsDegraded", "status": "True", "reason": "PullFailed", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = status.conditions.as_mut().unwrap();
    conditions.retain(|found| found.type_ != "PinnedImageSetsDegraded");
    conditions.push(serde_json::from_value(foreign).unwrap());
    let other = json!({"type": "example.org/Audited", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    conditions.push(serde_json::from_value(other).unwrap());
    let next = made(&node, &Given { old: Some(&object), ..Given::default() });
    assert_eq!(condition_of(&next, "PinnedImageSetsDegraded"), ["True", "PullFailed", "m"]);
    assert_eq!(condition_of(&next, "example.org/Audited"), ["True", "R", ""]);
}

#[test]
fn only_what_is_ours_is_applied() {
    let was = node("w1", "0/0R");
    let mut old = made(&was, &Given::default());
    old.metadata.generation = Some(1);
    let mut status = serde_json::to_value(old.status.as_ref().unwrap()).unwrap();
    let foreign = json!({"type": "PinnedImageSetsDegraded", "status": "True", "reason": "PullFailed", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let other = json!({"type": "example.org/Audited", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = status["conditions"].as_array_mut().unwrap();
    conditions.retain(|found| found["type"] != "PinnedImageSetsDegraded");
    conditions[0]["observedGeneration"] = json!(4);
    conditions.extend([foreign, other]);
    status["pinnedImageSets"] = json!([{"name": "set", "desiredGeneration": 1}]);
    status["irreconcilableChanges"] = json!([{"fieldPath": "spec.x", "diff": "d"}]);
    old.status = serde_json::from_value(status).unwrap();

    let next = made(&node("w1", "1/1R"), &Given { old: Some(&old), ..Given::default() });
    let changes = changes(Some(&old), &next, false);
    let [Change { action: Action::Apply(_), .. }, Change { action: Action::ApplyStatus(object), .. }] =
        changes.as_slice()
    else {
        panic!("{changes:?}")
    };
    let mut keys: Vec<&String> = object["status"].as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["conditions", "configVersion", "observedGeneration"]);
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let types: Vec<&str> = conditions.iter().filter_map(|found| found["type"].as_str()).collect();
    assert_eq!(types.len(), 14, "{types:?}");
    assert!(!types.contains(&"PinnedImageSetsDegraded") && !types.contains(&"example.org/Audited"), "{types:?}");
    assert!(types.contains(&"PinnedImageSetsProgressing"), "made here, and no other writer has touched it");
    assert!(conditions.iter().all(|found| found.get("observedGeneration").is_none()));
}

#[test]
fn another_owner_or_key_is_no_reason_to_write() {
    let mut node = node("w1", "1/1R");
    node.metadata.uid = Some("u1".to_owned());
    let mut object = made(&node, &Given::default());
    object.metadata.generation = Some(1);
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u2"});
    object.metadata.owner_references.as_mut().unwrap().insert(0, serde_json::from_value(other).unwrap());
    let mut spec = serde_json::to_value(&object.spec).unwrap();
    spec["later"] = json!("key");
    object.spec = serde_json::from_value(spec).unwrap();
    assert_eq!(differs(Some(&object), &made(&node, &Given { old: Some(&object), ..Given::default() })), (false, false));
}

#[test]
fn what_the_api_would_refuse_is_not_copied_from_the_node() {
    let mut node = node("w1", "0/0R");
    annotate(&mut node, annotation::CURRENT_CONFIG, "Not A Name");
    annotate(&mut node, annotation::DESIRED_CONFIG, &"x".repeat(300));
    annotate(&mut node, annotation::CURRENT_IMAGE, "quay.io/os:latest");
    annotate(&mut node, annotation::DESIRED_IMAGE, "");
    let object = made(&node, &Given::default());
    assert_eq!(object.spec.config_version.desired, "not-yet-set");
    assert_eq!(object.spec.config_image, None);
    let status = object.status.unwrap();
    assert_eq!((status.config_version.unwrap().current, status.config_image), (None, None));
}

#[test]
fn long_reason_fits_its_condition() {
    let mut node = node("w1", "0/1R Degraded");
    let long = "é".repeat(40_000);
    annotate(&mut node, annotation::REASON, &long);
    let reason = Reason::Failed { message: long };
    let object = made(&node, &Given { waiting: Some(&reason), ..Given::default() });
    for type_ in ["NodeDegraded", "Updated"] {
        let [.., message] = condition_of(&object, type_);
        assert!(message.len() <= 32768 && message.ends_with('…'), "{}", message.len());
    }
}

/// Otherwise the forecast could not derive from it how long updates take.
#[test]
fn a_node_that_was_quick_has_the_time_of_its_last_update() {
    let before = made(&node("w1", "0/0R"), &Given::default());
    let later = SignedDuration::from_mins(5);
    let after = made(&node("w1", "1/1R"), &Given { old: Some(&before), later, ..Given::default() });
    let time = |object: &MachineConfigNode, type_: &str| {
        let conditions = object.status.as_ref().unwrap().conditions.as_ref().unwrap();
        conditions.iter().find(|found| found.type_ == type_).unwrap().last_transition_time.0
    };
    assert_eq!((time(&before, "Updated"), time(&after, "Updated")), (NOW, NOW + later));
    assert_eq!(time(&after, "UpdateComplete"), NOW + later);
    assert_eq!(time(&after, "NodeDegraded"), NOW, "the others have not changed");
    let again = Given { old: Some(&after), later: later * 2, ..Given::default() };
    let again = made(&node("w1", "1/1R"), &again);
    assert_eq!(time(&again, "Updated"), NOW + later);
    assert_eq!(time(&again, "UpdateComplete"), NOW + later, "it stays until the next one is done");
}
