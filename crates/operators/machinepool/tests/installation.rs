//! Installation: definitions that Cluster API's installer keeps are left as they are.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use seaworthy_runtime::{NAMESPACE, install};
use seaworthy_testkit::Cluster;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn definition_of_cluster_apis_installer_is_not_replaced() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let definitions = seaworthy_api::cluster::definitions();
    install::install(&client, &definitions, NAMESPACE).await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = "machinepools.cluster.x-k8s.io";
    let theirs = json!({
        "metadata": {"labels": {"cluster.x-k8s.io/provider": "cluster-api"}},
        "spec": {"names": {"shortNames": ["theirs"]}},
    });
    let theirs = api.patch(name, &PatchParams::default(), &Patch::Merge(&theirs)).await.unwrap();
    install::install(&client, &definitions, NAMESPACE).await.unwrap();
    let found = api.get(name).await.unwrap();
    assert_eq!(found.spec.names.short_names, Some(vec!["theirs".to_owned()]));
    assert_eq!(found.metadata.generation, theirs.metadata.generation);
    assert!(definitions.iter().any(|definition| definition.name_any() == name));
}
