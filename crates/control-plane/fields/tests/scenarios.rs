//! Replays recorded requests to a real API server, as far as they concern owners and patches. A minimal server around
//! our functions answers them: it stores objects, counts their versions and fills in defaults.

use std::collections::BTreeMap;

use seaworthy_fields::{
    ApplyError, Managers, ObjectType, Operation, PatchError, Set, Writer, discard_timestamp_change, json_patch,
    merge_patch, strategic_patch,
};
use seaworthy_schema::Document;
use serde_json::{Map, Value, json};

#[test]
fn conversations_go_as_with_the_real_server() {
    let types: Value = serde_json::from_str(include_str!("recorded/core.json")).unwrap();
    let core = Document::of_definitions(types.as_object().unwrap());
    let scenarios: Vec<Value> = serde_json::from_str(include_str!("recorded/scenarios.json")).unwrap();
    let mut count = 0;
    for scenario in &scenarios {
        let schema = scenario.get("schema").cloned().unwrap_or_default();
        let (custom, root) = Document::of_custom_resource(&schema);
        let mut server = Server {
            core: &core,
            widget: ObjectType::custom(custom.at(root), core.named(METADATA).unwrap()),
            schema: &schema,
            objects: BTreeMap::new(),
            captured: BTreeMap::new(),
            clock: 0,
        };
        for step in scenario["steps"].as_array().unwrap() {
            server.play(step, &format!("{}: {}", scenario["name"], step["name"]));
            count += 1;
        }
    }
    assert_eq!(count, 145);
}

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

struct Server<'a> {
    core: &'a Document,
    widget: ObjectType<'a>,
    schema: &'a Value,
    objects: BTreeMap<String, Value>,
    captured: BTreeMap<String, Value>,
    clock: usize,
}

/// What the server answers: an object, or a code with a message and causes.
type Answer = Result<Value, (u16, String, Vec<[String; 2]>)>;

impl Server<'_> {
    fn play(&mut self, step: &Value, at: &str) {
        let answer = self.write(step);
        let (want, code) = (&step["want"], step["code"].as_u64().unwrap());
        match answer {
            Ok(object) => {
                assert!(code < 300, "{at}: {code} wanted, found {object}");
                self.compare(step, want, &object, at);
                for (kind, value) in [("capture", &object), ("capture_version", &object["metadata"]["resourceVersion"])]
                {
                    if let Some(name) = step.get(kind) {
                        self.captured.insert(name.as_str().unwrap().to_owned(), value.clone());
                    }
                }
            }
            Err((found, message, causes)) => {
                assert_eq!(u64::from(found), code, "{at}: {message}");
                if let Some(wanted) = want.get("message") {
                    assert_eq!(*wanted, message, "{at}");
                }
                if let Some(wanted) = want.get("causes") {
                    assert_eq!(*wanted, json!(causes), "{at}");
                }
            }
        }
    }

    fn write(&mut self, step: &Value) -> Answer {
        self.clock += 1;
        let time = format!("2026-01-01T00:00:{:02}Z", self.clock);
        let (on, by) = (step["on"].as_str().unwrap(), step["by"].as_str().unwrap());
        let resource = on.split('/').next().unwrap();
        let status = step.get("sub").is_some();
        let ignored = match (resource, status) {
            ("configmaps" | "roles", _) => Set::default(),
            (_, false) => Set::of_fields([["status"].as_slice()]),
            ("nodes", true) => Set::of_fields([["spec"].as_slice()]),
            (_, true) => Set::of_fields([["spec"].as_slice(), ["metadata"].as_slice()]),
        };
        let (api_version, kind) = self.kind(resource);
        let subresource = if status { "status" } else { "" };
        let writer = Writer { kind, api_version, subresource, ignored: Some(&ignored), versions: None };
        let live = self.objects.get(on).cloned();
        let body = self.body(&step["body"]);

        let mut new = match step.get("type").and_then(Value::as_str) {
            Some("apply") => {
                let force = step.get("force").is_some();
                let applied = writer.apply(live.as_ref(), &body, by, force, &time).map_err(|error| match &error {
                    ApplyError::Conflicts(conflicts) => {
                        let causes = conflicts.0.iter().map(|conflict| [conflict.field(), conflict.message()]);
                        (409, error.to_string(), causes.collect())
                    }
                    _ => (400, error.to_string(), Vec::new()),
                })?;
                self.defaulted(resource, applied)
            }
            patch => {
                let before = live.clone().unwrap_or_default();
                let new = match patch {
                    None => Ok(body),
                    Some("merge") => merge_patch(before, body),
                    Some("json-patch") => json_patch(before, &body),
                    Some("strategic") => strategic_patch(before, body, self.core.named(definition(resource)).unwrap()),
                    Some(other) => panic!("{other}"),
                };
                let new = new.map_err(|error| match &error {
                    PatchError::BadRequest(message) => (400, message.clone(), Vec::new()),
                    _ => (422, error.to_string(), Vec::new()),
                })?;
                let mut new = self.defaulted(resource, new);
                writer.update(live.as_ref(), &mut new, by, &time).unwrap();
                new
            }
        };
        self.keep_what_may_not_change(&mut new, live.as_ref(), status);
        if let Some(live) = &live {
            new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            new["metadata"]["uid"] = json!("u");
            if !discard_timestamp_change(live, &mut new) && step.get("dry").is_none() {
                let version: usize = live["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                new["metadata"]["resourceVersion"] = json!((version + 1).to_string());
            }
        } else {
            new["metadata"]["resourceVersion"] = json!("1");
            new["metadata"]["uid"] = json!("u");
        }
        if step.get("dry").is_none() {
            self.objects.insert(on.to_owned(), new.clone());
        }
        Ok(new)
    }

    fn kind(&self, resource: &str) -> (&'static str, ObjectType<'_>) {
        let api_version = match resource {
            "widgets" => return ("example.com/v1", self.widget),
            "daemonsets" => "apps/v1",
            "roles" => "rbac.authorization.k8s.io/v1",
            _ => "v1",
        };
        (api_version, ObjectType::built_in(self.core.named(definition(resource)).unwrap()))
    }

    /// The body with what earlier answers hold put in.
    fn body(&self, body: &Value) -> Value {
        let mut text = body.to_string();
        for (name, value) in &self.captured {
            text = text.replace(&format!("${{{name}}}"), value.as_str().unwrap_or_default());
        }
        let body: Value = serde_json::from_str(&text).unwrap();
        match body.get("$from") {
            Some(name) => {
                let patch = body.get("$patch").cloned().unwrap_or_else(|| json!({}));
                merge_patch(self.captured[name.as_str().unwrap()].clone(), patch).unwrap()
            }
            None => body,
        }
    }

    fn keep_what_may_not_change(&self, new: &mut Value, live: Option<&Value>, status: bool) {
        let (Some(live), Value::Object(fields)) = (live, &mut *new) else { return };
        let mut keep = |key: &str| match live.get(key) {
            Some(value) => _ = fields.insert(key.to_owned(), value.clone()),
            None => _ = fields.remove(key),
        };
        if status {
            keep("spec");
        } else {
            keep("status");
        }
    }

    fn defaulted(&self, resource: &str, mut object: Value) -> Value {
        match resource {
            "widgets" => fill(&mut object, self.schema),
            "daemonsets" => {
                let spec = &mut object["spec"]["template"]["spec"];
                for container in spec["containers"].as_array_mut().into_iter().flatten() {
                    let tagged = container["image"].as_str().is_some_and(|image| image.contains(':'));
                    let policy = if tagged { "IfNotPresent" } else { "Always" };
                    let container = container.as_object_mut().unwrap();
                    container.entry("imagePullPolicy").or_insert_with(|| json!(policy));
                    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                        port.as_object_mut().unwrap().entry("protocol").or_insert_with(|| json!("TCP"));
                    }
                }
                for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
                        path.entry("type").or_insert_with(|| json!(""));
                    }
                }
            }
            _ => {}
        }
        object
    }

    fn compare(&self, step: &Value, want: &Value, object: &Value, at: &str) {
        if step.get("shows_owners").is_some() {
            let wanted = want["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            assert_eq!(owners(object), sorted(wanted), "{at}");
        }
        if let Some(version) = want["metadata"].get("resourceVersion") {
            let found = format!("<rv{}>", object["metadata"]["resourceVersion"].as_str().unwrap());
            assert_eq!(*version, found, "{at}");
        }
        let only: Option<Vec<Vec<&str>>> = step.get("only").map(|only| {
            only.as_array().unwrap().iter().map(|path| path.as_str().unwrap().split('/').collect()).collect()
        });
        let shown = match &only {
            Some(only) => narrowed(object, only).unwrap_or_else(|| json!({})),
            None => object.clone(),
        };
        let fills_in_more = step["on"].as_str().unwrap().starts_with("daemonsets") && only.is_none();
        for key in ["data", "spec", "status"] {
            if !fills_in_more && (want.get(key).is_some() || only.is_some()) {
                assert_eq!(shown.get(key), want.get(key), "{at}: {key}");
            }
        }
        for key in ["labels", "annotations", "finalizers"] {
            if !fills_in_more {
                assert_eq!(shown["metadata"].get(key), want["metadata"].get(key), "{at}: {key}");
            }
        }
    }
}

