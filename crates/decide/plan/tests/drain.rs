//! Drains: which pods leave, what blocks them, and what is done about a node.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::support::{NOW, annotate, node};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::SignedDuration;
use rstest::rstest;
use seaworthy_api::machineconfiguration::MachineConfigNode;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_api::vocabulary::seaworthy::annotation::CORDONED_FOR;
use seaworthy_change::{Action, Change, Decision};
use seaworthy_plan::drain::eviction::{DisruptionBudgets, EvictionRules, Evictions, evictions};
use seaworthy_plan::drain::{self, DrainProgress, DrainReport};
use seaworthy_plan::fleet::NodeView;
use serde_json::{Value, json};

fn pod(name: &str, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "shop", "labels": {"app": "db"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}],
        },
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for (key, value) in more.as_object().unwrap() {
        for (inner, value) in value.as_object().unwrap() {
            pod[key][inner] = value.clone();
        }
    }
    serde_json::from_value(pod).unwrap()
}

fn budget(name: &str, spec: Value, status: Value) -> PodDisruptionBudget {
    let mut all = json!({"selector": {"matchLabels": {"app": "db"}}});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    let metadata = json!({"name": name, "namespace": "shop", "generation": 1});
    let mut full = json!({"observedGeneration": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3});
    for (key, value) in status.as_object().unwrap() {
        full[key] = value.clone();
    }
    serde_json::from_value(json!({"metadata": metadata, "spec": all, "status": full})).unwrap()
}

fn allowing(count: i32) -> PodDisruptionBudget {
    budget("db", json!({"minAvailable": 2}), json!({"disruptionsAllowed": count}))
}

fn sorted(pods: &[Pod], budgets: &[PodDisruptionBudget], rules: EvictionRules) -> Evictions {
    evictions(&pods.iter().collect::<Vec<_>>(), &DisruptionBudgets::new(budgets), rules)
}

fn names(pods: &[seaworthy_plan::drain::eviction::ObjectName]) -> Vec<&str> {
    pods.iter().map(|pod| pod.name.as_str()).collect()
}

#[test]
fn pods_of_daemon_sets_and_mirrors_stay_and_the_rest_leaves() {
    let owner = |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
    let pods = [
        pod("daemon", json!({"metadata": {"ownerReferences": owner("DaemonSet")}})),
        pod("mirror", json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})),
        pod(
            "ended-daemon",
            json!({"metadata": {"ownerReferences": owner("DaemonSet")}, "status": {"phase": "Succeeded"}}),
        ),
        pod("replica", json!({})),
        pod("bare", json!({"metadata": {"ownerReferences": []}})),
        pod("local", json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})),
    ];
    let found = sorted(&pods, &[], EvictionRules::default());
    assert_eq!(names(&found.stay), ["daemon", "mirror"]);
    assert_eq!(names(&found.evict), ["bare", "ended-daemon", "local", "replica"]);
    assert!(found.is_feasible() && !found.is_drained());

    let careful = sorted(&pods, &[], EvictionRules { evicts_unmanaged: false, evicts_local_data: false });
    assert_eq!(names(&careful.evict), ["ended-daemon", "replica"]);
    assert_eq!(
        careful.summary(),
        "pod shop/bare, which no controller would recreate; pod shop/local, whose emptyDir data would be lost"
    );
    assert!(!careful.is_feasible());
}

