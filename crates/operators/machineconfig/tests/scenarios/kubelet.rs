//! KubeletConfigs: from an object to MachineConfigs, and removal of both.

use seaworthy_api::machineconfiguration::{KubeletConfig, MachineConfig, MachineConfigPool};
use serde_json::{Value, json};

use crate::fleet::{Fleet, has_reached, target};

fn kubelet_config(name: &str, label: &str, settings: Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "KubeletConfig",
        "metadata": {"name": name},
        "spec": {"machineConfigPoolSelector": {"matchLabels": {label: ""}}, "kubeletConfig": settings},
    })
}

fn last(object: Option<&KubeletConfig>) -> Option<(String, String)> {
    let condition = object?.status.as_ref()?.conditions.as_ref()?.last()?;
    Some((condition.type_.clone()?, condition.message.clone().unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelet_configs_add_up_and_leave_nothing_behind() {
    let fleet = Fleet::with_workers(2).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.patch::<MachineConfigPool>("worker", json!({"metadata": {"labels": {"tuned": ""}}})).await;
    fleet.create::<KubeletConfig>(kubelet_config("first", "tuned", json!({"maxPods": 100}))).await;
    let made = |found: Option<&MachineConfig>| found.is_some();
    fleet.until("99-worker-generated-kubelet", made).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let one = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &one)).await;

    fleet.create::<KubeletConfig>(kubelet_config("second", "tuned", json!({"podPidsLimit": 4096}))).await;
    fleet.until("99-worker-generated-kubelet-1", made).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != one)).await;
    let two = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &two)).await;

    fleet.api::<KubeletConfig>().delete("second", &Default::default()).await.unwrap();
    fleet.until("99-worker-generated-kubelet-1", |found: Option<&MachineConfig>| found.is_none()).await;
    fleet.until("second", |found: Option<&KubeletConfig>| found.is_none()).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &one)).await;
    fleet.api::<KubeletConfig>().delete("first", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
    let left = fleet.machine_configs().await;
    assert!(!left.iter().any(|name| name.contains("generated-kubelet")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_labelled_later_is_served_beside_one_without_a_base_and_platform_settings_are_refused() {
    let fleet = Fleet::with_workers(1).await;
    // A pool without a base: it has no kubelet configuration to add to.
    let bare = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "bare", "labels": {"tuned": ""}},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "bare"}},
            "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/bare": ""}},
        },
    });
    fleet.create::<MachineConfigPool>(bare).await;
    fleet.create::<KubeletConfig>(kubelet_config("limits", "tuned", json!({"maxPods": 100}))).await;
    fleet.until("limits", |found: Option<&KubeletConfig>| last(found).is_some()).await;
    // Labelled later, and served at once.
    fleet.patch::<MachineConfigPool>("worker", json!({"metadata": {"labels": {"tuned": ""}}})).await;
    fleet.until("99-worker-generated-kubelet", |found: Option<&MachineConfig>| found.is_some()).await;

    // Settings that no kubelet starts with are refused with an event.
    fleet.create::<KubeletConfig>(kubelet_config("high", "tuned", json!({"imageGCHighThresholdPercent": 101}))).await;
    let is_refused = |found: Option<&KubeletConfig>| last(found).is_some_and(|(type_, _)| type_ == "Failure");
    let refused = fleet.until("high", is_refused).await.unwrap().status.unwrap().conditions.unwrap().pop().unwrap();
    let message = fleet.event_message(refused.reason.as_deref().unwrap(), "high").await;
    assert!(message.contains("imageGCHighThresholdPercent"), "{message}");

    // A field that only the platform sets is refused on writing.
    let refused = kubelet_config("wrong", "tuned", json!({"clusterDNS": ["10.0.0.1"]}));
    let refused: KubeletConfig = serde_json::from_value(refused).unwrap();
    let error = fleet.api::<KubeletConfig>().create(&Default::default(), &refused).await.unwrap_err();
    assert!(error.to_string().contains("clusterDNS"), "{error}");
}
