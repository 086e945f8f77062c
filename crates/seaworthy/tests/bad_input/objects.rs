//! Invalid objects: well-formed manifests that are wrong.

use crate::bad_input::{render, spec};
use crate::program::{Program, machine_config};

#[test]
fn a_wrong_api_version_is_shown_with_the_accepted_one() {
    for (written, found) in [
        (r#""machineconfiguration.openshift.io/v2""#, "the string \"machineconfiguration.openshift.io/v2\""),
        (r#""v1""#, "the string \"v1\""),
        ("5", "the number 5"),
    ] {
        let text = machine_config("{}").replace(r#""machineconfiguration.openshift.io/v1""#, written);
        let outcome = render("a.json", text).expect(2);
        outcome.says(&[
            "a.json:1:15: MachineConfig \"50-worker\": the apiVersion is ",
            found,
            "expected machineconfiguration.openshift.io/v1",
        ]);
    }
    let text = machine_config("{}").replace(r#""apiVersion":"machineconfiguration.openshift.io/v1","#, "");
    render("a.json", text).expect(2).says(&["MachineConfig \"50-worker\": it has no apiVersion; expected"]);
}

#[test]
fn an_object_without_a_kind_is_shown() {
    let text = machine_config("{}").replace(r#""kind":"MachineConfig","#, "");
    render("a.json", text).expect(2).says(&["a.json:1:1: an object \"50-worker\": it has no kind"]);
    let text = machine_config("{}").replace(r#""kind":"MachineConfig""#, r#""kind":["MachineConfig"]"#);
    render("a.json", text).expect(2).says(&["an object \"50-worker\": the kind is a list of 1"]);
}

#[test]
fn error_about_a_bare_config_names_where_it_belongs() {
    let outcome = render("a.ign", r#"{"ignition":{"version":"3.4.0"}}"#).expect(2);
    outcome.says(&["a.ign:1:1: an object: it has no kind", "spec.config of a MachineConfig"]);
    let butane = "variant: openshift\nversion: 4.14.0\nmetadata: {name: a}\n";
    render("a.bu", butane).expect(2).says(&["a.bu:1:1: an object \"a\"", "with `butane` first"]);
    let program = Program::new();
    program.file("a.bu", butane);
    program.run(["ignition", "validate", "-f", "a.bu"]).expect(2).says(&["a.bu is a Butane config"]);
    program.run(["plan", "--server-less", "-f", "a.bu"]).expect(2).says(&["with `butane` first"]);
}

#[test]
fn every_bad_object_of_every_file_is_reported() {
    let program = Program::new();
    program.file("a.yaml", "kind: MachineConfig\nmetadata: {name: a}\n---\nmetadata: {name: b}\n");
    program.file("b.json", "[1]");
    let outcome = program.run(["render", "-f", "a.yaml", "-f", "b.json"]).expect(2);
    outcome.says(&["a.yaml:1:1: MachineConfig \"a\"", "a.yaml:4:1: an object \"b\"", "b.json:1:1: found a list of 1"]);
}

#[test]
fn a_text_or_a_list_is_no_manifest() {
    render("a.yaml", "hello\n").expect(2).says(&["a.yaml:1:1: found the string \"hello\"; a manifest is an object"]);
    render("a.json", "[]").expect(2).says(&["a.json:1:1: found a list of 0"]);
    render("a.yaml", "5\n").expect(2).says(&["a.yaml:1:1: found the number 5"]);
}

#[test]
fn lists_in_lists_are_unpacked() {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{{"apiVersion":"v1","kind":"List","items":[{}]}}]}}"#,
        machine_config(r#"{"fips":true}"#)
    );
    assert_eq!(spec(&render("a.json", text).expect(0))["fips"], true);
}

#[test]
fn the_items_of_a_typed_list_need_no_kind() {
    let item = r#"{"metadata":{"name":"a","labels":{"machineconfiguration.openshift.io/role":"worker"}},"spec":{"fips":true}}"#;
    let list = |kind: &str| {
        format!(r#"{{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"{kind}","items":[{item}]}}"#)
    };
    assert_eq!(spec(&render("a.json", list("MachineConfigList")).expect(0))["fips"], true);
    let text = list("MachineConfigList").replace("openshift.io/v1\"", "openshift.io/v2\"");
    let outcome = render("a.json", text).expect(2);
    outcome.says(&["MachineConfig \"a\": the apiVersion of its list is \"machineconfiguration.openshift.io/v2\""]);
    let text = list("NodeList").replace("machineconfiguration.openshift.io/v1", "v1");
    render("a.json", text).expect(2).says(&["ignored objects of other kinds: Node (1)"]);
    // A plain list says nothing about its items.
    let text = list("List").replace("machineconfiguration.openshift.io/v1", "v1");
    render("a.json", text).expect(2).says(&["an object \"a\": it has no kind"]);
}

#[test]
fn a_list_without_a_list_of_objects_is_refused() {
    let list = |items: &str| format!(r#"{{"apiVersion":"v1","kind":"List","items":{items}}}"#);
    render("a.json", list("{}")).expect(2).says(&["a.json:1:42: items of a List is an object with 0 keys"]);
    render("a.json", list("\"x\"")).expect(2).says(&["items of a List is the string \"x\""]);
    let outcome = render("a.json", list("[null, 5]")).expect(2);
    outcome.says(&["an item of a List is null; expected an object", "an item of a List is the number 5"]);
}

#[test]
fn a_finding_in_a_list_is_placed_in_its_item() {
    let text = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{},\n{}]}}",
        machine_config("{}"),
        machine_config(r#"{"fips":"no"}"#).replace("50-worker", "60-worker")
    );
    render("a.json", text)
        .expect(1)
        .says(&["a.json:3:", "MachineConfig 60-worker, spec.fips: found the string \"no\""]);
}

#[test]
fn error_about_a_config_as_string_asks_for_an_object() {
    let outcome = render("a.json", machine_config(r#"{"config":"{\"ignition\":{\"version\":\"3.2.0\"}}"}"#)).expect(1);
    outcome.says(&["a.json:1:", "MachineConfig 50-worker, spec.config: found the string", "remove the quotes"]);
}

#[test]
fn error_about_a_numeric_label_asks_for_quotes() {
    let text = machine_config("{}").replace(r#""labels":{"#, r#""labels":{"tier":5,"#);
    let outcome = render("a.json", text).expect(1);
    outcome.says(&["MachineConfig 50-worker, metadata.labels.tier: found the number 5; expected a string; quote it"]);
}

#[test]
fn all_mistakes_of_a_machine_config_are_reported_at_once() {
    let config = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"a"},{"path":"/b","contents":{"source":"ftp://x/y"}}]}}"#;
    let outcome = render("a.json", machine_config(&format!(r#"{{"kernelType":"rt","config":{config}}}"#))).expect(1);
    outcome.says(&[
        "spec.kernelType",
        "spec.config.storage.files[0].path",
        "spec.config.storage.files[1].contents.source",
    ]);
}

#[test]
fn an_unknown_pool_is_answered_with_the_known_ones() {
    let program = Program::new();
    program.file("a.json", machine_config("{}"));
    for command in ["render", "lint", "explain"] {
        let outcome = program.run([command, "-f", "a.json", "--pool", "wroker"]).expect(2);
        assert_eq!(outcome.stdout, "", "{command}");
        outcome.says(&["pool \"wroker\" not found in the input; available pools: worker"]);
    }
}

#[test]
fn machine_configs_that_no_pool_selects_are_named() {
    let text =
        machine_config("{}").replace(r#""machineconfiguration.openshift.io/role":"worker""#, r#""role":"worker""#);
    let outcome = render("a.json", text).expect(2);
    outcome.says(&["no MachineConfig with the label machineconfiguration.openshift.io/role (50-worker)"]);
}

#[test]
fn metadata_that_is_missing_or_of_another_type_is_reported() {
    let program = Program::new();
    let pool = r#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigPool","metadata":{"name":"worker"},"spec":{"machineConfigSelector":{"matchLabels":{"machineconfiguration.openshift.io/role":"worker"}}}}"#;
    for metadata in ["null", "[]", "{}", r#"{"labels":[]}"#, r#"{"name":7}"#] {
        let object = format!(
            r#"{{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{metadata}}}"#
        );
        program.file("a.json", format!("{pool}{object}"));
        let outcome = program.run(["lint", "-f", "a.json"]).expect(1);
        assert!(outcome.stdout.contains("metadata.name"), "{metadata}: {}", outcome.stdout);
    }
}

#[test]
fn a_pool_that_is_broken_fails_alone() {
    let program = Program::new();
    let pool = |name: &str, operator: &str| {
        format!(
            "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: {{name: {name}}}\nspec:\n  machineConfigSelector:\n    matchExpressions: [{{key: machineconfiguration.openshift.io/role, operator: {operator}, values: [worker]}}]\n---\n"
        )
    };
    program.file("pools.yaml", pool("worker", "In") + &pool("infra", "Within"));
    program.file("a.json", machine_config("{}"));
    let outcome = program.run(["render", "-f", "pools.yaml", "-f", "a.json", "-o", "name"]).expect(1);
    assert_eq!(outcome.stdout, "rendered-worker-6da92b29d98fcd722bbf117520c22ee4\n");
    outcome.says(&[
        "error[invalid-pool]: pools.yaml:13:",
        "MachineConfigPool infra, spec.machineConfigSelector",
        "Within",
    ]);
}

#[test]
fn the_same_file_given_twice_counts_once_and_two_of_one_name_do_not() {
    let program = Program::new();
    program.file("m/a.json", machine_config("{}"));
    let outcome = program.run(["render", "-f", "m", "-f", "m/a.json", "-o", "name"]).expect(0);
    outcome.says(&["duplicates with the same content, used once: MachineConfig 50-worker"]);
    program.file("m/b.json", machine_config(r#"{"fips":true}"#));
    let outcome = program.run(["render", "-f", "m", "-o", "name"]).expect(1);
    outcome.says(&[
        "two different MachineConfigs are named 50-worker: m/a.json:1:96 and m/b.json:1:96",
        "MachineConfig 50-worker, metadata.name",
    ]);
}
