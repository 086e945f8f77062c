//! Hints in errors: what was probably meant, and the next step.

use std::io::Write as _;

use crate::bad_input::render;
use crate::program::{Program, machine_config};

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_is_no_text_is_named() {
    let text = machine_config("{}");
    let utf_16: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    render("m.json", packed(&text)).expect(2).says(&["m.json is gzip-compressed; decompress it first"]);
    render("m.json", utf_16).expect(2).says(&["m.json is encoded as UTF-16; save it as UTF-8"]);
    render("m.json", b"PK\x03\x04\xff").expect(2).says(&["m.json is a zip archive"]);
    render("m.json", b"\x7fELF\x00\xff").expect(2).says(&["m.json is binary data; manifests are UTF-8 texts"]);
}

#[test]
fn an_empty_file_is_named() {
    let program = Program::new();
    program.file("empty.yaml", "# nothing yet\n");
    program.file("m.json", machine_config("{}"));
    program.run(["render", "-f", "empty.yaml"]).expect(2).says(&["note: no objects in empty.yaml"]);
    let outcome = program.run(["render", "-f", "empty.yaml", "-f", "m.json", "-o", "name"]).expect(0);
    outcome.says(&["note: no objects in empty.yaml\n"]);
}

#[test]
fn a_result_is_nothing_to_render() {
    let name = "rendered-worker-0123";
    let outcome = render("m.json", machine_config("{}").replace("50-worker", name)).expect(2);
    outcome.says(&["rendered-worker-0123 is already rendered", "compare it with `seaworthy diff`"]);
}

#[test]
fn misspelt_kind_differs_from_missing_kind() {
    for key in ["Kind", "knd"] {
        let outcome = render("m.json", machine_config("{}").replace("\"kind\"", &format!("{key:?}"))).expect(2);
        outcome.says(&[&format!(
            "it has no kind; manifests need apiVersion and kind; did you mean \"kind\" where it says {key:?}?"
        )]);
    }
}

