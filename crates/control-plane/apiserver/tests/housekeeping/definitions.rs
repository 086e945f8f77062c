//! CustomResourceDefinitions: acceptance, and deletion with all their objects.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use seaworthy_apiserver::Identity;
use seaworthy_store::{Body, Change, Expect, Key};
use serde_json::{Value, json};

use crate::housekeeping::cluster::{CONFIG_MAPS, CallPoint, Cluster, boats, config_map};

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
    let (code, list) =
        cluster.send(Method::GET, &format!("{BOATS}?fieldSelector=spec.colour%3Dred"), Value::Null).await;
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

fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    definition["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

#[tokio::test]
async fn definition_waits_for_objects_that_something_holds() {
    let cluster = Cluster::start().await;
    let definition = format!("{DEFINITIONS}/boats.example.com");
    cluster.create(DEFINITIONS, boats()).await;
    let mut held = boat("held", "red");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.create(BOATS, held).await;
    cluster.create(BOATS, boat("free", "red")).await;
    cluster.delete(&definition, None).await;

    let left = cluster.get(&definition).await.unwrap();
    assert_eq!(condition(&left, "Terminating").unwrap()["reason"], "InstanceDeletionInProgress");
    assert_eq!(condition(&left, "Established").unwrap()["status"], "True");
    assert_eq!(cluster.get(&format!("{BOATS}/free")).await, None);
    assert!(cluster.get(&format!("{BOATS}/held")).await.unwrap()["metadata"]["deletionTimestamp"].is_string());
    let (code, refused) = cluster.send(Method::POST, BOATS, boat("new", "red")).await;
    let why =
        "boats.example.com \"new\" is forbidden: create not allowed while custom resource definition is terminating";
    assert_eq!((code, refused["message"].as_str()), (403, Some(why)));

    cluster.patch(&format!("{BOATS}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(cluster.get(&definition).await, None);
}

#[tokio::test]
async fn object_whose_definition_goes_while_it_is_created_goes_too() {
    let cluster = Cluster::start().await;
    cluster.create(DEFINITIONS, boats()).await;
    cluster.send_amid(CallPoint::Entropy, Method::DELETE, &format!("{DEFINITIONS}/boats.example.com"), Value::Null);
    let (code, _) = cluster.send(Method::POST, BOATS, boat("late", "red")).await;
    assert_eq!(code, 404);
    cluster.create(DEFINITIONS, boats()).await;
    assert_eq!(cluster.get(&format!("{BOATS}/late")).await, None);
}

#[tokio::test]
async fn of_two_definitions_that_are_settled_at_once_one_gets_the_name() {
    let cluster = Cluster::start().await;
    let mut second = boats();
    second["metadata"]["name"] = "yachts.example.com".into();
    second["spec"]["names"] = json!({"plural": "yachts", "singular": "yacht", "kind": "Boat"});
    // Both are stored before the first of them is settled.
    let changes = [boats(), second].map(|mut definition| {
        definition["metadata"]["resourceVersion"] = "".into();
        let key = Key::new(
            "apiextensions.k8s.io/customresourcedefinitions",
            "",
            definition["metadata"]["name"].as_str().unwrap(),
        );
        let text = definition.to_string();
        let hole = text.find("\"resourceVersion\":\"").unwrap() + "\"resourceVersion\":\"".len();
        Change::Put { key, expected: Expect::Absent, body: Body::new(text, hole) }
    });
    cluster.server.store().commit(changes.into()).await.unwrap();
    cluster.server.prepare().await.unwrap();
    let mut accepted = Vec::new();
    for name in ["boats.example.com", "yachts.example.com"] {
        let definition = cluster.get(&format!("{DEFINITIONS}/{name}")).await.unwrap();
        accepted.push(condition(&definition, "NamesAccepted").unwrap()["status"].as_str().unwrap().to_owned());
    }
    accepted.sort();
    assert_eq!(accepted, ["False", "True"]);
}

#[tokio::test]
async fn definition_that_did_not_change_is_not_read_again() {
    let cluster = Cluster::start().await;
    cluster.create(DEFINITIONS, boats()).await;
    let served = || cluster.server.registry().find("example.com", "v1", "boats").unwrap().clone();
    let before = served();
    let mut other = boats();
    other["metadata"]["name"] = "yachts.example.com".into();
    other["spec"]["names"] = json!({"plural": "yachts", "kind": "Yacht"});
    cluster.create(DEFINITIONS, other).await;
    assert!(Arc::ptr_eq(&served(), &before));
    let short = json!({"spec": {"names": {"shortNames": ["bt"]}}});
    cluster.patch(&format!("{DEFINITIONS}/boats.example.com"), short).await;
    assert_eq!(served().short_names, ["bt".into()]);
}

#[tokio::test]
async fn watch_does_not_keep_the_registry_that_it_began_with() {
    let cluster = Cluster::start().await;
    let before = Arc::downgrade(&cluster.server.registry());
    let mut request = Request::get(format!("{CONFIG_MAPS}?watch=1")).body(Full::new(Bytes::new())).unwrap();
    request.extensions_mut().insert(Identity::authenticated("admin", ["system:masters".to_owned()]));
    let mut answer = cluster.server.answer(request).await;
    assert_eq!(answer.status(), 200);
    cluster.create(DEFINITIONS, boats()).await;
    assert!(before.upgrade().is_none());
    // The watch goes on.
    cluster.create(CONFIG_MAPS, config_map("late", &[])).await;
    let mut seen = String::new();
    while !seen.contains("\"late\"") {
        let frame = answer.body_mut().frame().await.unwrap().unwrap();
        seen.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap()));
    }
}

#[tokio::test]
async fn parameters_of_a_kind_that_is_defined_during_a_write_are_known_to_its_policies() {
    let cluster = Cluster::start().await;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"]}]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"paramKind": {"apiVersion": "example.com/v1", "kind": "Boat"},
            "matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]},
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"],
            "paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}},
    });
    cluster.create("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", policy).await;
    cluster.create("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", binding).await;
    let (code, refused) = cluster.send(Method::POST, CONFIG_MAPS, config_map("a", &[])).await;
    assert!(code >= 400 && refused["message"].as_str().unwrap().contains("paramKind"), "{code} {refused}");
    cluster.send_amid(CallPoint::Entropy, Method::POST, DEFINITIONS, boats());
    cluster.create(CONFIG_MAPS, config_map("a", &[])).await;
}
