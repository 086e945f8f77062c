//! Value checks: values with which no kubelet starts.
//!
//! Differs: upstream hands them on, and the first node of the pool does not come back, because its kubelet ends at every start. What is
//! listed here is what every kubelet that has the setting refuses; what depends on its feature gates or its machine is left to it.

use seaworthy_ignition::spelling;
use seaworthy_values::duration;
use serde_json::{Map, Value};

use crate::quantity::{self, QuantityError};

/// Words that are accepted. An empty one means the default.
const WORDS: [(&str, &[&str]); 10] = [
    ("authorization.mode", &["AlwaysAllow", "Webhook"]),
    ("configMapAndSecretChangeDetectionStrategy", &["Get", "Cache", "Watch"]),
    ("cpuManagerPolicy", &["none", "static"]),
    ("hairpinMode", &["promiscuous-bridge", "hairpin-veth", "none"]),
    (
        "imagePullCredentialsVerificationPolicy",
        &["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"],
    ),
    ("logging.format", &["text", "json"]),
    ("memoryManagerPolicy", &["None", "Static"]),
    ("tlsMinVersion", &["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]),
    ("topologyManagerPolicy", &["none", "best-effort", "restricted", "single-numa-node"]),
    ("topologyManagerScope", &["container", "pod"]),
];

/// What may be in `enforceNodeAllocatable`.
const ENFORCED: [&str; 6] =
    ["none", "pods", "system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible"];

/// The effects of taints. An empty one passes.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The least and the most that a number may be.
const NUMBERS: [(&str, i64, i64); 24] = [
    ("containerLogMaxFiles", 2, i64::MAX),
    ("containerLogMaxWorkers", 1, i64::MAX),
    ("eventBurst", 0, i64::MAX),
    ("eventRecordQPS", 0, i64::MAX),
    ("healthzPort", 0, 65535),
    ("imageGCHighThresholdPercent", 0, 100),
    ("imageGCLowThresholdPercent", 0, 100),
    ("iptablesDropBit", 0, 31),
    ("iptablesMasqueradeBit", 0, 31),
    ("kubeAPIBurst", 0, i64::MAX),
    ("kubeAPIQPS", 0, i64::MAX),
    ("logging.verbosity", 0, i32::MAX as i64),
    ("maxOpenFiles", 0, i64::MAX),
    ("maxParallelImagePulls", 1, i64::MAX),
    ("maxPods", 0, i64::MAX),
    ("nodeLeaseDurationSeconds", 1, i64::MAX),
    ("nodeStatusMaxImages", -1, i64::MAX),
    ("oomScoreAdj", -1000, 1000),
    ("podsPerCore", 0, i64::MAX),
    ("port", 1, 65535),
    ("readOnlyPort", 0, 65535),
    ("registryBurst", 0, i64::MAX),
    ("registryPullQPS", 0, i64::MAX),
    ("tracing.samplingRatePerMillion", 0, 1_000_000),
];

/// Settings where 0 means the default although it is not in the range. Elsewhere 0 is refused, because the kubelet distinguishes it
/// from absence there.
const ZERO_IS_DEFAULT: [&str; 2] = ["nodeLeaseDurationSeconds", "port"];

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLISECOND;

/// The least and the most that a time may be, in words too, and whether it may be 0.
///
/// Some have feature gates. They are here as far as they are refused with the gate and without it; but a negative time for the shutdown
/// passes where its gate is off, where it has no meaning.
const TIMES: [(&str, i64, i64, bool, &str); 6] = [
    ("containerLogMonitorInterval", 3 * SECOND, i64::MAX, false, "at least 3s"),
    ("cpuCFSQuotaPeriod", MILLISECOND, SECOND, false, "1ms to 1s"),
    // It is counted in whole milliseconds.
    ("crashLoopBackOff.maxContainerRestartPeriod", SECOND, 300 * SECOND + MILLISECOND - 1, false, "1s to 5m"),
    ("imageMaximumGCAge", 0, i64::MAX, true, "at least 0s"),
    ("shutdownGracePeriod", SECOND, i64::MAX, true, "0s, or at least 1s"),
    ("shutdownGracePeriodCriticalPods", SECOND, i64::MAX, true, "0s, or at least 1s"),
];

/// Why an amount is wrong, if it is.
type Wrong = fn(&str) -> Option<String>;

/// Settings that are amounts of signals.
const THRESHOLDS: [(&str, Wrong); 4] = [
    ("evictionHard", wrong_threshold),
    ("evictionMinimumReclaim", wrong_reclaim),
    ("evictionSoft", wrong_threshold),
    ("evictionSoftGracePeriod", wrong_grace_period),
];

/// Settings that are amounts of what there is on a node.
const RESERVATIONS: [&str; 2] = ["kubeReserved", "systemReserved"];

/// What can be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

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

/// The ciphers that the kubelet's TLS library has, weak ones included, and two older names that the kubelet has itself.
const CIPHERS: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// All such values, each with what is accepted.
pub(super) fn refused(overlay: &Map<String, Value>) -> Vec<String> {
    let rules = [words, numbers, times, thresholds, reservations, lists, others];
    rules.iter().flat_map(|rule| rule(overlay)).collect()
}

fn words(overlay: &Map<String, Value>) -> Vec<String> {
    let wrong = WORDS.into_iter().filter_map(|(path, accepted)| {
        let found = text(overlay, path).filter(|found| !accepted.contains(found))?;
        Some(format!("{path}: found {found:?}; expected one of {}", accepted.join(", ")))
    });
    wrong.collect()
}

fn numbers(overlay: &Map<String, Value>) -> Vec<String> {
    let wrong = NUMBERS.into_iter().filter_map(|(path, least, most)| {
        let found = at(overlay, path)?.as_i64().filter(|found| !(least..=most).contains(found))?;
        let accepted = match most {
            i64::MAX => format!("at least {least}"),
            most => format!("{least} to {most}"),
        };
        let is_default = found == 0 && ZERO_IS_DEFAULT.contains(&path);
        (!is_default).then(|| format!("{path}: found {found}; expected {accepted}"))
    });
    let factor = overlay.get("memoryThrottlingFactor").and_then(Value::as_f64);
    let factor = factor.filter(|factor| *factor <= 0.0 || *factor > 1.0);
    let reported = factor.map(|found| format!("memoryThrottlingFactor: found {found}; expected more than 0, up to 1"));
    wrong.chain(reported).collect()
}

fn times(overlay: &Map<String, Value>) -> Vec<String> {
    let wrong = TIMES.into_iter().filter_map(|(path, least, most, may_be_zero, accepted)| {
        let found = text(overlay, path)?;
        let time = duration::parse(found).filter(|time| !(least..=most).contains(time))?;
        (time != 0 || !may_be_zero).then(|| format!("{path}: found {found}; expected {accepted}"))
    });
    wrong.collect()
}

fn thresholds(overlay: &Map<String, Value>) -> Vec<String> {
    THRESHOLDS.into_iter().flat_map(|(setting, wrong)| amounts(overlay, setting, &SIGNALS, wrong)).collect()
}

fn reservations(overlay: &Map<String, Value>) -> Vec<String> {
    RESERVATIONS.into_iter().flat_map(|setting| amounts(overlay, setting, &RESERVABLE, wrong_reservation)).collect()
}

/// What is wrong with a setting that is an object of amounts.
fn amounts(overlay: &Map<String, Value>, setting: &str, accepted: &[&str], wrong: Wrong) -> Vec<String> {
    let amounts = overlay.get(setting).and_then(Value::as_object).into_iter().flatten();
    // Null takes away what the base has.
    let reported = amounts.filter(|(_, amount)| !amount.is_null()).filter_map(|(name, amount)| {
        if !accepted.contains(&name.as_str()) {
            return Some(format!("{setting}: found {name:?}; expected one of {}", accepted.join(", ")));
        }
        amount.as_str().and_then(wrong).map(|why| format!("{setting}[{name:?}]: {why}"))
    });
    reported.collect()
}

fn lists(overlay: &Map<String, Value>) -> Vec<String> {
    let entries = |setting: &str| overlay.get(setting).and_then(Value::as_array).into_iter().flatten();
    let enforced = entries("enforceNodeAllocatable").filter_map(Value::as_str);
    let enforced = enforced
        .filter(|found| !ENFORCED.contains(found))
        .map(|found| format!("enforceNodeAllocatable: found {found:?}; expected one of {}", ENFORCED.join(", ")));
    let ciphers = entries("tlsCipherSuites").filter_map(Value::as_str);
    let ciphers = ciphers.filter(|found| !CIPHERS.contains(found)).map(|found| {
        let near = spelling::nearest(found, CIPHERS).map(|near| format!(" (did you mean {near}?)"));
        let accepted = "expected a name such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, if the kubelet supports it";
        format!("tlsCipherSuites: found {found:?}{}; {accepted}", near.unwrap_or_default())
    });
    let effects = entries("registerWithTaints").filter_map(|taint| taint.get("effect")?.as_str());
    let effects = effects.filter(|found| !found.is_empty() && !EFFECTS.contains(found)).map(|found| {
        format!("registerWithTaints: found {found:?} as an effect; expected one of {}", EFFECTS.join(", "))
    });
    enforced.chain(ciphers).chain(effects).collect()
}

fn others(overlay: &Map<String, Value>) -> Vec<String> {
    // A negative one means no limit.
    let size = text(overlay, "containerLogMaxSize").and_then(|size| amount(size).err());
    let size = size.map(|why| format!("containerLogMaxSize: {why}"));
    let cpus = text(overlay, "reservedSystemCPUs").filter(|cpus| !are_cpus(cpus));
    let cpus =
        cpus.map(|found| format!("reservedSystemCPUs: found {found:?}; expected CPUs such as 0-3,8, without spaces"));
    let logs = text(overlay, "podLogsDir").filter(|path| !is_plain(path));
    let logs = logs.map(|found| {
        format!(
            "podLogsDir: found {found:?}; expected an absolute path of ASCII, without //, . or .. and a / at its end"
        )
    });
    [size, cpus, logs].into_iter().flatten().collect()
}

/// The value at a path.
fn at<'d>(document: &'d Map<String, Value>, path: &str) -> Option<&'d Value> {
    let mut parts = path.split('.');
    let first = document.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// The text at a path, if there is any.
fn text<'d>(document: &'d Map<String, Value>, path: &str) -> Option<&'d str> {
    at(document, path)?.as_str().filter(|text| !text.is_empty())
}

