//! The generated definitions as they are printed, one file each, so that a change of an API shows in review.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p seaworthy-api crds` rewrites the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seaworthy_api::crds;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crds")
}

#[test]
fn generated_definitions_are_the_reviewed_ones() {
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    let mut expected = BTreeSet::new();
    let mut changed = Vec::new();
    for crd in crds::generated::all() {
        let file = format!("{}.yaml", crd.metadata.name.as_deref().unwrap());
        let yaml = serde_saphyr::to_string(&crd).unwrap();
        let path = folder().join(&file);
        if update {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &yaml).unwrap();
        }
        if std::fs::read_to_string(&path).ok().as_deref() != Some(&yaml) {
            changed.push(file.clone());
        }
        expected.insert(file);
    }
    let present: BTreeSet<String> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for file in present.difference(&expected) {
        if update {
            std::fs::remove_file(folder().join(file)).unwrap();
        } else {
            changed.push(file.clone());
        }
    }
    assert!(changed.is_empty(), "changed definitions (UPDATE_SNAPSHOTS=1 rewrites them): {}", changed.join(", "));
}

/// A group's definitions as they are embedded, one on a line.
fn embedded(group: &str) -> String {
    let of_group = crds::generated::all().into_iter().filter(|crd| crd.spec.group == group);
    let lines: Vec<String> = of_group.map(|crd| serde_json::to_string(&crd).unwrap()).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

#[test]
fn embedded_definitions_are_those_of_the_types() {
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    let groups: BTreeSet<String> = crds::generated::all().into_iter().map(|crd| crd.spec.group).collect();
    for group in &groups {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("definitions/{group}.json"));
        let expected = embedded(group);
        if update {
            std::fs::write(&path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "{group}.json is stale: UPDATE_SNAPSHOTS=1 cargo test -p seaworthy-api crds writes it"
        );
    }
    // The files were compiled in before they were written: after an update, the second run compares.
    if !update {
        assert_eq!(crds::all(), crds::generated::all());
    }
}

#[test]
fn printed_yaml_equals_the_definition() {
    for crd in crds::all() {
        let value = serde_json::to_value(&crd).unwrap();
        let read: serde_json::Value = serde_saphyr::from_str(&serde_saphyr::to_string(&crd).unwrap()).unwrap();
        assert_eq!(read, value);
    }
}

#[test]
fn the_order_is_by_group_and_name() {
    let names: Vec<_> = crds::all().into_iter().map(|crd| (crd.spec.group, crd.spec.names.plural)).collect();
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(names, sorted);
}

#[test]
fn a_group_has_its_own_definitions_only() {
    let group = "machineconfiguration.openshift.io";
    let plurals: Vec<_> = crds::for_group(group).into_iter().map(|crd| crd.spec.names.plural).collect();
    assert_eq!(
        plurals,
        [
            "containerruntimeconfigs",
            "controllerconfigs",
            "kubeletconfigs",
            "machineconfignodes",
            "machineconfigpools",
            "machineconfigs",
            "pinnedimagesets",
        ]
    );
    assert!(crds::for_group("example.com").is_empty());
}

#[test]
fn every_field_is_described() {
    /// Fields whose inside is a structure of Kubernetes, which describes it itself.
    const KUBERNETES: &[&str] = &["env", "resources", "volumeMounts", "volumes"];

    fn walk(path: &str, schema: &serde_json::Value, missing: &mut Vec<String>) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            // What Kubernetes itself describes.
            let embedded = path.ends_with(".metadata");
            if !embedded && schema.get("description").is_none() {
                missing.push(path.clone());
            }
            if !KUBERNETES.contains(&name.as_str()) {
                walk(&path, schema, missing);
            }
        }
        for nested in ["items", "additionalProperties"] {
            if let Some(schema) = schema.get(nested) {
                walk(&format!("{path}[]"), schema, missing);
            }
        }
    }
    let mut missing = Vec::new();
    for crd in crds::all() {
        let value = serde_json::to_value(&crd).unwrap();
        for version in value["spec"]["versions"].as_array().unwrap() {
            let schema = &version["schema"]["openAPIV3Schema"];
            walk(crd.metadata.name.as_deref().unwrap(), schema, &mut missing);
        }
    }
    assert!(missing.is_empty(), "fields without a description: {missing:#?}");
}
