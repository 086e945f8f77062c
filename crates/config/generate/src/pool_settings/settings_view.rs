//! Settings view: one object of settings with its pools, its siblings and its MachineConfigs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::{Selection, is_owner};
use seaworthy_api::vocabulary::machineconfiguration::{GeneratorCondition, GeneratorReason, annotation, label};
use seaworthy_change::{Change, ObjectRef};
use serde_json::{Map, json};

use super::{
    PoolOutcome, PoolReport, PoolSettings, Refusal, SettingsContent, SettingsDecision, SettingsInputs, SettingsKind,
    SettingsReport, deletion, is_generated, orphans, selected,
};
use crate::conditions::{Notice, SettingsOutcome, status};
use crate::edit;
use crate::generated::{self, name_of, owners, updated_to};
use crate::name::{Claimant, Existing, NameAssignment, NameError};

/// One object and its surroundings.
pub(super) struct SettingsView<'v, 'a, K> {
    family: &'v SettingsKind,
    inputs: &'v SettingsInputs<'a, K>,
    pub(super) object: &'v ObjectMeta,
}

impl<'v, 'a, K: PoolSettings> SettingsView<'v, 'a, K> {
    pub(super) fn new(family: &'v SettingsKind, inputs: &'v SettingsInputs<'a, K>) -> Self {
        SettingsView { family, inputs, object: inputs.object.meta() }
    }

    /// The decision about an object that cannot be served at all.
    pub(super) fn refused(&self, mut changes: Vec<Change>, refusal: Refusal) -> SettingsDecision {
        let outcome = SettingsOutcome::failure(refusal.reason, &refusal.message);
        changes.extend(self.status(&outcome, &[]));
        self.decided(changes, SettingsReport { refused: Some(refusal), ..SettingsReport::default() })
    }

    /// The decision about an object that has pools and names.
    pub(super) fn serve(
        &self,
        pools: &[&MachineConfigPool],
        assignment: &NameAssignment,
        content: &SettingsContent<'_>,
    ) -> SettingsDecision {
        let mut report = SettingsReport::default();
        let mut machine_configs = Vec::new();
        let mut kept = BTreeSet::new();
        let mut failed = BTreeSet::new();
        let mut overriders = Vec::new();
        for pool in pools {
            let role = name_of(&pool.metadata);
            let (name, outcome) = match self.machine_config(pool, assignment, content) {
                Ok(wanted) => {
                    overriders.extend(self.overriders(role, &wanted));
                    let name = name_of(&wanted.metadata).to_owned();
                    kept.insert(name.clone());
                    let existing = self.find(&name);
                    if existing.is_some_and(|existing| edit::needs_field_managers(existing, &wanted)) {
                        report.unattributed.push(name.clone());
                    }
                    let outcome = match existing.map(|existing| updated_to(existing, &wanted)) {
                        None => {
                            machine_configs.push(Change::create(&wanted));
                            PoolOutcome::Created
                        }
                        Some(Some(update)) => {
                            machine_configs.push(Change::replace(&update));
                            machine_configs.extend(existing.and_then(edit::reverted));
                            PoolOutcome::Updated
                        }
                        Some(None) => PoolOutcome::Unchanged,
                    };
                    (Some(name), outcome)
                }
                Err(refusal) => {
                    failed.insert(role);
                    let name = assignment.names.get(role).and_then(|name| name.clone().ok());
                    (name, PoolOutcome::Failed(refusal))
                }
            };
            report.pools.push(PoolReport { pool: role.to_owned(), machine_config: name, outcome });
        }
        let mut notices = content.notices.clone();
        if !overriders.is_empty() {
            notices.push(Notice {
                condition: GeneratorCondition::Overridden,
                reason: GeneratorReason::LaterObject,
                message: overriders.join("; "),
            });
        }
        report.notices = notices.iter().map(|notice| notice.message.clone()).collect();

        // The finalizer is written before the MachineConfig that it is for, so none is ever left behind.
        let mut writes = Vec::new();
        let mut patch = self.finalizers(&kept, &failed);
        if annotation::MC_NAME_SUFFIX.of(self.object).is_none() {
            patch.annotations.insert(annotation::MC_NAME_SUFFIX.into(), assignment.suffix.clone());
        }
        writes.extend(patch.change(self.inputs.object));
        writes.extend(machine_configs);
        writes.extend(self.departing(&kept, &failed));
        writes.extend(self.status(&outcome_of(&report.pools), &notices));
        self.decided(writes, report)
    }

