//! The rendered object: its name, annotations, owner and size.

use seaworthy_ignition::{Node, Severity};
use seaworthy_render::{Context, ControllerConfig, keys, object};
use serde_json::json;

use crate::support::*;

#[test]
fn the_object_has_a_name_annotations_an_owner_a_spec_and_nothing_else() {
    let controller_config = json!({
        "metadata": {
            "name": "machine-config-controller",
            "annotations": {keys::RELEASE_VERSION: "4.22.1"},
        },
        "spec": {"baseOSContainerImage": BASE, "baseOSExtensionsContainerImage": "ext@sha256:cc", "osImageURL": "old"},
    });
    let context = Context {
        build: "hash".to_owned(),
        controller_config: ControllerConfig::read(&Node::from_json(&controller_config)).unwrap(),
        ..Context::default()
    };
    let outcome = rendered_in(&worker(), &[generated_by("hash", mc("00-worker", json!({})))], &context);
    assert_eq!(
        outcome.object,
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {
                "name": outcome.name,
                "annotations": {
                    "machineconfiguration.openshift.io/generated-by-controller-version": "hash",
                    "machineconfiguration.openshift.io/release-image-version": "4.22.1",
                },
                "ownerReferences": [{
                    "apiVersion": "machineconfiguration.openshift.io/v1",
                    "blockOwnerDeletion": true,
                    "controller": true,
                    "kind": "MachineConfigPool",
                    "name": "worker",
                    "uid": "uid-of-worker",
                }],
            },
            "spec": {
                "baseOSExtensionsContainerImage": "ext@sha256:cc",
                "config": {"ignition": {"version": "3.5.0"}},
                "extensions": [],
                "fips": false,
                "kernelArguments": [],
                "kernelType": "default",
                "osImageURL": BASE,
            },
        })
    );
}

#[test]
fn a_release_that_is_not_known_is_an_empty_annotation() {
    let outcome = rendered(&worker(), &[mc("00", json!({}))]);
    assert_eq!(outcome.annotations[keys::RELEASE_VERSION], "");
    assert_eq!(outcome.annotations.len(), 2);
}

#[test]
fn an_overridden_os_image_is_annotated() {
    let outcome = rendered(&worker(), &[mc("00", json!({"osImageURL": "x@sha256:dd"}))]);
    let annotations = &outcome.object["metadata"]["annotations"];
    assert_eq!(annotations["machineconfiguration.openshift.io/os-image-url-overridden"], "true");
}

#[test]
fn the_name_does_not_depend_on_metadata() {
    let plain = rendered(&worker(), &[ign("00", files(json!([file("/a", "data:,x")])))]);
    let mut other = ign("zz", files(json!([file("/a", "data:,x")])));
    other["metadata"]["annotations"] = json!({"note": "x"});
    let mut context = context();
    context.build = "other".to_owned();
    context.controller_config.release_version = "5".to_owned();
    let mut pool = worker();
    pool.uid = "another".to_owned();
    let outcome = rendered_in(&pool, &[other], &context);
    assert_eq!(outcome.name, plain.name);
    assert_ne!(outcome.object["metadata"], plain.object["metadata"]);
}

#[test]
fn the_name_depends_on_every_field_of_the_spec() {
    let base = rendered(&worker(), &[mc("00", json!({}))]).name;
    let specs = [
        json!({"fips": true}),
        json!({"kernelArguments": ["a"]}),
        json!({"extensions": ["ipsec"]}),
        json!({"kernelType": "realtime"}),
        json!({"osImageURL": "x"}),
        json!({"baseOSExtensionsContainerImage": "x"}),
        json!({"config": with_version("3.5.0", files(json!([file("/a", "data:,x")])))}),
    ];
    let names: std::collections::BTreeSet<String> =
        specs.iter().map(|spec| rendered(&worker(), &[mc("00", spec.clone())]).name).chain([base]).collect();
    assert_eq!(names.len(), specs.len() + 1);
}

/// A config whose rendered object has about this many bytes.
fn of_size(bytes: usize) -> Outcome {
    let body = format!("data:,{}", "x".repeat(bytes));
    rendered(&worker(), &[ign("00", files(json!([file("/a", &body)])))])
}

#[test]
fn the_size_limit_is_a_finding_and_no_refusal() {
    assert_eq!((object::MAX_OBJECT_BYTES, object::LARGE_OBJECT_BYTES), (1_572_864, 1_258_291));
    let overhead = of_size(0).size;
    assert_eq!(of_size(object::LARGE_OBJECT_BYTES - overhead).coded("too-large").len(), 0);

    let close = of_size(object::LARGE_OBJECT_BYTES - overhead + 1);
    let finding = close.only("too-large");
    assert_eq!((finding.severity, close.size), (Severity::Warning, 1_258_292));
    assert!(finding.message.contains("(1258292 bytes, max 1572864 bytes)"), "{finding}");

    let largest = of_size(object::MAX_OBJECT_BYTES - overhead);
    assert!(largest.only("too-large").message.contains("close to the size limit"));
    let beyond = of_size(object::MAX_OBJECT_BYTES - overhead + 1);
    let finding = beyond.only("too-large");
    assert!(finding.message.contains("too large") && finding.message.contains("(1572865 bytes"), "{finding}");
    assert!(finding.message.contains(&beyond.name) && finding.message.contains("gzip"), "{finding}");
    assert_eq!(finding.pool.as_deref(), Some("worker"));
}

#[test]
fn a_controller_refuses_what_no_cluster_stores() {
    let strict = Context { refuses_large: true, ..context() };
    let overhead = of_size(0).size;
    let input = |bytes: usize| {
        let body = format!("data:,{}", "x".repeat(bytes - overhead));
        [ign("00", files(json!([file("/a", &body)])))]
    };
    assert_eq!(rendered_in(&worker(), &input(object::MAX_OBJECT_BYTES), &strict).size, object::MAX_OBJECT_BYTES);
    let findings = refused_in(&worker(), &input(object::MAX_OBJECT_BYTES + 1), &strict);
    let finding = one(&findings);
    assert_eq!((finding.code, finding.severity), ("too-large", Severity::Error));
    assert!(finding.message.contains("(1572865 bytes, max 1572864 bytes)"), "{finding}");
}
