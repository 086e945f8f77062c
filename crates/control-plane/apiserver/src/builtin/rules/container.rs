//! Validation of containers: probes, hooks, mounts and resources.

use std::collections::HashSet;

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::rules::pod::{name_causes, not_negative, one_of, port, port_name};
use crate::builtin::rules::security::validate_container_security;
use crate::builtin::rules::variable::{validate_sources, validate_variables};
use crate::builtin::rules::volume::relative_path;
use crate::object::field_access::FieldAccess;
use crate::object::quantity::Quantity;

/// The properties of the pod that the validation of a container needs.
pub struct PodContext<'p> {
    /// The valid volumes.
    pub volumes: &'p HashSet<&'p str>,
    /// `terminationGracePeriodSeconds`.
    pub grace: i64,
    /// Whether it uses the node's network.
    pub is_on_host: bool,
    /// The names of its resource claims.
    pub claims: Vec<&'p str>,
}

/// The role of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ContainerRole {
    Main,
    Init,
    Ephemeral,
}

const ONE_HANDLER: &str = "may not specify more than 1 handler type";

/// Validates a container.
pub fn validate_container(
    container: &Value,
    field: &str,
    role: ContainerRole,
    pod: &PodContext<'_>,
    causes: &mut Vec<Cause>,
) {
    let name = container.text("name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    } else {
        causes.extend(name_causes(format!("{field}.name"), name, names::dns_label));
    }
    let image = container.text("image");
    if image.is_empty() {
        causes.push(Cause::required(format!("{field}.image"), ""));
    } else if image.trim() != image {
        causes.push(Cause::invalid(format!("{field}.image"), image, "must not have leading or trailing whitespace"));
    }
    let messages = ["File", "FallbackToLogsOnError"];
    let policy = container.text("terminationMessagePolicy");
    causes.extend(one_of(&format!("{field}.terminationMessagePolicy"), policy, &messages));
    validate_ports(container, field, pod, causes);
    validate_variables(container, field, causes);
    validate_sources(container, field, causes);
    validate_mounts(container, field, pod, causes);
    for (at, device) in container.list("volumeDevices").iter().enumerate() {
        let name = device.text("name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.volumeDevices[{at}].name"), ""));
        } else if !pod.volumes.contains(name) {
            causes.push(Cause::not_found(format!("{field}.volumeDevices[{at}].name"), name));
        }
    }
    let pulls = ["Always", "IfNotPresent", "Never"];
    causes.extend(one_of(&format!("{field}.imagePullPolicy"), container.text("imagePullPolicy"), &pulls));
    validate_resources(container, &format!("{field}.resources"), pod, causes);
    for policy in container.list("resizePolicy") {
        let known = ["NotRequired", "RestartContainer"];
        causes.extend(one_of(&format!("{field}.resizePolicy"), policy.text("restartPolicy"), &known));
    }
    validate_container_security(container, &format!("{field}.securityContext"), causes);
    let policies = ["Always", "Never", "OnFailure"];
    let restart = container.text("restartPolicy");
    if !restart.is_empty() {
        causes.extend(one_of(&format!("{field}.restartPolicy"), restart, &policies));
    }
    validate_lifecycle(container, field, role, pod, causes);
}

/// Validates hooks and probes. Init containers without `restartPolicy: Always` have none.
fn validate_lifecycle(
    container: &Value,
    field: &str,
    role: ContainerRole,
    pod: &PodContext<'_>,
    causes: &mut Vec<Cause>,
) {
    let is_lasting =
        role == ContainerRole::Main || (role == ContainerRole::Init && container.text("restartPolicy") == "Always");
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(own) = container.get(key) else { continue };
        let field = format!("{field}.{key}");
        if !is_lasting {
            if role == ContainerRole::Init {
                let why = "may not be set for init containers without restartPolicy=Always";
                causes.push(Cause::forbidden(field, why));
            }
            continue;
        }
        if key == "lifecycle" {
            for hook in ["postStart", "preStop"] {
                if let Some(handler) = own.get(hook) {
                    validate_handler(handler, &format!("{field}.{hook}"), pod.grace, causes);
                }
            }
            continue;
        }
        validate_handler(own, &field, pod.grace, causes);
        for key in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
            causes.extend(not_negative(&format!("{field}.{key}"), own.number(key)));
        }
        let grace = own.number("terminationGracePeriodSeconds");
        match key {
            "readinessProbe" => {
                if let Some(grace) = grace {
                    let why = "must not be set for readinessProbes";
                    causes.push(Cause::invalid(format!("{field}.terminationGracePeriodSeconds"), grace, why));
                }
            }
            _ => {
                if let Some(grace) = grace.filter(|grace| *grace <= 0) {
                    let why = "must be greater than 0";
                    causes.push(Cause::invalid(format!("{field}.terminationGracePeriodSeconds"), grace, why));
                }
                if let Some(times) = own.number("successThreshold").filter(|times| *times > 1) {
                    causes.push(Cause::invalid(format!("{field}.successThreshold"), times, "must be 1"));
                }
            }
        }
    }
}

