//! Garbage collection of rendered MachineConfigs that are no longer needed.
//!
//! - What a node runs, is ordered to run or booted with stays, whatever else is true: without it the node could neither check
//!   itself nor go back.
//! - What a pool targets, is pinned to or has finished stays.
//! - Of the rest, those that each pool targeted last stay, for a roll-back; others are deleted once they are unused for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::meta::is_owner;
use seaworthy_api::vocabulary::machineconfiguration::{MachineConfigEvent, NOT_YET_SET, RENDERED_PREFIX};
use seaworthy_api::vocabulary::seaworthy::IN_USE;
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage};
use seaworthy_values::list::listed;

use crate::fleet::{NodeView, PoolView};
use crate::history::pin;
use crate::history::target_history::TargetHistory;

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionLimits {
    /// How many rendered MachineConfigs of each pool are kept beside those in use.
    pub max_kept: usize,
    /// How old one must be to be deleted: a controller that is about to use it has that long.
    pub grace_period: SignedDuration,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self { max_kept: 10, grace_period: SignedDuration::from_hours(1) }
    }
}

/// Everything that the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct GarbageInputs<'a> {
    /// All MachineConfigs; those that are not rendered are left alone.
    pub machine_configs: &'a [&'a MachineConfig],
    /// All nodes, of whatever pool.
    pub nodes: &'a [NodeView<'a>],
    /// All MachineConfigNodes.
    pub progress: &'a [&'a MachineConfigNode],
    /// All pools.
    pub pools: &'a [PoolView<'a>],
    /// Further names that must stay: builds under way.
    pub also_used: &'a [&'a str],
    /// How much history is kept.
    pub limits: RetentionLimits,
    /// The time.
    pub now: Timestamp,
}

/// What becomes of rendered MachineConfigs, each list by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GarbageVerdicts<'a> {
    /// To be deleted.
    pub delete: Vec<&'a str>,
    /// To be protected with the finalizer [`IN_USE`].
    pub protect: Vec<&'a str>,
    /// To be freed of it.
    pub release: Vec<&'a str>,
    /// Deleted by a user and kept because something needs them; with what does.
    pub held: Vec<(&'a str, String)>,
    /// When to look again although nothing has changed.
    pub recheck: Option<SignedDuration>,
}

/// Decides about all rendered MachineConfigs.
pub fn decide<'a>(inputs: &GarbageInputs<'a>) -> GarbageVerdicts<'a> {
    let used = used(inputs);
    let mut decision = GarbageVerdicts::default();
    let mut unused: BTreeMap<&str, Vec<(Option<Timestamp>, &'a str)>> = BTreeMap::new();
    let turns: BTreeMap<&str, TargetHistory> =
        inputs.pools.iter().map(|pool| (pool.name, TargetHistory::of(pool.object))).collect();
    for object in inputs.machine_configs.iter().copied() {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let Some(pool) = owner(object).filter(|_| name.starts_with(RENDERED_PREFIX)) else { continue };
        let is_protected = IN_USE.is_on(&object.metadata);
        if used.contains(name) {
            // A finalizer cannot be added to what is being deleted.
            if !is_protected && object.metadata.deletion_timestamp.is_none() {
                decision.protect.push(name);
            }
            if is_protected && object.metadata.deletion_timestamp.is_some() {
                decision.held.push((name, users(inputs, name)));
            }
            continue;
        }
        if is_protected {
            decision.release.push(name);
        }
        if object.metadata.deletion_timestamp.is_none() {
            let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let turn = turns.get(pool).and_then(|turns| turns.last(name)).map(|(since, _)| since);
            unused.entry(pool).or_default().push((created.max(turn), name));
        }
    }
    for mut of_pool in unused.into_values() {
        // The newest first; of two of the same age the order of names decides.
        of_pool.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
        for (created, name) in of_pool.into_iter().skip(inputs.limits.max_kept) {
            let age = created.map_or(SignedDuration::MAX, |created| inputs.now.duration_since(created));
            if age >= inputs.limits.grace_period {
                decision.delete.push(name);
            } else {
                let left = inputs.limits.grace_period.saturating_sub(age);
                decision.recheck = [decision.recheck, Some(left)].into_iter().flatten().min();
            }
        }
    }
    decision.delete.sort_unstable();
    decision.protect.sort_unstable();
    decision.release.sort_unstable();
    decision
}