/// The value of a quantity. What is too large is not wrong: the kubelet takes it for the largest that there is.
fn amount(text: &str) -> Result<i64, QuantityError> {
    match quantity::value(text) {
        Err(QuantityError::TooLarge(_)) => Ok(if text.starts_with('-') { i64::MIN } else { i64::MAX }),
        amount => amount,
    }
}

/// A percentage as a part of 1. The kubelet does not mind how often the sign is there.
fn part(text: &str) -> Option<f32> {
    text.trim_end_matches('%').parse().ok().filter(|percent: &f32| percent.is_finite()).map(|percent| percent / 100.0)
}

/// Why a threshold is none: a quantity, or a part of what there is.
fn wrong_threshold(found: &str) -> Option<String> {
    let is_wrong = if found.ends_with('%') {
        !part(found).is_some_and(|part| (0.0..=1.0).contains(&part))
    } else {
        match amount(found) {
            Ok(amount) => amount <= 0,
            Err(why) => return Some(why.to_string()),
        }
    };
    is_wrong.then(|| format!("found {found:?}; expected a percentage from 0% to 100%, or an amount such as 500Mi"))
}

/// Why an amount to get back is none: as a threshold, but nothing is enough, and more than all is not too much.
fn wrong_reclaim(found: &str) -> Option<String> {
    let is_wrong = if found.ends_with('%') {
        part(found).is_none_or(|part| part <= 0.0)
    } else {
        match amount(found) {
            Ok(amount) => amount < 0,
            Err(why) => return Some(why.to_string()),
        }
    };
    is_wrong.then(|| format!("found {found:?}; expected a percentage above 0%, or an amount such as 0 or 500Mi"))
}

