//! The server without a socket: requests in, responses out.
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use seaworthy_apiserver::{FixedClock, Identity, Server, ServerOptions};
use serde_json::{Value, json};

async fn server() -> Server {
    let clock = Arc::new(FixedClock::at("2026-01-02T03:04:05Z".parse().unwrap()));
    let server = Server::open(ServerOptions::in_memory(clock).unwrap()).unwrap();
    server.prepare().await.unwrap();
    server
}

async fn send(server: &Server, method: Method, path: &str, kind: &str, body: Value) -> (u16, Value) {
    let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let mut request = Request::builder().method(method).uri(path).header("content-type", kind);
    request = request.header("user-agent", "test/1");
    let mut request = request.body(Full::new(bytes)).unwrap();
    let masters = Identity::authenticated("admin", ["system:masters".to_owned()]);
    request.extensions_mut().insert(masters);
    let response = server.answer(request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

const JSON: &str = "application/json";

#[tokio::test]
async fn config_map_is_created_and_deleted() {
    let server = server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let (code, created) = send(&server, Method::POST, path, JSON, object).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "test");
    let one = format!("{path}/a");
    let merge = "application/merge-patch+json";
    let (code, patched) = send(&server, Method::PATCH, &one, merge, json!({"data": {"n": "1"}})).await;
    assert_eq!(code, 200, "{patched}");
    assert_eq!(patched["data"], json!({"k": "v", "n": "1"}));
    let (_, read) = send(&server, Method::GET, &one, JSON, Value::Null).await;
    assert_eq!(read, patched);
    let (_, list) = send(&server, Method::GET, path, JSON, Value::Null).await;
    assert_eq!(list["items"][0]["data"], patched["data"]);
    assert_eq!(list["items"][0].get("kind"), None);
    let (code, status) = send(&server, Method::DELETE, &one, JSON, Value::Null).await;
    assert_eq!((code, status["status"].as_str()), (200, Some("Success")));
    assert_eq!(send(&server, Method::GET, &one, JSON, Value::Null).await.0, 404);
}

#[tokio::test]
async fn definition_is_served_when_it_is_answered() {
    let server = server().await;
    let definition = json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"length": {"type": "integer"}}}}
            }}}]
        }
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, created) = send(&server, Method::POST, path, JSON, definition).await;
    assert_eq!(code, 201, "{created}");
    let boats = "/apis/example.com/v1/namespaces/default/boats";
    let boat = json!({"kind": "Boat", "apiVersion": "example.com/v1", "metadata": {"name": "b"},
        "spec": {"length": 12, "colour": "red"}});
    let (code, boat) = send(&server, Method::POST, boats, JSON, boat).await;
    assert_eq!((code, &boat["spec"]), (201, &json!({"length": 12})), "{boat}");
    let apply = "application/apply-patch+yaml";
    let config =
        json!({"kind": "Boat", "apiVersion": "example.com/v1", "metadata": {"name": "b"}, "spec": {"length": 13}});
    let applied = format!("{boats}/b?fieldManager=me");
    assert_eq!(send(&server, Method::PATCH, &applied, apply, config).await.0, 409);
    let (code, gone) = send(&server, Method::DELETE, &format!("{path}/boats.example.com"), JSON, Value::Null).await;
    assert_eq!(code, 200, "{gone}");
    assert_eq!(send(&server, Method::GET, boats, JSON, Value::Null).await.0, 404);
}

#[tokio::test]
async fn long_list_is_sent_in_pieces_and_is_whole() {
    let server = server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    for at in 0..40 {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": format!("c-{at:02}")},
            "data": {"text": "x".repeat(5_000)}});
        assert_eq!(send(&server, Method::POST, path, JSON, object).await.0, 201);
    }
    let (_, list) = send(&server, Method::GET, path, JSON, Value::Null).await;
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    let wanted: Vec<String> = (0..40).map(|at| format!("c-{at:02}")).collect();
    assert_eq!(names, wanted);
}

#[tokio::test]
async fn watch_of_a_client_that_takes_nothing_ends() {
    let server = server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    for at in 0..100 {
        let object = json!({"metadata": {"name": format!("c{at}")}});
        assert_eq!(send(&server, Method::POST, path, JSON, object).await.0, 201);
    }
    let mut request = Request::get(format!("{path}?watch=1")).body(Full::new(Bytes::new())).unwrap();
    request.extensions_mut().insert(Identity::authenticated("admin", ["system:masters".to_owned()]));
    let body = server.answer(request).await.into_body();
    tokio::time::pause();
    // It ends by itself after half an hour at the earliest.
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    let taken = body.collect().await.unwrap().to_bytes();
    let lines = taken.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert!((1..100).contains(&lines), "{lines} lines");
}
