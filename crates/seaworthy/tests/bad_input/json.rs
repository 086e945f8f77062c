//! Invalid JSON.

use crate::bad_input::{render, render_within};
use crate::program::machine_config;

#[test]
fn a_truncated_text_is_shown_where_it_ends() {
    let text = "{\n  \"apiVersion\": \"machineconfiguration.openshift.io/v1\",\n  \"kind\": \"MachineConfig\"";
    let outcome = render("cut.json", text).expect(2);
    assert_eq!(
        outcome.stderr,
        "error: cut.json:3:25: the text ends within an object\n     3 |   \"kind\": \"MachineConfig\"\n       |                         ^\n"
    );
    assert_eq!(outcome.stdout, "");
}

#[test]
fn a_key_given_twice_is_named_with_its_line() {
    let outcome =
        render("twice.json", "{\"kind\": \"MachineConfig\",\n \"metadata\": {\"name\": \"x\",\n \"name\": \"y\"}}");
    outcome.expect(2).says(&[
        "twice.json:3:",
        "the key \"name\" is given twice in one object",
        "     3 |  \"name\": \"y\"}}",
    ]);
}

#[test]
fn bytes_that_are_no_text_are_named_by_line_and_place() {
    let mut text = b"{\"kind\":\n \"MachineConfig".to_vec();
    text.push(0xff);
    render("latin.json", text).expect(2).says(&["latin.json:2: byte 24 (0xff) is not UTF-8"]);
}

#[test]
fn a_nul_in_a_string_is_refused() {
    render("nul.json", "{\"kind\": \"Machine\0Config\"}").expect(2).says(&["nul.json:1:18: control character"]);
}

#[test]
fn two_hundred_thousand_levels_are_refused_at_the_first_too_many() {
    for (name, level, last) in [("lists.json", "[", "1"), ("objects.json", "{\"a\":", "1")] {
        for end in ["", last] {
            let text = level.repeat(200_000) + end;
            let outcome = render_within(512, name, text).expect(2);
            outcome.says(&[name, ":1:", "recursion limit exceeded; no manifest is nested that deep"]);
        }
    }
}

#[test]
fn a_list_of_lists_of_lists_is_unpacked_up_to_the_same_depth() {
    let nested = |depth: usize| {
        let open = r#"{"apiVersion":"v1","kind":"List","items":["#.repeat(depth);
        format!("{open}{}{}", machine_config("{}"), "]}".repeat(depth))
    };
    render("nested.json", nested(50)).expect(0);
    render("nested.json", nested(100_000)).expect(2).says(&["nested.json:1:", "recursion limit"]);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    render("bom.json", format!("\u{feff}{}", machine_config("{}"))).expect(0);
}

#[test]
fn several_documents_in_one_text_are_all_read() {
    let second = machine_config(r#"{"fips": true}"#).replace("50-worker", "60-worker");
    for between in ["", "\n", "\n---\n"] {
        let text = format!("{}{between}{second}", machine_config("{}"));
        let outcome = render("two.json", text).expect(0);
        assert_eq!(crate::bad_input::spec(&outcome)["fips"], true);
    }
}

#[test]
fn numbers_beyond_all_bounds_are_refused_or_kept_but_never_wrong() {
    let config = |mode: &str| {
        machine_config(&format!(
            r#"{{"config": {{"ignition": {{"version": "3.5.0"}}, "storage": {{"files": [{{"path": "/a", "mode": {mode}}}]}}}}}}"#
        ))
    };
    for mode in ["18446744073709551616", "-1", "1e400", "0.5", "9223372036854775808"] {
        let outcome = render("number.json", config(mode));
        assert!(outcome.code == 1 || outcome.code == 2, "{mode}: {}", outcome.stderr);
        outcome.says(&["number.json:1:"]);
    }
}

#[test]
fn something_behind_the_text_is_refused() {
    render("more.json", machine_config("{}") + "}").expect(2).says(&["more.json:1:"]);
    render("more.json", machine_config("{}") + "\nkind: MachineConfig").expect(2).says(&["more.json:2:"]);
}

#[test]
fn many_small_values_take_memory_in_proportion() {
    let text = format!(r#"{{"apiVersion":"v1","kind":"Other","a":[{}1]}}"#, "1,".repeat(2_000_000));
    render_within(1024, "many.json", text).expect(2).says(&["ignored objects of other kinds: Other (1)"]);
}
