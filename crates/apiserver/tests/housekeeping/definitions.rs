//! Definitions come into force, and go with everything that they define.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, boats};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";

fn boat(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}, "spec": {"colour": colour}})
}

/// The definition of boats whose colour is a field, selectable or not.
fn coloured(is_selectable: bool) -> Value {
    let mut definition = boats();
    let version = &mut definition["spec"]["versions"][0];
    let spec = json!({"type": "object", "properties": {"colour": {"type": "string"}}});
    version["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": spec});
    if is_selectable {
        version["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    }
    definition
}

async fn red_boats(cluster: &Cluster) -> Vec<String> {
    let (code, list) = cluster.send(Method::GET, &format!("{BOATS}?fieldSelector=spec.colour%3Dred"), Value::Null).await;
    assert_eq!(code, 200, "{list}");
    let names = list["items"].as_array().unwrap().iter().map(|boat| boat["metadata"]["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn object_is_found_by_a_field_that_became_selectable_after_it() {
    let cluster = Cluster::start().await;
    cluster.create(DEFINITIONS, coloured(false)).await;
    cluster.create(BOATS, boat("a", "red")).await;
    cluster.create(BOATS, boat("b", "blue")).await;
    cluster.patch(&format!("{DEFINITIONS}/boats.example.com"), json!({"spec": coloured(true)["spec"]})).await;
    assert_eq!(red_boats(&cluster).await, ["a"]);
}

#[tokio::test]
async fn object_is_found_by_a_selectable_field_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::in_folder(folder.path(), 1).await;
    cluster.create(DEFINITIONS, coloured(true)).await;
    cluster.create(BOATS, boat("a", "red")).await;
    cluster.create(BOATS, boat("b", "blue")).await;
    assert_eq!(red_boats(&cluster).await, ["a"]);
    cluster.server.store().close().await;
    drop(cluster);
    assert_eq!(red_boats(&Cluster::in_folder(folder.path(), 2).await).await, ["a"]);
}
