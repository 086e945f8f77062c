//! Putting right what somebody has changed on the machine, where its owner wants that.
//!
//! - It is an update from what is there to what should be there: what it needs is decided once for everything that differs, by
//!   the function that decides about orders, and it is journalled like an order.
//! - Whatever needs more than telling services is left to people: nobody has ordered a drain or a reboot.
//! - Somebody who keeps changing a file is not fought with for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_host::Host;
use seaworthy_ignition::{data_url, dropin_path, unit_path};
use seaworthy_plan::disruption::{Action, Cause, Disruption, least_disruption};
use serde_json::{Map, Value, json};

use super::validate::{Aspect, Finding};
use crate::clock::Moment;
use crate::decide::observed::{Found, Observed};
use crate::decide::target::Target;
use crate::order::Order;

/// How often a file is put right within [`WINDOW`].
const LIMIT: usize = 3;
/// Larger files are not read to find out what putting them right needs.
const LARGEST: u64 = 1024 * 1024;
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// What was put right, or tried to.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// The configuration that it was put right for.
    config: String,
    done: BTreeMap<String, Vec<Moment>>,
    /// What went wrong the last time.
    failures: BTreeMap<String, String>,
}

impl Repairs {
    /// Those that have been put right too often by now.
    fn stubborn(&mut self, config: &str, subjects: &BTreeSet<String>, now: Moment) -> Vec<String> {
        if self.config != config {
            *self = Repairs { config: config.to_owned(), ..Repairs::default() };
        }
        self.done.retain(|_, times| {
            times.retain(|time| now.since(*time) < WINDOW);
            !times.is_empty()
        });
        self.failures.retain(|subject, _| self.done.contains_key(subject));
        let is_stubborn = |subject: &&String| self.done.get(*subject).is_some_and(|times| times.len() >= LIMIT);
        subjects.iter().filter(is_stubborn).cloned().collect()
    }

    /// Notes a repair that was made, or that has failed.
    pub(super) fn note(&mut self, subjects: &BTreeSet<String>, now: Moment, failure: Option<&str>) {
        for subject in subjects {
            self.done.entry(subject.clone()).or_default().push(now);
            match failure {
                Some(failure) => self.failures.insert(subject.clone(), failure.to_owned()),
                None => self.failures.remove(subject),
            };
        }
    }

    /// Why nothing more is done about these.
    fn surrender(&self, stubborn: &[String]) -> String {
        let all = stubborn.join(", ");
        match stubborn.iter().find_map(|subject| self.failures.get(subject)) {
            Some(failure) => format!("put right {LIMIT} times within an hour to no avail: {failure}"),
            None => format!(
                "somebody keeps changing {all}: it was put right {LIMIT} times within an hour; find out who, or have it in no \
                 MachineConfig"
            ),
        }
    }

    /// The entries to repair and what that does to the node; the reason if they are left as they are.
    pub(super) fn plan(
        &mut self,
        host: &dyn Host,
        disk: &Target,
        order: &Order,
        findings: &[Finding],
        observed: &Observed,
        now: Moment,
    ) -> Result<(BTreeSet<String>, Disruption), String> {
        if findings.iter().any(|finding| finding.aspect == Aspect::Boot) {
            return Err("what is booted is put right by a reboot, which nobody has ordered".to_owned());
        }
        let subjects: BTreeSet<String> = findings.iter().map(|finding| finding.subject.clone()).collect();
        let stubborn = self.stubborn(&disk.name, &subjects, now);
        if !stubborn.is_empty() {
            return Err(self.surrender(&stubborn));
        }
        // What somebody has let grow is not read: that it is something else is enough to decide by.
        let content = |path: &str, size: u64| match size <= LARGEST {
            true => host.read(path).ok().flatten().unwrap_or_default(),
            false => Vec::new(),
        };
        let found = as_found(&disk.spec, &subjects, observed, &content);
        let disruption = least_disruption(&found, &disk.spec, order.policies.as_deref());
        let is_too_much = |action: &Action| *action == Action::Reboot || (*action == Action::Drain && !order.is_single);
        if disruption.actions.iter().any(is_too_much) {
            let cause = |cause: &Cause| format!("{} ({})", cause.what, cause.rule);
            let causes: Vec<String> = disruption.decisive().map(cause).collect();
            return Err(format!("putting it right needs a {}, because of {}", disruption.level, causes.join(", ")));
        }
        Ok((subjects, disruption))
    }
}

/// A configuration with that in it which was found on the machine for some of its entries.
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
            let Found::File { size, is_as_wanted, mode, uid, gid } = found else { return false };
            if !is_as_wanted {
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
            put_contents(unit, found, &|size| content(&unit_path(&name), size));
        }
        let dropins = unit.get_mut("dropins").and_then(Value::as_array_mut);
        for dropin in dropins.into_iter().flatten().filter_map(Value::as_object_mut) {
            let path = dropin.get("name").and_then(Value::as_str).map(|dropin| dropin_path(&name, dropin));
            if let Some((path, found)) = path.and_then(|path| Some((path.clone(), found(&path)?))) {
                put_contents(dropin, found, &|size| content(&path, size));
            }
        }
    }
    spec
}

fn put_contents(entry: &mut Map<String, Value>, found: &Found, content: &dyn Fn(u64) -> Vec<u8>) {
    match found {
        Found::File { is_as_wanted: true, .. } => None,
        Found::File { size, .. } => {
            entry.insert("contents".to_owned(), json!(String::from_utf8_lossy(&content(*size))))
        }
        _ => entry.remove("contents"),
    };
}
