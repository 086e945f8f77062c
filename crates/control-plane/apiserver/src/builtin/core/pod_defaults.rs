//! Defaults of pod specifications, in pods and in pod templates.

use serde_json::{Value, json};

use crate::object::Object;
use crate::object::field_access::{FieldAccess, each_mut, fill, map_mut};

/// The lists of containers.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The permissions of files in a volume, as decimal JSON has them: 0644.
const FILE_MODE: i64 = 0o644;

/// Sets the defaults of pods and templates.
pub fn fill_spec(spec: &mut Object) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    same_account(spec);
    for key in CONTAINERS {
        each_mut(spec, key).for_each(fill_container);
    }
    each_mut(spec, "volumes").for_each(fill_volume);
}

/// Sets the defaults of pods alone.
pub fn fill_pod_spec(spec: &mut Object) {
    fill(spec, "enableServiceLinks", true);
    let is_on_host = spec.flag("hostNetwork");
    for key in ["initContainers", "containers"] {
        for container in each_mut(spec, key) {
            default_requests_to_limits(container);
            if is_on_host && key == "containers" {
                for port in each_mut(container, "ports") {
                    let own = port.get("containerPort").cloned().unwrap_or_default();
                    if port.number("hostPort").unwrap_or(0) == 0 {
                        port.insert("hostPort".to_owned(), own);
                    }
                }
            }
        }
    }
}

/// The service account has a deprecated and a new field.
fn same_account(spec: &mut Object) {
    let (old, new) = (spec.text("serviceAccount").to_owned(), spec.text("serviceAccountName").to_owned());
    let name = if new.is_empty() { old } else { new };
    if !name.is_empty() {
        spec.insert("serviceAccount".to_owned(), name.as_str().into());
        spec.insert("serviceAccountName".to_owned(), name.into());
    }
}

/// A missing request defaults to the limit.
pub fn default_requests_to_limits(container: &mut Object) {
    let Some(resources) = map_mut(container, "resources") else { return };
    let Some(limits) = resources.map("limits").cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        limits.into_iter().for_each(|(name, limit)| fill(requests, &name, limit));
    }
}

fn fill_container(container: &mut Object) {
    let image = container.text("image").to_owned();
    if !image.is_empty() {
        fill(container, "imagePullPolicy", if names_version(&image) { "IfNotPresent" } else { "Always" });
    } else {
        fill(container, "imagePullPolicy", "IfNotPresent");
    }
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    for port in each_mut(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in each_mut(container, "env") {
        if let Some(reference) = map_mut(variable, "valueFrom.fieldRef") {
            fill(reference, "apiVersion", "v1");
        }
        if let Some(reference) = map_mut(variable, "valueFrom.resourceFieldRef") {
            fill(reference, "divisor", "0");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = map_mut(container, name) {
            for (key, number) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                fill(probe, key, number);
            }
            fill_handler(probe);
        }
    }
    for name in ["lifecycle.postStart", "lifecycle.preStop"] {
        if let Some(handler) = map_mut(container, name) {
            fill_handler(handler);
        }
    }
}

fn fill_handler(handler: &mut Object) {
    if let Some(get) = map_mut(handler, "httpGet") {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
    if let Some(call) = map_mut(handler, "grpc") {
        fill(call, "service", "");
    }
}

fn fill_volume(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = map_mut(volume, source) {
            fill(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(path) = map_mut(volume, "hostPath") {
        fill(path, "type", "");
    }
    if let Some(iscsi) = map_mut(volume, "iscsi") {
        fill(iscsi, "iscsiInterface", "default");
    }
    if let Some(downward) = map_mut(volume, "downwardAPI") {
        fill_downward(downward);
    }
    if let Some(projected) = map_mut(volume, "projected") {
        for source in each_mut(projected, "sources") {
            if let Some(token) = map_mut(source, "serviceAccountToken") {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = map_mut(source, "downwardAPI") {
                fill_downward(downward);
            }
        }
    }
}

fn fill_downward(source: &mut Object) {
    for item in each_mut(source, "items") {
        if let Some(reference) = map_mut(item, "fieldRef") {
            fill(reference, "apiVersion", "v1");
        }
        if let Some(reference) = map_mut(item, "resourceFieldRef") {
            fill(reference, "divisor", "0");
        }
    }
}

/// Whether an image is named by digest, or by a tag that is not `latest`.
fn names_version(image: &str) -> bool {
    if image.contains('@') {
        return true;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_some_and(|(_, tag)| tag != "latest")
}

/// Adds missing times to conditions as null: kube-apiserver's conditions always have them, so they belong to the
/// manager of the condition.
pub fn fill_condition_times(object: &mut Object, times: &[&str]) {
    let Some(status) = map_mut(object, "status") else { return };
    for condition in each_mut(status, "conditions") {
        for time in times {
            condition.entry(*time).or_insert(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("app", "Always")]
    #[case("app:latest", "Always")]
    #[case("registry.example:5000/app", "Always")]
    #[case("registry.example:5000/app:2", "IfNotPresent")]
    #[case("app@sha256:00", "IfNotPresent")]
    fn image_without_a_version_is_pulled_every_time(#[case] image: &str, #[case] policy: &str) {
        let mut container = json!({"image": image}).as_object().unwrap().clone();
        fill_container(&mut container);
        assert_eq!(container["imagePullPolicy"], policy);
    }

    #[test]
    fn pod_asks_for_what_it_is_limited_to() {
        let mut spec = json!({"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m"}}}]});
        fill_pod_spec(spec.as_object_mut().unwrap());
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    }

    #[test]
    fn volume_without_a_source_is_an_empty_folder() {
        let mut spec = json!({"volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}]});
        fill_spec(spec.as_object_mut().unwrap());
        assert_eq!(spec["volumes"][0], json!({"name": "a", "emptyDir": {}}));
        assert_eq!(spec["volumes"][1]["secret"]["defaultMode"], 420);
    }

    #[test]
    fn probe_gets_its_times_and_its_path() {
        let mut spec = json!({"containers": [{"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3}}]});
        fill_spec(spec.as_object_mut().unwrap());
        let probe = &spec["containers"][0]["livenessProbe"];
        assert_eq!(
            *probe,
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 3, "timeoutSeconds": 1,
                "successThreshold": 1, "failureThreshold": 3})
        );
    }
}
