//! The source document's example, start to end.

use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, MachineConfig, MachineConfigPool};
use serde_json::json;

use crate::fleet::{Fleet, has_reached, target};

const GENERATED: &str = "99-worker-generated-containerruntime";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_pids_limit_reaches_every_worker_and_its_deletion_restores_the_default() {
    let fleet = Fleet::with_workers(3).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet
        .create::<ContainerRuntimeConfig>(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "ContainerRuntimeConfig",
            "metadata": {"name": "set-pids-limit"},
            "spec": {
                "machineConfigPoolSelector": {"matchLabels": {"custom-crio": "high-pid-limit"}},
                "containerRuntimeConfig": {"pidsLimit": 2048},
            },
        }))
        .await;
    let refused = |object: Option<&ContainerRuntimeConfig>| {
        object.and_then(|object| object.status.as_ref()?.observed_generation).is_some()
    };
    fleet.until("set-pids-limit", refused).await;
    assert!(!fleet.machine_configs().await.contains(&GENERATED.to_owned()), "no pool has the label yet");

    fleet
        .patch::<MachineConfigPool>("worker", json!({"metadata": {"labels": {"custom-crio": "high-pid-limit"}}}))
        .await;
    let made = fleet.until(GENERATED, |found: Option<&MachineConfig>| found.is_some()).await.unwrap();
    let files = &made.spec.config.as_ref().unwrap()["storage"]["files"];
    assert_eq!(files[0]["path"], "/etc/crio/crio.conf.d/01-ctrcfg-pidsLimit");
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let after = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;

    fleet.api::<ContainerRuntimeConfig>().delete("set-pids-limit", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
    assert!(!fleet.machine_configs().await.contains(&GENERATED.to_owned()));
}
