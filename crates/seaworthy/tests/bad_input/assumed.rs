//! Assumed defaults: which pools and images are assumed if the input has none, and the note about it.

use crate::program::{Program, machine_config};

fn of_role(role: &str, name: &str) -> String {
    let text = machine_config(r#"{"kernelArguments":["quiet"]}"#);
    text.replace("role\":\"worker", &format!("role\":\"{role}")).replace("50-worker", name)
}

/// The platform's own MachineConfig, which names an image.
fn generated() -> String {
    let generated =
        r#""metadata":{"annotations":{"machineconfiguration.openshift.io/generated-by-controller-version":"1"},"#;
    machine_config(r#"{"osImageURL":"registry.example.org/os@sha256:aa"}"#).replace("\"metadata\":{", generated)
}

#[test]
fn an_image_that_does_not_count_is_explained() {
    let program = Program::new();
    program.file("m.json", generated());
    let outcome = program.run(["explain", "-f", "m.json", "osImageURL"]).expect(0);
    for part in [
        "MachineConfig 50-worker, spec.osImageURL names \"registry.example.org/os@sha256:aa\"",
        "ignored, because it is generated",
        "no ControllerConfig in the input, which would set it",
    ] {
        assert!(outcome.stdout.contains(part), "no {part:?} in:\n{}", outcome.stdout);
    }
    let json = program.run(["explain", "-f", "m.json", "osImageURL", "-o", "json"]).expect(0).json();
    assert_eq!(json["entries"][0]["ignored"][0]["place"]["name"], "50-worker", "{json}");
}

#[test]
fn a_missing_controller_config_is_noted_once() {
    let program = Program::new();
    program.file("m.json", of_role("worker", "a") + &of_role("master", "b"));
    let outcome = program.run(["render", "-f", "m.json", "-o", "name"]).expect(0);
    assert_eq!(outcome.stderr.matches("no ControllerConfig in the input").count(), 1, "{}", outcome.stderr);
    let config = r#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"ControllerConfig","metadata":{"name":"c"},"spec":{}}"#;
    program.file("c.json", config);
    let outcome = program.run(["render", "-f", "m.json", "-f", "c.json", "-o", "name"]).expect(0);
    assert!(!outcome.stderr.contains("ControllerConfig"), "{}", outcome.stderr);
}

#[test]
fn a_role_that_is_a_letter_off_is_a_warning() {
    let program = Program::new();
    let roles = [("infra", "a"), ("infra", "b"), ("infar", "c"), ("wroker", "d"), ("storage", "e")];
    program.file("m.json", roles.map(|(role, name)| of_role(role, name)).concat());
    let outcome = program.run(["render", "-f", "m.json", "-o", "name"]).expect(0).says(&[
        "warning[misspelt-role]: m.json:",
        "no MachineConfigPool infar in the input; did you mean the role \"infra\"?",
        "did you mean the role \"worker\"?",
        "infra and storage are not built-in pools",
    ]);
    assert_eq!(outcome.stderr.matches("misspelt-role").count(), 2, "{}", outcome.stderr);
    let json = program.run(["lint", "-f", "m.json", "-o", "json"]).expect(0).json();
    let findings = json["findings"].as_array().unwrap();
    let found: Vec<_> = findings.iter().filter(|finding| finding["code"] == "misspelt-role").collect();
    assert_eq!(found.iter().map(|finding| &finding["pools"][0]).collect::<Vec<_>>(), ["infar", "wroker"], "{json}");
}

#[test]
fn the_roles_of_every_cluster_are_taken_as_they_are() {
    let program = Program::new();
    program.file("m.json", ["arbiter", "master", "worker"].map(|role| of_role(role, &format!("a-{role}"))).concat());
    let outcome = program.run(["lint", "--strict", "-f", "m.json"]).expect(0);
    let note =
        "note: no MachineConfigPool in the input; assuming the default pools for the roles: arbiter, master, worker\n";
    assert_eq!(outcome.stderr, note);
}

#[test]
fn a_strict_check_of_nothing_fails() {
    let program = Program::new();
    program.file("m.json", r#"{"apiVersion":"v1","kind":"List","items":[]}"#);
    let outcome = program.run(["lint", "-f", "m.json", "--strict"]).expect(1);
    assert_eq!(outcome.stdout, "nothing was checked: no MachineConfig in the input\n");
    program.run(["lint", "-f", "m.json"]).expect(0);
    let json = program.run(["lint", "-f", "m.json", "-o", "json", "--strict"]).expect(1).json();
    assert_eq!(json["summary"]["nothingChecked"], "no MachineConfig in the input");
}

#[test]
fn a_kustomization_is_not_applied_and_that_is_noted() {
    let program = Program::new();
    program.file("m/a.json", of_role("worker", "a"));
    program.file("m/kustomization.yaml", "patches: []\n");
    let outcome = program.run(["lint", "-f", "m"]).expect(0);
    outcome.says(&["note: m/kustomization.yaml is ignored; to apply it, pipe `kustomize build m`"]);
}
