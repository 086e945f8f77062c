//! Rights: what each component must not be able to do. That it can do its work is tested by the other scenarios.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_deploy::Component;
use seaworthy_runtime::NAMESPACE;
use serde_json::json;

use crate::fleet::{Fleet, file};

/// The refusal of the API server.
fn refusal<T: Debug>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => status.message,
        other => panic!("this must be refused: {other:?}"),
    }
}

fn labelled() -> Patch<serde_json::Value> {
    Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}))
}

fn account(fleet: &Fleet, component: Component) -> Client {
    let user = component.user(NAMESPACE).unwrap();
    fleet.cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])
}

fn machine(fleet: &Fleet, node: &str) -> Client {
    fleet.cluster.client_as(&format!("system:node:{node}"), &["system:nodes", "system:authenticated"])
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_have_no_other_rights() {
    let fleet = Fleet::with_workers(1).await;
    let client = account(&fleet, Component::Controllers);
    let (params, deletion) = (PatchParams::default(), DeleteParams::default());
    refusal(Api::<Node>::all(client.clone()).delete("w0", &deletion).await);
    // The policy would refuse it too, so the message is checked.
    let message = refusal(Api::<MachineConfigPool>::all(client.clone()).delete("worker", &deletion).await);
    assert!(message.contains("cannot delete resource"), "{message}");
    let definition = "machineconfigs.machineconfiguration.openshift.io";
    refusal(Api::<CustomResourceDefinition>::all(client.clone()).patch(definition, &params, &labelled()).await);
    let role = Component::Controllers.name();
    refusal(Api::<ClusterRole>::all(client.clone()).patch(role, &params, &labelled()).await);
    refusal(Api::<Secret>::namespaced(client.clone(), "kube-system").list(&ListParams::default()).await);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    refusal(Api::<Pod>::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &pod).await);
    refusal(Api::<Pod>::namespaced(client, NAMESPACE).delete("p", &deletion).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_writes_nothing_and_reads_no_other_secrets() {
    let fleet = Fleet::with_workers(1).await;
    let client = account(&fleet, Component::Server);
    let params = PatchParams::default();
    Api::<MachineConfigPool>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    Api::<Secret>::namespaced(client.clone(), "kube-system").list(&ListParams::default()).await.unwrap();
    refusal(Api::<Secret>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await);
    refusal(Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await);
    refusal(Api::<Node>::all(client.clone()).list(&ListParams::default()).await);
    refusal(Api::<MachineConfigPool>::all(client.clone()).patch("worker", &params, &labelled()).await);
    refusal(Api::<MachineConfig>::all(client).patch("00-worker", &params, &labelled()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_component_writes_events_to_other_namespaces() {
    let fleet = Fleet::with_workers(1).await;
    let event = |namespace: &str| -> Event {
        serde_json::from_value(json!({
            "metadata": {"name": "e", "namespace": namespace}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "action": "a", "reason": "r", "type": "Normal", "reportingController": "c", "reportingInstance": "i",
            "regarding": {"kind": "Namespace", "name": "n", "namespace": namespace},
        }))
        .unwrap()
    };
    let (controllers, server) = (account(&fleet, Component::Controllers), account(&fleet, Component::Server));
    for client in [controllers, server, machine(&fleet, "w0")] {
        let create = async |namespace: &str| {
            let events: Api<Event> = Api::namespaced(client.clone(), namespace);
            events.create(&PostParams { dry_run: true, ..PostParams::default() }, &event(namespace)).await
        };
        create("default").await.unwrap();
        refusal(create("kube-system").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_writes_itself_and_nothing_else() {
    let fleet = Fleet::with_workers(2).await;
    let client = machine(&fleet, "w0");
    let params = PatchParams::default();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch("w0", &params, &patch).await.unwrap();
    let message = refusal(nodes.patch("w1", &params, &patch).await);
    assert!(message.contains("w1"), "{message}");
    let configs: Api<MachineConfig> = Api::all(client.clone());
    configs.get("00-worker").await.unwrap();
    refusal(configs.list(&ListParams::default()).await);
    refusal(
        configs.create(&PostParams::default(), &serde_json::from_value(file("a", "worker", "/a", "b")).unwrap()).await,
    );
    refusal(Api::<MachineConfigNode>::all(client.clone()).patch("w0", &params, &labelled()).await);
    refusal(Api::<MachineConfigPool>::all(client.clone()).patch("worker", &params, &labelled()).await);
    refusal(Api::<Secret>::namespaced(client, NAMESPACE).list(&ListParams::default()).await);
}
