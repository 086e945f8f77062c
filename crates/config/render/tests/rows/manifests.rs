//! Findings about the manifests themselves: types, keys, names, and labels that no pool selects.

use rstest::rstest;
use seaworthy_ignition::{Node, Severity};
use seaworthy_render::{ControllerConfig, Finding, MachineConfig, OsImageStreams, Pool, keys};
use serde_json::{Value, json};

use crate::support::*;

fn of_machine_config(object: &Value) -> Vec<Finding> {
    MachineConfig::read(Node::from_json(object)).findings().to_vec()
}

fn pool_with(spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": "p"}, "spec": {"machineConfigSelector": {"matchLabels": {"a": "b"}}}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

/// The findings as `path: message`.
fn messages(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{}: {}", finding.places[0].path, finding.message)).collect()
}

#[test]
fn all_mistakes_of_a_pool_are_reported_at_once() {
    let object = json!({
        "metadata": {"labels": {"a": 1}},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"a": 1, "b": "c"}, "matchExpressions": [
                {"key": "k", "operator": "in", "values": ["v"]},
                {"operator": "Exists", "values": ["v"]},
            ]},
            "nodeSelector": "worker",
            "paused": "yes",
            "maxUnavailable": "half",
            "osImageStream": {"name": 9},
        },
    });
    let findings = Pool::read(&Node::from_json(&object)).unwrap_err();
    assert!(findings.iter().all(|finding| finding.is_error() && finding.code == "invalid-pool"));
    let mut paths: Vec<_> = findings.iter().map(|finding| finding.places[0].path.as_str()).collect();
    paths.sort_unstable();
    let expected = [
        "metadata.labels.a",
        "metadata.name",
        "spec.machineConfigSelector.matchExpressions[0].operator",
        "spec.machineConfigSelector.matchExpressions[1].key",
        "spec.machineConfigSelector.matchExpressions[1].values",
        "spec.machineConfigSelector.matchLabels.a",
        "spec.maxUnavailable",
        "spec.nodeSelector",
        "spec.osImageStream.name",
        "spec.paused",
    ];
    assert_eq!(paths, expected);
    let operator = messages(&findings).into_iter().find(|message| message.contains("operator:")).unwrap();
    assert!(operator.ends_with("did you mean \"In\"?"), "{operator}");
}

#[rstest]
#[case(json!(0))]
#[case(json!(3))]
#[case(json!("10%"))]
fn a_pool_takes_numbers_and_shares(#[case] most: Value) {
    let pool = Pool::read(&Node::from_json(&pool_with(json!({"maxUnavailable": most, "paused": true})))).unwrap();
    assert_eq!(pool.findings, []);
}

#[rstest]
#[case(json!({"pausd": true}), "spec.pausd", "did you mean \"paused\"?")]
#[case(json!({"machineconfigselector": {}}), "spec.machineconfigselector", "did you mean \"machineConfigSelector\"?")]
#[case(json!({"matchLabels": {}}), "spec.matchLabels", "it belongs below machineConfigSelector; move it there")]
#[case(json!({"selector": {}}), "spec.selector", "a MachineConfigPool's spec has configuration, ")]
fn unknown_keys_of_a_pool_are_named_with_what_was_meant(#[case] spec: Value, #[case] path: &str, #[case] hint: &str) {
    let pool = Pool::read(&Node::from_json(&pool_with(spec))).unwrap();
    let finding = one(&pool.findings);
    assert_eq!((finding.code, finding.severity), ("unknown-key", Severity::Warning));
    assert_eq!(finding.places[0].path, path);
    assert!(finding.message.contains(hint), "{finding}");
}

#[test]
fn unknown_keys_of_a_machine_config_are_named_with_what_was_meant() {
    let mut object = mc("a", json!({"kernelArgument": [], "storage": {}, "zzz": 1}));
    object["metadata"]["lables"] = json!({});
    object["metadata"][keys::ROLE] = "worker".into();
    object["labels"] = json!({});
    object["kernelType"] = "".into();
    object["specs"] = json!({});
    let mut found = messages(&of_machine_config(&object));
    found.sort();
    let role = format!(
        "metadata[{:?}]: unknown key {:?} is ignored; it belongs below labels or annotations; move it there",
        keys::ROLE,
        keys::ROLE
    );
    let expected = [
        "kernelType: unknown key \"kernelType\" is ignored; it belongs below spec; move it there",
        "labels: unknown key \"labels\" is ignored; it belongs below metadata; move it there",
        "metadata.lables: unknown key \"lables\" is ignored; did you mean \"labels\"?",
        role.as_str(),
        "spec.kernelArgument: unknown key \"kernelArgument\" is ignored; did you mean \"kernelArguments\"?",
        "spec.storage: unknown key \"storage\" is ignored; it belongs below config; move it there",
        "spec.zzz: unknown key \"zzz\" is ignored; a MachineConfig's spec has baseOSExtensionsContainerImage, config, \
         extensions, fips, kernelArguments, kernelType, osImageURL",
        "specs: unknown key \"specs\" is ignored; did you mean \"spec\"?",
    ];
    assert_eq!(found, expected);
}

#[rstest]
#[case("50-worker.x", true)]
#[case("50_worker", false)]
#[case("Worker", false)]
#[case("-a", false)]
#[case("a b", false)]
fn a_name_that_no_cluster_takes_is_reported(#[case] name: &str, #[case] is_taken: bool) {
    let findings = of_machine_config(&mc(name, json!({})));
    assert_eq!(findings.is_empty(), is_taken, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.code == "invalid-name" && !finding.is_error()));
}

