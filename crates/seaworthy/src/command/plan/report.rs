//! Report of a plan: the result of a preview, with locations in the manifests, and whether it needs attention.

use std::collections::{BTreeMap, BTreeSet};

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_change::ObjectRef;
use seaworthy_ignition::Severity;
use seaworthy_ignition::node::Node;
use seaworthy_ignition::path::Path;
use seaworthy_machineconfig::preview::{PoolPreview, Preview};
use seaworthy_manifest::{EntryPart, FileLocation};
use seaworthy_preview::{AdmissionIssue, Effect, PreviewProblem};
use seaworthy_render::{FieldLocation, Finding};

use super::super::diff::Comparison;
use crate::manifest::objects::ObjectLocation;

/// The result of a preview, with locations in the manifests.
pub struct PlanReport<'t> {
    pub preview: Preview,
    /// Objections of the API to the manifests.
    pub objections: Vec<AdmissionIssue>,
    /// Locations of the manifests.
    locations: BTreeMap<ObjectRef, ObjectLocation<'t>>,
    /// Whether the manifests were applied to a cluster, where other changes may be pending.
    pub is_on_cluster: bool,
}

impl<'t> PlanReport<'t> {
    /// The report on manifests of files.
    pub fn new(
        preview: Preview,
        objections: Vec<AdmissionIssue>,
        locations: BTreeMap<ObjectRef, ObjectLocation<'t>>,
        is_on_cluster: bool,
    ) -> PlanReport<'t> {
        let preview = restricted_to(preview, |object| locations.contains_key(object));
        PlanReport { preview, objections, locations, is_on_cluster }
    }
}

impl PlanReport<'_> {
    /// The report on manifests that are not from a file.
    pub fn of_cluster(
        preview: Preview,
        objections: Vec<AdmissionIssue>,
        given: &BTreeSet<ObjectRef>,
    ) -> PlanReport<'static> {
        PlanReport {
            preview: restricted_to(preview, |object| given.contains(object)),
            objections,
            locations: BTreeMap::new(),
            is_on_cluster: true,
        }
    }

    /// Whether something changes, something is wrong with the manifests, or the preview is incomplete: then the exit code is 1,
    /// since a script that takes 0 for "nothing happens" must not rely on a part.
    pub fn needs_attention(&self) -> bool {
        let is_affected = |pool: &PoolPreview| pool.failure.is_some() || differs(pool) || !pool.moved_nodes.is_empty();
        let is_wrong = |problem: &&PreviewProblem| {
            problem.leaves_preview_incomplete || problem.severity == Severity::Error && self.is_given(problem)
        };
        !self.objections.is_empty()
            || !self.preview.unselected.is_empty()
            || !self.preview.newly_unassigned.is_empty()
            || self.preview.problems.iter().any(|problem| is_wrong(&problem))
            || self.preview.pools.iter().any(is_affected)
    }

    fn is_given(&self, problem: &PreviewProblem) -> bool {
        problem.object.as_ref().is_some_and(|object| self.locations.contains_key(object))
    }

    /// The file location of a field with a colon behind it; empty if it is in no file.
    pub fn place(&self, object: &ObjectRef, path: &str, part: EntryPart) -> String {
        let found = self.file(object, path, part);
        found.map(|found| format!("{found}: ")).unwrap_or_default()
    }

    /// The file location of a field, if the object is in a file.
    pub fn file(&self, object: &ObjectRef, path: &str, part: EntryPart) -> Option<FileLocation<'_>> {
        Some(self.locations.get(object)?.file(&Path::parse(path), part))
    }

    /// The same for the first place of a finding.
    pub fn place_of(&self, finding: &Finding) -> String {
        let Some(place) = finding.places.first() else { return String::new() };
        let part = EntryPart::of_finding(finding.code);
        object_at(place).map(|object| self.place(&object, &place.path, part)).unwrap_or_default()
    }
}

/// The code of an objection.
pub fn code(objection: &AdmissionIssue) -> &'static str {
    match objection.effect {
        Effect::Refused => "refused",
        Effect::Reverted => "reverted",
        Effect::Dropped => "unknown-field",
    }
}

/// A pool's target before and after the change.
pub fn comparison(pool: &PoolPreview) -> Comparison {
    let side = |object: &MachineConfig| {
        let spec = serde_json::to_value(&object.spec).unwrap_or_default();
        (name_of(object), Node::from_json(&spec).into_owned())
    };
    Comparison::new(&pool.name, pool.before.as_deref().map(side), pool.after.as_deref().map(side))
}

/// The part of an entry that an objection is about.
pub fn part_of(objection: &AdmissionIssue) -> EntryPart {
    if objection.effect == Effect::Dropped { EntryPart::Key } else { EntryPart::Value }
}

pub fn name_of(object: &MachineConfig) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// Whether anything differs on machines.
fn differs(pool: &PoolPreview) -> bool {
    comparison(pool).json().1
}

/// A preview without findings that are neither about the manifests nor caused by them.
fn restricted_to(mut preview: Preview, is_given: impl Fn(&ObjectRef) -> bool) -> Preview {
    let stranded = &preview.newly_unselected;
    let concerns = |finding: &Finding| {
        let mut of = finding.places.iter();
        of.any(|place| object_at(place).is_some_and(|object| is_given(&object)) || stranded.contains(&place.name))
    };
    preview.unselected.retain(concerns);
    preview
}

/// The object that a finding is about, if it is of a kind that a preview reads.
fn object_at(place: &FieldLocation) -> Option<ObjectRef> {
    let of = [
        ObjectRef::named::<MachineConfig>,
        ObjectRef::named::<MachineConfigPool>,
        ObjectRef::named::<ControllerConfig>,
    ];
    of.into_iter().map(|of| of(&place.name)).find(|object| object.resource.kind == place.kind)
}

#[cfg(test)]
mod tests {
    use seaworthy_change::memory::MemoryError;

    use super::*;

    #[test]
    fn incomplete_preview_needs_attention() {
        let report = |problems: Vec<PreviewProblem>| {
            let preview = Preview {
                pools: Vec::new(),
                without_pool: Vec::new(),
                newly_unassigned: BTreeMap::new(),
                problems,
                unselected: Vec::new(),
                newly_unselected: BTreeSet::new(),
            };
            PlanReport::of_cluster(preview, Vec::new(), &BTreeSet::new())
        };
        let missing = MemoryError::Missing(ObjectRef::named::<MachineConfigPool>("infra"));
        assert!(report(vec![PreviewProblem::unperformed(&missing)]).needs_attention());
        let partial = PreviewProblem::new(Severity::Warning, "unsettled", String::new()).incomplete();
        assert!(report(vec![partial]).needs_attention());
        let infra = ObjectRef::named::<MachineConfigPool>("infra");
        let elsewhere = PreviewProblem::new(Severity::Error, "base", String::new()).about(infra);
        let warning = PreviewProblem::new(Severity::Warning, "no-base", String::new());
        let note = PreviewProblem::note("other-build", String::new());
        assert!(!report(vec![elsewhere, warning, note]).needs_attention());
    }
}