#[rstest]
#[case::allows_none(allowing(0), 1, &[], &[], "PDB shop/db (pod p0)")]
#[case::allows_one_of_one(allowing(1), 1, &["p0"], &[], "")]
#[case::allows_one_of_two(allowing(1), 2, &["p0"], &["p1"], "")]
#[case::keeps_both(allowing(0), 2, &[], &[], "PDB shop/db (pods p0, p1)")]
#[case::can_never_allow_one(
    budget("db", json!({"maxUnavailable": 0}), json!({"disruptionsAllowed": 0})),
    1, &[], &[], "PDB shop/db (pod p0), which never allows an eviction"
)]
#[case::wants_as_many_as_there_are(
    budget("db", json!({"minAvailable": 3}), json!({"disruptionsAllowed": 0, "desiredHealthy": 3})),
    1, &[], &[], "PDB shop/db (pod p0), which never allows an eviction"
)]
#[case::has_not_been_looked_at_since_it_changed(
    budget("db", json!({}), json!({"disruptionsAllowed": 5, "observedGeneration": 0})),
    1, &[], &[], "PDB shop/db (pod p0)"
)]
#[case::is_about_others(
    budget("db", json!({"selector": {"matchLabels": {"app": "web"}}}), json!({"disruptionsAllowed": 0})),
    1, &["p0"], &[], ""
)]
#[case::is_about_all(
    budget("db", json!({"selector": {}}), json!({"disruptionsAllowed": 0})),
    1, &[], &[], "PDB shop/db (pod p0)"
)]
fn a_budget_lets_go_what_it_allows(
    #[case] budget: PodDisruptionBudget,
    #[case] count: usize,
    #[case] evict: &[&str],
    #[case] later: &[&str],
    #[case] text: &str,
) {
    let pods: Vec<Pod> = (0..count).map(|nth| pod(&format!("p{nth}"), json!({}))).collect();
    let found = sorted(&pods, &[budget], EvictionRules::default());
    assert_eq!(
        (names(&found.evict), names(&found.later), found.summary()),
        (evict.to_vec(), later.to_vec(), text.to_owned())
    );
    assert_eq!(found.is_feasible(), text.is_empty());
}

#[test]
fn unhealthy_pod_is_evicted_where_the_api_allows_it() {
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let none = json!({"disruptionsAllowed": 0});
    let unhealthy = json!({"disruptionsAllowed": 0, "currentHealthy": 1});
    let goes = |pod: &Pod, spec: Value, status: &Value| {
        sorted(std::slice::from_ref(pod), &[budget("db", spec, status.clone())], EvictionRules::default()).evict.len()
            == 1
    };
    let unready = pod("p", unready);
    assert!(goes(&unready, json!({}), &none), "the others are enough");
    assert!(!goes(&unready, json!({}), &unhealthy));
    assert!(goes(&unready, json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}), &unhealthy));
    assert!(goes(&pod("p", json!({"status": {"phase": "Pending"}})), json!({}), &unhealthy));
    assert!(!goes(&pod("p", json!({})), json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}), &none));
}

#[test]
fn two_budgets_for_one_pod_are_named_because_the_api_refuses_to_choose() {
    let budgets = [allowing(1), budget("other", json!({}), json!({"disruptionsAllowed": 1}))];
    let found = sorted(&[pod("p", json!({}))], &budgets, EvictionRules::default());
    assert_eq!(found.summary(), "pod shop/p, which several PDBs match (shop/db, shop/other)");
}

#[test]
fn a_pod_that_is_ending_is_waited_for_and_is_no_obstacle() {
    let ending = pod("p", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let found = sorted(&[ending], &[], EvictionRules::default());
    assert!(found.is_feasible() && !found.is_drained());
    assert_eq!(found.summary(), "", "it keeps no drain from beginning");
}

// === What is done about a node ===

fn asks(text: &str) -> Node {
    let mut node = node("w1", "0/1R Working");
    annotate(&mut node, annotation::DESIRED_DRAIN, text);
    node
}

fn cordoned(mut node: Node) -> Node {
    node.spec.as_mut().unwrap().unschedulable = Some(true);
    node
}

fn decide(node: &Node, evictions: &Evictions, lasts: SignedDuration) -> Decision<'static, DrainReport> {
    // Its MachineConfigNode has the blockers already.
    decide_reported(node, evictions, lasts, Some(&evictions.summary()))
}

fn decide_reported(
    node: &Node,
    evictions: &Evictions,
    lasts: SignedDuration,
    reported: Option<&str>,
) -> Decision<'static, DrainReport> {
    let progress = reported.map(blocked);
    let view = NodeView::of(node, progress.as_ref());
    let since = Some(NOW - lasts);
    drain::decide(&drain::DrainInputs { node: &view, evictions, since, moved: since, now: NOW }).unwrap()
}