fn validate_handler(handler: &Value, field: &str, grace: i64, causes: &mut Vec<Cause>) {
    let mut found = 0;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(own) = handler.get(key).filter(|own| !own.is_null()) else { continue };
        let field = format!("{field}.{key}");
        found += 1;
        if found > 1 {
            causes.push(Cause::forbidden(field, ONE_HANDLER));
            continue;
        }
        match key {
            "exec" if own.list("command").is_empty() => causes.push(Cause::required(format!("{field}.command"), "")),
            "httpGet" => {
                if own.text("path").is_empty() {
                    causes.push(Cause::required(format!("{field}.path"), ""));
                }
                causes.extend(port_or_name(&format!("{field}.port"), own.get("port")));
                causes.extend(one_of(&format!("{field}.scheme"), own.text("scheme"), &["HTTP", "HTTPS"]));
                for header in own.list("httpHeaders") {
                    let name = header.text("name");
                    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                        let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
                                   'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
                        causes.push(Cause::invalid(format!("{field}.httpHeaders"), name, why));
                    }
                }
            }
            "tcpSocket" => causes.extend(port_or_name(&format!("{field}.port"), own.get("port"))),
            "grpc" => causes.extend(port(&format!("{field}.port"), own.number("port").unwrap_or(0))),
            "sleep" => {
                let seconds = own.number("seconds").unwrap_or(0);
                if seconds < 0 || seconds > grace {
                    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    causes.push(Cause::invalid(field, seconds, &why));
                }
            }
            _ => {}
        }
    }
    if found == 0 {
        causes.push(Cause::required(field, "must specify a handler type"));
    }
}

/// Validates a port number or name.
pub fn port_or_name(field: &str, value: Option<&Value>) -> Vec<Cause> {
    match value {
        Some(Value::String(name)) => {
            port_name(name).iter().map(|why| Cause::invalid(field, name.as_str(), why)).collect()
        }
        other => port(field, other.and_then(Value::as_i64).unwrap_or(0)).into_iter().collect(),
    }
}

fn validate_ports(container: &Value, field: &str, pod: &PodContext<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, own) in container.list("ports").iter().enumerate() {
        let field = format!("{field}.ports[{index}]");
        let name = own.text("name");
        if !name.is_empty() {
            causes.extend(port_name(name).iter().map(|why| Cause::invalid(format!("{field}.name"), name, why)));
            if !taken.insert(name) {
                causes.push(Cause::duplicate(format!("{field}.name"), name));
            }
        }
        match own.number("containerPort").unwrap_or(0) {
            0 => causes.push(Cause::required(format!("{field}.containerPort"), "")),
            number => causes.extend(port(&format!("{field}.containerPort"), number)),
        }
        if let Some(number) = own.number("hostPort").filter(|number| *number != 0) {
            causes.extend(port(&format!("{field}.hostPort"), number));
            if pod.is_on_host && own.number("containerPort") != Some(number) {
                let why = "must match `containerPort` when `hostNetwork` is true";
                causes.push(Cause::invalid(format!("{field}.hostPort"), number, why));
            }
        }
        causes.extend(one_of(&format!("{field}.protocol"), own.text("protocol"), &["SCTP", "TCP", "UDP"]));
    }
}

