//! Garbage collection: which rendered MachineConfigs are deleted, and which stay.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{annotate, node, pool};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rendering::garbage::{GarbageInputs, GarbageVerdicts, RetentionLimits, decide};
use serde_json::json;

/// Rendered MachineConfigs `rendered-worker-00`, … made one hour after the other, of which nothing is protected.
fn rendered(pool: &str, count: usize) -> Vec<MachineConfig> {
    let one = |nth: usize| {
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {
                "name": format!("rendered-{pool}-{nth:02}"),
                "creationTimestamp": Timestamp::from_second(nth as i64 * 3600).unwrap().to_string(),
                "ownerReferences": [{"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "name": pool, "uid": "u"}],
            },
        }))
        .unwrap()
    };
    (0..count).map(one).collect()
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn inputs<'a>(machine_configs: &'a [&'a MachineConfig]) -> GarbageInputs<'a> {
    GarbageInputs {
        machine_configs,
        nodes: &[],
        progress: &[],
        pools: &[],
        also_used: &[],
        limits: RetentionLimits { max_kept: 2, ..RetentionLimits::default() },
        now: now(),
    }
}

#[test]
fn the_newest_of_each_pool_stay_and_older_ones_go() {
    let (workers, infras) = (rendered("worker", 4), rendered("infra", 3));
    let all: Vec<&MachineConfig> = workers.iter().chain(&infras).collect();
    let decision = decide(&inputs(&all));
    assert_eq!(decision.delete, ["rendered-infra-00", "rendered-worker-00", "rendered-worker-01"]);
    assert_eq!(
        RetentionLimits::default(),
        RetentionLimits { max_kept: 10, grace_period: SignedDuration::from_hours(1) }
    );
}

#[test]
fn what_a_node_a_pool_or_a_build_names_stays_and_is_protected() {
    let workers = rendered("worker", 12);
    let all: Vec<&MachineConfig> = workers.iter().collect();
    let name = |nth: usize| format!("rendered-worker-{nth:02}");
    let mut ordered = node("n0", &format!("{}/{}R", name(0), name(1)));
    annotate(&mut ordered, annotation::FIRST_PIVOT_CONFIG, &name(2));
    let nodes = [NodeView::of(&ordered, None)];
    let mut targeting = pool("worker", &name(3), json!({}));
    targeting.status = Some(serde_json::from_value(json!({"configuration": {"name": name(4)}})).unwrap());
    let pools = [PoolView::of(&targeting)];
    let progress: MachineConfigNode = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": "n1"},
        "spec": {"node": {"name": "n1"}, "pool": {"name": "worker"}, "configVersion": {"desired": name(5)}},
        "status": {"configVersion": {"current": name(6), "desired": "not-yet-set"}},
    }))
    .unwrap();
    let progress = [&progress];
    let build = name(7);
    let also_used = [build.as_str()];
    let inputs =
        GarbageInputs { nodes: &nodes, pools: &pools, progress: &progress, also_used: &also_used, ..inputs(&all) };
    let decision = decide(&inputs);
    // Ten and eleven are the newest two.
    assert_eq!(decision.delete, [name(8), name(9)]);
    assert_eq!(decision.protect, (0..8).map(name).collect::<Vec<_>>());
}

#[test]
fn one_that_was_just_made_is_given_its_time() {
    let workers = rendered("worker", 3);
    let all: Vec<&MachineConfig> = workers.iter().collect();
    let at = |second: i64| GarbageInputs { now: Timestamp::from_second(second).unwrap(), ..inputs(&all) };
    let decision = decide(&at(3599));
    assert_eq!((decision.delete.len(), decision.recheck), (0, Some(SignedDuration::from_secs(1))));
    let decision = decide(&at(3600));
    assert_eq!((decision.delete, decision.recheck), (vec!["rendered-worker-00"], None));
}

#[test]
fn unneeded_finalizer_is_removed_and_an_existing_one_is_not_added_again() {
    let mut workers = rendered("worker", 2);
    for object in &mut workers {
        object.metadata.finalizers = Some(vec!["seaworthy.dev/in-use".to_owned()]);
    }
    let all: Vec<&MachineConfig> = workers.iter().collect();
    let also_used = ["rendered-worker-01"];
    let decision = decide(&GarbageInputs { also_used: &also_used, ..inputs(&all) });
    assert_eq!(decision, GarbageVerdicts { release: vec!["rendered-worker-00"], ..GarbageVerdicts::default() });
}

#[test]
fn what_is_not_rendered_is_left_alone() {
    let mut objects = rendered("worker", 5);
    for (nth, object) in objects.iter_mut().enumerate() {
        object.metadata.name = Some(format!("99-worker-{nth}"));
    }
    let all: Vec<&MachineConfig> = objects.iter().collect();
    assert_eq!(decide(&inputs(&all)), GarbageVerdicts::default());
}

#[test]
fn what_was_targeted_lately_stays_however_old_it_is() {
    let workers = rendered("worker", 4);
    let all: Vec<&MachineConfig> = workers.iter().collect();
    let mut pool = pool("worker", "rendered-worker-03", json!({}));
    let turn = seaworthy_plan::history::target_history::TargetHistory::default().next(
        "rendered-worker-00",
        None,
        Timestamp::from_second(900_000).unwrap(),
    );
    pool.metadata.annotations.get_or_insert_default().insert("seaworthy.dev/turns".to_owned(), turn);
    let pools = [PoolView::of(&pool)];
    let mut inputs = inputs(&all);
    inputs.pools = &pools;
    assert_eq!(decide(&inputs).delete, ["rendered-worker-01"]);
}
