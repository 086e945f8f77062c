//! Repair of drift, if it is enabled: an update from the state of the machine to its configuration.
//!
//! - Its disruption is decided once for everything that differs, by the function that decides about orders, and it is journalled
//!   like an order.
//! - A repair that needs a drain or a reboot is left to the administrator, since no order is behind it.
//! - A file that keeps being changed is repaired a limited number of times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_host::Host;
use seaworthy_ignition::{data_url, dropin_path, unit_path};
use seaworthy_plan::disruption::{Action, Cause, Disruption, least_disruption};
use serde_json::{Map, Value, json};

use super::validate::{Aspect, Mismatch};
use crate::clock::ClockReading;
use crate::decide::observed::{Observed, ObservedEntry};
use crate::decide::target::TargetState;
use crate::order::Order;

/// Repairs of a file within [`REPAIR_INTERVAL`].
const MAX_REPAIRS: usize = 3;
/// Larger files are not read to decide the disruption of their repair.
const MAX_READ_BYTES: u64 = 1024 * 1024;
const REPAIR_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// History of repairs.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// The configuration that they were made for.
    config: String,
    done: BTreeMap<String, Vec<ClockReading>>,
    /// Errors of the last repair.
    failures: BTreeMap<String, String>,
}

impl Repairs {
    /// The subjects that have been repaired too often by now.
    fn over_limit(&mut self, config: &str, subjects: &BTreeSet<String>, now: ClockReading) -> Vec<String> {
        if self.config != config {
            *self = Repairs { config: config.to_owned(), ..Repairs::default() };
        }
        self.done.retain(|_, times| {
            times.retain(|time| now.since(*time) < REPAIR_INTERVAL);
            !times.is_empty()
        });
        self.failures.retain(|subject, _| self.done.contains_key(subject));
        let is_over_limit = |subject: &&String| self.done.get(*subject).is_some_and(|times| times.len() >= MAX_REPAIRS);
        subjects.iter().filter(is_over_limit).cloned().collect()
    }

    /// Records a repair that was made, or that has failed.
    pub(super) fn record(&mut self, subjects: &BTreeSet<String>, now: ClockReading, failure: Option<&str>) {
        for subject in subjects {
            self.done.entry(subject.clone()).or_default().push(now);
            match failure {
                Some(failure) => self.failures.insert(subject.clone(), failure.to_owned()),
                None => self.failures.remove(subject),
            };
        }
    }

    /// The reason that these are not repaired again.
    fn limit_reason(&self, subjects: &[String]) -> String {
        let all = subjects.join(", ");
        match subjects.iter().find_map(|subject| self.failures.get(subject)) {
            Some(failure) => format!("{MAX_REPAIRS} repairs within an hour have failed: {failure}"),
            None => format!(
                "another process keeps changing {all}: it was repaired {MAX_REPAIRS} times within an hour; find that process, or \
                 remove it from the MachineConfigs"
            ),
        }
    }

    /// The entries to repair and the disruption; an error is the reason that they are left as they are.
    pub(super) fn plan(
        &mut self,
        host: &dyn Host,
        disk: &TargetState,
        order: &Order,
        mismatches: &[Mismatch],
        observed: &Observed,
        now: ClockReading,
    ) -> Result<(BTreeSet<String>, Disruption), String> {
        if mismatches.iter().any(|mismatch| mismatch.aspect == Aspect::Boot) {
            return Err("a difference in the boot needs a reboot, which was not ordered".to_owned());
        }
        let subjects: BTreeSet<String> = mismatches.iter().map(|mismatch| mismatch.subject.clone()).collect();
        let over_limit = self.over_limit(&disk.name, &subjects, now);
        if !over_limit.is_empty() {
            return Err(self.limit_reason(&over_limit));
        }
        // A large file is not read: that it differs is enough for the decision.
        let content = |path: &str, size: u64| match size <= MAX_READ_BYTES {
            true => host.read(path).ok().flatten().unwrap_or_default(),
            false => Vec::new(),
        };
        let found = as_found(&disk.spec, &subjects, observed, &content);
        let disruption = least_disruption(&found, &disk.spec, order.policies.as_deref());
        let is_too_disruptive =
            |action: &Action| *action == Action::Reboot || (*action == Action::Drain && !order.is_single);
        if disruption.actions.iter().any(is_too_disruptive) {
            let cause = |cause: &Cause| format!("{} ({})", cause.what, cause.rule);
            let causes: Vec<String> = disruption.decisive().map(cause).collect();
            return Err(format!("the repair needs a {}, because of {}", disruption.level, causes.join(", ")));
        }
        Ok((subjects, disruption))
    }
}

/// A configuration in which some entries are replaced by the observed ones.
fn as_found(
    spec: &MachineConfigSpec,
    subjects: &BTreeSet<String>,
    observed: &Observed,
    content: &dyn Fn(&str, u64) -> Vec<u8>,
) -> MachineConfigSpec {
    let mut spec = spec.clone();
    let Some(config) = spec.config.as_mut() else { return spec };
    let found = |path: &str| observed.paths.get(path).filter(|_| subjects.contains(path));
    if let Some(files) = config.pointer_mut("/storage/files").and_then(Value::as_array_mut) {
        files.retain_mut(|file| {
            let Some(path) = file["path"].as_str().map(str::to_owned) else { return true };
            let Some(found) = found(&path) else { return true };
            let ObservedEntry::File { size, has_target_content, mode, uid, gid } = found else { return false };
            if !has_target_content {
                file["contents"] = json!({"source": data_url::encode(&content(&path, *size))});
            }
            file["mode"] = json!(mode);
            file["user"] = json!({"id": uid});
            file["group"] = json!({"id": gid});
            true
        });
    }
    let units = config.pointer_mut("/systemd/units").and_then(Value::as_array_mut);
    for unit in units.into_iter().flatten().filter_map(Value::as_object_mut) {
        let Some(name) = unit.get("name").and_then(Value::as_str).map(str::to_owned) else { continue };
        if subjects.contains(&name) {
            let is_enabled = unit.get("enabled").and_then(Value::as_bool).unwrap_or_default();
            unit.insert("enabled".to_owned(), json!(!is_enabled));
        }
        if let Some(found) = found(&unit_path(&name)) {
            unit.remove("mask");
            set_contents(unit, found, &|size| content(&unit_path(&name), size));
        }
        let dropins = unit.get_mut("dropins").and_then(Value::as_array_mut);
        for dropin in dropins.into_iter().flatten().filter_map(Value::as_object_mut) {
            let path = dropin.get("name").and_then(Value::as_str).map(|dropin| dropin_path(&name, dropin));
            if let Some((path, found)) = path.and_then(|path| Some((path.clone(), found(&path)?))) {
                set_contents(dropin, found, &|size| content(&path, size));
            }
        }
    }
    spec
}

fn set_contents(entry: &mut Map<String, Value>, found: &ObservedEntry, content: &dyn Fn(u64) -> Vec<u8>) {
    match found {
        ObservedEntry::File { has_target_content: true, .. } => None,
        ObservedEntry::File { size, .. } => {
            entry.insert("contents".to_owned(), json!(String::from_utf8_lossy(&content(*size))))
        }
        _ => entry.remove("contents"),
    };
}
