//! YAML: invalid texts, and texts that are read as kubectl reads them.

use serde_json::json;

use crate::bad_input::{render, render_within, spec};
use crate::program::{Outcome, Program};

const HEAD: &str = "apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-worker
  labels:
    machineconfiguration.openshift.io/role: worker
spec:
";

fn with_spec(spec: &str) -> Outcome {
    render("a.yaml", format!("{HEAD}{spec}"))
}

fn files(list: &str) -> String {
    format!("  config:\n    ignition: {{version: 3.5.0}}\n    storage:\n      files:\n{list}")
}

#[test]
fn a_key_given_twice_is_named_with_its_line() {
    let outcome = with_spec("  fips: true\n  fips: false\n").expect(2);
    assert_eq!(
        outcome.stderr,
        "error: a.yaml:9:3: duplicate key \"fips\"; keep one of them\n     9 |   fips: false\n       |   ^\n"
    );
}

#[test]
fn a_tab_for_indentation_is_named() {
    with_spec("\tfips: true\n").expect(2).says(&["a.yaml:8:", "a tab is used for indentation"]);
}

#[test]
fn wrong_indentation_is_shown() {
    with_spec("   fips: true\n  kernelType: default\n").expect(2).says(&["a.yaml:9:3: ", "9 |   kernelType: default"]);
}

#[test]
fn a_quote_that_is_not_closed_is_shown_at_the_end() {
    with_spec("  osImageURL: \"open\n")
        .expect(2)
        .says(&["a.yaml:9:1: a quoted string is not closed", "8 |   osImageURL: \"open"]);
}

#[test]
fn unrendered_template_has_its_own_error() {
    with_spec("  osImageURL: {{ .Values.image }}\n")
        .expect(2)
        .says(&["a.yaml:8:16: ", "this looks like a template; render it first"]);
}

#[test]
fn a_nul_is_refused_with_its_line() {
    with_spec("  fips: true\0\n").expect(2).says(&["a.yaml:8: NUL character"]);
    render("zeros.yaml", [0; 4096]).expect(2).says(&["zeros.yaml:1: NUL character"]);
}

#[test]
fn bytes_that_are_no_text_are_named_by_line_and_place() {
    let mut text = HEAD.as_bytes().to_vec();
    text.extend_from_slice(b"  osImageURL: caf\xe9\n");
    render("latin.yaml", text).expect(2).says(&["latin.yaml:8: byte ", "(0xe9) is not UTF-8"]);
}

#[test]
fn two_hundred_thousand_levels_are_refused_at_the_first_too_many() {
    let too_deep = "nested deeper than 128 levels";
    for text in ["a: ".to_owned() + &"[".repeat(200_000), "{a: ".repeat(200_000), "- ".repeat(200_000) + "a"] {
        // A text that begins with a brace is taken for JSON unless a document mark says otherwise.
        render_within(512, "deep.yaml", "---\n".to_owned() + &text).expect(2).says(&["deep.yaml:2:", too_deep]);
    }
    let steps: String = (0..2_000).map(|depth| " ".repeat(depth) + "a:\n").collect();
    render_within(512, "steps.yaml", steps).expect(2).says(&["steps.yaml:129:129: ", too_deep]);
}

#[test]
fn aliases_that_multiply_are_stopped() {
    let lists: String = (1..12)
        .map(|level| format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", ")))
        .collect();
    let objects: String =
        (1..40).map(|level| format!("a{level}: &a{level} {{l: *a{0}, r: *a{0}}}\n", level - 1)).collect();
    for text in [format!("a0: &a0 [x, x]\n{lists}"), format!("a0: &a0 {{x: y}}\n{objects}")] {
        let outcome = render_within(512, "bomb.yaml", text).expect(2);
        outcome.says(&["bomb.yaml:", "too large after expanding its aliases (*name)"]);
    }
}

#[test]
fn a_long_text_that_is_repeated_by_aliases_is_stopped() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), vec!["*a"; 20_000].join(", "));
    render_within(512, "long.yaml", text).expect(2).says(&["long.yaml:2:", "too large after expanding its aliases"]);
}

#[test]
fn an_alias_of_itself_is_refused() {
    with_spec("  config: &c {ignition: *c}\n").expect(2).says(&["a.yaml:8:", "refers to a value that contains it"]);
}

#[test]
fn an_alias_of_nothing_is_refused() {
    with_spec("  kernelArguments: [*nosmt]\n").expect(2).says(&["a.yaml:8:21: unknown alias"]);
}

#[test]
fn anchors_aliases_and_merge_keys_are_followed() {
    let list = "      - &base\n        path: /a\n        mode: 0600\n        contents: &c {source: 'data:,x'}\n      - <<: *base\n        path: /b\n      - {path: /c, contents: *c}\n";
    let outcome = with_spec(&files(list)).expect(0);
    let file = |path: &str| json!({"path": path, "contents": {"source": "data:,x"}, "mode": 384, "overwrite": true});
    let mut last = file("/c");
    last.as_object_mut().unwrap().remove("mode");
    assert_eq!(spec(&outcome)["config"]["storage"]["files"], json!([file("/a"), file("/b"), last]));
}

