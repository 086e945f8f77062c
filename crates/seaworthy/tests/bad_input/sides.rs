//! Sides of a comparison in unusual combinations.

use crate::program::{Program, machine_config};

fn pool(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigPool","metadata":{{"name":"{name}"}},"spec":{{"machineConfigSelector":{{"matchLabels":{{"machineconfiguration.openshift.io/role":"worker"}}}}}}}}"#
    )
}

fn arguments(argument: &str) -> String {
    machine_config(&format!(r#"{{"kernelArguments":["{argument}"]}}"#))
}

/// A program with two pools as manifests, and each as its cluster has it.
fn prepared() -> Program {
    let program = Program::new();
    program.file("manifests.json", pool("blue") + &pool("red") + &arguments("quiet"));
    program.file("next.json", pool("blue") + &pool("red") + &arguments("debug"));
    for name in ["blue", "red"] {
        let outcome = program.run(["render", "-f", "manifests.json", "-o", "json", "--pool", name]).expect(0);
        program.file(&format!("{name}.json"), outcome.stdout);
    }
    program
}

#[test]
fn manifests_are_compared_with_a_rendered_object_of_one_of_their_pools() {
    let program = prepared();
    let outcome = program.run(["diff", "-f", "red.json", "-f", "manifests.json"]).expect(0);
    assert!(outcome.stderr.contains("skipped") && outcome.stderr.contains("pool blue"), "{}", outcome.stderr);
    let outcome = program.run(["diff", "-f", "next.json", "-f", "red.json"]).expect(1);
    assert!(outcome.stdout.starts_with("pool red (rendered-red-"), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with("\n- kernel argument debug\n+ kernel argument quiet\n"), "{}", outcome.stdout);
}

#[test]
fn a_rendered_object_of_a_pool_that_the_manifests_lack_is_refused() {
    let program = prepared();
    program.file("blue-only.json", pool("blue") + &arguments("quiet"));
    let outcome = program.run(["diff", "-f", "blue-only.json", "-f", "red.json"]).expect(2);
    let parts = [
        "red.json has a rendered MachineConfig of pool red",
        "blue-only.json has no such pool",
        "available pools: blue",
    ];
    outcome.says(&parts);
}

#[test]
fn two_rendered_objects_are_compared_whatever_their_pools() {
    let outcome = prepared().run(["diff", "-f", "blue.json", "-f", "red.json"]).expect(0);
    assert_eq!(outcome.stderr, "note: no difference\n");
}

#[test]
fn a_pool_that_is_chosen_may_be_on_one_side_only() {
    let program = prepared();
    program.file("blue-only.json", pool("blue") + &arguments("quiet"));
    let args = ["diff", "-f", "blue-only.json", "-f", "manifests.json", "--pool", "red"];
    let outcome = program.run(args).expect(1);
    assert!(outcome.stdout.starts_with("pool red is new (rendered-red-"), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with("\n+ kernel argument quiet\n"), "{}", outcome.stdout);
}

#[test]
fn one_machine_config_beside_several_is_rendered_like_them() {
    let program = Program::new();
    program.file("one.json", arguments("quiet"));
    program.file("two.json", arguments("quiet") + &arguments("debug").replace("50-worker", "60-worker"));
    let outcome = program.run(["diff", "-f", "one.json", "-f", "two.json"]).expect(1);
    assert!(outcome.stdout.starts_with("pool worker (rendered-worker-"), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with(")\n+ kernel argument debug\n"), "{}", outcome.stdout);
}

#[test]
fn a_name_that_changes_alone_is_a_note_and_no_difference() {
    let program = Program::new();
    let files = |first: &str, second: &str| {
        let file = |path: &str| format!(r#"{{"path":"{path}","contents":{{"source":"data:,x"}}}}"#);
        let files = format!("{},{}", file(first), file(second));
        let spec = format!(r#"{{"config":{{"ignition":{{"version":"3.5.0"}},"storage":{{"files":[{files}]}}}}}}"#);
        pool("blue") + &machine_config(&spec)
    };
    program.file("old.json", files("/a", "/b"));
    program.file("new.json", files("/b", "/a"));
    let outcome = program.run(["diff", "-f", "old.json", "-f", "new.json"]).expect(0);
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.contains("no difference\nnote: pool blue: the name still changes"), "{}", outcome.stderr);
}

#[test]
fn a_side_with_nothing_to_compare_is_named() {
    let program = prepared();
    program.file("empty.json", r#"{"apiVersion":"v1","kind":"List","items":[]}"#);
    program.run(["diff", "-f", "manifests.json", "-f", "empty.json"]).expect(2).says(&["empty.json: nothing"]);
}

#[test]
fn json_for_programs_has_no_secrets() {
    let program = Program::new();
    let side = |secret: &str| {
        machine_config(&format!(
            r#"{{"config":{{"ignition":{{"version":"3.5.0"}},"passwd":{{"users":[{{"name":"core","passwordHash":"{secret}"}}]}}}}}}"#
        ))
    };
    program.file("old.json", pool("blue") + &side("old-secret"));
    program.file("new.json", pool("blue") + &side("new-secret"));
    let diff = program.run(["diff", "-f", "old.json", "-f", "new.json", "-o", "json"]).expect(1);
    let explained = program.run(["explain", "-f", "old.json", "-o", "json"]).expect(0);
    for outcome in [diff, explained] {
        assert!(outcome.stdout.contains("passwordHash"), "{}", outcome.stdout);
        assert!(!outcome.stdout.contains("-secret"), "{}", outcome.stdout);
    }
}

#[test]
fn one_machine_config_is_rendered_for_its_role() {
    let program = Program::new();
    program.file("worker.json", arguments("quiet"));
    program.file("master.json", arguments("quiet").replace("role\":\"worker", "role\":\"master"));
    let outcome = program.run(["diff", "-f", "worker.json", "-f", "master.json"]).expect(1);
    assert!(outcome.stdout.contains("pool worker is gone"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("pool master is new"), "{}", outcome.stdout);
    let json = program.run(["diff", "worker.json", "master.json", "-o", "json"]).expect(1).json();
    let pools: Vec<&str> =
        json["pools"].as_array().unwrap().iter().map(|pool| pool["pool"].as_str().unwrap()).collect();
    assert_eq!(pools, ["worker", "master"]);
}

#[test]
fn what_one_machine_config_is_rendered_to_is_no_difference() {
    let program = Program::new();
    let config =
        r#"{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/x","contents":{"source":"data:,x"}}]}}"#;
    program.file("one.json", machine_config(&format!(r#"{{"config":{config}}}"#)));
    let rendered = program.run(["render", "-f", "one.json"]).expect(0);
    program.file("rendered.yaml", rendered.stdout);
    for sides in [["one.json", "rendered.yaml"], ["rendered.yaml", "one.json"]] {
        let outcome = program.run([&["diff"][..], &sides].concat()).expect(0);
        assert!(outcome.stderr.ends_with("note: no difference\n"), "{}", outcome.stderr);
    }
}