fn validate_mounts(container: &Value, field: &str, pod: &PodContext<'_>, causes: &mut Vec<Cause>) {
    let mut paths = HashSet::new();
    // Some problems are reported without the index of the mount.
    let all = format!("{field}.volumeMounts");
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let field = format!("{field}.volumeMounts[{index}]");
        let name = mount.text("name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else if !pod.volumes.contains(name) {
            causes.push(Cause::not_found(format!("{field}.name"), name));
        }
        let path = mount.text("mountPath");
        if path.is_empty() {
            causes.push(Cause::required(format!("{field}.mountPath"), ""));
        } else if !paths.insert(path) {
            causes.push(Cause::invalid(format!("{field}.mountPath"), path, "must be unique"));
        }
        let (part, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        if !part.is_empty() {
            causes.extend(relative_path(&format!("{all}.subPath"), part));
        }
        if !expression.is_empty() {
            if part.is_empty() {
                causes.extend(relative_path(&format!("{all}.subPathExpr"), expression));
            } else {
                let why = "subPathExpr and subPath are mutually exclusive";
                causes.push(Cause::invalid(format!("{field}.subPathExpr"), expression, why));
            }
        }
        match mount.text("mountPropagation") {
            "" | "None" | "HostToContainer" => {}
            "Bidirectional" => {
                if !container.flag("securityContext.privileged") {
                    let why = "Bidirectional mount propagation is available only to privileged containers";
                    causes.push(Cause::forbidden(format!("{all}.mountPropagation"), why));
                }
            }
            other => {
                let known = ["Bidirectional", "HostToContainer", "None"];
                causes.push(Cause::not_supported(format!("{all}.mountPropagation"), other, &known));
            }
        }
        match mount.text("recursiveReadOnly") {
            "" | "Disabled" => {}
            "Enabled" | "IfPossible" => {
                if !mount.flag("readOnly") {
                    let why = "may only be specified when readOnly is true";
                    causes.push(Cause::forbidden(format!("{all}.recursiveReadOnly"), why));
                }
            }
            other => {
                let known = ["Disabled", "Enabled", "IfPossible"];
                causes.push(Cause::not_supported(format!("{all}.recursiveReadOnly"), other, &known));
            }
        }
    }
}

/// Whether a resource is one of the standard ones.
pub fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Whether a resource is an extended one.
pub fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn validate_resources(container: &Value, field: &str, pod: &PodContext<'_>, causes: &mut Vec<Cause>) {
    let quantity = |value: &Value| value.as_str().and_then(Quantity::parse);
    let resources = container.get("resources").unwrap_or(&Value::Null);
    let amounts = |part: &str| resources.map(part).into_iter().flatten();
    for part in ["limits", "requests"] {
        for (name, value) in amounts(part) {
            let field = format!("{field}.{part}[{name}]");
            validate_resource_name(name, &field, causes);
            if quantity(value).is_some_and(Quantity::is_negative) {
                causes.push(Cause::invalid(&field, value, "must be greater than or equal to 0"));
            }
            if is_extended(name) && quantity(value).is_some_and(|amount| !amount.is_whole()) {
                causes.push(Cause::invalid(&field, value, "must be an integer"));
            }
        }
        if part == "limits" {
            continue;
        }
        for (name, request) in amounts("requests") {
            let limit = resources.map("limits").and_then(|limits| limits.get(name));
            let is_firm = is_extended(name) || name.starts_with("hugepages-");
            match (quantity(request), limit.and_then(quantity)) {
                (Some(wanted), Some(limit)) if is_firm && wanted != limit => {
                    let why = format!("must be equal to {name} limit of {}", limit.canonical());
                    causes.push(Cause::invalid(format!("{field}.requests"), request, &why));
                }
                (Some(wanted), Some(limit)) if wanted > limit => {
                    let why = format!("must be less than or equal to {name} limit of {}", limit.canonical());
                    causes.push(Cause::invalid(format!("{field}.requests"), request, &why));
                }
                (Some(_), None) if is_firm => {
                    let why = "Limit must be set for non overcommitable resources";
                    causes.push(Cause::required(format!("{field}.limits"), why));
                }
                _ => {}
            }
        }
    }
    let names: Vec<&String> = amounts("limits").chain(amounts("requests")).map(|(name, _)| name).collect();
    let has = |is: &dyn Fn(&str) -> bool| names.iter().any(|name| is(name));
    if has(&|name| name.starts_with("hugepages-")) && !has(&|name| matches!(name, "cpu" | "memory")) {
        causes.push(Cause::forbidden(field, "HugePages require cpu or memory"));
    }
    for (at, claim) in resources.list("claims").iter().enumerate() {
        let name = claim.text("name");
        if !pod.claims.contains(&name) {
            let mut cause = Cause::not_found(format!("{field}.claims[{at}]"), name);
            let known = if pod.claims.is_empty() { "which is empty".to_owned() } else { pod.claims.join(", ") };
            cause.message.push_str(&format!(": must be one of the names in pod.spec.resourceClaims {known}"));
            causes.push(cause);
        }
    }
}

fn validate_resource_name(name: &str, field: &str, causes: &mut Vec<Cause>) {
    let problems = names::qualified_name(name);
    if problems.is_empty() && !name.contains('/') && !is_standard(name) {
        causes.push(Cause::invalid(field, name, "must be a standard resource type or fully qualified"));
    }
    causes.extend(problems.iter().map(|why| Cause::invalid(field, name, why)));
    if !name.contains('/') && !is_standard(name) {
        causes.push(Cause::invalid(field, name, "must be a standard resource for containers"));
    }
}
