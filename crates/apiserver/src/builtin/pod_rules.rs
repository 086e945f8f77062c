//! What a pod's specification may say, in a pod and in the template of one.

use std::collections::HashSet;

use seaworthy_schema::{Cause, names};
use serde_json::{Value, json};

use crate::object::Object;
use crate::quantity::Quantity;
use crate::reach::{Reach, each_mut};

/// A port.
pub fn port(field: &str, number: i64) -> Option<Cause> {
    let is_port = (1..=65535).contains(&number);
    (!is_port).then(|| Cause::invalid(field, number, "must be between 1 and 65535, inclusive"))
}

/// A value that is one of these.
pub fn one_of(field: &str, value: &str, words: &[&str]) -> Option<Cause> {
    match value {
        "" => Some(Cause::required(field, "")),
        word if words.contains(&word) => None,
        word => Some(Cause::not_supported(field, word, words)),
    }
}

/// A number that is not negative.
pub fn not_negative(field: &str, number: Option<i64>) -> Option<Cause> {
    let number = number.filter(|number| *number < 0)?;
    Some(Cause::invalid(field, number, "must be greater than or equal to 0"))
}

/// The rules of a specification. `at` is where it stands.
pub fn judge_spec(spec: &Object, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let volumes = judge_volumes(spec, at, &mut causes);
    if spec.list("containers").is_empty() {
        causes.push(Cause::required(format!("{at}.containers"), ""));
    }
    let mut taken = HashSet::new();
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in spec.list(key).iter().enumerate() {
            let field = format!("{at}.{key}[{index}]");
            let name = container.text("name");
            if !name.is_empty() && !taken.insert(name) {
                causes.push(Cause::duplicate(format!("{field}.name"), name));
            }
            judge_container(container, &field, &volumes, &mut causes);
        }
    }
    causes.extend(one_of(
        &format!("{at}.restartPolicy"),
        spec.text("restartPolicy"),
        &["Always", "OnFailure", "Never"],
    ));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    causes.extend(one_of(&format!("{at}.dnsPolicy"), spec.text("dnsPolicy"), &policies));
    let is_time = |seconds: &i64| (1..=i64::from(i32::MAX)).contains(seconds);
    if let Some(seconds) = spec.number("activeDeadlineSeconds").filter(|seconds| !is_time(seconds)) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(format!("{at}.activeDeadlineSeconds"), seconds, why));
    }
    for (key, field) in [("nodeName", "nodeName"), ("serviceAccountName", "serviceAccountName")] {
        let name = spec.text(key);
        if !name.is_empty() {
            let problems = names::dns_subdomain(name);
            causes.extend(problems.iter().map(|why| Cause::invalid(format!("{at}.{field}"), name, why)));
        }
    }
    if !spec.text("hostname").is_empty() {
        let name = spec.text("hostname");
        causes.extend(names::dns_label(name).iter().map(|why| Cause::invalid(format!("{at}.hostname"), name, why)));
    }
    for (key, value) in spec.map("nodeSelector").into_iter().flatten() {
        let field = format!("{at}.nodeSelector");
        causes.extend(names::qualified_name(key).iter().map(|why| Cause::invalid(&field, key, why)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(names::label_value(value).iter().map(|why| Cause::invalid(&field, value, why)));
    }
    for (index, toleration) in spec.list("tolerations").iter().enumerate() {
        judge_toleration(toleration, &format!("{at}.tolerations[{index}]"), &mut causes);
    }
    causes
}

fn judge_volumes<'s>(spec: &'s Object, at: &str, causes: &mut Vec<Cause>) -> HashSet<&'s str> {
    let mut volumes = HashSet::new();
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let field = format!("{at}.volumes[{index}]");
        let before = causes.len();
        let name = volume.text("name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else {
            let problems = names::dns_label(name);
            causes.extend(problems.iter().map(|why| Cause::invalid(format!("{field}.name"), name, why)));
        }
        if volumes.contains(name) {
            causes.push(Cause::duplicate(format!("{field}.name"), name));
        }
        let mut sources =
            volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name").map(|(key, _)| key);
        sources.next();
        for extra in sources {
            causes.push(Cause::forbidden(format!("{field}.{extra}"), "may not specify more than 1 volume type"));
        }
        for (source, key, path) in
            [("hostPath", "path", "hostPath.path"), ("secret", "secretName", "secret.secretName")]
        {
            if volume.get(source).is_some_and(|source| source.text(key).is_empty()) {
                causes.push(Cause::required(format!("{field}.{path}"), ""));
            }
        }
        // A volume that is wrong is none.
        if causes.len() == before {
            volumes.insert(name);
        }
    }
    volumes
}

