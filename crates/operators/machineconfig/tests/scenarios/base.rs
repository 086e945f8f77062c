//! The base: generation, protection and restoration of the platform's objects.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use serde_json::json;

use crate::fleet::{Fleet, PROTECTION, condition, controller_config, file, is_true, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn platform_objects_are_protected_and_restored_and_follow_the_controller_config() {
    let fleet = Fleet::with_workers(1).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let theirs: Api<MachineConfig> = Api::all(fleet.cluster.client_as("alice", &["system:masters"]));
    let edit = json!({"spec": {"kernelArguments": ["edited"]}});

    // Denied, with what to do instead. The policy takes effect a moment after it was written.
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let denied = async |name: &str| fleet.denied(async || theirs.patch(name, &dry, &Patch::Merge(&edit)).await).await;
    let message = denied("00-worker").await;
    assert!(
        message.contains("MachineConfig 00-worker") && message.contains("create a MachineConfig of your own"),
        "{message}"
    );
    assert!(denied("01-worker-kubelet").await.contains("part of the platform"));
    assert!(denied(&before).await.contains("rendered from the MachineConfigs of its pool"));
    let refused = theirs.delete("01-worker-container-runtime", &Default::default()).await.unwrap_err();
    assert!(refused.to_string().contains("is managed by Seaworthy"), "{refused}");
    // Nor can the protection be removed first: the marks as generated, of the pool and of the owner stay.
    let foreign_owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b", "controller": true});
    for name in ["00-worker", before.as_str()] {
        let (mark, role) = (
            "machineconfiguration.openshift.io/generated-by-controller-version",
            "machineconfiguration.openshift.io/role",
        );
        for metadata in [
            json!({"annotations": {mark: null}}),
            json!({"annotations": {mark: ""}}),
            json!({"labels": {role: "master"}}),
            json!({"labels": {"machineconfiguration.openshift.io/more": "a"}}),
            json!({"ownerReferences": []}),
            json!({"ownerReferences": [foreign_owner]}),
        ] {
            let refused = theirs.patch(name, &dry, &Patch::Merge(json!({"metadata": metadata}))).await;
            let refused = refused.expect_err(&format!("{name}: {metadata}")).to_string();
            assert!(refused.contains("is managed by Seaworthy"), "{name}: {metadata}: {refused}");
        }
        let theirs_alone = json!({"metadata": {"annotations": {"note": "a"}, "labels": {"team": "a"}}});
        theirs.patch(name, &dry, &Patch::Merge(theirs_alone)).await.unwrap();
    }
    let unlabelled = json!({"metadata": {"labels": {"machineconfiguration.openshift.io/role": null}}});
    let refused = theirs.patch("00-worker", &dry, &Patch::Merge(unlabelled)).await.unwrap_err().to_string();
    assert!(refused.contains("is managed by Seaworthy"), "{refused}");
    // The controllers' own user is no exception, unless it writes with a controller's field manager.
    let acting: Api<MachineConfig> = Api::all(fleet.acting());
    for name in ["00-worker", before.as_str()] {
        let kubectl = PatchParams { dry_run: true, ..PatchParams::apply("kubectl-edit") };
        let refused = acting.patch(name, &kubectl, &Patch::Merge(&edit)).await.unwrap_err();
        assert!(refused.to_string().contains("is managed by Seaworthy"), "{refused}");
    }
    let refused = acting.delete("00-worker", &Default::default()).await.unwrap_err();
    assert!(refused.to_string().contains("it is part of the platform"), "{refused}");
    let own: MachineConfig = serde_json::from_value(file("50-own", "unused", "/etc/own", "a")).unwrap();
    theirs.create(&Default::default(), &own).await.unwrap();

    // Without the policy the write is made, and reverted. The policy is restored too, so it is deleted each time.
    let edits = PatchParams::apply("kubectl-edit");
    for name in ["00-worker", before.as_str()] {
        let spec = fleet.get::<MachineConfig>(name).await.spec;
        let edited = fleet.unprotected(async || theirs.patch(name, &edits, &Patch::Merge(&edit)).await).await;
        fleet.until(PROTECTION, |found: Option<&ValidatingAdmissionPolicyBinding>| found.is_some()).await;
        assert_eq!(edited.spec.kernel_arguments, Some(vec!["edited".to_owned()]));
        fleet.until(name, |found: Option<&MachineConfig>| found.is_some_and(|found| found.spec == spec)).await;
        let message = fleet.event_message("EditReverted", name).await;
        assert!(message.starts_with("edited by kubectl-edit; the edit was reverted: it is "), "{message}");
    }
    let kubelet: MachineConfig = fleet.get("01-worker-kubelet").await;
    fleet.unprotected(async || theirs.delete("01-worker-kubelet", &Default::default()).await).await;
    let is_back = |found: Option<&MachineConfig>| {
        found.is_some_and(|found| found.uid() != kubelet.uid() && found.spec == kubelet.spec)
    };
    fleet.until("01-worker-kubelet", is_back).await;
    assert!(
        fleet
            .event_message("EditReverted", "01-worker-kubelet")
            .await
            .starts_with("deleted and created again: it is part")
    );
    fleet.pool_is("worker", |pool| target(pool) == Some(&before)).await;
    // Nothing was rendered without what was deleted.
    for name in fleet.machine_configs().await.iter().filter(|name| name.starts_with("rendered-worker-")) {
        let rendered: MachineConfig = fleet.get(name).await;
        let sources = &rendered.annotations()["seaworthy.dev/sources"];
        assert!(sources.contains("01-worker-kubelet"), "{name}: {sources}");
    }

    // A change of the ControllerConfig is a new base, and so a new target.
    fleet.patch::<ControllerConfig>("machine-config-controller", json!({"spec": {"clusterDNSIP": "10.96.0.99"}})).await;
    fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    fleet.patch::<ControllerConfig>("machine-config-controller", json!({"spec": {"clusterDNSIP": "10.96.0.10"}})).await;
    fleet.pool_is("worker", |pool| target(pool) == Some(&before)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_config_of_a_user_is_never_overwritten_and_the_event_names_the_fix() {
    let fleet = Fleet::start().await;
    let own = fleet.create::<MachineConfig>(file("00-worker", "worker", "/etc/own", "precious")).await;
    fleet.create::<ControllerConfig>(controller_config()).await;
    let message = fleet.event_message("NameTaken", "00-worker").await;
    assert!(message.contains("kubectl delete mc 00-worker"), "{message}");
    let pool = fleet.pool_is("worker", |pool| is_true(pool, "RenderDegraded")).await;
    let message = condition(&pool, "RenderDegraded").and_then(|found| found.message.clone()).unwrap();
    assert!(message.contains("MachineConfig 00-worker was not generated by the controllers"), "{message}");
    let found: MachineConfig = fleet.get("00-worker").await;
    assert_eq!((found.uid(), found.spec), (own.uid(), own.spec));

    // Saved under another name and deleted, it takes effect, and the platform can use the name.
    fleet.create::<MachineConfig>(file("50-own", "worker", "/etc/own", "precious")).await;
    fleet.api::<MachineConfig>().delete("00-worker", &Default::default()).await.unwrap();
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some() && !is_true(pool, "RenderDegraded")).await;
    let sources = pool.spec.configuration.iter().flat_map(|found| found.source.iter().flatten());
    let sources: Vec<&str> = sources.filter_map(|source| source.name.as_deref()).collect();
    assert!(sources.contains(&"00-worker") && sources.contains(&"50-own"), "{sources:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_of_the_controller_config_is_denied_and_without_it_nodes_keep_their_base() {
    let fleet = Fleet::with_workers(1).await;
    let name = "machine-config-controller";
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let theirs: Api<ControllerConfig> = Api::all(fleet.cluster.client_as("alice", &["system:masters"]));
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let message = fleet.denied(async || theirs.delete(name, &dry).await).await;
    assert!(message.contains("kubectl edit controllerconfig machine-config-controller"), "{message}");
    assert!(message.contains("To uninstall"), "{message}");

    // Without the policy it is deleted, and the base with it. No pool is rendered without a base.
    fleet.unprotected(async || theirs.delete(name, &DeleteParams::default()).await).await;
    for pool in ["master", "worker"] {
        let is_reported = |pool: &MachineConfigPool| {
            condition(pool, "RenderDegraded").and_then(|found| found.reason.as_deref())
                == Some("ControllerConfigMissing")
        };
        let pool = fleet.pool_is(pool, is_reported).await;
        let message = condition(&pool, "RenderDegraded").and_then(|found| found.message.clone()).unwrap();
        assert!(message.contains(name) && message.contains("kubectl apply"), "{message}");
    }
    fleet.create::<MachineConfig>(file("50-own", "worker", "/etc/own", "a")).await;
    // As the garbage collector would, which not every server has.
    for gone in ["00-worker", "01-worker-kubelet"] {
        let _ = fleet.api::<MachineConfig>().delete(gone, &Default::default()).await;
    }

    // Created again, everything is as before, and changes that were made meanwhile take effect.
    fleet.create::<ControllerConfig>(controller_config()).await;
    let is_well = |pool: &MachineConfigPool| is_true(pool, "Updated") && !is_true(pool, "RenderDegraded");
    fleet.pool_is("worker", |pool| target(pool) != Some(&before) && is_well(pool)).await;
    fleet.pool_is("master", is_well).await;
    for name in fleet.machine_configs().await.iter().filter(|name| name.starts_with("rendered-")) {
        let rendered: MachineConfig = fleet.get(name).await;
        let sources = &rendered.annotations()["seaworthy.dev/sources"];
        assert!(sources.contains("-kubelet"), "{name}: {sources}");
    }
}
