//! Validation of the volumes of a pod.

use std::collections::HashSet;

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::rules::pod::name_causes;
use crate::builtin::rules::variable::{validate_amount_reference, validate_field_reference};
use crate::object::Object;
use crate::object::field_access::FieldAccess;
use crate::object::quantity::Quantity;

/// Required fields, by the volume's source.
const REQUIRED_FIELDS: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]),
    ("secret", &["secretName"]),
    ("configMap", &["name"]),
    ("nfs", &["server", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("csi", &["driver"]),
    ("gitRepo", &["repository"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &["reference"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
];

/// Fields of a pod that a downwardAPI volume may have.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The shortest lifetime of a projected token, in seconds.
const MIN_TOKEN_EXPIRATION_SECONDS: i64 = 600;

/// Validates all volumes; returns the names of the valid ones.
pub fn validate_volumes<'s>(spec: &'s Object, at: &str, causes: &mut Vec<Cause>) -> HashSet<&'s str> {
    let mut volumes = HashSet::new();
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let field = format!("{at}.volumes[{index}]");
        let before = causes.len();
        validate_source(volume, &field, causes);
        let name = volume.text("name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else {
            causes.extend(name_causes(format!("{field}.name"), name, names::dns_label));
        }
        if volumes.contains(name) {
            causes.push(Cause::duplicate(format!("{field}.name"), name));
        }
        // An invalid volume does not count.
        if causes.len() == before {
            volumes.insert(name);
        }
    }
    volumes
}

/// A pod without a service account cannot have a token volume.
pub fn validate_tokens(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    if !spec.text("serviceAccountName").is_empty() {
        return;
    }
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        for (number, source) in volume.list("projected.sources").iter().enumerate() {
            if source.get("serviceAccountToken").is_some() {
                let field = format!("{at}.volumes[{index}].projected.sources[{number}].serviceAccountToken");
                causes.push(Cause::forbidden(field, "must not be specified when serviceAccountName is not set"));
            }
        }
    }
}

/// Validates a relative path without `..`.
pub fn relative_path(field: &str, path: &str) -> Option<Cause> {
    if path.starts_with('/') {
        return Some(Cause::invalid(field, path, "must be a relative path"));
    }
    no_parent_segments(field, path)
}

fn no_parent_segments(field: &str, path: &str) -> Option<Cause> {
    path.split('/').any(|part| part == "..").then(|| Cause::invalid(field, path, "must not contain '..'"))
}

fn validate_source(volume: &Value, field: &str, causes: &mut Vec<Cause>) {
    let sources = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
    for (index, (kind, source)) in sources.enumerate() {
        let field = format!("{field}.{kind}");
        if index > 0 {
            causes.push(Cause::forbidden(field, "may not specify more than 1 volume type"));
            continue;
        }
        let needed =
            REQUIRED_FIELDS.iter().find(|(known, _)| *known == kind.as_str()).map_or(&[][..], |(_, keys)| *keys);
        for key in needed {
            if source.get(*key).is_none_or(|value| value.is_null() || *value == "") {
                causes.push(Cause::required(format!("{field}.{key}"), ""));
            }
        }
        match kind.as_str() {
            "hostPath" => {
                causes.extend(no_parent_segments(&format!("{field}.path"), source.text("path")));
                let own = source.text("type");
                if !HOST_PATHS.contains(&own) {
                    causes.push(Cause::not_supported(format!("{field}.type"), own, &HOST_PATHS));
                }
            }
            "nfs" if !source.text("path").starts_with('/') => {
                let path = source.text("path");
                causes.push(Cause::invalid(format!("{field}.path"), path, "must be an absolute path"));
            }
            "emptyDir" => {
                let limit = source.get("sizeLimit").and_then(Value::as_str).and_then(Quantity::parse);
                if limit.is_some_and(Quantity::is_negative) {
                    let why = "SizeLimit field must be a valid resource quantity";
                    causes.push(Cause::forbidden(format!("{field}.sizeLimit"), why));
                }
            }
            "secret" | "configMap" | "downwardAPI" | "projected" => {
                causes.extend(validate_mode(source, &field, "defaultMode"));
                match kind.as_str() {
                    "downwardAPI" => {
                        source.list("items").iter().for_each(|item| validate_downward_file(item, &field, causes));
                    }
                    "projected" => validate_projected(source, &field, causes),
                    _ => validate_items(source, &field, causes),
                }
            }
            _ => {}
        }
    }
}

