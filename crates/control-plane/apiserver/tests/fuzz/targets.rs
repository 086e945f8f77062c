//! Fuzz targets: one module for each parser, with a corpus of valid examples.
//!
//! Examples of several parts have one on each line.

use std::sync::LazyLock;

use seaworthy_fields::{ObjectType, Writer};
use seaworthy_schema::Document;
use serde_json::{Value, json};

const TIME: &str = "2026-01-01T00:00:00Z";

/// A kind with a list of everything: by key, as a set, as a whole.
static KINDS: LazyLock<Document> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let container = json!({"type": "object", "properties": {"name": text, "image": text,
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"], "x-kubernetes-patch-merge-key": "containerPort",
            "x-kubernetes-patch-strategy": "merge", "items": {"type": "object", "properties": {
                "containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}}}});
    let definitions = json!({"Kind": {"type": "object", "properties": {
        "apiVersion": text, "kind": text, "metadata": {"type": "object", "properties": {
            "name": text, "labels": {"type": "object", "additionalProperties": text},
            "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge"}}},
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"},
            "containers": {"type": "array", "items": container, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "x-kubernetes-patch-merge-key": "name",
                "x-kubernetes-patch-strategy": "merge"},
            "args": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"}}}}}});
    Document::of_definitions(definitions.as_object().unwrap())
});

/// The lines of an input as values, if all of them are.
fn values<const N: usize>(bytes: &[u8]) -> Option<[Value; N]> {
    let lines: Option<Vec<Value>> =
        bytes.split(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).ok()).collect();
    lines?.try_into().ok()
}

fn text(bytes: &[u8]) -> &str {
    // What is no text never gets this far.
    str::from_utf8(bytes).unwrap_or_default()
}

pub mod path {
    use http::Method;
    use seaworthy_apiserver::{RequestPath, ResourcePath};

    pub const CORPUS: &[&str] = &[
        "/api/v1/namespaces/default/configmaps/c",
        "/apis/apps/v1/namespaces/a%2Fb/daemonsets/d/status",
        "/api/v1/watch/nodes/n",
        "/apis/g.example.com/v1/nodes/n/proxy/a/b",
        "/api/v1/namespaces/a/finalize",
        "/version",
        "/healthz/ping",
    ];

    pub fn target(bytes: &[u8]) {
        let RequestPath::Resource(found) = RequestPath::parse(super::text(bytes)) else { return };
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            found.verb(&method, true);
        }
        // Written down again, it is the same path: authorisation and storage mean one thing.
        let ResourcePath { group, version, namespace, resource, name, subresource, is_watch_path } = &found;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let watch = if *is_watch_path { "/watch" } else { "" };
        let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let written = format!("{root}/{version}{watch}{within}/{resource}/{name}/{subresource}");
        let written = written.trim_end_matches('/').replace('%', "%25");
        assert_eq!(RequestPath::parse(&written), RequestPath::Resource(found.clone()), "{written}");
    }
}

pub mod label_selector {
    use seaworthy_apiserver::LabelSelector;

    pub const CORPUS: &[&str] =
        &["a=b,c!=d", "a in (b,c), d notin (e), f, !g", "example.com/a==b", "a>1,b<2", "a in (,)", ""];

    pub fn target(bytes: &[u8]) {
        let text = super::text(bytes);
        let Ok(selector) = LabelSelector::parse(text) else { return };
        let first = selector.matches(|_| Some("b"));
        // Space around it means nothing.
        let spaced = LabelSelector::parse(&format!(" {text} ")).unwrap();
        assert_eq!(first, spaced.matches(|_| Some("b")));
        selector.matches(|_| None);
    }
}

pub mod field_selector {
    use seaworthy_apiserver::FieldSelector;

    pub const CORPUS: &[&str] = &["metadata.name=a,spec.nodeName!=b", "a==b\\,c", "status.phase=Running", "a=\\=", ""];

    pub fn target(bytes: &[u8]) {
        let Ok(selector) = FieldSelector::parse(super::text(bytes)) else { return };
        // What it requires is what it takes.
        for field in selector.fields() {
            if let Some(value) = selector.required(field) {
                let same = |asked: &str| (asked == field).then_some(value);
                let only = selector.fields().all(|other| other == field);
                assert!(!only || selector.matches(same) || selector.fields().count() > 1);
            }
        }
        selector.matches(|_| None);
    }
}

pub mod json_patch {
    use seaworthy_fields::json_patch;
    use serde_json::json;

    pub const CORPUS: &[&str] = &[
        concat!(
            r#"{"a":{"b":[1,2,3]},"c~/d":1}"#,
            "\n",
            r#"[{"op":"add","path":"/a/b/-","value":4},{"op":"remove","path":"/c~0~1d"}]"#
        ),
        concat!(
            r#"{"a":[{"b":1}]}"#,
            "\n",
            r#"[{"op":"test","path":"/a/0/b","value":1},{"op":"move","from":"/a/0","path":"/x"},{"op":"copy","from":"/x","path":"/y"},{"op":"replace","path":"","value":{}}]"#
        ),
    ];

    pub fn target(bytes: &[u8]) {
        let Some([object, patch]) = super::values(bytes) else { return };
        if let Ok(patched) = json_patch(object.clone(), &patch) {
            assert!(patched.to_string().len() < 8 << 20, "it grows without end");
        }
        if let Ok(same) = json_patch(object.clone(), &json!([])) {
            assert_eq!(same, object);
        }
    }
}

pub mod merge_patch {
    use seaworthy_fields::merge_patch;

    pub const CORPUS: &[&str] = &[
        concat!(r#"{"a":{"b":1,"c":[1]},"d":"x"}"#, "\n", r#"{"a":{"b":null,"c":[2],"e":{"f":null}},"d":{"g":1}}"#),
        concat!(r#"{"a":1}"#, "\n", r#"{"a":{"b":{"c":{}}}}"#),
    ];

    pub fn target(bytes: &[u8]) {
        let Some([object, patch]) = super::values(bytes) else { return };
        let Ok(once) = merge_patch(object, patch.clone()) else { return };
        let Ok(twice) = merge_patch(once.clone(), patch) else { panic!("it is refused the second time") };
        assert_eq!(once, twice);
    }
}

pub mod strategic_patch {
    use std::sync::LazyLock;

    use seaworthy_fields::strategic_patch;
    use serde_json::json;

    pub const CORPUS: &[&str] = &[
        concat!(
            r#"{"metadata":{"finalizers":["x","y"]},"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]},{"name":"b"}]}}"#,
            "\n",
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]},"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","$patch":"delete"},{"name":"c","image":"i"}]}}"#
        ),
        concat!(
            r#"{"spec":{"containers":[{"name":"a","image":"i"}],"args":["1"]}}"#,
            "\n",
            r#"{"spec":{"$patch":"replace","$retainKeys":["containers"],"containers":[{"$patch":"replace"},{"name":"z"}]}}"#
        ),
    ];

    pub fn target(bytes: &[u8]) {
        let Some([object, patch]) = super::values(bytes) else { return };
        let schema = LazyLock::force(&super::KINDS).named("Kind").unwrap();
        let _ = strategic_patch(object.clone(), patch, schema);
        // An empty patch changes nothing.
        if object.is_object()
            && let Ok(same) = strategic_patch(object.clone(), json!({}), schema)
        {
            assert_eq!(same, object);
        }
    }
}