    /// The MachineConfig for a pool.
    fn machine_config(
        &self,
        pool: &MachineConfigPool,
        assignment: &NameAssignment,
        content: &SettingsContent<'_>,
    ) -> Result<MachineConfig, Refusal> {
        let role = name_of(&pool.metadata);
        let no_name = |why: String| Refusal::new(GeneratorReason::NoName, format!("{}: {why}", self.family.no_name));
        let name = match assignment.names.get(role) {
            Some(Ok(name)) => name,
            Some(Err(error)) => return Err(no_name(error.to_string())),
            None => return Err(no_name(format!("pool {role} has none"))),
        };
        let foreign = self.find(name).and_then(|existing| {
            let owners = existing.metadata.owner_references.iter().flatten();
            owners.filter(|owner| owner.controller == Some(true)).find(|owner| !is_owner::<K>(owner))
        });
        if let Some(owner) = foreign {
            let (name, kind, owner) = (name.clone(), owner.kind.clone(), owner.name.clone());
            return Err(no_name(NameError::Foreign { name, kind, owner }.to_string()));
        }
        // A client that replaces an object as a whole may leave out the annotation of its origin; the finalizer remains.
        let is_own = |found: &MachineConfig| {
            !is_generated(found)
                && found.metadata.owner_references.iter().flatten().next().is_none()
                && !self.object.finalizers.iter().flatten().any(|finalizer| finalizer == name)
        };
        if self.find(name).is_some_and(is_own) {
            return Err(no_name(NameError::Taken { name: name.clone() }.to_string()));
        }
        let files = (content.files)(pool)?;
        let owner = generated::owner::<K>(self.object);
        Ok(generated::machine_config(name, role, self.inputs.build, owner, generated::config(&files, &[])))
    }

    /// Who wins over which of our files in a pool.
    fn overriders(&self, role: &str, ours: &MachineConfig) -> Vec<String> {
        let mine: BTreeSet<&str> = generated::paths(ours).collect();
        let our_name = name_of(&ours.metadata);
        let later = self.inputs.machine_configs.iter().filter(|other| {
            let name = name_of(&other.metadata);
            name > our_name && self.family.scheme.suffix(role, name).is_some() && !self.is_ours(&other.metadata)
        });
        later
            .filter_map(|other| {
                let owner = owners::<K>(&other.metadata).next()?;
                let lost: Vec<&str> = generated::paths(other).filter(|path| mine.contains(path)).collect();
                (!lost.is_empty()).then(|| {
                    let (name, kind) = (name_of(&other.metadata), K::kind(&()));
                    format!("pool {role}: {} comes from {name} of {kind} {}", lost.join(", "), owner.name)
                })
            })
            .collect()
    }

    /// The decision about an object that is being deleted.
    pub(super) fn deleted(&self) -> SettingsDecision {
        let is_doomed = |metadata: &ObjectMeta| {
            let is_named = |finalizer: &String| {
                Some(finalizer) == metadata.name.as_ref() || Some(finalizer) == metadata.uid.as_ref()
            };
            let has_no_owner = owners::<K>(metadata).all(|owner| owner.uid.is_empty());
            let is_named = self.object.finalizers.iter().flatten().any(|own| self.is_own(own) && is_named(own));
            self.is_ours(metadata) || (has_no_owner && is_named)
        };
        let doomed = self.inputs.machine_configs.iter().filter(|machine_config| is_doomed(&machine_config.metadata));
        let mut writes: Vec<Change> = doomed.map(|machine_config| deletion(machine_config)).collect();
        let patch = self.finalizers(&BTreeSet::new(), &BTreeSet::new());
        // Without finalizers the object is as good as gone, and its dependents go with it.
        if self.object.finalizers.iter().flatten().next().is_none() {
            writes.clear();
        }
        writes.extend(patch.change(self.inputs.object));
        self.decided(writes, SettingsReport::default())
    }