#[test]
fn one_anchor_may_be_used_many_times() {
    let uses: String = (0..500).map(|nth| format!("      - {{path: /{nth}, contents: *c}}\n")).collect();
    let list = format!("      - {{path: /first, contents: &c {{source: 'data:,x'}}}}\n{uses}");
    let outcome = with_spec(&files(&list)).expect(0);
    assert_eq!(spec(&outcome)["config"]["storage"]["files"].as_array().unwrap().len(), 501);
}

#[test]
fn booleans_are_those_of_yaml_1_1() {
    for (text, value) in [
        ("yes", true),
        ("Yes", true),
        ("on", true),
        ("ON", true),
        ("y", true),
        ("true", true),
        ("no", false),
        ("Off", false),
        ("n", false),
        ("FALSE", false),
    ] {
        let outcome = with_spec(&format!("  fips: {text}\n")).expect(0);
        assert_eq!(spec(&outcome)["fips"], value, "{text}");
    }
    with_spec("  fips: 'yes'\n").expect(1).says(&["spec.fips: found the string \"yes\"; expected true or false"]);
}

#[test]
fn modes_are_octal_where_kubectl_takes_them_so() {
    for (text, value) in [("0644", 420), ("420", 420), ("0x1a4", 420), ("0", 0), ("00", 0), ("0o644", 420)] {
        let outcome =
            with_spec(&files(&format!("      - {{path: /a, mode: {text}, contents: {{source: 'data:,'}}}}\n")));
        assert_eq!(spec(&outcome.expect(0))["config"]["storage"]["files"][0]["mode"], value, "{text}");
    }
    let outcome = with_spec(&files("      - {path: /a, mode: '0644', contents: {source: 'data:,'}}\n"));
    outcome.expect(1).says(&["spec.config.storage.files[0].mode: found the string \"0644\""]);
    // Written without the zero it is another mode altogether, and one that is not allowed.
    let outcome = with_spec(&files("      - {path: /a, mode: 644, contents: {source: 'data:,'}}\n"));
    outcome.expect(1).says(&["spec.config.storage.files[0].mode: invalid mode 01204"]);
}

#[test]
fn error_about_a_numeric_version_names_what_is_accepted() {
    let outcome = with_spec("  config: {ignition: {version: 3.2}}\n").expect(1);
    outcome.says(&["a.yaml:8:", "MachineConfig 50-worker, spec.config.ignition.version: ", "3.2", "3.2.0, 3.3.0"]);
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_make_no_difference() {
    let spec_text = "  fips: yes\n  kernelArguments:\n  - audit=1\n  config:\n    ignition: {version: 3.5.0}\n    systemd:\n      units:\n      - name: a.service\n        contents: |\n          [Service]\n          ExecStart=/bin/true\n";
    let plain = with_spec(spec_text).expect(0);
    let text = format!("\u{feff}{HEAD}{spec_text}").replace('\n', "\r\n");
    let windows = render("a.yaml", text).expect(0);
    assert_eq!(windows.stdout, plain.stdout);
}

#[test]
fn empty_documents_are_passed_over() {
    let text = format!("---\n---\n# a remark\n---\n{HEAD}  fips: true\n---\n\n...\n---\n");
    assert_eq!(spec(&render("a.yaml", text).expect(0))["fips"], true);
}

#[test]
fn the_line_of_a_finding_counts_all_documents_before_it() {
    let text = format!("---\n# a remark\n---\n{HEAD}  fips: maybe\n");
    render("a.yaml", text).expect(1).says(&["a.yaml:11:9: ", "MachineConfig 50-worker, spec.fips"]);
}

#[test]
fn a_large_stream_of_many_documents_is_read() {
    // More documents and more values than a parser that guards against bombs allows by default.
    let arguments: String = (0..150).map(|nth| format!("  - audit_backlog_limit={nth}\n")).collect();
    let text: String = (0..2_000)
        .map(|nth| {
            HEAD.replace("50-worker", &format!("50-worker-{nth:04}")) + "  kernelArguments:\n" + &arguments + "---\n"
        })
        .collect();
    let program = Program::new();
    program.file("many.yaml", text);
    let outcome = program.run(["render", "-f", "many.yaml", "-o", "name"]).expect(0);
    assert!(outcome.stdout.starts_with("rendered-worker-"), "{}", outcome.stdout);
}

#[test]
fn tags_and_keys_that_are_no_texts_do_not_confuse() {
    with_spec("  kernelArguments: [!!str 5]\n").expect(0);
    with_spec("  kernelArguments: [!!int five]\n").expect(2).says(&["a.yaml:8:"]);
    with_spec("  ? [a, b]\n  : c\n").expect(2).says(&["a.yaml:8:", "found a list or an object, expected a key"]);
    with_spec("  5: x\n").expect(0);
    with_spec("  osImageURL: .inf\n").expect(2).says(&["a.yaml:8:"]);
}
