//! Conflicts between settings: combinations that no kubelet starts with.
//!
//! The merged document is checked, since the base is a part of it. A conflict within the base is not the fault of an object that has
//! none of its settings, so each is reported only where the object has one of them. Flags of the kubelet's unit and drop-ins beside
//! the file are not checked.

use seaworthy_values::duration;
use serde_json::{Map, Value};

/// Settings that conflict.
struct SettingsConflict {
    settings: &'static [&'static str],
    /// What was found, and what is accepted.
    why: String,
}

/// The defaults of the kubelet.
const HIGH_PERCENT: i64 = 85;
const LOW_PERCENT: i64 = 80;
const MINIMUM_AGE: &str = "2m";
const ENFORCED: [&str; 1] = ["pods"];

/// What is enforced for the system and for the kubelet: wholly, of what can be throttled only, and the setting that it needs.
const ENFORCEMENTS: [(&str, &str, &[&str]); 2] = [
    ("system-reserved", "system-reserved-compressible", &["enforceNodeAllocatable", "systemReservedCgroup"]),
    ("kube-reserved", "kube-reserved-compressible", &["enforceNodeAllocatable", "kubeReservedCgroup"]),
];

/// All conflicts that the object has a part in, each reported at the first setting that is the object's.
pub(super) fn refused(document: &Map<String, Value>, overlay: &Map<String, Value>) -> Vec<String> {
    let conflicts = [thresholds, ages, periods, priorities, pulls, logs, cpus, grace_periods];
    let conflicts = conflicts.into_iter().filter_map(|conflict| conflict(document)).chain(enforcements(document));
    conflicts
        .filter_map(|SettingsConflict { settings, why }| {
            let users = settings.iter().find(|setting| overlay.contains_key(**setting))?;
            // Most name it first.
            let is_named = why.strip_prefix(users).is_some_and(|rest| rest.starts_with(' '));
            Some(if is_named { why } else { format!("{users}: {why}") })
        })
        .collect()
}

fn thresholds(document: &Map<String, Value>) -> Option<SettingsConflict> {
    const SETTINGS: [&str; 2] = ["imageGCLowThresholdPercent", "imageGCHighThresholdPercent"];
    let [low, high] = SETTINGS.map(|setting| document.get(setting).and_then(Value::as_i64));
    let shown = |percent: Option<i64>, default: i64| match percent {
        Some(percent) => percent.to_string(),
        None => format!("{default}, the default"),
    };
    (low.unwrap_or(LOW_PERCENT) >= high.unwrap_or(HIGH_PERCENT)).then(|| SettingsConflict {
        settings: &SETTINGS,
        why: format!(
            "imageGCLowThresholdPercent ({}) must be less than imageGCHighThresholdPercent ({})",
            shown(low, LOW_PERCENT),
            shown(high, HIGH_PERCENT)
        ),
    })
}

fn ages(document: &Map<String, Value>) -> Option<SettingsConflict> {
    let maximum = text(document, "imageMaximumGCAge");
    // 0 is no limit for the one, and the default for the other.
    let minimum = Some(text(document, "imageMinimumGCAge")).filter(|minimum| time(minimum) != 0);
    let shown = minimum.map_or_else(|| format!("{MINIMUM_AGE}, the default"), str::to_owned);
    (time(maximum) > 0 && time(maximum) <= time(minimum.unwrap_or(MINIMUM_AGE))).then(|| SettingsConflict {
        settings: &["imageMaximumGCAge", "imageMinimumGCAge"],
        why: format!("imageMaximumGCAge ({maximum}) must be greater than imageMinimumGCAge ({shown}), or 0s"),
    })
}

fn periods(document: &Map<String, Value>) -> Option<SettingsConflict> {
    let [all, critical] =
        ["shutdownGracePeriod", "shutdownGracePeriodCriticalPods"].map(|setting| text(document, setting));
    (time(critical) > time(all).max(0)).then(|| SettingsConflict {
        settings: &["shutdownGracePeriodCriticalPods", "shutdownGracePeriod"],
        why: format!(
            "shutdownGracePeriodCriticalPods ({critical}) must not exceed shutdownGracePeriod ({})",
            if all.is_empty() { "not set" } else { all }
        ),
    })
}