fn validate_mode(source: &Value, field: &str, key: &str) -> Option<Cause> {
    let mode = source.number(key).filter(|mode| !(0..=0o777).contains(mode))?;
    let why = "must be a number between 0 and 0777 (octal), both inclusive";
    Some(Cause::invalid(format!("{field}.{key}"), mode, why))
}

fn validate_items(source: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (at, item) in source.list("items").iter().enumerate() {
        let field = format!("{field}.items[{at}]");
        if item.text("key").is_empty() {
            causes.push(Cause::required(format!("{field}.key"), ""));
        }
        validate_file(item, &field, causes);
    }
}

fn validate_file(item: &Value, field: &str, causes: &mut Vec<Cause>) {
    match item.text("path") {
        "" => causes.push(Cause::required(format!("{field}.path"), "")),
        path => causes.extend(relative_path(&format!("{field}.path"), path)),
    }
    causes.extend(validate_mode(item, field, "mode"));
}

/// Validates an item of a downwardAPI volume. The causes do not name its index.
fn validate_downward_file(item: &Value, field: &str, causes: &mut Vec<Cause>) {
    match item.text("path") {
        "" => causes.push(Cause::required(format!("{field}.path"), "")),
        path => causes.extend(relative_path(&format!("{field}.path"), path)),
    }
    match (item.get("fieldRef"), item.get("resourceFieldRef")) {
        (Some(_), Some(_)) => {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            causes.push(Cause::invalid(field, "resource", why));
        }
        (Some(reference), None) => {
            causes.extend(validate_field_reference(reference, &format!("{field}.fieldRef"), &FIELDS));
        }
        (None, Some(reference)) => {
            causes.extend(validate_amount_reference(reference, &format!("{field}.resourceFieldRef"), true));
        }
        (None, None) => causes.push(Cause::required(field, "one of fieldRef and resourceFieldRef is required")),
    }
    causes.extend(validate_mode(item, field, "mode"));
}

fn validate_projected(projected: &Value, field: &str, causes: &mut Vec<Cause>) {
    let mut paths = HashSet::new();
    for (at, source) in projected.list("sources").iter().enumerate() {
        let own = format!("{field}.sources[{at}]");
        let mut found = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"] {
            let Some(part) = source.get(kind).filter(|part| !part.is_null()) else { continue };
            found += 1;
            let inside = format!("{own}.{kind}");
            if found > 1 {
                causes.push(Cause::forbidden(&own, "may not specify more than 1 volume type per source"));
                continue;
            }
            let mut files: Vec<&str> = part.list("items").iter().map(|item| item.text("path")).collect();
            match kind {
                "secret" | "configMap" => {
                    if part.text("name").is_empty() {
                        causes.push(Cause::required(format!("{inside}.name"), ""));
                    }
                    validate_items(part, &inside, causes);
                }
                "downwardAPI" => {
                    part.list("items").iter().for_each(|item| validate_downward_file(item, &inside, causes))
                }
                "serviceAccountToken" => {
                    let seconds = part.number("expirationSeconds").unwrap_or(MIN_TOKEN_EXPIRATION_SECONDS);
                    if seconds < MIN_TOKEN_EXPIRATION_SECONDS {
                        let why = "may not specify a duration less than 10 minutes";
                        causes.push(Cause::invalid(format!("{inside}.expirationSeconds"), seconds, why));
                    }
                    match part.text("path") {
                        "" => causes.push(Cause::required(format!("{field}.path"), "")),
                        path => files.push(path),
                    }
                }
                _ => {}
            }
            for path in files.into_iter().filter(|path| !path.is_empty()) {
                if !paths.insert(path) {
                    let why = "conflicting duplicate paths";
                    causes.push(Cause::invalid(field, part.text("name"), why));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"name": "a", "emptyDir": {}}), &[])]
    #[case(json!({"name": "a", "hostPath": {"path": "/a/../b"}}), &["spec.volumes[0].hostPath.path"])]
    #[case(json!({"name": "a", "configMap": {}}), &["spec.volumes[0].configMap.name"])]
    #[case(
        json!({"name": "a", "secret": {"secretName": "s", "items": [{"key": "k", "path": "/x"}]}}),
        &["spec.volumes[0].secret.items[0].path"]
    )]
    #[case(json!({"name": "a", "emptyDir": {}, "nfs": {}}), &["spec.volumes[0].nfs"])]
    fn mistakes_are_named_by_field(#[case] volume: Value, #[case] fields: &[&str]) {
        let spec = json!({"volumes": [volume]}).as_object().unwrap().clone();
        let mut causes = Vec::new();
        validate_volumes(&spec, "spec", &mut causes);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