/// The MachineConfigNode of a node whose pods cannot leave.
fn blocked(by: &str) -> MachineConfigNode {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": "w1"},
        "spec": {"configVersion": {"desired": "1"}, "node": {"name": "w1"}, "pool": {"name": "worker"}},
        "status": {"conditions": [{"type": "Drained", "status": "Unknown", "reason": "DrainBlocked", "message": by,
            "lastTransitionTime": NOW.to_string()}]},
    }))
    .unwrap()
}

fn patch(decision: &Decision<'_, DrainReport>) -> Option<Value> {
    decision.changes().find_map(|change| match change.action {
        Action::Patch(patch) => Some(patch),
        _ => None,
    })
}

fn changes(decision: &Decision<'_, DrainReport>) -> Vec<Change> {
    decision.changes().collect()
}

const ZERO_DELAY: SignedDuration = SignedDuration::ZERO;

#[test]
fn row_d43_a_drain_cordons_evicts_and_then_reports_that_it_is_done() {
    let pods = sorted(&[pod("p", json!({}))], &[], EvictionRules::default());
    let mut node = asks("drain-1");
    let decision = decide(&node, &pods, ZERO_DELAY);
    assert_eq!(decision.report.progress, DrainProgress::Draining);
    // What was true before is not any more.
    let annotations = json!({CORDONED_FOR.as_str(): "drain-1", annotation::LAST_APPLIED_DRAIN.as_str(): null});
    let marked = json!({"annotations": annotations});
    assert_eq!(patch(&decision), Some(json!({"metadata": marked, "spec": {"unschedulable": true}})));

    annotate(&mut node, CORDONED_FOR, "drain-1");
    let node = cordoned(node);
    let decision = decide(&node, &pods, ZERO_DELAY);
    let evicted = changes(&decision);
    assert!(matches!(&evicted[..], [Change { object, action: Action::Evict }] if object.name == "p"), "{decision:?}");
    assert_eq!(decision.recheck, Some(Duration::from_secs(60)));

    let decision = decide(&node, &Evictions::default(), ZERO_DELAY);
    assert_eq!(decision.report.progress, DrainProgress::Done);
    let reported = json!({"metadata": {"annotations": {annotation::LAST_APPLIED_DRAIN.as_str(): "drain-1"}}});
    assert_eq!(patch(&decision), Some(reported));
}

#[test]
fn row_d44_node_that_a_user_uncordoned_is_cordoned_again_and_not_reported_as_drained() {
    let mut node = asks("drain-1");
    annotate(&mut node, CORDONED_FOR, "drain-1");
    let decision = decide(&node, &Evictions::default(), ZERO_DELAY);
    assert_eq!(decision.report.progress, DrainProgress::Draining);
    assert_eq!(patch(&decision).unwrap()["spec"], json!({"unschedulable": true}));
    assert_eq!(
        patch(&decision).unwrap()["metadata"]["annotations"][annotation::LAST_APPLIED_DRAIN.as_str()],
        Value::Null
    );
}

#[test]
fn nothing_is_cordoned_for_pods_that_cannot_leave() {
    let blocked = sorted(&[pod("p", json!({}))], &[allowing(0)], EvictionRules::default());
    let decision = decide(&asks("drain-1"), &blocked, ZERO_DELAY);
    assert_eq!((&decision.report.progress, changes(&decision)), (&DrainProgress::Blocked, Vec::new()));
    // Once it is cordoned, by any client, it stays so.
    let decision = decide(&cordoned(asks("drain-1")), &blocked, ZERO_DELAY);
    assert_eq!((&decision.report.progress, changes(&decision)), (&DrainProgress::Draining, Vec::new()));
}

fn warnings(decision: &Decision<'_, DrainReport>) -> Vec<(bool, &'static str, String)> {
    let events = changes(decision);
    let events = events.iter().filter_map(Change::event);
    events.map(|event| (event.is_warning, event.reason, event.message.clone())).collect()
}