fn priorities(document: &Map<String, Value>) -> Option<SettingsConflict> {
    let by_priority = document.get("shutdownGracePeriodByPodPriority").and_then(Value::as_array);
    let is_set = |setting| time(text(document, setting)) > 0;
    (by_priority.is_some_and(|list| !list.is_empty())
        && (is_set("shutdownGracePeriod") || is_set("shutdownGracePeriodCriticalPods")))
    .then(|| SettingsConflict {
        settings: &["shutdownGracePeriodByPodPriority", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"],
        why: "shutdownGracePeriodByPodPriority cannot be combined with shutdownGracePeriod or \
              shutdownGracePeriodCriticalPods"
            .to_owned(),
    })
}

/// Where serializeImagePulls is not set, newer kubelets go by the number.
fn pulls(document: &Map<String, Value>) -> Option<SettingsConflict> {
    let most = document.get("maxParallelImagePulls").and_then(Value::as_i64).filter(|most| *most > 1)?;
    is(document, "serializeImagePulls", true).then(|| SettingsConflict {
        settings: &["maxParallelImagePulls", "serializeImagePulls"],
        why: format!("maxParallelImagePulls ({most}) requires serializeImagePulls: false, found true"),
    })
}

fn logs(document: &Map<String, Value>) -> Option<SettingsConflict> {
    (is(document, "enableSystemLogQuery", true) && is(document, "enableSystemLogHandler", false)).then(|| {
        SettingsConflict {
            settings: &["enableSystemLogHandler", "enableSystemLogQuery"],
            why: "enableSystemLogQuery (true) requires enableSystemLogHandler: true, found false".to_owned(),
        }
    })
}

/// The cgroup of the system is not looked for: it is taken out of the document where CPUs are reserved.
fn cpus(document: &Map<String, Value>) -> Option<SettingsConflict> {
    let [cpus, cgroup] = ["reservedSystemCPUs", "kubeReservedCgroup"].map(|setting| text(document, setting));
    (!cpus.is_empty() && !cgroup.is_empty()).then(|| SettingsConflict {
        settings: &["reservedSystemCPUs", "kubeReservedCgroup"],
        why: format!("reservedSystemCPUs ({cpus}) cannot be combined with kubeReservedCgroup ({cgroup})"),
    })
}

fn grace_periods(document: &Map<String, Value>) -> Option<SettingsConflict> {
    let periods = document.get("evictionSoftGracePeriod").and_then(Value::as_object);
    let has_period = |signal: &str| periods.is_some_and(|periods| periods.contains_key(signal));
    let soft = document.get("evictionSoft").and_then(Value::as_object).into_iter().flatten();
    // These two turn a threshold off.
    let counting = soft.filter(|(_, amount)| !matches!(amount.as_str(), Some("0%" | "100%")));
    let without: Vec<&str> = counting.map(|(signal, _)| signal.as_str()).filter(|signal| !has_period(signal)).collect();
    (!without.is_empty()).then(|| SettingsConflict {
        settings: &["evictionSoft", "evictionSoftGracePeriod"],
        why: format!("{} in evictionSoft without a period in evictionSoftGracePeriod", without.join(", ")),
    })
}

fn enforcements(document: &Map<String, Value>) -> Vec<SettingsConflict> {
    let list = document.get("enforceNodeAllocatable").and_then(Value::as_array);
    let list: Vec<&str> = list.map_or(ENFORCED.to_vec(), |list| list.iter().filter_map(Value::as_str).collect());
    let mut conflicts = Vec::new();
    if list.contains(&"none") {
        if list.len() > 1 {
            let why = format!("none cannot be combined with other values: {}", list.join(", "));
            conflicts.push(SettingsConflict { settings: &["enforceNodeAllocatable"], why });
        }
        return conflicts;
    }
    for (wholly, partly, settings) in ENFORCEMENTS {
        let found: Vec<&str> = [wholly, partly].into_iter().filter(|entry| list.contains(entry)).collect();
        let [_, cgroup] = settings else { continue };
        if found.len() > 1 {
            let why = format!("{} cannot be combined", found.join(" and "));
            conflicts.push(SettingsConflict { settings: &["enforceNodeAllocatable"], why });
        } else if let Some(found) = found.first().filter(|_| text(document, cgroup).is_empty()) {
            let why = format!("{found} in enforceNodeAllocatable requires {cgroup}");
            conflicts.push(SettingsConflict { settings, why });
        }
    }
    if is(document, "cgroupsPerQOS", false) && !list.is_empty() {
        let found = list.join(", ");
        let why = format!("cgroupsPerQOS (false) requires an empty enforceNodeAllocatable, found {found}");
        conflicts.push(SettingsConflict { settings: &["cgroupsPerQOS", "enforceNodeAllocatable"], why });
    }
    conflicts
}

fn is(document: &Map<String, Value>, setting: &str, value: bool) -> bool {
    document.get(setting).and_then(Value::as_bool) == Some(value)
}

fn text<'d>(document: &'d Map<String, Value>, setting: &str) -> &'d str {
    document.get(setting).and_then(Value::as_str).unwrap_or_default()
}