#[test]
fn a_valid_config_of_version_2_is_valid_though_it_cannot_be_converted() {
    let program = Program::new();
    let config = r#"{"ignition":{"version":"2.2.0"},"networkd":{"units":[{"name":"a.network","contents":"[Match]\nName=a\n"}]}}"#;
    program.file("c.ign", config);
    let outcome = program.run(["ignition", "validate", "-f", "c.ign"]).expect(0);
    assert!(outcome.stdout.starts_with("warning[v2-networkd]: c.ign:"), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with("c.ign: valid Ignition config of version 2.2.0\n"), "{}", outcome.stdout);
    program.run(["ignition", "convert", "--to", "3.5.0", "-f", "c.ign"]).expect(1).says(&["error: c.ign"]);
    program.file("m.json", machine_config(&format!(r#"{{"config":{config}}}"#)));
    program.run(["render", "-f", "m.json"]).expect(1).says(&["error[v2-networkd]"]);
}

/// A pool for workers and one for masters, each with a MachineConfig.
fn two_pools() -> Program {
    let program = Program::new();
    let worker = machine_config(r#"{"kernelArguments":["quiet","audit=0"]}"#);
    let master = worker.replace("role\":\"worker", "role\":\"master").replace("50-worker", "50-master");
    let pool = |name: &str| {
        format!(
            r#"{{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigPool","metadata":{{"name":"{name}"}},"spec":{{"machineConfigSelector":{{"matchLabels":{{"machineconfiguration.openshift.io/role":"{name}"}}}}}}}}"#
        )
    };
    program.file("m.json", worker + &master);
    program.file("p.json", pool("worker") + &pool("master"));
    program
}

#[test]
fn a_machine_config_of_another_pool_is_named_with_it() {
    let program = two_pools();
    let outcome = program.run(["explain", "-f", "m.json", "-f", "p.json", "--pool", "worker", "50-master"]).expect(2);
    outcome.says(&["pool worker does not select MachineConfig 50-master; choose a pool that does with --pool: master"]);
    let outcome = program.run(["explain", "-f", "m.json", "--pool", "worker", "50-master"]).expect(2);
    outcome.says(&["its role is master; choose it with --pool master"]);
}

#[test]
fn kernel_arguments_are_found_by_their_short_name_and_by_their_place() {
    let program = two_pools();
    let explain = |what: &str| program.run(["explain", "-f", "m.json", "--pool", "worker", what]).expect(0).stdout;
    assert!(explain("kernelargs").contains("quiet") && explain("kernelargs").contains("audit=0"));
    let second = explain("kernelArguments[1]");
    assert!(second.starts_with("kernel argument audit=0\n") && !second.contains("quiet"), "{second}");
    program.run(["explain", "-f", "m.json", "--pool", "worker", "kernelArguments[2]"]).expect(2);
}

#[test]
fn several_codes_are_allowed_at_once_and_an_unknown_one_is_refused() {
    let program = Program::new();
    program.file("m.json", machine_config(r#"{"kernelArguments":["nosmt","nosmt"]}"#));
    let strict = |allow: &str| program.run(["lint", "-f", "m.json", "--strict", "--allow", allow]);
    strict("nosmt").expect(1);
    strict("nosmt,repeated-argument").expect(0);
    // Nothing has this one today; the next change may.
    strict("nosmt,repeated-argument,conflict").expect(0);
    strict("nosmtt").expect(2).says(&["--allow nosmtt: unknown finding code; did you mean nosmt?"]);
    strict("x").expect(2).says(&["known codes: blank-argument, conflict, "]);
}

#[test]
fn mistakes_on_the_command_line_have_a_tip() {
    let program = Program::new();
    let config = r#"{"ignition":{"version":"3.5.0","config":{"replace":{"source":"http://127.0.0.1:1/x"}}}}"#;
    program.file("m.json", machine_config(&format!(r#"{{"config":{config}}}"#)));
    for word in ["validate", "convert"] {
        let outcome = program.run([word, "-f", "c.ign"]).expect(2);
        assert!(!outcome.stderr.contains("lint"), "{}", outcome.stderr);
        outcome.says(&[&format!("to process an Ignition config, use `seaworthy ignition {word}`")]);
    }
    let outcome = program.run(["lint", "-f", "https://me:hunter2@files.example.org/m.yaml"]).expect(2);
    assert!(!outcome.stderr.contains("hunter2"), "{}", outcome.stderr);
    outcome.says(&["https://files.example.org/m.yaml is a URL, and manifests are read from files only"]);
    let outcome = program.run(["render", "-f", "m.json", "--snapshots", "m.json"]).expect(2);
    outcome.says(&["--snapshots m.json is a file; pass a folder"]);
    let script = program.run(["completions", "bash"]).expect(0).stdout;
    assert!(script.contains("3.5.0 3.4.0 3.3.0 3.2.0 3.1.0 2.2.0"));
}

#[test]
fn duplicate_names_beyond_the_limit_are_counted() {
    let program = Program::new();
    let text: String = (0..9).map(|nth| machine_config(&format!(r#"{{"kernelArguments":["a{nth}"]}}"#))).collect();
    program.file("m.json", text);
    let outcome = program.run(["lint", "-f", "m.json"]).expect(1);
    assert_eq!(outcome.stderr.matches("two different MachineConfigs are named").count(), 5, "{}", outcome.stderr);
    outcome.says(&["note: 3 more MachineConfigs have the name of a different one"]);
}

#[test]
fn a_port_alone_is_no_place_to_listen() {
    let words: [&[&str]; 3] = [
        &["up", "--listen", "6443"],
        &["up", "--ignition-listen", "x:1"],
        &["apiserver", "--data", "d", "--listen", "1"],
    ];
    for words in words {
        let outcome = Program::new().run(words).expect(2);
        outcome.says(&["expected ADDRESS:PORT with a numeric address, such as 127.0.0.1:6443"]);
    }
}