    /// What there is to do when pools are left.
    pub(super) fn leave(&self, kept: &BTreeSet<String>, failed: &BTreeSet<&str>) -> Vec<Change> {
        let mut writes = self.departing(kept, failed);
        let patch = self.finalizers(kept, failed);
        writes.extend(patch.change(self.inputs.object));
        writes
    }

    fn decided(&self, changes: Vec<Change>, report: SettingsReport) -> SettingsDecision {
        super::decided(&ObjectRef::of(self.inputs.object), changes, report)
    }

    /// The MachineConfigs that go: ours for pools that are not selected any more, those of older releases that ours
    /// replace, and those of objects that are gone.
    fn departing(&self, kept: &BTreeSet<String>, failed: &BTreeSet<&str>) -> Vec<Change> {
        let legacy: BTreeSet<String> = self
            .inputs
            .pools
            .iter()
            .filter(|pool| kept.contains(&self.family.scheme.name(name_of(&pool.metadata), "")))
            .flat_map(|pool| self.family.legacy_of(pool))
            .collect();
        let is_departing = |metadata: &ObjectMeta| {
            let name = name_of(metadata);
            let is_of_failed = label::ROLE.of(metadata).is_some_and(|role| failed.contains(role));
            let is_unclaimed = owners::<K>(metadata).all(|owner| !self.is_live(&owner.uid));
            let is_old = self.is_ours(metadata) || (legacy.contains(name) && is_unclaimed);
            is_old && !kept.contains(name) && !is_of_failed
        };
        let ours = self.inputs.machine_configs.iter().filter(|machine_config| is_departing(&machine_config.metadata));
        let mut departing: Vec<Change> = ours.map(|machine_config| deletion(machine_config)).collect();
        let SettingsInputs { all, pools, machine_configs, build, .. } = self.inputs;
        for orphan in orphans(self.family, all, pools, machine_configs, build) {
            if !kept.contains(&orphan.object.name) && !departing.contains(&orphan) {
                departing.push(orphan);
            }
        }
        departing
    }

    /// The change of finalizers: those of MachineConfigs that are kept, and those of other clients as they are.
    fn finalizers(&self, kept: &BTreeSet<String>, failed: &BTreeSet<&str>) -> MetadataPatch {
        let is = self.object.finalizers.as_deref().unwrap_or_default();
        let stays = |finalizer: &&String| {
            let is_of_failed = || {
                let found = self.inputs.machine_configs.iter().find(|machine_config| {
                    let metadata = &machine_config.metadata;
                    metadata.name.as_ref() == Some(*finalizer) || metadata.uid.as_ref() == Some(*finalizer)
                });
                let role = found.and_then(|found| label::ROLE.of(&found.metadata));
                role.is_some_and(|role| failed.contains(role))
            };
            !self.is_own(finalizer) || kept.contains(*finalizer) || is_of_failed()
        };
        let mut should: Vec<String> = is.iter().filter(stays).cloned().collect();
        should.extend(kept.iter().filter(|name| !is.contains(name)).cloned());
        MetadataPatch { annotations: BTreeMap::new(), finalizers: (should != is).then_some(should) }
    }

    /// Whether a finalizer is one that this controller writes, or wrote in an older release.
    ///
    /// Differs: upstream takes whatever comes first for its own, and clears all when one is not.
    fn is_own(&self, finalizer: &str) -> bool {
        let scheme = &self.family.scheme;
        let is_legacy = |rest: &str| {
            let ends = |ending: &str| rest.strip_suffix(ending).is_some_and(|pool| pool.ends_with('-'));
            ends(scheme.word) || scheme.legacy.iter().any(|ending| ends(ending))
        };
        scheme.is_name(finalizer) || finalizer.strip_prefix("99-").is_some_and(is_legacy) || is_uid(finalizer)
    }

