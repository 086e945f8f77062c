//! What a pod's volumes may say.

use std::collections::HashSet;

use seaworthy_schema::{Cause, names};
use serde_json::Value;

use crate::builtin::rules::pod::broken;
use crate::builtin::rules::variable::{judge_amount_reference, judge_field_reference};
use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::object::reach::Reach;

/// Fields that a volume of kinds must have, by the volume's source.
const NEEDED: &[(&str, &[&str])] = &[
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

/// Fields of a pod that a file may hold.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The least that a token in a volume is valid, in seconds.
const SHORTEST_TOKEN: i64 = 600;

/// Judges all volumes; the answer is the names of those that are fine.
pub fn judge_volumes<'s>(spec: &'s Object, at: &str, causes: &mut Vec<Cause>) -> HashSet<&'s str> {
    let mut volumes = HashSet::new();
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let field = format!("{at}.volumes[{index}]");
        let before = causes.len();
        judge_source(volume, &field, causes);
        let name = volume.text("name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else {
            causes.extend(broken(format!("{field}.name"), name, names::dns_label));
        }
        if volumes.contains(name) {
            causes.push(Cause::duplicate(format!("{field}.name"), name));
        }
        // A volume that is wrong is none.
        if causes.len() == before {
            volumes.insert(name);
        }
    }
    volumes
}

/// A pod that is nobody's has no token to put into a volume.
pub fn judge_tokens(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
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

/// A path inside something: it neither begins at the root nor leads out.
pub fn relative_path(field: &str, path: &str) -> Option<Cause> {
    if path.starts_with('/') {
        return Some(Cause::invalid(field, path, "must be a relative path"));
    }
    no_way_up(field, path)
}

fn no_way_up(field: &str, path: &str) -> Option<Cause> {
    path.split('/').any(|part| part == "..").then(|| Cause::invalid(field, path, "must not contain '..'"))
}

fn judge_source(volume: &Value, field: &str, causes: &mut Vec<Cause>) {
    let sources = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
    for (index, (kind, source)) in sources.enumerate() {
        let field = format!("{field}.{kind}");
        if index > 0 {
            causes.push(Cause::forbidden(field, "may not specify more than 1 volume type"));
            continue;
        }
        let needed = NEEDED.iter().find(|(known, _)| *known == kind.as_str()).map_or(&[][..], |(_, keys)| *keys);
        for key in needed {
            if source.get(*key).is_none_or(|value| value.is_null() || *value == "") {
                causes.push(Cause::required(format!("{field}.{key}"), ""));
            }
        }
        match kind.as_str() {
            "hostPath" => {
                causes.extend(no_way_up(&format!("{field}.path"), source.text("path")));
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
                causes.extend(judge_mode(source, &field, "defaultMode"));
                match kind.as_str() {
                    "downwardAPI" => {
                        source.list("items").iter().for_each(|item| judge_fact(item, &field, causes));
                    }
                    "projected" => judge_projected(source, &field, causes),
                    _ => judge_items(source, &field, causes),
                }
            }
            _ => {}
        }
    }
}

fn judge_mode(source: &Value, field: &str, key: &str) -> Option<Cause> {
    let mode = source.number(key).filter(|mode| !(0..=0o777).contains(mode))?;
    let why = "must be a number between 0 and 0777 (octal), both inclusive";
    Some(Cause::invalid(format!("{field}.{key}"), mode, why))
}

fn judge_items(source: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (at, item) in source.list("items").iter().enumerate() {
        let field = format!("{field}.items[{at}]");
        if item.text("key").is_empty() {
            causes.push(Cause::required(format!("{field}.key"), ""));
        }
        judge_file(item, &field, causes);
    }
}

fn judge_file(item: &Value, field: &str, causes: &mut Vec<Cause>) {
    match item.text("path") {
        "" => causes.push(Cause::required(format!("{field}.path"), "")),
        path => causes.extend(relative_path(&format!("{field}.path"), path)),
    }
    causes.extend(judge_mode(item, field, "mode"));
}

/// A file that holds something about the pod. Which of the files is wrong is not said.
fn judge_fact(item: &Value, field: &str, causes: &mut Vec<Cause>) {
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
            causes.extend(judge_field_reference(reference, &format!("{field}.fieldRef"), &FIELDS));
        }
        (None, Some(reference)) => {
            causes.extend(judge_amount_reference(reference, &format!("{field}.resourceFieldRef"), true));
        }
        (None, None) => causes.push(Cause::required(field, "one of fieldRef and resourceFieldRef is required")),
    }
    causes.extend(judge_mode(item, field, "mode"));
}

fn judge_projected(projected: &Value, field: &str, causes: &mut Vec<Cause>) {
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
                    judge_items(part, &inside, causes);
                }
                "downwardAPI" => part.list("items").iter().for_each(|item| judge_fact(item, &inside, causes)),
                "serviceAccountToken" => {
                    let seconds = part.number("expirationSeconds").unwrap_or(SHORTEST_TOKEN);
                    if seconds < SHORTEST_TOKEN {
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
        judge_volumes(&spec, "spec", &mut causes);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