#[test]
fn wrong_types_in_a_controller_config_are_not_read_as_unset() {
    let object = json!({
        "metadata": {"name": "machine-config-controller", "annotations": {keys::RELEASE_VERSION: 4.2}},
        "spec": {"baseOSContainerImage": {"image": "x"}, "baseOSExtensionsContainerImage": 7},
    });
    let findings = ControllerConfig::read(&Node::from_json(&object)).unwrap_err();
    let expected = [
        "spec.baseOSContainerImage: found an object with 1 key; expected a string".to_owned(),
        "spec.baseOSExtensionsContainerImage: found the number 7; expected a string; quote it".to_owned(),
        format!("metadata.annotations[{:?}]: found the number 4.2; expected a string; quote it", keys::RELEASE_VERSION),
    ];
    assert_eq!(messages(&findings), expected);
    assert_eq!(findings[0].places[0].name, "machine-config-controller");
    let spec = json!({"spec": []});
    assert_eq!(ControllerConfig::read(&Node::from_json(&spec)).unwrap_err().len(), 1);
    assert_eq!(ControllerConfig::read(&Node::from_json(&Value::Null)), Ok(ControllerConfig::default()));
}

#[test]
fn wrong_types_in_os_image_streams_are_not_read_as_unset() {
    let object = json!({"metadata": {"name": "cluster"}, "status": {"defaultStream": 9, "availableStreams": [
        {"name": 9, "osImage": "os", "osExtensionsImage": []}, "rhel-9",
    ]}});
    let findings = OsImageStreams::read(&Node::from_json(&object)).unwrap_err();
    let paths: Vec<_> = findings.iter().map(|finding| finding.places[0].path.as_str()).collect();
    let list = "status.availableStreams";
    let expected = [
        "status.defaultStream".to_owned(),
        format!("{list}[0].osExtensionsImage"),
        format!("{list}[0].name"),
        format!("{list}[1]"),
    ];
    assert_eq!(paths, expected);
    for status in [json!([]), json!({"availableStreams": {}})] {
        assert_eq!(OsImageStreams::read(&Node::from_json(&json!({"status": status}))).unwrap_err().len(), 1);
    }
}

#[rstest]
#[case(json!({keys::ROLE: "wroker"}), "there is 1 MachineConfig, and it does not match: a with role \"wroker\" (did you mean \"worker\"?); correct")]
#[case(json!({keys::ROLE: "master"}), "a with role \"master\";")]
#[case(json!({"machineconfiguration.openshift.io/rol": "worker"}), "did you mean \"machineconfiguration.openshift.io/role\"?")]
#[case(json!({"role": "worker"}), "a with a role label other than machineconfiguration.openshift.io/role")]
#[case(json!({}), "a with no label machineconfiguration.openshift.io/role")]
fn a_pool_without_inputs_is_reported_with_what_there_is(#[case] labels: Value, #[case] hint: &str) {
    let mut object = mc("a", json!({}));
    object["metadata"]["labels"] = labels;
    let findings = refused(&worker(), &[object]);
    let finding = one(&findings);
    assert_eq!(finding.code, "no-machine-configs");
    assert!(finding.message.contains(hint), "{finding}");
}

#[test]
fn of_many_machine_configs_that_a_pool_does_not_select_some_are_named() {
    let inputs: Vec<_> = (0..7).map(|nth| mc_of("infra", &format!("mc-{nth}"), json!({}))).collect();
    let findings = refused(&worker(), &inputs);
    let message = &one(&findings).message;
    assert!(
        message.contains("there are 7 MachineConfigs, and none of them matches: mc-0 with role \"infra\""),
        "{message}"
    );
    assert!(message.contains("mc-4 with role \"infra\" and 2 more; correct"), "{message}");
    assert!(one(&refused(&worker(), &[])).message.contains("there is no MachineConfig at all"));
}

#[test]
fn a_selector_for_another_label_than_the_role_is_reported_with_the_one_that_was_meant() {
    let pool = pool("gpu", json!({"matchLabels": {"role": "gpu"}}));
    let findings = refused(&pool, &[mc_of("gpu", "a", json!({}))]);
    let hint = format!("a with role \"gpu\"; the selector requires the label \"role\"; did you mean {:?}?", keys::ROLE);
    assert!(one(&findings).message.contains(&hint), "{}", findings[0]);
}

#[test]
fn a_wrong_mode_is_reported_once_and_beside_other_mistakes() {
    let config = files(json!([{"path": "a"}, {"path": "/b", "mode": 644}, {"path": "/c", "mode": 0o4755}]));
    let findings = refused(&worker(), &[ign("a", config)]);
    let codes: Vec<_> = findings.iter().map(|finding| (finding.code, finding.places[0].path.as_str())).collect();
    let path = "spec.config.storage.files";
    let expected = [
        ("path-not-absolute", format!("{path}[0].path")),
        ("file-mode", format!("{path}[1].mode")),
        ("file-mode", format!("{path}[2].mode")),
    ];
    assert_eq!(codes, expected.each_ref().map(|(code, path)| (*code, path.as_str())));
    assert!(
        findings[1].message.ends_with("644 is a decimal number; write 0644 in YAML or 420 in JSON"),
        "{}",
        findings[1]
    );

    let object = ign("a", files(json!([{"path": "/b", "mode": 644}])));
    let mut node = Node::from_json(&object);
    node.number(0);
    let source = MachineConfig::read(node);
    let prepared = seaworthy_render::prepare(&source);
    assert_eq!(one(&prepared.findings).code, "file-mode");
}
