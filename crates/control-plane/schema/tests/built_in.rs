//! The schemas of the built-in kinds, as they are published, read by this crate.
use std::fs;
use std::path::Path;

use seaworthy_schema::{Document, ListKind, Pruning, Type, apply_defaults, validate};
use serde_json::{Map, Value, json};

fn core() -> Document {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apiserver/data/api_v1.json");
    let schemas: Map<String, Value> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    Document::of_definitions(&schemas)
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "labels": {"x": "y"},
            "managedFields": [{"manager": "m", "operation": "Apply", "fieldsV1": {"f:spec": {"f:x": {}}}}],
        },
        "spec": {
            "containers": [{
                "name": "main", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": 0.5, "memory": "1Gi", "example.com/x": 1}},
                "livenessProbe": {"httpGet": {"port": "http", "path": "/"}},
                "readinessProbe": {"tcpSocket": {"port": 80}},
            }],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1000}}],
        },
    })
}

#[test]
fn pod_with_all_that_is_special_is_kept_and_accepted() {
    let document = core();
    let schema = document.named("io.k8s.api.core.v1.Pod").unwrap();
    let mut object = pod();
    assert_eq!(Pruning::default().value(schema, &mut object), [""; 0]);
    assert_eq!(object, pod());
    assert_eq!(validate(schema, &object, None, ""), []);
    object["spec"]["containers"][0]["imagge"] = json!("typo");
    object["metadata"]["bogus"] = json!(1);
    let unknown = Pruning::default().value(schema, &mut object);
    assert_eq!(unknown, ["metadata.bogus", "spec.containers[0].imagge"]);
}

#[test]
fn lists_have_their_keys_and_ports_their_default() {
    let document = core();
    let container = document.named("io.k8s.api.core.v1.Container").unwrap();
    let ports = container.property("ports").unwrap();
    assert_eq!(ports.list, ListKind::Map(["containerPort".into(), "protocol".into()].into()));
    let mut port = json!({"containerPort": 80});
    apply_defaults(ports.items().unwrap(), &mut port);
    assert_eq!(port, json!({"containerPort": 80, "protocol": "TCP"}));
    assert_eq!(container.property("env").unwrap().patching.as_ref().unwrap().merge_key.as_deref(), Some("name"));
}

#[test]
fn wrong_types_are_found_behind_references() {
    let document = core();
    let schema = document.named("io.k8s.api.core.v1.Node").unwrap();
    assert_eq!(schema.property("spec").unwrap().kind, Some(Type::Object));
    let causes = validate(schema, &json!({"spec": {"unschedulable": "yes"}}), None, "");
    assert_eq!(causes[0].field, "spec.unschedulable");
}
