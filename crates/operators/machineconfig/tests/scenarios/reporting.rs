//! Reporting: Events, conditions and metrics of completed updates and of mistakes, and their removal with their objects.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use serde_json::{Value, json};

use crate::fleet::{Fleet, WAIT_TIMEOUT, condition, file, has_reached, is_true, progress, target};

/// Waits until the page of metrics fulfils `is`.
async fn metrics_become(fleet: &Fleet, is: impl Fn(&str) -> bool) {
    let shown = async {
        loop {
            let page = fleet.metrics.encode().unwrap();
            if is(&page) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(WAIT_TIMEOUT, shown).await;
    assert!(in_time.is_ok(), "{}", fleet.metrics.encode().unwrap());
}

/// Waits until the messages of all events with a reason fulfil `is`.
async fn events_become(fleet: &Fleet, reason: &str, is: impl Fn(&[String]) -> bool) {
    let notes = async || -> Vec<String> {
        let all = fleet.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let found = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        found.filter_map(|event| event.note).collect()
    };
    let fulfilled = async {
        while !is(&notes().await) {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(WAIT_TIMEOUT, fulfilled).await;
    assert!(in_time.is_ok(), "{:?}", notes().await);
}

fn infra(selector: Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "infra"},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
            "nodeSelector": selector,
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_completed_update_has_an_event_however_soon_the_next_follows() {
    let fleet = Fleet::with_workers(1).await;
    let mut reached = Vec::new();
    for (name, text) in [("50-a", "a"), ("60-b", "b")] {
        let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
        fleet.create::<MachineConfig>(file(name, "worker", &format!("/etc/{name}"), text)).await;
        let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
        let config = target(&pool).unwrap().to_owned();
        fleet.pool_is("worker", |pool| has_reached(pool, &config)).await;
        reached.push(format!("Pool worker has completed update to {config}"));
    }
    events_become(&fleet, "Completed", |notes| reached.iter().all(|sentence| notes.contains(sentence))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selector_that_selects_everything_or_is_invalid_is_reported() {
    let fleet = Fleet::with_workers(1).await;
    fleet.create::<MachineConfigPool>(infra(json!({}))).await;
    events_become(&fleet, "SelectorMatchesAll", |notes| {
        notes.iter().any(|note| note.contains("nodeSelector is empty"))
    })
    .await;

    let selector = json!({"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]});
    fleet.patch::<MachineConfigPool>("infra", json!({"spec": {"nodeSelector": selector}})).await;
    let pool = fleet.pool_is("infra", |pool| is_true(pool, "Degraded")).await;
    let degraded = condition(&pool, "Degraded").unwrap();
    assert_eq!(degraded.reason.as_deref(), Some("InvalidNodeSelector"));
    assert!(degraded.message.as_deref().unwrap().contains("key \"zone\": operator \"Near\""), "{degraded:?}");
    assert!(!is_true(&pool, "Updated"));

    let selector = json!({"matchExpressions": null, "matchLabels": {"node-role.kubernetes.io/infra": ""}});
    fleet.patch::<MachineConfigPool>("infra", json!({"spec": {"nodeSelector": selector}})).await;
    fleet.pool_is("infra", |pool| is_true(pool, "Updated") && !is_true(pool, "Degraded")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_and_objects_of_deleted_pools_and_nodes_are_removed() {
    let fleet = Fleet::with_workers(2).await;
    let selector = json!({"matchLabels": {"node-role.kubernetes.io/infra": ""}});
    fleet.create::<MachineConfigPool>(infra(selector)).await;
    metrics_become(&fleet, |page| page.contains("mco_machine_count{pool=\"infra\"} 0\n")).await;
    metrics_become(&fleet, |page| page.contains("mco_state{node=\"w1\",pool=\"worker\"")).await;

    // A control-plane node that the pool selects without effect.
    let label = |value: Value| json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": value}}});
    fleet.patch::<Node>("m0", label(json!(""))).await;
    metrics_become(&fleet, |page| page.contains("mcc_pool_alert{node=\"m0\"} 1\n")).await;
    fleet.patch::<Node>("m0", label(json!(null))).await;
    metrics_become(&fleet, |page| !page.contains("mcc_pool_alert{")).await;

    fleet.api::<MachineConfigPool>().delete("infra", &DeleteParams::default()).await.unwrap();
    metrics_become(&fleet, |page| !page.contains("pool=\"infra\"")).await;
    fleet.api::<Node>().delete("w1", &DeleteParams::default()).await.unwrap();
    metrics_become(&fleet, |page| !page.contains("node=\"w1\"")).await;
    fleet.until("w1", |found: Option<&MachineConfigNode>| found.is_none()).await;

    // A MachineConfigNode without a Node.
    let orphan = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
        "metadata": {"name": "w9"},
        "spec": {"node": {"name": "w9"}, "pool": {"name": "worker"}, "configVersion": {"desired": "not-yet-set"}},
    });
    fleet.create::<MachineConfigNode>(orphan).await;
    fleet.until("w9", |found: Option<&MachineConfigNode>| found.is_none()).await;
    fleet.get::<MachineConfigNode>("w0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_other_field_managers_are_kept() {
    let fleet = Fleet::with_workers(1).await;
    let theirs = |status: Value| {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
            "metadata": {"name": "w0"}, "status": status,
        });
        let (api, params) = (fleet.api::<MachineConfigNode>(), PatchParams::apply("other"));
        async move { api.patch_status("w0", &params, &Patch::Apply(&object)).await.unwrap() }
    };
    let audited = json!({"type": "example.org/Audited", "status": "True", "reason": "Audited", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let images = json!([{"name": "set", "desiredGeneration": 1}]);
    theirs(json!({"conditions": [audited], "pinnedImageSets": images})).await;

    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-a", "worker", "/etc/a", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let config = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &config)).await;
    let runs = |found: Option<&MachineConfigNode>| {
        let version = found.and_then(|found| found.status.as_ref()?.config_version.as_ref()?.current.as_deref());
        version == Some(config.as_str())
    };
    let found = fleet.until("w0", runs).await.unwrap();
    assert!(progress(Some(&found), "example.org/Audited").is_some());
    assert_eq!(found.status.unwrap().pinned_image_sets.unwrap().len(), 1);

    // Not even co-owned: what they remove is removed.
    let found = theirs(json!({"conditions": []})).await;
    assert!(progress(Some(&found), "example.org/Audited").is_none());
    assert!(progress(Some(&found), "Updated").is_some());
    assert_eq!(found.status.unwrap().pinned_image_sets.unwrap_or_default(), []);
}