#[test]
fn blocked_drain_is_announced_once_for_each_set_of_blockers() {
    let blocked = sorted(&[pod("p", json!({}))], &[allowing(0)], EvictionRules::default());
    for (node, lasts) in [(asks("drain-1"), ZERO_DELAY), (cordoned(asks("drain-1")), drain::SLOW_RETRY_DELAY)] {
        let decided = |reported: Option<&str>| decide_reported(&node, &blocked, lasts, reported);
        let reported = |reported: Option<&str>| {
            let decision = decided(reported);
            assert_eq!(decision.report.blocker.as_deref(), Some("PDB shop/db (pod p)"));
            warnings(&decision).into_iter().map(|(is, reason, text)| (is, reason.to_owned(), text)).collect::<Vec<_>>()
        };
        let event = (true, "DrainBlocked".to_owned(), "The node cannot be drained: PDB shop/db (pod p)".to_owned());
        assert_eq!(reported(None), std::slice::from_ref(&event));
        assert_eq!(reported(Some("PDB shop/db (pod p)")), []);
        assert_eq!(reported(Some("PDB shop/web (pod q)")), [event], "something else is in the way now");
    }
    let free = sorted(&[pod("p", json!({}))], &[allowing(1)], EvictionRules::default());
    let decision = decide_reported(&cordoned(asks("drain-1")), &free, ZERO_DELAY, None);
    assert_eq!(warnings(&decision), []);
}

#[test]
fn drain_that_goes_well_warns_of_nothing_although_its_budget_is_used_up_for_a_while() {
    // One pod of two was evicted; until it runs elsewhere the budget allows nothing.
    let ending = |name: &str| pod(name, json!({"metadata": {"deletionTimestamp": (NOW - ZERO_DELAY).to_string()}}));
    let node = cordoned(asks("drain-1"));
    let found = sorted(&[ending("p0"), pod("p1", json!({}))], &[allowing(0)], EvictionRules::default());
    let decision = decide_reported(&node, &found, drain::SLOW_RETRY_DELAY - SignedDuration::from_secs(1), None);
    assert_eq!(
        (&decision.report.progress, changes(&decision), &decision.report.blocker),
        (&DrainProgress::Draining, Vec::new(), &None)
    );
    // Nor where it could not begin for long before.
    let (view, since) = (NodeView::of(&node, None), Some(NOW - drain::ALARM_DELAY));
    let inputs = drain::DrainInputs { node: &view, evictions: &found, since, moved: None, now: NOW };
    assert_eq!(drain::decide(&inputs).unwrap().report.blocker, None);
    assert_eq!(drain::decide(&drain::DrainInputs { moved: Some(NOW), ..inputs }).unwrap().report.blocker, None);
    // What takes too long is reported, with the same text whichever pods are still terminating.
    for pods in [vec![ending("p0"), pod("p1", json!({}))], vec![pod("p1", json!({}))]] {
        let decision = decide_reported(
            &node,
            &sorted(&pods, &[allowing(0)], EvictionRules::default()),
            drain::SLOW_RETRY_DELAY,
            None,
        );
        assert_eq!(decision.report.blocker.as_deref(), Some("PDB shop/db (pod p1)"));
    }
    // Nor is waited for what never changes by itself.
    let never = budget("db", json!({"maxUnavailable": 0}), json!({"disruptionsAllowed": 0}));
    let decision =
        decide_reported(&node, &sorted(&[pod("p", json!({}))], &[never], EvictionRules::default()), ZERO_DELAY, None);
    assert_eq!(warnings(&decision).len(), 1);
}

#[test]
fn drain_that_hangs_on_a_pod_that_does_not_end_names_it_and_since_when() {
    let due = NOW - drain::OVERDUE_DELAY;
    let stuck = pod("p", json!({"metadata": {"deletionTimestamp": due.to_string()}}));
    let found = sorted(&[stuck], &[], EvictionRules::default());
    let node = cordoned(asks("drain-1"));
    let decision = decide_reported(&node, &found, ZERO_DELAY, None);
    let text = format!("pod shop/p, which should have terminated at {due}");
    assert_eq!(
        (decision.report.progress.clone(), decision.report.blocker.as_deref()),
        (DrainProgress::Draining, Some(text.as_str()))
    );
    assert_eq!(warnings(&decision), [(true, "DrainBlocked", format!("The node cannot be drained: {text}"))]);
    let progress = blocked(&text);
    let view = NodeView::of(&node, Some(&progress));
    let earlier = NOW - SignedDuration::from_secs(1);
    let inputs = drain::DrainInputs { node: &view, evictions: &found, since: None, moved: None, now: earlier };
    let decision = drain::decide(&inputs).unwrap();
    assert_eq!(decision.report.blocker, None, "it may still be ending");
}