/// Why a time is none that a threshold may be crossed for.
fn wrong_grace_period(found: &str) -> Option<String> {
    let is_wrong = duration::parse(found).is_none_or(|time| time < 0);
    is_wrong.then(|| format!("found {found:?}; expected a time such as 90s or 1m30s"))
}

/// Why an amount cannot be reserved.
fn wrong_reservation(found: &str) -> Option<String> {
    match amount(found) {
        Ok(amount) => (amount < 0).then(|| format!("found {found:?}; expected an amount of 0 or more")),
        Err(why) => Some(why.to_string()),
    }
}

/// Whether a text is a list of CPUs and of ranges of them.
fn are_cpus(text: &str) -> bool {
    text.split(',').all(|entry| match entry.split_once('-') {
        Some((first, last)) => {
            matches!((first.parse::<i64>(), last.parse::<i64>()), (Ok(first), Ok(last)) if first <= last)
        }
        None => entry.parse::<i64>().is_ok(),
    })
}

/// Whether a path is absolute, and as short as it can be written.
fn is_plain(path: &str) -> bool {
    let below = path.strip_prefix('/');
    path.is_ascii()
        && below.is_some_and(|below| below.is_empty() || !below.split('/').any(|part| matches!(part, "" | "." | "..")))
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
    #[case::policy(json!({"cpuManagerPolicy": "foo"}), "cpuManagerPolicy: found \"foo\"; expected one of none, static")]
    #[case::authorization(json!({"authorization": {"mode": "RBAC"}}), "authorization.mode: found \"RBAC\"; expected one of AlwaysAllow, Webhook")]
    #[case::strategy(json!({"configMapAndSecretChangeDetectionStrategy": "watch"}), "expected one of Get, Cache, Watch")]
    #[case::verification(json!({"imagePullCredentialsVerificationPolicy": "Never"}), "expected one of NeverVerify, ")]
    #[case::format(json!({"logging": {"format": "yaml"}}), "logging.format: found \"yaml\"; expected one of text, json")]
    #[case::tls(json!({"tlsMinVersion": "TLSv1.2"}), "tlsMinVersion: found \"TLSv1.2\"; expected one of VersionTLS10, ")]
    #[case::number(json!({"maxPods": -3}), "maxPods: found -3; expected at least 0")]
    #[case::percent(json!({"imageGCHighThresholdPercent": 101}), "expected 0 to 100")]
    #[case::files(json!({"containerLogMaxFiles": 1}), "at least 2")]
    #[case::no_files(json!({"containerLogMaxFiles": 0}), "containerLogMaxFiles: found 0; expected at least 2")]
    #[case::workers(json!({"containerLogMaxWorkers": 0}), "containerLogMaxWorkers: found 0; expected at least 1")]
    #[case::pulls(json!({"maxParallelImagePulls": 0}), "maxParallelImagePulls: found 0; expected at least 1")]
    #[case::lease(json!({"nodeLeaseDurationSeconds": -1}), "nodeLeaseDurationSeconds: found -1; expected at least 1")]
    #[case::images(json!({"nodeStatusMaxImages": -2}), "nodeStatusMaxImages: found -2; expected at least -1")]
    #[case::masquerade(json!({"iptablesMasqueradeBit": 32}), "expected 0 to 31")]
    #[case::drop(json!({"iptablesDropBit": -1}), "expected 0 to 31")]
    #[case::api_rate(json!({"kubeAPIQPS": -1}), "kubeAPIQPS: found -1; expected at least 0")]
    #[case::pull_rate(json!({"registryPullQPS": -1}), "registryPullQPS: found -1; expected at least 0")]
    #[case::verbosity(json!({"logging": {"verbosity": -1}}), "logging.verbosity: found -1; expected 0 to 2147483647")]
    #[case::sampling(json!({"tracing": {"samplingRatePerMillion": 1_000_001}}), "expected 0 to 1000000")]
    #[case::throttling(json!({"memoryThrottlingFactor": 1.1}), "memoryThrottlingFactor: found 1.1; expected more than 0, up to 1")]
    #[case::no_throttling(json!({"memoryThrottlingFactor": 0}), "memoryThrottlingFactor: found 0; ")]
    #[case::interval(json!({"containerLogMonitorInterval": "2.9s"}), "containerLogMonitorInterval: found 2.9s; expected at least 3s")]
    #[case::quota(json!({"cpuCFSQuotaPeriod": "999us"}), "cpuCFSQuotaPeriod: found 999us; expected 1ms to 1s")]
    #[case::no_quota(json!({"cpuCFSQuotaPeriod": "0s"}), "expected 1ms to 1s")]
    #[case::long_quota(json!({"cpuCFSQuotaPeriod": "1001ms"}), "expected 1ms to 1s")]
    #[case::restarts(json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "301s"}}), "crashLoopBackOff.maxContainerRestartPeriod: found 301s; expected 1s to 5m")]
    #[case::age(json!({"imageMaximumGCAge": "-1h"}), "imageMaximumGCAge: found -1h; expected at least 0s")]
    #[case::shutdown(json!({"shutdownGracePeriod": "500ms"}), "shutdownGracePeriod: found 500ms; expected 0s, or at least 1s")]
    #[case::critical(json!({"shutdownGracePeriodCriticalPods": "-1s"}), "shutdownGracePeriodCriticalPods: found -1s; ")]
    #[case::signal(json!({"evictionHard": {"memory": "5%"}}), "evictionHard: found \"memory\"; expected one of ")]
    #[case::signal_with_time(json!({"evictionSoftGracePeriod": {"memory": "5m"}}), "evictionSoftGracePeriod: found \"memory\"; expected one of ")]
    #[case::part(json!({"evictionHard": {"memory.available": "5 %"}}), "evictionHard[\"memory.available\"]: found \"5 %\"")]
    #[case::more_than_all(json!({"evictionSoft": {"memory.available": "101%"}}), "expected a percentage from 0% to 100%")]
    #[case::amount(json!({"evictionSoft": {"nodefs.available": "lots"}}), "\"lots\" is not a quantity")]
    #[case::nothing(json!({"evictionHard": {"nodefs.available": "0"}}), "evictionHard[\"nodefs.available\"]: found \"0\"; expected ")]
    #[case::reclaim(json!({"evictionMinimumReclaim": {"nodefs.available": "-1"}}), "evictionMinimumReclaim[\"nodefs.available\"]: found \"-1\"")]
    #[case::no_reclaim(json!({"evictionMinimumReclaim": {"nodefs.available": "0%"}}), "expected a percentage above 0%")]
    #[case::no_time(json!({"evictionSoftGracePeriod": {"pid.available": "5"}}), "evictionSoftGracePeriod[\"pid.available\"]: found \"5\"; expected a time such as 90s")]
    #[case::past(json!({"evictionSoftGracePeriod": {"pid.available": "-5s"}}), "found \"-5s\"; expected a time such as 90s")]
    #[case::resource(json!({"kubeReserved": {"storage": "1Gi"}}), "kubeReserved: found \"storage\"; expected one of cpu, memory, ephemeral-storage, pid")]
    #[case::reserved(json!({"systemReserved": {"pid": "many"}}), "systemReserved[\"pid\"]: \"many\" is not a quantity")]
    #[case::owed(json!({"systemReserved": {"memory": "-1Gi"}}), "systemReserved[\"memory\"]: found \"-1Gi\"; expected an amount of 0 or more")]
    #[case::enforced(json!({"enforceNodeAllocatable": ["pod"]}), "enforceNodeAllocatable: found \"pod\"; expected one of none, pods, ")]
    #[case::cipher(json!({"tlsCipherSuites": ["TLS_AES_128_GCM_SHA265"]}), "found \"TLS_AES_128_GCM_SHA265\" (did you mean TLS_AES_128_GCM_SHA256?)")]
    #[case::cipher_of_openssl(json!({"tlsCipherSuites": ["AES128-SHA"]}), "tlsCipherSuites: found \"AES128-SHA\"; expected a name such as ")]
    #[case::effect(json!({"registerWithTaints": [{"key": "a", "effect": "NoRun"}]}), "registerWithTaints: found \"NoRun\" as an effect; expected one of NoSchedule, ")]
    #[case::size(json!({"containerLogMaxSize": "10MB"}), "containerLogMaxSize: \"10MB\" is not a quantity")]
    #[case::cpus(json!({"reservedSystemCPUs": "0, 1"}), "reservedSystemCPUs: found \"0, 1\"; expected CPUs such as 0-3,8")]
    #[case::cpus_backwards(json!({"reservedSystemCPUs": "3-1"}), "reservedSystemCPUs: found \"3-1\"")]
    #[case::cpus_open(json!({"reservedSystemCPUs": "0-"}), "reservedSystemCPUs: found \"0-\"")]
    #[case::logs(json!({"podLogsDir": "var/log/pods"}), "podLogsDir: found \"var/log/pods\"; expected an absolute path")]
    #[case::long_logs(json!({"podLogsDir": "/var/log/pods/"}), "podLogsDir: found \"/var/log/pods/\"")]
    fn value_that_no_kubelet_starts_with_is_reported_with_what_is_accepted(
        #[case] document: Value,
        #[case] reported: &str,
    ) {
        let wrong = of(document);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains(reported), "{wrong:?}");
    }

    #[rstest]
    #[case::nothing(json!({}))]
    #[case::words(json!({"cpuManagerPolicy": "static", "topologyManagerScope": "", "tlsMinVersion": "VersionTLS13", "logging": {"format": "json"}}))]
    #[case::more_words(json!({"authorization": {"mode": "AlwaysAllow"}, "configMapAndSecretChangeDetectionStrategy": "Get", "imagePullCredentialsVerificationPolicy": "AlwaysVerify"}))]
    #[case::numbers(json!({"maxPods": 500, "readOnlyPort": 0, "oomScoreAdj": -999, "podsPerCore": 10, "podPidsLimit": -1, "nodeStatusMaxImages": -1}))]
    #[case::least_numbers(json!({"containerLogMaxFiles": 2, "containerLogMaxWorkers": 1, "maxParallelImagePulls": 1, "kubeAPIQPS": 0, "registryPullQPS": 0, "iptablesMasqueradeBit": 0}))]
    #[case::most_numbers(json!({"iptablesDropBit": 31, "logging": {"verbosity": 2_147_483_647}, "tracing": {"samplingRatePerMillion": 1_000_000}, "memoryThrottlingFactor": 1}))]
    #[case::zero_is_default(json!({"port": 0, "nodeLeaseDurationSeconds": 0}))]
    #[case::times(json!({"containerLogMonitorInterval": "3s", "cpuCFSQuotaPeriod": "1ms", "imageMaximumGCAge": "0s", "shutdownGracePeriod": "1s", "shutdownGracePeriodCriticalPods": "0s"}))]
    #[case::more_times(json!({"cpuCFSQuotaPeriod": "1s", "crashLoopBackOff": {"maxContainerRestartPeriod": "5m"}}))]
    #[case::hard(json!({"evictionHard": {"memory.available": "500Mi", "nodefs.inodesFree": "5%", "imagefs.available": "0%", "imagefs.inodesFree": "100%"}}))]
    #[case::odd_but_taken(json!({"evictionHard": {"nodefs.available": "10%%", "pid.available": "20E"}, "kubeReserved": {"memory": "99E"}}))]
    #[case::soft(json!({"evictionSoft": {"memory.available": "1Gi"}, "evictionSoftGracePeriod": {"memory.available": "1m30s", "nodefs.available": "0", "gone": null}}))]
    #[case::reclaim(json!({"evictionMinimumReclaim": {"memory.available": "0", "nodefs.available": "200%", "gone": null}}))]
    #[case::reserved(json!({"systemReserved": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "0", "pid": "1000", "gone": null}}))]
    #[case::enforced(json!({"enforceNodeAllocatable": ["pods", "kube-reserved-compressible"]}))]
    #[case::ciphers(json!({"tlsCipherSuites": ["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"]}))]
    #[case::effects(json!({"registerWithTaints": [{"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": ""}, {"key": "c"}]}))]
    #[case::size(json!({"containerLogMaxSize": "10Mi"}))]
    #[case::no_limit(json!({"containerLogMaxSize": "-1"}))]
    #[case::cpus(json!({"reservedSystemCPUs": "0-3,8,10-10"}))]
    #[case::logs(json!({"podLogsDir": "/var/log/pods"}))]
    #[case::empty(json!({"containerLogMaxSize": "", "reservedSystemCPUs": "", "podLogsDir": "", "tlsMinVersion": "", "logging": null}))]
    fn what_a_kubelet_takes_is_left_alone(#[case] document: Value) {
        assert_eq!(of(document), Vec::<String>::new());
    }

    #[test]
    fn ciphers_of_all_profiles_are_known() {
        let old = serde_json::from_value(json!({"type": "Old"})).unwrap();
        let profile = crate::tls::settings(Some(&old));
        assert_eq!(
            of(json!({"tlsCipherSuites": profile.ciphers, "tlsMinVersion": profile.min_version})),
            Vec::<String>::new()
        );
    }
}
