//! Validation of environment variables and their sources.

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::core::config_map::data_key;
use crate::builtin::rules::pod::name_causes;
use crate::object::field_access::FieldAccess;
use crate::object::quantity::Quantity;

/// Fields of a pod that a variable may refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Resources that a variable may refer to.
const AMOUNTS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates `env`.
pub fn validate_variables(container: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (index, variable) in container.list("env").iter().enumerate() {
        let field = format!("{field}.env[{index}]");
        match variable.text("name") {
            "" => causes.push(Cause::required(format!("{field}.name"), "")),
            name => causes.extend(variable_name(&format!("{field}.name"), name)),
        }
        let Some(from) = variable.get("valueFrom").filter(|from| !from.is_null()) else { continue };
        let field = format!("{field}.valueFrom");
        let given = from.as_object().map_or(0, |from| from.values().filter(|value| !value.is_null()).count());
        if !variable.text("value").is_empty() && given > 0 {
            causes.push(Cause::invalid(&field, "", "may not be specified when `value` is not empty"));
        } else if given == 0 {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                       `fileKeyRef`";
            causes.push(Cause::invalid(&field, "", why));
        } else if given > 1 {
            causes.push(Cause::invalid(&field, "", "may not have more than one field specified at a time"));
        }
        if let Some(reference) = from.get("fieldRef") {
            causes.extend(validate_field_reference(reference, &format!("{field}.fieldRef"), &FIELDS));
        }
        if let Some(reference) = from.get("resourceFieldRef") {
            causes.extend(validate_amount_reference(reference, &format!("{field}.resourceFieldRef"), false));
        }
        for key in ["configMapKeyRef", "secretKeyRef"] {
            let Some(reference) = from.get(key) else { continue };
            let field = format!("{field}.{key}");
            causes.extend(name_causes(format!("{field}.name"), reference.text("name"), names::dns_subdomain));
            match reference.text("key") {
                "" => causes.push(Cause::required(format!("{field}.key"), "")),
                name => causes.extend(data_key(name).map(|why| Cause::invalid(format!("{field}.key"), name, &why))),
            }
        }
    }
}

/// Validates `envFrom`.
pub fn validate_sources(container: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (index, source) in container.list("envFrom").iter().enumerate() {
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            causes.extend(variable_name(&format!("{field}.envFrom[{index}].prefix"), prefix));
        }
        let mut found = 0;
        for key in ["configMapRef", "secretRef"] {
            let Some(reference) = source.get(key) else { continue };
            found += 1;
            if found > 1 {
                continue;
            }
            let field = format!("{field}.envFrom[{index}].{key}.name");
            match reference.text("name") {
                "" => causes.push(Cause::required(field, "")),
                name => causes.extend(name_causes(field, name, names::dns_subdomain)),
            }
        }
        let field = format!("{field}.envFrom");
        match found {
            0 => causes.push(Cause::invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => causes.push(Cause::invalid(field, "", "may not have more than one field specified at a time")),
        }
    }
}

fn variable_name(field: &str, name: &str) -> Option<Cause> {
    let is_fine = name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    (!is_fine).then(|| Cause::invalid(field, name, why))
}

/// Validates a reference to a field of the pod, or to one label or annotation.
pub fn validate_field_reference(reference: &Value, field: &str, known: &[&str]) -> Vec<Cause> {
    let path = reference.text("fieldPath");
    let at = format!("{field}.fieldPath");
    if path.is_empty() {
        return vec![Cause::required(at, "")];
    }
    let version = reference.text("apiVersion");
    if !matches!(version, "" | "v1") {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        return vec![Cause::invalid(at, path, &why)];
    }
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return match map {
            "metadata.labels" => name_causes(field, key, names::qualified_name),
            "metadata.annotations" => name_causes(field, &key.to_lowercase(), names::qualified_name),
            _ => {
                let why = format!("error converting fieldPath: field label does not support subscript: {path}");
                vec![Cause::invalid(at, path, &why)]
            }
        };
    }
    let exists = FIELDS.contains(&path)
        || matches!(
            path,
            "metadata.annotations"
                | "metadata.labels"
                | "spec.restartPolicy"
                | "spec.schedulerName"
                | "spec.hostNetwork"
                | "status.phase"
                | "status.nominatedNodeName"
        );
    match () {
        () if !exists => {
            let why = format!("error converting fieldPath: field label not supported: {path}");
            vec![Cause::invalid(at, path, &why)]
        }
        () if !known.contains(&path) => vec![Cause::not_supported(at, path, known)],
        () => Vec::new(),
    }
}

/// Validates a reference to a request or limit.
pub fn validate_amount_reference(reference: &Value, field: &str, is_in_volume: bool) -> Vec<Cause> {
    let resource = reference.text("resource");
    if is_in_volume && reference.text("containerName").is_empty() {
        return vec![Cause::required(format!("{field}.containerName"), "")];
    }
    if resource.is_empty() {
        return vec![Cause::required(format!("{field}.resource"), "")];
    }
    let is_huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if !AMOUNTS.contains(&resource) && !is_huge {
        return vec![Cause::not_supported(format!("{field}.resource"), resource, &AMOUNTS)];
    }
    let divisor = Quantity::parse(reference.text("divisor")).filter(|divisor| !divisor.is_zero());
    let Some(divisor) = divisor.map(|divisor| divisor.canonical()) else { return Vec::new() };
    let (kind, allowed): (&str, &[&str]) = match resource.split_once('.').map(|(_, kind)| kind) {
        Some("cpu") => ("cpu", &["1m", "1"]),
        Some("memory") => ("memory", MEMORY_DIVISORS),
        Some("ephemeral-storage") => ("local ephemeral storage", MEMORY_DIVISORS),
        _ => ("hugepages", MEMORY_DIVISORS),
    };
    if allowed.contains(&divisor.as_str()) {
        return Vec::new();
    }
    let why = match kind {
        "cpu" => "only divisor's values 1m and 1 are supported with the cpu resource".to_owned(),
        kind => format!(
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the \
             {kind} resource"
        ),
    };
    vec![Cause::invalid(format!("{field}.divisor"), resource, &why)]
}

const MEMORY_DIVISORS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
