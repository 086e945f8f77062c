//! Rights: what the operator must not be able to do. That it can do its work is tested by everything else.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use seaworthy_api::cluster::v1beta2::{Cluster, MachinePool};
use serde_json::json;

use crate::world::{World, acting};

fn is_refused<T: Debug>(result: kube::Result<T>) {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("this must be refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_has_no_other_rights() {
    let world = World::start().await;
    let client = acting(&world.management_cluster);
    let (list, deletion) = (ListParams::default(), DeleteParams::default());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    is_refused(Api::<Secret>::all(client.clone()).list(&list).await);
    is_refused(Api::<Secret>::namespaced(client.clone(), "default").delete("c-kubeconfig", &deletion).await);
    is_refused(Api::<Node>::all(client.clone()).list(&list).await);
    is_refused(Api::<MachinePool>::namespaced(client.clone(), "default").delete("p", &deletion).await);
    is_refused(Api::<Cluster>::namespaced(client, "default").patch("c", &PatchParams::default(), &patch).await);
}