pub mod apply {
    use seaworthy_fields::discard_timestamp_change;

    use super::{ObjectType, TIME, Writer};

    pub const CORPUS: &[&str] = &[
        concat!(
            r#"{"apiVersion":"v1","kind":"Kind","metadata":{"name":"a","labels":{"a":"1"}},"spec":{"replicas":1}}"#,
            "\n",
            r#"{"apiVersion":"v1","kind":"Kind","metadata":{"name":"a","labels":{"b":"1"}},"spec":{"containers":[{"name":"a","ports":[{"containerPort":1,"protocol":"UDP"}]}],"args":["1"]}}"#
        ),
        concat!(
            r#"{"metadata":{"finalizers":["x"],"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}}]}}"#,
            "\n",
            r#"{"metadata":{"finalizers":["x","y"]},"spec":{"replicas":3}}"#
        ),
    ];

    pub fn target(bytes: &[u8]) {
        let Some([live, config]) = super::values(bytes) else { return };
        let kind = ObjectType::built_in(super::KINDS.named("Kind").unwrap());
        let writer = Writer { kind, api_version: "v1", subresource: "", ignored: None, versions: None };
        let _ = writer.update(Some(&live), &mut config.clone(), "updater", TIME);
        let Ok(mut once) = writer.apply(Some(&live), &config, "applier", true, TIME) else { return };
        if once.pointer("/metadata/managedFields").is_none() {
            // Without managers the next apply counts as the first one, which invents a manager for earlier writes.
            once = writer.apply(Some(&once), &config, "applier", true, TIME).unwrap();
        }
        let twice = writer.apply(Some(&once), &config, "applier", false, "2026-01-02T00:00:00Z").unwrap();
        let mut settled = twice.clone();
        assert!(discard_timestamp_change(&once, &mut settled), "{once}\n{twice}");
    }
}

