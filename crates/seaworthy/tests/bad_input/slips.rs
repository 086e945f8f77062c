//! Spelling mistakes: the message names what was probably meant.

use crate::bad_input::render;
use crate::program::{Program, machine_config};

const POOL: &str = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata:\n  name: worker\nspec:\n  machineConfigSelector:\n    matchLabels:\n      machineconfiguration.openshift.io/role: worker\n";

#[test]
fn a_misspelt_kind_is_answered_with_the_right_one() {
    for (written, meant) in [
        ("MachineConfigs", "MachineConfig"),
        ("Machineconfig", "MachineConfig"),
        ("MachineConfigpool", "MachineConfigPool"),
        ("KubletConfig", "KubeletConfig"),
    ] {
        let text =
            format!("apiVersion: machineconfiguration.openshift.io/v1\nkind: {written}\nmetadata: {{name: a}}\n");
        let expected = format!("a.yaml:2:7: an object \"a\": unknown kind \"{written}\" in ");
        render("a.yaml", text.clone()).expect(2).says(&[&expected, &format!("did you mean \"{meant}\"?")]);
        let program = Program::new();
        program.file("a.yaml", text);
        program.run(["plan", "--server-less", "-f", "a.yaml"]).expect(2).says(&[&expected]);
    }
}

#[test]
fn other_kinds_of_the_group_and_of_others_are_left_alone() {
    let program = Program::new();
    program.file("a.json", machine_config("{}"));
    for (group, kind) in [
        ("machineconfiguration.openshift.io", "MachineOSConfig"),
        ("machineconfiguration.openshift.io", "MachineConfigNode"),
        ("machineconfiguration.openshift.io", "SomethingNew"),
        ("example.org", "MachineConfigs"),
    ] {
        program.file("b.yaml", format!("apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: b}}\n"));
        let outcome = program.run(["render", "-f", "a.json", "-f", "b.yaml", "-o", "name"]).expect(0);
        outcome.says(&[&format!("note: ignored objects of other kinds: {kind} (1)")]);
    }
}

#[test]
fn settings_that_are_not_rendered_yet_differ_from_unsupported_ones() {
    let program = Program::new();
    program.file("a.json", machine_config("{}"));
    program.file(
        "b.yaml",
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\n",
    );
    program.run(["render", "-f", "a.json", "-f", "b.yaml", "-o", "name"]).expect(0).says(&[
        "note: ignored KubeletConfig (1): `seaworthy plan --server-less` checks it",
        "note: ignored objects of other kinds: ConfigMap (1)\n",
    ]);
}

#[test]
fn a_file_without_its_option_is_answered_with_the_option() {
    let program = Program::new();
    program.file("a.yaml", POOL);
    for (arguments, tip) in [
        (vec!["render", "a.yaml"], "-f a.yaml"),
        (vec!["lint", "a.yaml", "--strict"], "-f a.yaml"),
        (vec!["explain", "a.yaml"], "-f a.yaml"),
        (vec!["explain", "a.yaml", "/etc/motd"], "-f a.yaml"),
        (vec!["ignition", "validate", "a.ign"], "-f a.ign"),
    ] {
        let outcome = program.run(&arguments).expect(2);
        outcome.says(&[&format!("  tip: pass files and folders with -f: {tip}\n")]);
    }
    for arguments in [
        vec!["crds", "a.yaml"],
        vec!["render", "-f", "a.yaml", "--pol"],
        vec!["explain", "/etc/motd"],
        vec!["rollout", "status", "worker", "master"],
    ] {
        let outcome = program.run(&arguments).expect(2);
        assert!(!outcome.stderr.contains("pass files and folders with -f"), "{}", outcome.stderr);
    }
}

#[test]
fn command_of_another_place_is_answered_with_its_place() {
    let program = Program::new();
    for (word, tip) in [("rollback", "seaworthy rollout undo"), ("status", "seaworthy rollout status")] {
        program.run([word]).expect(2).says(&["unrecognized subcommand", &format!("use `{tip}`")]);
    }
}

