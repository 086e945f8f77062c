//! From MachineConfigs to a pool's target.

use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use serde_json::json;

use crate::fleet::{Fleet, condition, file, has_reached, is_true, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_machine_config_keeps_the_last_good_target_and_is_named() {
    let fleet = Fleet::with_workers(1).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-relative", "worker", "etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| is_true(pool, "RenderDegraded") && is_true(pool, "Degraded")).await;
    assert_eq!(target(&pool), Some(before.as_str()));
    let said = condition(&pool, "RenderDegraded").unwrap();
    assert_eq!(said.reason.as_deref(), Some("InvalidMachineConfig"));
    let message = said.message.as_deref().unwrap();
    assert!(message.contains("50-relative") && message.contains("etc/motd"), "{message}");

    fleet.api::<MachineConfig>().delete("50-relative", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| !is_true(pool, "RenderDegraded") && !is_true(pool, "Degraded")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn label_alone_brings_a_machine_config_in_and_out() {
    let fleet = Fleet::with_workers(1).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-motd", "nobody", "/etc/motd", "a")).await;
    let role = |role: &str| json!({"metadata": {"labels": {"machineconfiguration.openshift.io/role": role}}});
    fleet.patch::<MachineConfig>("50-motd", role("worker")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let sources = pool.spec.configuration.as_ref().unwrap().source.as_ref().unwrap();
    assert!(sources.iter().any(|source| source.name.as_deref() == Some("50-motd")));
    let after = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
    fleet.patch::<MachineConfig>("50-motd", role("nobody")).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
}
