//! Requests with a protobuf body: built-in kinds are read from it, with the answers that the real server gives.
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use rstest::rstest;
use seaworthy_apiserver::{FixedClock, Identity, Server, ServerOptions};
use serde_json::{Value, json};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server() -> Server {
    let clock = Arc::new(FixedClock::at("2026-01-02T03:04:05Z".parse().unwrap()));
    let server = Server::open(ServerOptions::in_memory(clock).unwrap()).unwrap();
    server.prepare().await.unwrap();
    server
}

async fn send(server: &Server, method: Method, path: &str, media: &str, body: Vec<u8>) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let mut request =
        request.header("accept", format!("{PROTOBUF},application/json")).body(Full::new(Bytes::from(body))).unwrap();
    request.extensions_mut().insert(Identity::authenticated("admin", ["system:masters".to_owned()]));
    let response = server.answer(request).await;
    let code = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// The protobuf of a field with a length below 128.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let length = u8::try_from(bytes.len()).unwrap();
    assert!(length < 0x80);
    [&[number << 3 | 2, length], bytes].concat()
}

fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let names = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, names), field(2, raw)].concat()
}

/// A config map with one entry.
fn config_map(name: &str, value: &str) -> Vec<u8> {
    [field(1, field(1, name)), field(2, [field(1, "k"), field(2, value)].concat())].concat()
}

#[tokio::test]
async fn config_map_is_created_updated_and_deleted() {
    let server = server().await;
    let body = enveloped("v1", "ConfigMap", &config_map("a", "v"));
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let (code, created) = send(&server, Method::POST, &strict, PROTOBUF, body).await;
    assert_eq!((code, &created["data"]), (201, &json!({"k": "v"})), "{created}");
    let one = format!("{CONFIG_MAPS}/a");
    let body = enveloped("v1", "ConfigMap", &config_map("a", "w"));
    let (code, updated) = send(&server, Method::PUT, &one, PROTOBUF, body).await;
    assert_eq!((code, &updated["data"]), (200, &json!({"k": "w"})), "{updated}");
    let dry = enveloped("v1", "DeleteOptions", &field(5, "All"));
    assert_eq!(send(&server, Method::DELETE, &one, PROTOBUF, dry).await.0, 200);
    let wrong = enveloped("v1", "DeleteOptions", &field(2, field(1, "another uid")));
    assert_eq!(send(&server, Method::DELETE, &one, PROTOBUF, wrong).await.0, 409);
    let object = enveloped("v1", "ConfigMap", &config_map("a", "w"));
    assert_eq!(send(&server, Method::DELETE, &one, PROTOBUF, object).await.0, 400);
    assert_eq!(send(&server, Method::DELETE, &one, PROTOBUF, b"{}".to_vec()).await.0, 400);
    let options = enveloped("apps/v1", "DeleteOptions", &[0x08, 0]);
    assert_eq!(send(&server, Method::DELETE, &one, PROTOBUF, options).await.0, 200);
    assert_eq!(send(&server, Method::DELETE, &one, PROTOBUF, Vec::new()).await.0, 404);
}

#[tokio::test]
async fn protobuf_and_json_make_the_same_object() {
    let server = server().await;
    let body = enveloped("v1", "ConfigMap", &config_map("a", "v"));
    let (_, from_protobuf) = send(&server, Method::POST, CONFIG_MAPS, PROTOBUF, body).await;
    let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b"}, "data": {"k": "v"}});
    let (_, from_json) =
        send(&server, Method::POST, CONFIG_MAPS, "application/json", body.to_string().into_bytes()).await;
    let same = |object: &Value| (object["data"].clone(), object["metadata"]["managedFields"][0]["fieldsV1"].clone());
    assert_eq!(same(&from_protobuf), same(&from_json));
}

#[tokio::test]
async fn kind_that_is_left_out_is_that_of_the_path() {
    let server = server().await;
    let body = [b"k8s\0".to_vec(), field(2, config_map("a", "v"))].concat();
    let (code, created) = send(&server, Method::POST, CONFIG_MAPS, PROTOBUF, body).await;
    assert_eq!((code, created["kind"].as_str()), (201, Some("ConfigMap")), "{created}");
}

#[rstest]
#[case::nothing(Vec::new(), "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)")]
#[case::json(
    b"{\"kind\":\"ConfigMap\"}".to_vec(),
    "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf \
     message, expected prefix [107 56 115 0]"
)]
#[case::mark(b"k8s\0".to_vec(), "the object provided is unrecognized (must be of type ConfigMap): empty body")]
#[case::envelope(
    b"k8s\0\x0a\xff\x01".to_vec(),
    "the object provided is unrecognized (must be of type ConfigMap): unexpected EOF"
)]
#[case::cut_off(
    enveloped("v1", "ConfigMap", &[0x0a, 0x05, 0x0a]),
    "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF"
)]
#[case::unknown_kind(
    enveloped("v1", "Boat", b""),
    "Boat in version \"v1\" cannot be handled as a ConfigMap: no kind \"Boat\" is registered for version \"v1\" in \
     protobuf; send JSON or YAML"
)]
#[case::another_kind(
    enveloped("v1", "Secret", b""),
    "Secret in version \"v1\" cannot be handled as a ConfigMap: expected ConfigMap of v1"
)]
#[tokio::test]
async fn body_that_is_none_gets_400(#[case] body: Vec<u8>, #[case] message: &str) {
    let (code, status) = send(&server().await, Method::POST, CONFIG_MAPS, PROTOBUF, body).await;
    assert_eq!((code, status["reason"].as_str(), status["message"].as_str()), (400, Some("BadRequest"), Some(message)));
}

#[tokio::test]
async fn custom_kinds_have_no_protobuf() {
    let server = server().await;
    let definition = json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object"
            }}}]
        }
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _) = send(&server, Method::POST, path, "application/json", definition.to_string().into_bytes()).await;
    assert_eq!(code, 201);
    let body = enveloped("example.com/v1", "Boat", b"");
    let path = "/apis/example.com/v1/namespaces/default/boats";
    let (code, status) = send(&server, Method::POST, path, PROTOBUF, body).await;
    assert_eq!((code, status["reason"].as_str()), (415, Some("UnsupportedMediaType")), "{status}");
}
