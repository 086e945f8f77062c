//! The daemon, by number of the upstream behaviour (`d1` to `d52`): docs/reference/upstream-behaviour.md says what the numbers mean,
//! and why `d47` is left out.
//!
//! | numbers | tests |
//! |---|---|
//! | `d12` to `d16`, `d33` | `src/decide/kernel_arguments.rs` |
//! | `d27`, `d28` | `src/decide/extensions.rs` |
//! | `d25` | `tests/disruption.rs` of `plan` |
//! | `d42` to `d44` | `tests/drain.rs` of `plan`, and as a whole in the suite `plane` of `machineconfig` |
//! | `d45`, `d46` | `tests/node_status.rs` of `plan` |
//! | all others | the files beside this one |
//!
//! `every_row_is_a_test_or_left_out_with_a_reason` reads the names.

mod boot;
mod difference;
mod disruption;
mod file;
mod least_disruption;
mod odd_state;
mod order;
mod refusal;
mod validation;

use std::sync::Arc;

use crate::support::{Node, config, file, files, order, source, spec};
use rstest::rstest;
use seaworthy_api::operator::machine_configuration::StorageSection;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{Attributes, FakeHost, Host, Kernel};
use seaworthy_node::decide::{DecisionInputs, NextAction, decide};
use seaworthy_node::observed::observe;
use seaworthy_node::order::NextAttempt;
use seaworthy_node::validate::{Aspect, validate};
use seaworthy_node::{Agent, AgentOptions, Config, ConfigSpec, Order, Step, TargetState, paths, steps};
use seaworthy_plan::disruption::{Action, Level, least_disruption};
use serde_json::{Value, json};

fn target(value: Value) -> TargetState {
    TargetState::parse("rendered", Arc::new(spec(value)), None).unwrap()
}

/// What differs, and how much of a disruption that is.
fn differs(old: Value, new: Value) -> (Vec<String>, Level) {
    let found = least_disruption(&spec(old), &spec(new), None);
    (found.causes.into_iter().map(|cause| cause.what).collect(), found.level)
}

fn with(section: Value) -> Value {
    json!({"config": section})
}

fn core(user: Value) -> Value {
    with(json!({"passwd": {"users": [user]}}))
}

const REGISTRIES: &str = "/etc/containers/registries.conf";

const POLICY: &str = "/etc/containers/policy.json";

const USER_CA: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";

fn everything() -> Config {
    let packed = "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==";
    config(
        "all",
        &spec(with(json!({
            "storage": {"files": [
                file("/etc/file", "text"),
                {"path": "/etc/packed", "mode": 0o600, "contents": {"source": packed, "compression": "gzip"}},
            ]},
            "systemd": {"units": [{
                "name": "a.service", "enabled": true, "contents": "[Service]\n",
                "dropins": [{"name": "10.conf", "contents": "[Unit]\n"}, {"name": "20.conf", "contents": ""}],
            }]},
        }))),
    )
}

fn named(name: &str) -> Config {
    Config { name: name.to_owned(), spec: ConfigSpec::NotFound, image: None }
}

/// What is not offered; docs/reference/upstream-behaviour.md has the reason.
const LEFT_OUT: [u32; 1] = [47];

#[test]
fn every_row_is_a_test_or_left_out_with_a_reason() {
    let sources = [
        include_str!("boot.rs"),
        include_str!("difference.rs"),
        include_str!("disruption.rs"),
        include_str!("file.rs"),
        include_str!("least_disruption.rs"),
        include_str!("odd_state.rs"),
        include_str!("order.rs"),
        include_str!("refusal.rs"),
        include_str!("validation.rs"),
        include_str!("../../src/decide/kernel_arguments.rs"),
        include_str!("../../src/decide/extensions.rs"),
        include_str!("../../../../decide/plan/tests/disruption.rs"),
        include_str!("../../../../decide/plan/tests/drain.rs"),
        include_str!("../../../../decide/plan/tests/node_status.rs"),
    ];
    // `fn d21_d22_d23_…` is the test of three rows.
    let names = sources.iter().flat_map(|source| source.lines()).filter_map(|line| line.trim().strip_prefix("fn "));
    let rows: std::collections::BTreeSet<u32> = names
        .filter(|name| name.starts_with('d') || name.starts_with("row"))
        .flat_map(|name| name.split('_'))
        .filter_map(|word| word.strip_prefix('d')?.parse().ok())
        .collect();
    let wanted = (1..=52).filter(|row| !LEFT_OUT.contains(row));
    let missing: Vec<u32> = wanted.filter(|row| !rows.contains(row)).collect();
    assert!(missing.is_empty(), "rows without a test: {missing:?}");
    assert!(LEFT_OUT.iter().all(|row| !rows.contains(row)), "a row that is left out has a test");
}