fn definition(resource: &str) -> &'static str {
    match resource {
        "configmaps" => "io.k8s.api.core.v1.ConfigMap",
        "nodes" => "io.k8s.api.core.v1.Node",
        "daemonsets" => "io.k8s.api.apps.v1.DaemonSet",
        "roles" => "io.k8s.api.rbac.v1.Role",
        other => panic!("{other}"),
    }
}

/// Defaults of a custom resource's schema.
fn fill(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if let (None, Some(default)) = (fields.get(name), property.get("default")) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    fill(value, property);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, &schema["items"])),
        _ => {}
    }
}

fn owners(object: &Value) -> Vec<Value> {
    let managers = Managers::of_object(object).unwrap();
    let entries = managers.0.into_iter().map(|manager| {
        let operation = if manager.operation == Operation::Apply { "Apply" } else { "Update" };
        let mut entry = json!({"manager": manager.name, "operation": operation, "apiVersion": manager.api_version,
            "fieldsV1": manager.fields.encode()});
        if !manager.subresource.is_empty() {
            entry["subresource"] = json!(manager.subresource);
        }
        entry
    });
    sorted(entries.collect())
}

fn sorted(mut entries: Vec<Value>) -> Vec<Value> {
    entries.sort_by_key(ToString::to_string);
    entries
}

/// What of a value is on one of these paths.
fn narrowed(value: &Value, paths: &[Vec<&str>]) -> Option<Value> {
    if paths.iter().any(Vec::is_empty) {
        return Some(value.clone());
    }
    let below = |key: &str| -> Vec<Vec<&str>> {
        paths.iter().filter(|path| path[0] == key).map(|path| path[1..].to_vec()).collect()
    };
    match value {
        Value::Object(fields) => {
            let kept: Map<String, Value> =
                fields.iter().filter_map(|(key, value)| Some((key.clone(), narrowed(value, &below(key))?))).collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) if !paths.is_empty() => {
            Some(Value::Array(items.iter().filter_map(|item| narrowed(item, &below("*"))).collect()))
        }
        _ => None,
    }
}
