//! Plans without a cluster.

use std::path::Path;

use crate::program::Program;

#[test]
fn an_input_with_nothing_in_it_is_no_plan() {
    let program = Program::new();
    program.file("empty.yaml", "");
    program.file("comments.yaml", "# nothing\n---\n# at all\n");
    program.file("list.json", r#"{"apiVersion":"v1","kind":"List","items":[]}"#);
    for name in ["empty.yaml", "comments.yaml"] {
        let note = format!("note: no objects in {name}\n");
        let outcome = program.run(["plan", "--server-less", "-f", name]).expect(2);
        outcome.says(&[&note, "error: the input has no objects, so there is nothing to plan"]);
        // The same words and the same end as of others.
        program.run(["render", "-f", name]).expect(2).says(&[&note]);
    }
    program.run(["plan", "--server-less", "-f", "list.json"]).expect(2).says(&["the input has no objects"]);
    // Without a cluster to ask there is nothing to ask it.
    let outcome = program.run(["plan", "-f", "empty.yaml"]).expect(2);
    assert!(!outcome.stderr.contains("kubeconfig"), "{}", outcome.stderr);
}

#[test]
fn manifests_without_a_controller_config_are_planned_as_they_are_rendered() {
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet");
    let fleet = fleet.to_str().unwrap();
    let program = Program::new();
    let rendered = program.run(["render", "-f", fleet, "-o", "json"]).expect(0).json();
    let mut rendered: Vec<_> =
        rendered["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    rendered.sort_by_key(|name| name.to_string());
    let plan = program.run(["plan", "--server-less", "-f", fleet, "-o", "json"]).expect(1).json();
    let pools = plan["pools"].as_array().unwrap();
    assert_eq!(pools.iter().map(|pool| &pool["after"]).collect::<Vec<_>>(), rendered);
    assert_eq!(rendered.len(), 2);
    assert!(pools.iter().all(|pool| pool["failure"].is_null()), "{plan}");
}

#[test]
fn objection_to_one_of_two_objects_with_a_name_is_located_in_its_own_file() {
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet");
    let budget = |namespace: &str, least: &str| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: db, namespace: {namespace}}}\n\
             spec: {{minAvailable: {least}}}\n"
        )
    };
    let program = Program::new();
    program.file("a.yaml", budget("shop", "[]"));
    program.file("b.yaml", budget("office", "1"));
    let words = ["plan", "--server-less", "-o", "json", "-f", fleet.to_str().unwrap(), "-f", "a.yaml", "-f", "b.yaml"];
    let plan = program.run(words).expect(1).json();
    let [refused] = plan["manifests"].as_array().unwrap().as_slice() else { panic!("{plan}") };
    assert_eq!((&refused["object"], &refused["file"]), (&"PodDisruptionBudget shop/db".into(), &"a.yaml".into()));
}

/// Settings of nodes that cannot be accepted, each with the line and column of the field that it is about.
const SETTINGS: &str = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata:
  name: typed
spec:
  machineConfigPoolSelector:
    matchLabels: {pools.operator.machineconfiguration.openshift.io/worker: ''}
  kubeletConfig:
    podPidsLimit: 100
    maxPods: many
---
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata:
  name: evicting
spec:
  machineConfigPoolSelector:
    matchLabels: {pools.operator.machineconfiguration.openshift.io/worker: ''}
  kubeletConfig:
    evictionHard:
      imagefs.available: 10%
      memory.available: 200%
---
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata:
  name: in-vain
spec:
  machineConfigPoolSelector:
    matchLabels: {a: b}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: worker
  labels: {pools.operator.machineconfiguration.openshift.io/worker: ''}
spec:
  machineConfigSelector:
    matchLabels: {machineconfiguration.openshift.io/role: worker}
";

#[test]
fn settings_that_are_not_accepted_are_found_where_they_stand() {
    let program = Program::new();
    program.file("m.yaml", SETTINGS);
    let outcome = program.run(["plan", "--server-less", "-f", "m.yaml"]).expect(1);
    for place in [
        "error[not-accepted]: m.yaml:10:14: KubeletConfig typed",
        "error[not-accepted]: m.yaml:22:25: KubeletConfig evicting",
        "error[not-accepted]: m.yaml:30:5: KubeletConfig in-vain",
    ] {
        assert!(outcome.stdout.contains(place), "{place}: {}", outcome.stdout);
    }
    let json = program.run(["plan", "--server-less", "-f", "m.yaml", "-o", "json"]).expect(1).json();
    let problems = json["problems"].as_array().unwrap();
    let typed = problems.iter().find(|problem| problem["object"] == "KubeletConfig typed").unwrap();
    assert_eq!((typed["line"].as_u64(), typed["column"].as_u64()), (Some(10), Some(14)));
}