/// A time; 0 for none, and for what is none in a base.
fn time(text: &str) -> i64 {
    duration::parse(text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn of(document: Value, overlay: Value) -> Vec<String> {
        refused(document.as_object().unwrap(), overlay.as_object().unwrap())
    }

    #[rstest]
    #[case::high_below_the_default(json!({"imageGCHighThresholdPercent": 80}), "imageGCHighThresholdPercent: imageGCLowThresholdPercent (80, the default) must be less than imageGCHighThresholdPercent (80)")]
    #[case::low_above_the_default(json!({"imageGCLowThresholdPercent": 85}), "imageGCLowThresholdPercent (85) must be less than imageGCHighThresholdPercent (85, the default)")]
    #[case::high_of_nothing(json!({"imageGCHighThresholdPercent": 0, "imageGCLowThresholdPercent": 0}), "imageGCLowThresholdPercent (0) must be less than imageGCHighThresholdPercent (0)")]
    #[case::age(json!({"imageMaximumGCAge": "90s"}), "imageMaximumGCAge (90s) must be greater than imageMinimumGCAge (2m, the default), or 0s")]
    #[case::age_of_both(json!({"imageMaximumGCAge": "90s", "imageMinimumGCAge": "2m"}), "imageMaximumGCAge (90s) must be greater than imageMinimumGCAge (2m), or 0s")]
    #[case::critical_alone(json!({"shutdownGracePeriodCriticalPods": "10s"}), "shutdownGracePeriodCriticalPods (10s) must not exceed shutdownGracePeriod (not set)")]
    #[case::critical(json!({"shutdownGracePeriod": "1m", "shutdownGracePeriodCriticalPods": "61s"}), "shutdownGracePeriodCriticalPods (61s) must not exceed shutdownGracePeriod (1m)")]
    #[case::priorities(json!({"shutdownGracePeriod": "1m", "shutdownGracePeriodByPodPriority": [{"priority": 1}]}), "shutdownGracePeriodByPodPriority cannot be combined with ")]
    #[case::pulls(json!({"serializeImagePulls": true, "maxParallelImagePulls": 2}), "maxParallelImagePulls (2) requires serializeImagePulls: false, found true")]
    #[case::logs(json!({"enableSystemLogQuery": true, "enableSystemLogHandler": false}), "enableSystemLogHandler: enableSystemLogQuery (true) requires enableSystemLogHandler: true, found false")]
    #[case::cpus(json!({"reservedSystemCPUs": "0-1", "kubeReservedCgroup": "/k"}), "reservedSystemCPUs (0-1) cannot be combined with kubeReservedCgroup (/k)")]
    #[case::soft(json!({"evictionSoft": {"memory.available": "1Gi", "nodefs.available": "5%"}, "evictionSoftGracePeriod": {"nodefs.available": "1m"}}), "evictionSoft: memory.available in evictionSoft without a period in evictionSoftGracePeriod")]
    #[case::none(json!({"enforceNodeAllocatable": ["none", "pods"]}), "enforceNodeAllocatable: none cannot be combined with other values: none, pods")]
    #[case::twice(json!({"enforceNodeAllocatable": ["system-reserved", "system-reserved-compressible"], "systemReservedCgroup": "/s"}), "enforceNodeAllocatable: system-reserved and system-reserved-compressible cannot be combined")]
    #[case::system(json!({"enforceNodeAllocatable": ["system-reserved-compressible"]}), "enforceNodeAllocatable: system-reserved-compressible in enforceNodeAllocatable requires systemReservedCgroup")]
    #[case::kube(json!({"enforceNodeAllocatable": ["pods", "kube-reserved"], "kubeReservedCgroup": ""}), "enforceNodeAllocatable: kube-reserved in enforceNodeAllocatable requires kubeReservedCgroup")]
    #[case::qos(json!({"cgroupsPerQOS": false}), "cgroupsPerQOS (false) requires an empty enforceNodeAllocatable, found pods")]
    fn settings_that_no_kubelet_starts_with_are_reported_once(#[case] document: Value, #[case] reported: &str) {
        let wrong = of(document.clone(), document);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with(reported), "{wrong:?}");
    }

    #[rstest]
    #[case::nothing(json!({}))]
    #[case::high(json!({"imageGCHighThresholdPercent": 81}))]
    #[case::low(json!({"imageGCLowThresholdPercent": 84}))]
    #[case::both(json!({"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0}))]
    #[case::age(json!({"imageMaximumGCAge": "121s", "imageMinimumGCAge": "0s"}))]
    #[case::low_age(json!({"imageMaximumGCAge": "90s", "imageMinimumGCAge": "1m"}))]
    #[case::no_age(json!({"imageMaximumGCAge": "0s", "imageMinimumGCAge": "1h"}))]
    #[case::critical(json!({"shutdownGracePeriod": "1m", "shutdownGracePeriodCriticalPods": "60s"}))]
    #[case::shutdown(json!({"shutdownGracePeriod": "30s"}))]
    #[case::priorities(json!({"shutdownGracePeriod": "0s", "shutdownGracePeriodByPodPriority": [{"priority": 1}]}))]
    #[case::pulls(json!({"maxParallelImagePulls": 5}))]
    #[case::parallel(json!({"serializeImagePulls": false, "maxParallelImagePulls": 5}))]
    #[case::serial(json!({"serializeImagePulls": true, "maxParallelImagePulls": 1}))]
    #[case::logs(json!({"enableSystemLogQuery": true}))]
    #[case::no_logs(json!({"enableSystemLogHandler": false}))]
    #[case::cpus(json!({"reservedSystemCPUs": "0-1", "kubeReservedCgroup": ""}))]
    #[case::soft(json!({"evictionSoft": {"memory.available": "1Gi", "nodefs.available": "0%"}, "evictionSoftGracePeriod": {"memory.available": "1m", "pid.available": "1m"}}))]
    #[case::none(json!({"enforceNodeAllocatable": ["none"]}))]
    #[case::empty(json!({"enforceNodeAllocatable": [], "cgroupsPerQOS": false}))]
    #[case::cgroups(json!({"enforceNodeAllocatable": ["pods", "system-reserved", "kube-reserved-compressible"], "systemReservedCgroup": "/s", "kubeReservedCgroup": "/k"}))]
    #[case::qos(json!({"cgroupsPerQOS": true}))]
    fn what_a_kubelet_takes_is_left_alone(#[case] document: Value) {
        assert_eq!(of(document.clone(), document), Vec::<String>::new());
    }

    #[test]
    fn conflict_within_the_base_is_not_reported_and_one_with_the_base_is() {
        let document = json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 60, "maxPods": 5});
        assert_eq!(of(document.clone(), json!({"maxPods": 5})), Vec::<String>::new());
        let wrong = of(document, json!({"imageGCHighThresholdPercent": 50}));
        let start = "imageGCHighThresholdPercent: imageGCLowThresholdPercent (60) must be less than ";
        assert!(wrong[0].starts_with(start), "{wrong:?}");
        // To take away is to have a part too.
        let wrong = of(json!({"evictionSoft": {"pid.available": "5"}}), json!({"evictionSoftGracePeriod": null}));
        assert!(wrong[0].starts_with("evictionSoftGracePeriod: pid.available in evictionSoft without "), "{wrong:?}");
    }
}