#[test]
fn misspelt_key_is_located() {
    let program = Program::new();
    program.file(
        "a.yaml",
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: a\n  lables:\n    x: y\nspec:\n  kernelArgument:\n    - a\n",
    );
    program.file("b.json", machine_config(r#"{"kernelArgument":["a"]}"#));
    let outcome = program.run(["lint", "-f", "a.yaml", "-f", "b.json"]).expect(0);
    for expected in
        ["  a.yaml:5:3: MachineConfig a, metadata.lables\n", "  a.yaml:8:3: MachineConfig a, spec.kernelArgument\n"]
    {
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
    let column = machine_config(r#"{"kernelArgument":["a"]}"#).find("\"kernelArgument\"").unwrap() + 1;
    assert!(outcome.stdout.contains(&format!("  b.json:1:{column}: ")), "{}", outcome.stdout);
}

#[test]
fn misspelt_role_is_reported_for_machine_config_and_pool() {
    let program = Program::new();
    program.file("pool.yaml", POOL);
    program.file("a.json", machine_config("{}").replace(r#":"worker""#, r#":"wroker""#));
    let outcome = program.run(["lint", "-f", "pool.yaml", "-f", "a.json"]).expect(1);
    for expected in [
        "; there is 1 MachineConfig, and it does not match: 50-worker with role \"wroker\" (did you mean \"worker\"?); correct",
        "so it has no effect: role \"wroker\" (did you mean \"worker\"?); the pools select: worker (machineconfiguration.openshift.io/role=worker)",
    ] {
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
}

#[test]
fn a_broken_pool_does_not_blame_the_machine_configs() {
    let program = Program::new();
    program.file("a.json", machine_config("{}"));
    for pool in [POOL.replace("matchLabels", "matchlabels"), POOL.replace("role: worker", "role: 5")] {
        program.file("pool.yaml", pool);
        let outcome = program.run(["lint", "-f", "pool.yaml", "-f", "a.json"]).expect(1);
        assert!(!outcome.stdout.contains("not-selected"), "{}", outcome.stdout);
    }
}

#[test]
fn a_controller_config_of_the_wrong_type_is_not_read_as_unset() {
    let text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: ControllerConfig\nmetadata: {name: c}\nspec:\n  baseOSContainerImage: [a]\n";
    render("a.yaml", text).expect(2).says(&[
        "a.yaml:5:25: ControllerConfig c, spec.baseOSContainerImage: found a list of 1; expected a string\n",
        "     5 |   baseOSContainerImage: [a]\n",
    ]);
}

#[test]
fn unreadable_input_is_reported_as_json_with_output_json() {
    let program = Program::new();
    program.file("a.yaml", "a: b: c\n");
    for arguments in [["lint", "-o", "json", "-f", "a.yaml"], ["lint", "-o", "json", "-f", "missing.yaml"]] {
        let outcome = program.run(arguments).expect(2);
        let json = outcome.json();
        assert_eq!(json["findings"][0]["code"], "unreadable");
        assert_eq!(json["summary"]["errors"], 1);
        let message = json["findings"][0]["message"].as_str().unwrap().to_owned();
        outcome.says(&[&message]);
    }
    let outcome = program.run(["ignition", "validate", "-o", "json", "-f", "a.yaml"]).expect(2);
    let json = outcome.json();
    assert_eq!(json["valid"], false);
    assert_eq!(json["findings"][0]["code"], "unreadable");
}

#[test]
fn lint_says_what_it_did_not_look_at() {
    let program = Program::new();
    let rendered = machine_config("{}").replace("50-worker", "rendered-worker-1");
    program.file("a.json", &rendered);
    let outcome = program.run(["lint", "-f", "a.json"]).expect(0);
    assert_eq!(
        outcome.stdout,
        "nothing was checked: the only MachineConfig in the input is rendered, which is an output and not an input\n"
    );
    let config = r#"{"config":{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/a","contents":{"source":"https://h/a"}},{"path":"/b","contents":{"source":"data:,"}}]}}}"#;
    program.file("b.json", machine_config(config));
    let outcome = program.run(["lint", "-f", "b.json", "--offline"]).expect(0);
    assert_eq!(outcome.stdout, "1 MachineConfig, 1 pool: 0 errors, 0 warnings, 0 informational\n");
    outcome.says(&["note: 1 reference to remote content was not fetched", "`seaworthy render` fetches and checks it"]);
    let json = program.run(["lint", "-f", "b.json", "-o", "json"]).expect(0).json();
    assert_eq!(json["summary"]["notFetched"], 1);
}

#[test]
fn findings_of_inputs_name_the_pools_that_have_them() {
    let program = Program::new();
    program.file("pool.yaml", format!("{POOL}---\n{}", POOL.replace("name: worker", "name: infra")));
    program.file("a.json", machine_config(r#"{"x":1}"#));
    let json = program.run(["lint", "-f", "pool.yaml", "-f", "a.json", "-o", "json"]).expect(0).json();
    assert_eq!(json["findings"][0]["pools"], serde_json::json!(["infra", "worker"]));
}

#[test]
fn a_misspelt_file_pool_code_or_group_is_answered_with_the_nearest() {
    let program = Program::new();
    program.file("worker.json", machine_config(r#"{"x":1}"#));
    program.run(["lint", "-f", "wroker.json"]).expect(2).says(&["did you mean worker.json?"]);
    program
        .run(["lint", "-f", "m/a.json"])
        .expect(2)
        .says(&["file or folder not found: m/a.json: folder m does not exist either"]);
    program.run(["render", "-f", "worker.json", "--pool", "wroker"]).expect(2).says(&["did you mean \"worker\"?"]);
    let outcome = program.run(["lint", "-f", "worker.json", "--allow", "unknown_key"]).expect(2);
    outcome.says(&["--allow unknown_key: unknown finding code; did you mean unknown-key?"]);
    program.run(["crds", "--group", "kmm"]).expect(2).says(&["did you mean \"kmm.sigs.x-k8s.io\"?"]);
    program.run(["man", "rendr"]).expect(2).says(&["no manual page seaworthy-rendr; available pages: seaworthy,"]);
    let outcome = program.run(["man", "ignition", "convert"]).expect(0);
    assert!(outcome.stdout.contains(".TH seaworthy-ignition-convert 1"), "{}", outcome.stdout);
}
