//! Rendering: from MachineConfigs to a pool's target.

use std::time::Duration;

use kube::Api;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use serde_json::json;

use crate::fleet::{Fleet, condition, file, has_reached, is_true, target};

/// Longer than any wait takes unless something is wrong.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_machine_config_keeps_the_last_good_target_and_is_named() {
    let fleet = Fleet::with_workers(1).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-relative", "worker", "etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| is_true(pool, "RenderDegraded") && is_true(pool, "Degraded")).await;
    assert_eq!(target(&pool), Some(before.as_str()));
    let degraded = condition(&pool, "RenderDegraded").unwrap();
    assert_eq!(degraded.reason.as_deref(), Some("InvalidMachineConfig"));
    let message = degraded.message.as_deref().unwrap();
    assert!(message.contains("50-relative") && message.contains("etc/motd"), "{message}");

    fleet.api::<MachineConfig>().delete("50-relative", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| !is_true(pool, "RenderDegraded") && !is_true(pool, "Degraded")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_of_a_label_adds_and_removes_a_machine_config() {
    let fleet = Fleet::with_workers(1).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-motd", "unused", "/etc/motd", "a")).await;
    let role = |role: &str| json!({"metadata": {"labels": {"machineconfiguration.openshift.io/role": role}}});
    fleet.patch::<MachineConfig>("50-motd", role("worker")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let sources = pool.spec.configuration.as_ref().unwrap().source.as_ref().unwrap();
    assert!(sources.iter().any(|source| source.name.as_deref() == Some("50-motd")));
    let after = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
    fleet.patch::<MachineConfig>("50-motd", role("unused")).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn irreconcilable_and_too_large_configs_are_refused_by_name_and_old_results_are_deleted() {
    let fleet = Fleet::with_workers(1).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let refused = async |name: &str, reason: &str, kept: &str| {
        let is_refused = |pool: &MachineConfigPool| {
            condition(pool, "RenderDegraded").is_some_and(|found| found.reason.as_deref() == Some(reason))
        };
        let pool = fleet.pool_is("worker", is_refused).await;
        let message = condition(&pool, "RenderDegraded").unwrap().message.clone().unwrap();
        assert!(message.contains(name), "{message}");
        assert_eq!(target(&pool), Some(kept));
        fleet.api::<MachineConfig>().delete(name, &Default::default()).await.unwrap();
        fleet.pool_is("worker", |pool| !is_true(pool, "RenderDegraded")).await;
    };
    let mut disks = file("50-disks", "worker", "/etc/motd", "a");
    disks["spec"]["config"]["storage"] = json!({"disks": [{"device": "/dev/vda", "wipeTable": true}]});
    fleet.create::<MachineConfig>(disks).await;
    refused("50-disks", "Irreconcilable", &before).await;

    // Each is small enough to be written, both together are not.
    let half = |name: &str| file(name, "worker", &format!("/etc/{name}"), &"a".repeat(900 << 10));
    fleet.create::<MachineConfig>(half("50-half")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    fleet.create::<MachineConfig>(half("51-half")).await;
    refused("51-half", "TooLarge", target(&pool).unwrap()).await;
    fleet.api::<MachineConfig>().delete("50-half", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;

    // Unused results are deleted after a while, except for the newest; those in use cannot be deleted.
    let mut last = before.clone();
    for nth in 0..13 {
        if nth == 0 {
            fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "0")).await;
        } else {
            let spec = file("50-motd", "worker", "/etc/motd", &nth.to_string())["spec"].clone();
            fleet.patch::<MachineConfig>("50-motd", json!({"spec": spec})).await;
        }
        let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != last)).await;
        last = target(&pool).unwrap().to_owned();
    }
    fleet.pool_is("worker", |pool| has_reached(pool, &last)).await;
    fleet.ahead.store(3 * 60 * 60, std::sync::atomic::Ordering::Relaxed);
    // Any change triggers the garbage controller.
    fleet.patch::<MachineConfig>(&last, json!({"metadata": {"annotations": {"looked": "at"}}})).await;
    let few = async {
        let is_result = |name: &&String| name.starts_with("rendered-worker-");
        // Ten to roll back to, and the one in use.
        while fleet.machine_configs().await.iter().filter(is_result).count() > 11 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, few).await.unwrap();
    // What is in use is kept, for any user: by the policy, and without it by the controllers' finalizer.
    let theirs: Api<MachineConfig> = Api::all(fleet.acting());
    let refused = theirs.delete(&last, &Default::default()).await.unwrap_err().to_string();
    assert!(refused.contains("is in use: pool worker targets it"), "{refused}");
    fleet.unprotected(async || theirs.delete(&last, &Default::default()).await).await;
    let found: MachineConfig = fleet.get(&last).await;
    assert!(found.metadata.deletion_timestamp.is_some(), "a finalizer keeps what nodes run");
    let message = fleet.event_message("DeletionBlocked", &last).await;
    assert!(message.contains("pool worker targets it; needed on w0"), "{message}");
}