    pub(super) fn assignment(&self, pools: &[&MachineConfigPool]) -> Result<NameAssignment, NameError> {
        let claimant = |object: &'_ ObjectMeta, pools: BTreeSet<String>| (object.clone(), pools);
        let mut others: Vec<(ObjectMeta, BTreeSet<String>)> = Vec::new();
        for object in self.inputs.all.iter().filter(|object| object.meta().name != self.object.name) {
            // Who is on the way out is counted as long as its MachineConfigs are there.
            let selection = object.selector().and_then(|selector| Selection::of(selector).ok()).unwrap_or_default();
            let pools = selected(&selection, self.inputs.pools);
            let pools = pools.iter().map(|pool| name_of(&pool.metadata).to_owned()).collect();
            others.push(claimant(object.meta(), pools));
        }
        let mine = pools.iter().map(|pool| name_of(&pool.metadata).to_owned()).collect();
        others.push(claimant(self.object, mine));
        let claimants: Vec<Claimant<'_>> = others
            .iter()
            .map(|(metadata, pools)| Claimant {
                name: name_of(metadata),
                uid: metadata.uid.as_deref().unwrap_or_default(),
                created: metadata.creation_timestamp.as_ref(),
                suffix: annotation::MC_NAME_SUFFIX.of(metadata),
                finalizers: metadata.finalizers.as_deref().unwrap_or_default(),
                pools: pools.iter().map(String::as_str).collect(),
            })
            .collect();
        let existing: BTreeMap<&str, Existing<'_>> = self
            .inputs
            .machine_configs
            .iter()
            .map(|machine_config| {
                let owner = owners::<K>(&machine_config.metadata).next();
                (name_of(&machine_config.metadata), Existing { owner: owner.map(|owner| owner.uid.as_str()) })
            })
            .collect();
        // The object itself was pushed last.
        match claimants.last() {
            Some(me) => self.family.scheme.assign(me, &claimants, &existing),
            None => Ok(NameAssignment { suffix: String::new(), names: BTreeMap::new() }),
        }
    }

    fn find(&self, name: &str) -> Option<&MachineConfig> {
        let found = self.inputs.machine_configs.iter().find(|found| name_of(&found.metadata) == name);
        found.map(Arc::as_ref)
    }

    fn is_ours(&self, metadata: &ObjectMeta) -> bool {
        let uid = self.object.uid.as_deref().unwrap_or_default();
        owners::<K>(metadata).any(|owner| !owner.uid.is_empty() && owner.uid == uid)
    }

    fn is_live(&self, uid: &str) -> bool {
        let is = |metadata: &ObjectMeta| !uid.is_empty() && metadata.uid.as_deref() == Some(uid);
        is(self.object) || self.inputs.all.iter().any(|object| is(object.meta()))
    }

    fn status(&self, outcome: &SettingsOutcome, notices: &[Notice]) -> Option<Change> {
        let old = self.inputs.object.status();
        let new = status(old, self.object.generation, outcome, notices, &self.inputs.now)?;
        Some(Change::patch_status(ObjectRef::of(self.inputs.object), new))
    }
}

/// A change of the object's metadata. Keys that it does not name stay as they are.
struct MetadataPatch {
    /// Annotations to set.
    annotations: BTreeMap<String, String>,
    /// All finalizers, if they change.
    finalizers: Option<Vec<String>>,
}

impl MetadataPatch {
    /// The change, if there is one.
    fn change<K: PoolSettings>(self, object: &K) -> Option<Change> {
        let mut metadata = Map::new();
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(self.annotations));
        }
        if let Some(finalizers) = self.finalizers {
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
        (!metadata.is_empty()).then(|| Change::patch(ObjectRef::of(object), json!({ "metadata": metadata })))
    }
}

/// The outcome for the object as a whole.
fn outcome_of(pools: &[PoolReport]) -> SettingsOutcome {
    let failures: Vec<(&str, &Refusal)> = pools
        .iter()
        .filter_map(|report| match &report.outcome {
            PoolOutcome::Failed(refusal) => Some((report.pool.as_str(), refusal)),
            _ => None,
        })
        .collect();
    match failures.as_slice() {
        [] => SettingsOutcome::success(),
        [(_, refusal)] if pools.len() == 1 => SettingsOutcome::failure(refusal.reason, &refusal.message),
        failures => {
            let reason =
                if failures.len() == pools.len() { failures[0].1.reason } else { GeneratorReason::PartlyApplied };
            let reported = failures.iter().map(|(pool, refusal)| format!("pool {pool}: {}", refusal.message));
            SettingsOutcome::failure(reason, reported.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Whether a text has the form of a uid: the oldest releases wrote the uid of the MachineConfig as finalizer.
fn is_uid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths = [8, 4, 4, 4, 12];
    parts.len() == lengths.len()
        && parts
            .iter()
            .zip(lengths)
            .all(|(part, length)| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