pub mod managed_fields {
    use seaworthy_fields::{Managers, Set};
    use serde_json::json;

    pub const CORPUS: &[&str] = &[
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}},"f:finalizers":{"v:\"x\"":{}},"f:args":{"i:0":{}}}}"#,
        r#"{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{"f:x":{}},"v:1.5":{},"v:null":{}}"#,
    ];

    pub fn target(bytes: &[u8]) {
        let Some([fields]) = super::values(bytes) else { return };
        let entry = json!({"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields});
        let _ = Managers::of_object(&json!({"metadata": {"managedFields": [entry]}}));
        let Ok(set) = Set::decode(&fields) else { return };
        let again = Set::decode(&set.encode()).unwrap();
        assert!(again == set, "{} became {}", set.to_text(), again.to_text());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&set.to_text()).unwrap(), set.encode());
    }
}

pub mod definition {
    use seaworthy_schema::{
        CustomResource, Document, Pruning, apply_defaults, default_definition, definition_mistakes,
    };
    use serde_json::Value;

    pub const CORPUS: &[&str] = &[
        concat!(
            r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"boats","kind":"Boat"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["length"],"properties":{"length":{"type":"integer","minimum":1,"default":3},"crew":{"type":"array","maxItems":9,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string","pattern":"^[a-z]*$","maxLength":20},"age":{"type":"integer","nullable":true}},"x-kubernetes-validations":[{"rule":"self.name != 'x'","message":"no"}]}},"port":{"x-kubernetes-int-or-string":true},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}},"subresources":{"status":{},"scale":{"specReplicasPath":".spec.length","statusReplicasPath":".status.length"}},"additionalPrinterColumns":[{"name":"Length","type":"integer","jsonPath":".spec.length"}]}]}}"#,
            "\n",
            r#"{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"b"},"spec":{"length":12,"crew":[{"name":"a","age":null},{"name":"b"}],"port":"http","free":{"x":[1]},"other":1}}"#
        ),
        concat!(
            r#"{"metadata":{"name":"a.b.c"},"spec":{"group":"b.c","scope":"Cluster","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string","enum":["a","b"]}},"b":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}}}}}]}}"#,
            "\n",
            r#"{"apiVersion":"b.c/v1","kind":"A","metadata":{"name":"b"},"a":{"x":"a","y":"c"},"b":1}"#
        ),
    ];

    pub fn target(bytes: &[u8]) {
        let Some([mut definition, object]) = super::values::<2>(bytes) else { return };
        default_definition(&mut definition);
        let mut again = definition.clone();
        default_definition(&mut again);
        assert_eq!(again, definition, "defaults of defaults");
        let mistakes = definition_mistakes(&definition, None);
        definition_mistakes(&definition, Some(&object));
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").cloned().unwrap_or(Value::Null);
        // Whatever is stored was accepted, but nothing below may rely on that.
        let (document, root) = Document::of_custom_resource(&schema);
        let schema = document.at(root);
        let mut once = object;
        Pruning { metadata: None }.object(schema, &mut once);
        apply_defaults(schema, &mut once);
        let judge = CustomResource { schema, scale: None };
        judge.mistakes(&once, None, Vec::new());
        judge.mistakes(&once, Some(&once), Vec::new());
        if mistakes.is_empty() {
            let mut twice = once.clone();
            Pruning { metadata: None }.object(schema, &mut twice);
            apply_defaults(schema, &mut twice);
            assert_eq!(once, twice, "pruning and defaults come to an end");
        }
    }
}