fn judge_container(container: &Value, field: &str, volumes: &HashSet<&str>, causes: &mut Vec<Cause>) {
    let name = container.text("name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    } else {
        causes.extend(names::dns_label(name).iter().map(|why| Cause::invalid(format!("{field}.name"), name, why)));
    }
    let image = container.text("image");
    if image.is_empty() {
        causes.push(Cause::required(format!("{field}.image"), ""));
    } else if image.trim() != image {
        causes.push(Cause::invalid(format!("{field}.image"), image, "must not have leading or trailing whitespace"));
    }
    causes.extend(one_of(
        &format!("{field}.imagePullPolicy"),
        container.text("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    ));
    judge_ports(container, field, causes);
    for (index, variable) in container.list("env").iter().enumerate() {
        let field = format!("{field}.env[{index}]");
        if variable.text("name").is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else if variable.text("name").contains('=') {
            let why = "environment variable names must not contain '='";
            causes.push(Cause::invalid(format!("{field}.name"), variable.text("name"), why));
        }
        if !variable.text("value").is_empty() && variable.get("valueFrom").is_some() {
            let why = "may not be specified when `value` is not empty";
            causes.push(Cause::invalid(format!("{field}.valueFrom"), "", why));
        }
    }
    let mut paths = HashSet::new();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let field = format!("{field}.volumeMounts[{index}]");
        let name = mount.text("name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else if !volumes.contains(name) {
            causes.push(Cause::not_found(format!("{field}.name"), name));
        }
        let path = mount.text("mountPath");
        if path.is_empty() {
            causes.push(Cause::required(format!("{field}.mountPath"), ""));
        } else if !paths.insert(path) {
            causes.push(Cause::invalid(format!("{field}.mountPath"), path, "must be unique"));
        }
    }
    judge_resources(container, &format!("{field}.resources"), causes);
}

fn judge_ports(container: &Value, field: &str, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, own) in container.list("ports").iter().enumerate() {
        let field = format!("{field}.ports[{index}]");
        match own.number("containerPort").unwrap_or(0) {
            0 => causes.push(Cause::required(format!("{field}.containerPort"), "")),
            number => causes.extend(port(&format!("{field}.containerPort"), number)),
        }
        if let Some(number) = own.number("hostPort").filter(|number| *number != 0) {
            causes.extend(port(&format!("{field}.hostPort"), number));
        }
        causes.extend(one_of(&format!("{field}.protocol"), own.text("protocol"), &["SCTP", "TCP", "UDP"]));
        let name = own.text("name");
        if !name.is_empty() {
            causes.extend(port_name(name).iter().map(|why| Cause::invalid(format!("{field}.name"), name, why)));
            if !taken.insert(name) {
                causes.push(Cause::duplicate(format!("{field}.name"), name));
            }
        }
    }
}

/// The name of a port: short, so that it can be part of a DNS name.
pub fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

fn judge_resources(container: &Value, field: &str, causes: &mut Vec<Cause>) {
    let quantity = |value: &Value| value.as_str().and_then(Quantity::parse);
    let resources = container.get("resources").unwrap_or(&Value::Null);
    for part in ["limits", "requests"] {
        for (name, value) in resources.map(part).into_iter().flatten() {
            if quantity(value).is_some_and(Quantity::is_negative) {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid(format!("{field}.{part}[{name}]"), value, why));
            }
        }
    }
    for (name, request) in resources.map("requests").into_iter().flatten() {
        let limit = resources.map("limits").and_then(|limits| limits.get(name));
        if let (Some(wanted), Some(limit)) = (quantity(request), limit.and_then(quantity))
            && wanted > limit
        {
            let why = format!("must be less than or equal to {name} limit of {}", limit.canonical());
            causes.push(Cause::invalid(format!("{field}.requests"), request, &why));
        }
    }
}