#[rstest]
#[case(0, 1, false)]
#[case(10, 1, false)]
#[case(11, 5, false)]
#[case(59, 5, false)]
#[case(60, 5, true)]
fn retries_slow_down_and_an_alert_is_raised_after_an_hour(
    #[case] minutes: i64,
    #[case] retry: i64,
    #[case] is_alarming: bool,
) {
    let blocked = sorted(&[pod("p", json!({}))], &[allowing(0)], EvictionRules::default());
    let decision = decide(&asks("drain-1"), &blocked, SignedDuration::from_mins(minutes));
    assert_eq!(decision.recheck, Duration::try_from(SignedDuration::from_mins(retry)).ok());
    assert_eq!(decision.report.is_alarming, is_alarming);
    let events = warnings(&decision);
    assert_eq!(events.len(), usize::from(is_alarming));
    if let [(_, reason, message)] = &events[..] {
        assert_eq!(*reason, "DrainFailed");
        assert_eq!(message, "The node could not be drained for over 1 h: PDB shop/db (pod p)");
    }
}

#[test]
fn row_d42_our_cordon_is_lifted_together_with_the_answer() {
    let mut node = cordoned(asks("uncordon-1"));
    annotate(&mut node, CORDONED_FOR, "drain-1");
    let decision = decide(&node, &Evictions::default(), ZERO_DELAY);
    let answer = json!({annotation::LAST_APPLIED_DRAIN.as_str(): "uncordon-1", CORDONED_FOR.as_str(): null});
    let expected = json!({"metadata": {"annotations": answer}, "spec": {"unschedulable": null}});
    assert_eq!((decision.report.progress.clone(), patch(&decision)), (DrainProgress::Done, Some(expected)));
}

#[test]
fn our_cordon_is_lifted_for_a_request_that_was_the_last_one_before_it() {
    let mut node = cordoned(asks("uncordon-1"));
    annotate(&mut node, annotation::LAST_APPLIED_DRAIN, "uncordon-1");
    assert_eq!(
        decide(&node, &Evictions::default(), ZERO_DELAY).report.progress,
        DrainProgress::Idle,
        "another client cordoned it"
    );
    annotate(&mut node, CORDONED_FOR, "drain-2");
    let decision = decide(&node, &Evictions::default(), ZERO_DELAY);
    let lifted = patch(&decision).unwrap();
    assert_eq!(lifted["spec"], json!({"unschedulable": null}));
    assert_eq!(lifted["metadata"]["annotations"][CORDONED_FOR.as_str()], Value::Null);
}

#[test]
fn a_cordon_that_is_not_ours_is_never_lifted() {
    let decision = decide(&cordoned(asks("uncordon-1")), &Evictions::default(), ZERO_DELAY);
    let answer = json!({annotation::LAST_APPLIED_DRAIN.as_str(): "uncordon-1"});
    assert_eq!(patch(&decision), Some(json!({"metadata": {"annotations": answer}})));
    // Nor made ours by a drain that found it.
    let decision = decide(&cordoned(asks("drain-1")), &Evictions::default(), ZERO_DELAY);
    assert_eq!(patch(&decision).unwrap()["metadata"]["annotations"][CORDONED_FOR.as_str()], Value::Null);
}

#[test]
fn completed_request_is_ignored_and_an_invalid_one_is_refused() {
    let mut node = asks("drain-1");
    annotate(&mut node, annotation::LAST_APPLIED_DRAIN, "drain-1");
    assert_eq!(decide(&node, &Evictions::default(), ZERO_DELAY).report.progress, DrainProgress::Idle);
    for text in ["flood-1", "drain", "-1"] {
        let error = drain::request(&NodeView::of(&asks(text), None)).unwrap_err();
        assert!(error.to_string().starts_with("Node w1: annotation "), "{error}");
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
}
