//! The OpenAPI document of a custom resource beside the one that the real API server builds.
use seaworthy_schema::openapi::{
    ApiResource, ApiSubresource, CustomNames, custom_definitions, definition_name, document, paths,
};
use serde_json::{Map, Value, json};

const GROUP: &str = "harbour.example.com";

/// Without descriptions, which are in our own words.
fn bare(value: &Value, is_properties: bool) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| is_properties || *key != "description");
            kept.map(|(key, value)| (key.clone(), bare(value, key == "properties"))).collect()
        }
        Value::Array(items) => items.iter().map(|item| bare(item, false)).collect(),
        other => other.clone(),
    }
}

fn crane(definition: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let names = CustomNames { group: GROUP, version: "v1", kind: "Crane", list_kind: "CraneList", plural: "cranes" };
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let subresource = |name, kind, definition: &str| ApiSubresource {
        name,
        verbs: vec!["get", "patch", "update"],
        kind,
        definition: definition.to_owned(),
    };
    let own = definition_name(GROUP, "v1", "Crane");
    let resource = ApiResource {
        group: GROUP,
        version: "v1",
        plural: "cranes",
        kind: "Crane",
        is_namespaced: true,
        verbs: vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        definition: own.clone(),
        list_definition: definition_name(GROUP, "v1", "CraneList"),
        is_custom: true,
        subresources: vec![
            subresource("status", (GROUP, "v1", "Crane"), &own),
            subresource("scale", ("autoscaling", "v1", "Scale"), "io.k8s.api.autoscaling.v1.Scale"),
        ],
    };
    (paths(&[resource]), custom_definitions(names, Some(schema)))
}

#[test]
fn document_of_a_custom_resource_is_that_of_the_real_server() {
    let text = include_str!("recorded/openapi.json");
    let recorded: Value = serde_json::from_str(text).unwrap();
    let (paths, schemas) = crane(&recorded["definition"]);
    assert_eq!(bare(&Value::Object(schemas.clone()), false), recorded["schemas"]);
    let ours = bare(&Value::Object(paths.clone()), false);
    for (path, methods) in recorded["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert_eq!(&ours[path][method], operation, "{method} {path}");
        }
    }
    assert_eq!(ours.as_object().unwrap().len(), recorded["paths"].as_object().unwrap().len());

    let target = json!({"type": "object", "properties": {"owner": {"$ref": "#/components/schemas/Owner"}}});
    let owner = json!({"type": "object"});
    let document = document("Kubernetes CRD Swagger", paths, schemas, |name| match name {
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => Some(&target),
        "Owner" => Some(&owner),
        _ => None,
    });
    assert_eq!(document["openapi"], recorded["openapi"]);
    assert_eq!(document["info"], recorded["info"]);
    assert!(document["components"]["schemas"]["Owner"].is_object(), "what is referred to is there");
}