fn judge_toleration(toleration: &Value, field: &str, causes: &mut Vec<Cause>) {
    let (key, value) = (toleration.text("key"), toleration.text("value"));
    if !key.is_empty() {
        causes.extend(names::qualified_name(key).iter().map(|why| Cause::invalid(format!("{field}.key"), key, why)));
    }
    match toleration.text("operator") {
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(Cause::invalid(format!("{field}.operator"), value, why));
        }
        "Exists" => {}
        _ if key.is_empty() => {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(format!("{field}.operator"), toleration.text("operator"), why));
        }
        "" | "Equal" => {
            let problems = names::label_value(value);
            causes.extend(problems.iter().map(|why| Cause::invalid(format!("{field}.operator"), value, why)));
        }
        "Gt" | "Lt" => {}
        other => causes.push(Cause::not_supported(format!("{field}.operator"), other, &["Equal", "Exists"])),
    }
    let effect = toleration.text("effect");
    if !effect.is_empty() {
        causes.extend(one_of(&format!("{field}.effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(Cause::invalid(format!("{field}.effect"), effect, why));
    }
}

/// What of a pod's specification may change once it exists: images, the deadline, more tolerations.
pub fn judge_change(new: &Object, old: &Object) -> Vec<Cause> {
    for key in ["containers", "initContainers"] {
        if new.list(key).len() != old.list(key).len() {
            let why = if key == "containers" {
                "pod updates may not add or remove containers"
            } else {
                "pod updates may not add or remove init containers"
            };
            return vec![Cause::forbidden(format!("spec.{key}"), why)];
        }
    }
    let mut causes = Vec::new();
    match (new.number("activeDeadlineSeconds"), old.number("activeDeadlineSeconds")) {
        (Some(new), Some(old)) if new > old => {
            let why = format!("must be less than or equal to previous value: {old}");
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", new, &why));
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", &Value::Null, why));
        }
        _ => {}
    }
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: Vec<Value> = new.list("tolerations").iter().map(without_seconds).collect();
    if !old.list("tolerations").iter().all(|own| kept.contains(&without_seconds(own))) {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    if causes.is_empty() && settled(new, old) != settled(old, old) {
        causes.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
    causes
}

/// A specification without what may change.
fn settled(spec: &Object, old: &Object) -> Object {
    let mut spec = spec.clone();
    for key in ["activeDeadlineSeconds", "tolerations"] {
        spec.remove(key);
    }
    for key in ["containers", "initContainers"] {
        for container in each_mut(&mut spec, key) {
            container.remove("image");
        }
    }
    let grace = |spec: &Object| spec.number("terminationGracePeriodSeconds").unwrap_or(0);
    if grace(old) < 0 && grace(&spec) == 1 {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(grace(old)));
    }
    // A gate can be taken away, never put up.
    let gates: Vec<Value> = spec.list("schedulingGates").to_vec();
    if gates.iter().all(|gate| old.list("schedulingGates").contains(gate)) {
        spec.remove("schedulingGates");
    }
    spec
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::builtin::pod_spec::fill_spec;

    fn spec(value: Value) -> Object {
        let mut spec = value.as_object().unwrap().clone();
        fill_spec(&mut spec);
        spec
    }

    #[rstest]
    #[case(json!({"containers": [{"name": "a", "image": "i"}]}), &[])]
    #[case(json!({}), &["spec.containers"])]
    #[case(json!({"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]}), &["spec.containers[1].name"])]
    #[case(
        json!({"containers": [{"name": "A_", "image": ""}], "restartPolicy": "Maybe"}),
        &["spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy"]
    )]
    #[case(
        json!({"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 70000}], "env": [{"value": "x"}]}]}),
        &["spec.containers[0].ports[0].containerPort", "spec.containers[0].env[0].name"]
    )]
    #[case(
        json!({"containers": [{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
        &["spec.containers[0].volumeMounts[0].name"]
    )]
    #[case(
        json!({"containers": [{"name": "a", "image": "i"}], "tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
        &["spec.tolerations[0].operator"]
    )]
    #[case(
        json!({"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}),
        &["spec.containers[0].resources.requests"]
    )]
    fn mistakes_are_named_by_field(#[case] value: Value, #[case] fields: &[&str]) {
        let causes = judge_spec(&spec(value), "spec");
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[rstest]
    #[case(json!({"activeDeadlineSeconds": 5}), &[])]
    #[case(json!({"containers": [{"name": "a", "image": "other:2"}]}), &[])]
    #[case(json!({"tolerations": [{"key": "x"}, {"key": "y"}]}), &[])]
    #[case(json!({"tolerations": [{"key": "y"}]}), &["spec.tolerations"])]
    #[case(json!({"nodeName": "n"}), &["spec"])]
    #[case(json!({"containers": []}), &["spec.containers"])]
    fn little_of_a_pod_may_change(#[case] changes: Value, #[case] fields: &[&str]) {
        let base = json!({"containers": [{"name": "a", "image": "i:1"}], "tolerations": [{"key": "x"}]});
        let mut changed = base.clone();
        for (key, value) in changes.as_object().unwrap() {
            changed[key] = value.clone();
        }
        let causes = judge_change(&spec(changed), &spec(base));
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
