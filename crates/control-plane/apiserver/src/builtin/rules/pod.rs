//! Validation of pod specifications, in pods and in pod templates.

use std::collections::HashSet;

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::builtin::rules::container::{ContainerRole, PodContext, validate_container};
use crate::builtin::rules::placement::{validate_affinity, validate_spread, validate_toleration};
use crate::builtin::rules::security::validate_pod_security;
use crate::builtin::rules::volume::{validate_tokens, validate_volumes};
use crate::object::Object;
use crate::object::field_access::{FieldAccess, each_mut};

/// Validates a port number.
pub fn port(field: &str, number: i64) -> Option<Cause> {
    let is_port = (1..=65535).contains(&number);
    (!is_port).then(|| Cause::invalid(field, number, "must be between 1 and 65535, inclusive"))
}

/// Validates that a value is one of these.
pub fn one_of(field: &str, value: &str, words: &[&str]) -> Option<Cause> {
    match value {
        "" => Some(Cause::required(field, "")),
        word if words.contains(&word) => None,
        word => Some(Cause::not_supported(field, word, words)),
    }
}

/// Validates that a number is not negative.
pub fn not_negative(field: &str, number: Option<i64>) -> Option<Cause> {
    let number = number.filter(|number| *number < 0)?;
    Some(Cause::invalid(field, number, "must be greater than or equal to 0"))
}

/// The problems of a name, as causes for a field.
pub fn name_causes(field: impl std::fmt::Display, text: &str, rule: fn(&str) -> Vec<String>) -> Vec<Cause> {
    let field = field.to_string();
    rule(text).iter().map(|why| Cause::invalid(&field, text, why)).collect()
}

/// Validates an IP address.
pub fn address(field: impl std::fmt::Display, text: &str) -> Option<Cause> {
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    (!is_address).then(|| Cause::invalid(field, text, why))
}

/// Validates a pod specification. `at` is its path.
pub fn validate_spec(spec: &Object, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let volumes = validate_volumes(spec, at, &mut causes);
    if spec.list("containers").is_empty() {
        causes.push(Cause::required(format!("{at}.containers"), ""));
    }
    validate_claims(spec, at, &mut causes);
    let pod = PodContext {
        volumes: &volumes,
        grace: spec.number("terminationGracePeriodSeconds").unwrap_or(0),
        is_on_host: spec.flag("hostNetwork"),
        claims: spec.list("resourceClaims").iter().map(|claim| claim.text("name")).collect(),
    };
    let mut taken = HashSet::new();
    for (key, role) in [
        ("containers", ContainerRole::Main),
        ("initContainers", ContainerRole::Init),
        ("ephemeralContainers", ContainerRole::Ephemeral),
    ] {
        for (index, container) in spec.list(key).iter().enumerate() {
            let field = format!("{at}.{key}[{index}]");
            let name = container.text("name");
            if !name.is_empty() && !taken.insert(name) {
                causes.push(Cause::duplicate(format!("{field}.name"), name));
            }
            validate_container(container, &field, role, &pod, &mut causes);
        }
    }
    validate_host_ports(spec, at, &mut causes);
    validate_tokens(spec, at, &mut causes);
    let restarts = ["Always", "OnFailure", "Never"];
    causes.extend(one_of(&format!("{at}.restartPolicy"), spec.text("restartPolicy"), &restarts));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    causes.extend(one_of(&format!("{at}.dnsPolicy"), spec.text("dnsPolicy"), &policies));
    causes.extend(labels(&format!("{at}.nodeSelector"), spec.map("nodeSelector")));
    validate_pod_security(spec, at, &mut causes);
    validate_affinity(spec, at, &mut causes);
    validate_dns(spec, at, &mut causes);
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let field = format!("{at}.readinessGates[{index}].conditionType");
        causes.extend(name_causes(field, gate.text("conditionType"), names::qualified_name));
    }
    validate_gates(spec, at, &mut causes);
    validate_spread(spec, at, &mut causes);
    for key in ["serviceAccountName", "nodeName"] {
        if !spec.text(key).is_empty() {
            causes.extend(name_causes(format!("{at}.{key}"), spec.text(key), names::dns_subdomain));
        }
    }
    let is_time = |seconds: &i64| (1..=i64::from(i32::MAX)).contains(seconds);
    if let Some(seconds) = spec.number("activeDeadlineSeconds").filter(|seconds| !is_time(seconds)) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(format!("{at}.activeDeadlineSeconds"), seconds, why));
    }
    for key in ["hostname", "subdomain"] {
        if !spec.text(key).is_empty() {
            causes.extend(name_causes(format!("{at}.{key}"), spec.text(key), names::dns_label));
        }
    }
    for (index, toleration) in spec.list("tolerations").iter().enumerate() {
        validate_toleration(toleration, &format!("{at}.tolerations[{index}]"), &mut causes);
    }
    for (index, alias) in spec.list("hostAliases").iter().enumerate() {
        let field = format!("{at}.hostAliases[{index}]");
        causes.extend(address(format!("{field}.ip"), alias.text("ip")));
        for (number, name) in alias.list("hostnames").iter().filter_map(Value::as_str).enumerate() {
            causes.extend(name_causes(format!("{field}.hostnames[{number}]"), name, names::dns_subdomain));
        }
    }
    for key in ["priorityClassName", "runtimeClassName"] {
        if !spec.text(key).is_empty() {
            causes.extend(name_causes(format!("{at}.{key}"), spec.text(key), names::dns_subdomain));
        }
    }
    validate_system(spec, at, &mut causes);
    causes
}

