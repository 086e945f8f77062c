//! Every finding: what it is about, how bad it is, and the fields of both sides.

mod base;
mod doubts;
mod notices;
mod overrides;

use seaworthy_ignition::Severity;
use seaworthy_render::Finding;
use serde_json::Value;

use crate::support::*;

/// What a test looks at.
fn gist(finding: &Finding) -> (Severity, &str, Vec<String>) {
    (finding.severity, finding.subject.as_str(), places(finding))
}

fn assert_gist(finding: &Finding, severity: Severity, subject: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|place| (*place).to_owned()).collect();
    assert_eq!(gist(finding), (severity, subject, expected), "{finding}");
}

/// An input that the platform made for everyone.
fn platform(machine_config: Value) -> Value {
    owned_by("ControllerConfig", generated_by("b", machine_config))
}
