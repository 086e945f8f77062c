//! The example manifests of the upstream documentation, unchanged.

use seaworthy_ignition::Node;
use seaworthy_render::{MachineConfig, Pool, prepare, render};
use serde_json::{Value, json};

use crate::support::*;

/// The MachineConfig in a YAML text, rendered for a role.
fn example(yaml: &str, pool: &Pool) -> Outcome {
    let json: Value = serde_saphyr::from_str(yaml).unwrap();
    let mut node = Node::from_json(&json);
    node.number(0);
    let source = MachineConfig::read(node);
    assert_eq!(source.findings(), []);
    let prepared = [prepare(&source)];
    Outcome::of(render(pool, &prepared, &context()).unwrap())
}

#[test]
fn row_68_a_config_of_2_2_in_place_is_converted() {
    // It has no label, so no pool would select it unchanged: one is added.
    let yaml = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: worker-2864988432
  labels: {machineconfiguration.openshift.io/role: worker}
spec:
  config:
    ignition:
      version: 2.2.0
    storage:
      files:
      - contents:
          source: data:,%20
        filesystem: root
        mode: 384
        path: /root/myfile
";
    let outcome = example(yaml, &Pool::for_role("worker"));
    assert_eq!(
        *outcome.config(),
        json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [
                {"path": "/root/myfile", "mode": 384, "contents": {"source": "data:,%20"}, "overwrite": true},
            ]},
        })
    );
    let mode = outcome.line("file /root/myfile", "mode");
    assert_eq!(place(mode.set_by.as_ref().unwrap()), "worker-2864988432 spec.config.storage.files[0].mode");
    assert_eq!(outcome.findings, []);
}

#[test]
fn the_log_level_of_the_masters_kernel_is_set() {
    let yaml = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  labels:
    machineconfiguration.openshift.io/role: \"master\"
  name: 99-master-kargs-loglevel
spec:
  kernelArguments:
    - 'loglevel=7'
";
    let outcome = example(yaml, &Pool::for_role("master"));
    assert!(outcome.name.starts_with("rendered-master-"));
    assert_eq!(outcome.spec["kernelArguments"], json!(["loglevel=7"]));
    let line = outcome.line("kernel argument loglevel=7", "");
    assert_eq!(place(line.set_by.as_ref().unwrap()), "99-master-kargs-loglevel spec.kernelArguments[0]");
    assert_eq!(outcome.findings, []);
}

#[test]
fn a_kernel_argument_of_the_workers_is_set() {
    let yaml = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  labels:
    machineconfiguration.openshift.io/role: worker
  name: worker-kargs
spec:
  kernelArguments:
    - foo
";
    assert_eq!(example(yaml, &Pool::for_role("worker")).spec["kernelArguments"], json!(["foo"]));
    // A pool of the users' own inherits it.
    assert_eq!(example(yaml, &Pool::for_role("infra")).spec["kernelArguments"], json!(["foo"]));
}

#[test]
fn the_realtime_kernel_of_the_workers_is_chosen() {
    let yaml = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  labels:
    machineconfiguration.openshift.io/role: \"worker\"
  name: worker-kerneltype
spec:
  kernelType: realtime
";
    let outcome = example(yaml, &Pool::for_role("worker"));
    assert_eq!(outcome.spec["kernelType"], "realtime");
    assert_eq!(place(outcome.line("kernelType", "").set_by.as_ref().unwrap()), "worker-kerneltype spec.kernelType");
    // Defaults are filled in, and no input is named for them.
    assert_eq!(outcome.line("osImageURL", "").set_by, None);
}

#[test]
fn the_config_is_an_object_in_place_and_no_json_text() {
    let text = with_version("3.5.0", json!({})).to_string();
    let findings = refused(&worker(), &[mc("00", json!({"config": text}))]);
    assert_eq!(places(one(&findings)), ["00 spec.config"]);
    assert!(findings[0].message.contains("not as a JSON text"), "{}", findings[0]);
}