/// Validates a map of labels.
pub fn labels(field: &str, wanted: Option<&Object>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in wanted.into_iter().flatten() {
        causes.extend(name_causes(field, key, names::qualified_name));
        causes.extend(name_causes(field, value.as_str().unwrap_or_default(), names::label_value));
    }
    causes
}

fn validate_claims(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    for (index, claim) in spec.list("resourceClaims").iter().enumerate() {
        let given = ["resourceClaimName", "resourceClaimTemplateName"].iter().filter(|key| claim.get(**key).is_some());
        let field = format!("{at}.resourceClaims[{index}]");
        match given.count() {
            1 => {}
            0 => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                causes.push(Cause::invalid(field, claim, why));
            }
            _ => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                causes.push(Cause::invalid(field, claim, why));
            }
        }
    }
}

/// Host ports must be unique.
fn validate_host_ports(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, container) in spec.list("containers").iter().enumerate() {
        for (number, own) in container.list("ports").iter().enumerate() {
            let port = own.number("hostPort").unwrap_or(0);
            let shown = format!("{}/{}/{port}", own.text("protocol"), own.text("hostIP"));
            if port != 0 && !taken.insert(shown.clone()) {
                let field = format!("{at}.containers[{index}].ports[{number}].hostPort");
                causes.push(Cause::duplicate(field, shown.as_str()));
            }
        }
    }
}

fn validate_dns(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.dnsConfig");
    let servers = spec.list("dnsConfig.nameservers");
    if spec.text("dnsPolicy") == "None" {
        if spec.get("dnsConfig").is_none() {
            causes.push(Cause::required(&field, "must provide `dnsConfig` when `dnsPolicy` is None"));
        } else if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            causes.push(Cause::required(format!("{field}.nameservers"), why));
        }
    }
    if servers.len() > 3 {
        let why = "must not have more than 3 nameservers";
        causes.push(Cause::invalid(format!("{field}.nameservers"), &Value::from(servers), why));
    }
    for (index, server) in servers.iter().enumerate() {
        causes.extend(address(format!("{field}.nameservers[{index}]"), server.as_str().unwrap_or_default()));
    }
    for (index, search) in spec.list("dnsConfig.searches").iter().filter_map(Value::as_str).enumerate() {
        let name = search.strip_suffix('.').unwrap_or(search);
        if name.is_empty() || name.split('.').all(is_search_part) {
            continue;
        }
        let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
                   '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                   validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
        causes.push(Cause::invalid(format!("{field}.searches[{index}]"), search, why));
    }
    for (index, option) in spec.list("dnsConfig.options").iter().enumerate() {
        if option.text("name").is_empty() {
            causes.push(Cause::required(format!("{field}.options[{index}]"), "must not be empty"));
        }
    }
}

fn is_search_part(part: &str) -> bool {
    let part = part.strip_prefix('_').unwrap_or(part).as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_inside = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte);
    is_end(part.first()) && is_end(part.last()) && part.iter().all(is_inside)
}

fn validate_gates(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, gate) in spec.list("schedulingGates").iter().enumerate() {
        let (name, field) = (gate.text("name"), format!("{at}.schedulingGates[{index}]"));
        causes.extend(name_causes(&field, name, names::qualified_name));
        if !taken.insert(name) {
            causes.push(Cause::duplicate(field, name));
        }
    }
}

/// Validates fields that depend on the operating system.
fn validate_system(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    let name = spec.text("os.name");
    if spec.get("os").is_none() {
        return;
    }
    causes.extend(one_of(&format!("{at}.os"), name, &["linux", "windows"]));
    if name == "windows" {
        let theirs = ["runAsUser", "runAsGroup", "fsGroup", "seLinuxOptions", "seccompProfile", "sysctls"];
        for key in theirs.iter().chain(&["supplementalGroups", "fsGroupChangePolicy", "appArmorProfile"]) {
            if spec.at(&format!("securityContext.{key}")).is_some() {
                let field = format!("{at}.securityContext.{key}");
                causes.push(Cause::forbidden(field, "cannot be set for a windows pod"));
            }
        }
    }
}

/// Validates the name of a port.
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

/// Validates a change of a pod specification: images, the deadline and additional tolerations.
pub fn validate_change(new: &Object, old: &Object) -> Vec<Cause> {
    for key in ["containers", "initContainers"] {
        if new.list(key).len() != old.list(key).len() {
            let why = "pod updates may not add or remove containers";
            return vec![Cause::forbidden(format!("spec.{key}"), why)];
        }
    }
    let mut causes = Vec::new();
    match (new.number("activeDeadlineSeconds"), old.number("activeDeadlineSeconds")) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            let why = "must be between 0 and 2147483647, inclusive";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", new, why));
        }
        (Some(new), Some(old)) if new > old => {
            let why = "must be less than or equal to previous value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", new, why));
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
    // Gates can only be removed.
    for (at, gate) in new.list("schedulingGates").iter().enumerate() {
        if !old.list("schedulingGates").contains(gate) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.text("name"));
            causes.push(Cause::forbidden(format!("spec.schedulingGates[{at}].name"), &why));
        }
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

/// A specification without its mutable fields.
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
    spec.remove("schedulingGates");
    spec
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::builtin::core::pod_defaults::fill_spec;

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
        let causes = validate_spec(&spec(value), "spec");
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
        let causes = validate_change(&spec(changed), &spec(base));
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
