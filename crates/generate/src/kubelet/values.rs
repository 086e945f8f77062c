//! Values that no kubelet starts with.
//!
//! Differs: upstream hands them on, and the first node of the pool does not come back, because its kubelet ends at every start. What is
//! listed here is what every kubelet refuses; what depends on its feature gates or its machine is left to it.

use serde_json::{Map, Value};

use crate::quantity;

/// Words that are accepted. An empty one stands for the default.
const WORDS: [(&str, &[&str]); 5] = [
    ("cpuManagerPolicy", &["none", "static"]),
    ("hairpinMode", &["promiscuous-bridge", "hairpin-veth", "none"]),
    ("memoryManagerPolicy", &["None", "Static"]),
    ("topologyManagerPolicy", &["none", "best-effort", "restricted", "single-numa-node"]),
    ("topologyManagerScope", &["container", "pod"]),
];

/// The least and the most that a number may be.
const NUMBERS: [(&str, i64, i64); 14] = [
    ("containerLogMaxFiles", 2, i64::MAX),
    ("eventBurst", 0, i64::MAX),
    ("eventRecordQPS", 0, i64::MAX),
    ("healthzPort", 0, 65535),
    ("imageGCHighThresholdPercent", 0, 100),
    ("imageGCLowThresholdPercent", 0, 100),
    ("kubeAPIBurst", 0, i64::MAX),
    ("maxOpenFiles", 0, i64::MAX),
    ("maxPods", 0, i64::MAX),
    ("oomScoreAdj", -1000, 1000),
    ("podsPerCore", 0, i64::MAX),
    ("port", 1, 65535),
    ("readOnlyPort", 0, 65535),
    ("registryBurst", 0, i64::MAX),
];

/// Settings that are amounts of signals.
const THRESHOLDS: [&str; 3] = ["evictionHard", "evictionSoft", "evictionMinimumReclaim"];

/// What can run short on a node.
const SIGNALS: [&str; 9] = [
    "allocatableMemory.available",
    "containerfs.available",
    "containerfs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

/// All such values, each with what is accepted.
pub(super) fn refused(overlay: &Map<String, Value>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, accepted) in WORDS {
        let found = overlay.get(key).and_then(Value::as_str).filter(|found| !found.is_empty());
        if let Some(found) = found.filter(|found| !accepted.contains(found)) {
            wrong.push(format!("{key}: found {found:?}; accepted are {}", accepted.join(", ")));
        }
    }
    for (key, least, most) in NUMBERS {
        // 0 stands for the default where it is no value of its own.
        let found = overlay.get(key).and_then(Value::as_i64).filter(|found| *found != 0);
        if let Some(found) = found.filter(|found| !(least..=most).contains(found)) {
            let accepted = match most {
                i64::MAX => format!("at least {least}"),
                most => format!("{least} to {most}"),
            };
            wrong.push(format!("{key}: found {found}; accepted is {accepted}"));
        }
    }
    for setting in THRESHOLDS {
        let amounts = overlay.get(setting).and_then(Value::as_object).into_iter().flatten();
        // Null takes away what the base has.
        for (signal, amount) in amounts.filter(|(_, amount)| !amount.is_null()) {
            if !SIGNALS.contains(&signal.as_str()) {
                wrong.push(format!("{setting}: found {signal:?}; accepted are {}", SIGNALS.join(", ")));
            } else if let Some(why) = amount.as_str().and_then(wrong_amount) {
                wrong.push(format!("{setting}[{signal:?}]: {why}"));
            }
        }
    }
    wrong
}

/// Why an amount is none: a quantity, or a part of what there is.
fn wrong_amount(amount: &str) -> Option<String> {
    match amount.strip_suffix('%') {
        Some(percent) => {
            let is_part = percent.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent));
            (!is_part).then(|| {
                format!("found {amount:?}; accepted is a percentage from 0% to 100%, or an amount such as 500Mi")
            })
        }
        None => quantity::value(amount).err().map(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn of(document: Value) -> Vec<String> {
        refused(document.as_object().unwrap())
    }

    #[rstest]
    #[case::policy(json!({"cpuManagerPolicy": "foo"}), "cpuManagerPolicy: found \"foo\"; accepted are none, static")]
    #[case::number(json!({"maxPods": -3}), "maxPods: found -3; accepted is at least 0")]
    #[case::percent(json!({"imageGCHighThresholdPercent": 101}), "accepted is 0 to 100")]
    #[case::files(json!({"containerLogMaxFiles": 1}), "at least 2")]
    #[case::signal(json!({"evictionHard": {"memory": "5%"}}), "evictionHard: found \"memory\"; accepted are ")]
    #[case::part(json!({"evictionHard": {"memory.available": "5%%"}}), "evictionHard[\"memory.available\"]: found \"5%%\"")]
    #[case::amount(json!({"evictionSoft": {"nodefs.available": "lots"}}), "\"lots\" is not a quantity")]
    fn value_that_no_kubelet_starts_with_is_told_with_what_is_accepted(#[case] document: Value, #[case] told: &str) {
        let wrong = of(document);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains(told), "{wrong:?}");
    }

    #[test]
    fn what_a_kubelet_takes_is_left_alone() {
        let document = json!({
            "cpuManagerPolicy": "static", "topologyManagerScope": "", "maxPods": 500, "readOnlyPort": 0, "oomScoreAdj": -999,
            "evictionHard": {"memory.available": "500Mi", "nodefs.inodesFree": "5%", "imagefs.available": "0%"},
            "evictionMinimumReclaim": {"memory.available": "0", "gone": null},
            "containerLogMaxFiles": 0, "podsPerCore": 10,
        });
        assert_eq!(of(document), Vec::<String>::new());
    }
}