/// Decides about all rendered MachineConfigs, as changes. `announced` has the uids of those whose deletion is known to be
/// blocked: that may take days, and is announced once.
pub fn desired<'a>(inputs: &GarbageInputs<'a>, announced: &BTreeSet<String>) -> Decision<'static, GarbageVerdicts<'a>> {
    let verdicts = decide(inputs);
    let find =
        |name: &&str| inputs.machine_configs.iter().copied().find(|found| found.metadata.name.as_deref() == Some(name));
    let protected = verdicts.protect.iter().filter_map(find).map(|found| Change::add_finalizer(found, IN_USE.as_str()));
    let released =
        verdicts.release.iter().filter_map(find).map(|found| Change::remove_finalizer(found, IN_USE.as_str()));
    let deleted = verdicts.delete.iter().filter_map(find).map(|found| Change::delete(ObjectRef::of(found)));
    let blocked = verdicts.held.iter().filter_map(|(name, users)| {
        let found = find(name)?;
        let is_new = !announced.contains(found.metadata.uid.as_deref().unwrap_or_default());
        is_new.then(|| {
            let reason = MachineConfigEvent::DeletionBlocked.as_str();
            let message = format!("deletion waits until it is no longer used: {users}");
            Change::emit(ObjectRef::of(found), Event { is_warning: true, reason, message, related: None })
        })
    });
    let stages = vec![
        Stage::each(Purpose::Write, protected.chain(released).chain(deleted)),
        Stage::each(Purpose::Announce, blocked),
    ];
    let recheck = verdicts.recheck.and_then(|wait| Duration::try_from(wait).ok());
    Decision { stages, report: verdicts, recheck }
}

/// The names that something needs.
fn used<'a>(inputs: &GarbageInputs<'a>) -> BTreeSet<&'a str> {
    let mut used: BTreeSet<&str> = inputs.also_used.iter().copied().collect();
    for node in inputs.nodes {
        used.extend([node.current_config, node.desired_config, node.first_pivot_config].into_iter().flatten());
    }
    for object in inputs.progress {
        used.insert(&object.spec.config_version.desired);
        if let Some(version) = object.status.as_ref().and_then(|status| status.config_version.as_ref()) {
            used.insert(&version.desired);
            used.extend(version.current.as_deref());
        }
    }
    for pool in inputs.pools {
        let status = pool.object.status.as_ref().and_then(|status| status.configuration.as_ref());
        used.extend([pool.configuration(), status].into_iter().flatten().filter_map(|found| found.name.as_deref()));
        used.extend(pin::name(pool.object));
    }
    used.remove(NOT_YET_SET);
    used
}

/// Who needs a rendered MachineConfig, for people.
fn users(inputs: &GarbageInputs<'_>, name: &str) -> String {
    const MAX_NAMED: usize = 5;
    let is_target = |pool: &&PoolView<'_>| pool.target().is_some_and(|target| target.config == name);
    let pools = inputs.pools.iter().filter(is_target).map(|pool| format!("pool {} targets it", pool.name));
    let uses = |node: &&NodeView<'_>| [node.current_config, node.desired_config].contains(&Some(name));
    let nodes: Vec<&str> = inputs.nodes.iter().filter(uses).map(|node| node.name).collect();
    let named = format!("needed on {}", listed(&nodes, MAX_NAMED));
    let reported: Vec<String> = pools.chain((!nodes.is_empty()).then_some(named)).collect();
    if reported.is_empty() { "a pool may roll back to it".to_owned() } else { reported.join("; ") }
}

/// The pool that a rendered MachineConfig was made for.
fn owner(object: &MachineConfig) -> Option<&str> {
    let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| is_owner::<MachineConfigPool>(owner)).map(|owner| owner.name.as_str())
}
