//! ContainerRuntimeConfigs: from an object to every node and back, and adoption of names of older releases.

use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig, MachineConfigPool};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_configs_with_names_of_older_releases_are_adopted_and_no_node_moves() {
    let mut fleet = Fleet::with_workers(2).await;
    let start = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let settings = |kind: &str, spec: serde_json::Value| {
        let label = "pools.operator.machineconfiguration.openshift.io/worker";
        let mut spec = spec;
        spec["machineConfigPoolSelector"] = json!({"matchLabels": {label: ""}});
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": "old"}, "spec": spec})
    };
    let limit = json!({"containerRuntimeConfig": {"pidsLimit": 2048}});
    fleet.create::<ContainerRuntimeConfig>(settings("ContainerRuntimeConfig", limit)).await;
    fleet.create::<KubeletConfig>(settings("KubeletConfig", json!({"kubeletConfig": {"maxPods": 100}}))).await;
    let kubelet = "99-worker-generated-kubelet";
    for name in [GENERATED, kubelet] {
        fleet.until(name, |found: Option<&MachineConfig>| found.is_some()).await;
    }
    let has_both = |pool: &MachineConfigPool| {
        let sources = pool.spec.configuration.iter().flat_map(|found| found.source.iter().flatten());
        let sources: Vec<&str> = sources.filter_map(|source| source.name.as_deref()).collect();
        [GENERATED, kubelet].iter().all(|name| sources.contains(name))
    };
    let pool = fleet.pool_is("worker", |pool| has_both(pool) && target(pool).is_some_and(|now| now != start)).await;
    let both = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &both)).await;

    // As an older release would have left it, which had the rights of this one.
    fleet.stop().await;
    let theirs: Api<MachineConfig> = Api::all(fleet.acting());
    let by_uid = format!("99-worker-{}-kubelet", pool.uid().unwrap());
    for (name, legacy) in [(GENERATED, "99-worker-containerruntime-managed"), (kubelet, by_uid.as_str())] {
        let mut object: MachineConfig = fleet.get(name).await;
        object.metadata = kube::core::ObjectMeta {
            name: Some(legacy.to_owned()),
            labels: object.metadata.labels,
            annotations: object.metadata.annotations,
            owner_references: object.metadata.owner_references,
            ..Default::default()
        };
        // The policy lets only controllers write such objects.
        let older = PostParams { field_manager: Some("seaworthy-older".to_owned()), ..PostParams::default() };
        theirs.create(&older, &object).await.unwrap();
        theirs.delete(name, &Default::default()).await.unwrap();
        let finalizers = json!({"metadata": {"finalizers": [legacy]}});
        match name {
            GENERATED => drop(fleet.patch::<ContainerRuntimeConfig>("old", finalizers).await),
            _ => drop(fleet.patch::<KubeletConfig>("old", finalizers).await),
        }
    }
    let rendered = |names: Vec<String>| -> Vec<String> {
        names.into_iter().filter(|name| name.starts_with("rendered-worker-")).collect()
    };
    let known = rendered(fleet.machine_configs().await);

    fleet.restart().await;
    for name in [GENERATED, kubelet] {
        fleet.until(name, |found: Option<&MachineConfig>| found.is_some()).await;
    }
    for legacy in ["99-worker-containerruntime-managed", &by_uid] {
        fleet.until(legacy, |found: Option<&MachineConfig>| found.is_none()).await;
    }
    fleet.pool_is("worker", |pool| has_reached(pool, &both) && has_both(pool)).await;
    assert_eq!(rendered(fleet.machine_configs().await), known, "nothing else was rendered on the way");
    let names_generated = |finalizers: &[String]| finalizers.iter().any(|name| name.contains("generated"));
    fleet
        .until("old", |found: Option<&KubeletConfig>| found.is_some_and(|found| names_generated(found.finalizers())))
        .await;

    fleet.api::<ContainerRuntimeConfig>().delete("old", &Default::default()).await.unwrap();
    fleet.api::<KubeletConfig>().delete("old", &Default::default()).await.unwrap();
    fleet.until("old", |found: Option<&ContainerRuntimeConfig>| found.is_none()).await;
    fleet.until("old", |found: Option<&KubeletConfig>| found.is_none()).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &start)).await;
}
