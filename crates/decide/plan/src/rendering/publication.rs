//! Publication: the writes that make a pool target what was rendered for it, or report why it keeps its target.
//!
//! - The rendered MachineConfig is written before the pool targets it, and a caller knows when it is.
//! - A failure changes the pool's status only: the last good target stays.
//! - What a user wrote over is reverted and reported with the user's field manager.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Resource as _;
use seaworthy_api::field_manager::last_editor;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool, PoolConfiguration};
use seaworthy_api::meta::ObjectReference;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::{PoolEvent, annotation};
use seaworthy_api::vocabulary::seaworthy::IN_USE;
use seaworthy_api::vocabulary::seaworthy::annotation::{FORMER_TARGET_HISTORY, SOURCES, TARGET_HISTORY};
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage, to_second};
use seaworthy_generate::edit;
use serde_json::{Map, json};

use super::{RenderedPool, name_of, targeted};
use crate::history::revision::revisions;
use crate::history::target_history::TargetHistory;
use crate::rendering::condition::{self, RenderFailure};

/// What became of a pool's rendering.
pub enum Outcome<'a> {
    /// It was rendered.
    Rendered(&'a RenderedPool),
    /// It is pinned to this rendered MachineConfig.
    Pinned(&'a MachineConfig),
    /// It cannot be rendered.
    Failed(&'a RenderFailure),
}

/// Everything that the decision may look at.
pub struct PublicationInputs<'a> {
    pub pool: &'a MachineConfigPool,
    /// What became of its rendering.
    pub outcome: Outcome<'a>,
    /// The MachineConfig that has the name of what was rendered, if there is one.
    pub existing: Option<&'a MachineConfig>,
    /// The build of this program.
    pub build: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// What to write, in this order.
pub struct Publication {
    /// Events about the rendering itself. The next rendering does not have their causes any more, so they are emitted before
    /// anything that can fail.
    pub warnings: Decision<'static, ()>,
    /// The rendered MachineConfig. Without it, the pool keeps its target, which nodes still need orders for.
    pub config: Decision<'static, ()>,
    /// The pool's target and status.
    pub pool: Decision<'static, ()>,
    pub report: PublicationReport,
}

/// What was decided about a pool's target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicationReport {
    /// What the pool should target; `None` if that is not known.
    pub target: Option<String>,
    /// Whether the pool gets another target than it has.
    pub is_new_target: bool,
    /// Whether the field managers of the pool matter and are not known: who set another target. The decision is to be made
    /// again with the pool as the API has it.
    pub needs_pool_managers: bool,
    /// The same for the rendered MachineConfig, whose content was edited.
    pub needs_config_managers: bool,
}

/// Annotations of a rendered MachineConfig that say what it was merged from, and by which build.
const ORIGIN: [Annotation; 2] = [SOURCES, annotation::GENERATED_BY_CONTROLLER_VERSION];

/// Decides what to write about a pool's target.
pub fn desired(inputs: &PublicationInputs<'_>) -> Publication {
    let PublicationInputs { pool, build, now, .. } = *inputs;
    let mut report = PublicationReport::default();
    let (mut warnings, mut config, mut targeting) = (None, Vec::new(), Vec::new());
    let outcome = match &inputs.outcome {
        Outcome::Failed(failure) => Err(*failure),
        Outcome::Pinned(to) => {
            let known = revisions(pool, [*to]).into_iter().find_map(|revision| revision.sources).unwrap_or_default();
            let sources: Vec<String> = known.into_keys().collect();
            targeting = target(pool, name_of(&to.metadata), &sources, now, &mut report);
            Ok(())
        }
        Outcome::Rendered(rendered) => {
            warnings = snapshot_not_kept(pool, rendered);
            config = published(pool, rendered, inputs.existing, build, &mut report);
            targeting = target(pool, name_of(&rendered.object.metadata), &rendered.sources, now, &mut report);
            Ok(())
        }
    };
    let time = Time(to_second(now));
    let conditions = condition::conditions(pool, outcome, &time);
    let status =
        conditions.map(|conditions| Change::patch_status(ObjectRef::of(pool), json!({"conditions": conditions})));
    Publication {
        warnings: Decision::of([Stage::each(Purpose::Announce, warnings)]),
        config: Decision::of([Stage::sequence(Purpose::Write, config)]),
        pool: Decision::of([Stage::sequence(Purpose::Write, targeting), Stage::sequence(Purpose::Status, status)]),
        report,
    }
}

fn snapshot_not_kept(pool: &MachineConfigPool, rendered: &RenderedPool) -> Option<Change> {
    let unstored = Some(rendered.unstored.join("; ")).filter(|unstored| !unstored.is_empty())?;
    let message = format!("remote content could not be stored and may differ after the next start: {unstored}");
    Some(event(pool, true, PoolEvent::SnapshotNotKept, message, None))
}

/// The changes that make the rendered MachineConfig exist as it should be, each with the events about it: what is written is not
/// written again by the next decision, so an event that waited for a later write to succeed could be lost.
fn published(
    pool: &MachineConfigPool,
    rendered: &RenderedPool,
    existing: Option<&MachineConfig>,
    build: &str,
    report: &mut PublicationReport,
) -> Vec<Change> {
    let object = &rendered.object;
    let mut changes = Vec::new();
    match existing {
        None => {
            // It is about to be used, and must not be deleted before any controller has seen that.
            changes.push(Change::create_with_finalizer(object, IN_USE.as_str()));
            if targeted(pool) == object.metadata.name.as_deref() {
                changes.push(edit::recreated(object));
            } else {
                changes.extend(generated(pool, rendered, build));
            }
        }
        Some(found) if found.spec != object.spec => {
            // Edited, although nodes rely on it: the name is the content.
            report.needs_config_managers = found.metadata.managed_fields.is_none();
            changes.push(Change::replace_found(found, object));
            changes.extend(edit::reverted(found).or_else(|| Some(edit::reverted_by_unknown(found))));
        }
        // Its sources have changed without effect; without this it would look older than they are.
        Some(found) if ORIGIN.iter().any(|key| key.of(&found.metadata) != key.of(&object.metadata)) => {
            let pair = |key: &Annotation| (key.as_str().to_owned(), json!(key.of(&object.metadata)));
            let annotations: Map<_, _> = ORIGIN.iter().map(pair).collect();
            changes.push(Change::patch(ObjectRef::of(found), json!({"metadata": {"annotations": annotations}})));
        }
        Some(_) => {}
    }
    changes
}

fn generated(pool: &MachineConfigPool, rendered: &RenderedPool, build: &str) -> Vec<Change> {
    let metadata = &rendered.object.metadata;
    let name = name_of(metadata);
    let release = annotation::RELEASE_IMAGE_VERSION.of(metadata).unwrap_or_default();
    let message = format!("{name} successfully generated (release version: {release}, controller version: {build})");
    let mut events = vec![event(pool, false, PoolEvent::RenderedConfigGenerated, message, Some(name))];
    if rendered.is_image_overridden {
        let message = format!("a MachineConfig overrides the operating system image of {name}");
        events.push(event(pool, false, PoolEvent::OsImageUrlOverridden, message, Some(name)));
    }
    events
}

/// The changes that make a pool target a rendered MachineConfig.
fn target(
    pool: &MachineConfigPool,
    name: &str,
    sources: &[String],
    now: Timestamp,
    report: &mut PublicationReport,
) -> Vec<Change> {
    let configuration = configuration(name, sources);
    report.target = Some(name.to_owned());
    if pool.spec.configuration.as_ref() == Some(&configuration) {
        return Vec::new();
    }
    let mut patch = json!({"spec": {"configuration": configuration}});
    report.is_new_target = true;
    let former = targeted(pool).filter(|found| *found != name);
    if targeted(pool) != Some(name) {
        let finished = pool.status.as_ref().and_then(|status| status.configuration.as_ref()?.name.as_deref());
        let turns = TargetHistory::of(pool).next(name, finished, now);
        patch["metadata"] =
            json!({"annotations": {TARGET_HISTORY.as_str(): turns, FORMER_TARGET_HISTORY.as_str(): null}});
    }
    report.needs_pool_managers = former.is_some() && pool.metadata.managed_fields.is_none();
    let mut changes = vec![Change::patch(ObjectRef::of(pool), patch)];
    changes.extend(former.and_then(|former| retargeted(pool, former)));
    changes
}

/// The event for a target that a user has set, which is reverted.
fn retargeted(pool: &MachineConfigPool, found: &str) -> Option<Change> {
    let editor = last_editor(&pool.metadata, "/f:spec/f:configuration")?;
    let message = format!(
        "spec.configuration.name was set to {found:?} by {editor}; the edit was reverted: it follows from the MachineConfigs of \
         the pool; change those, or return to an earlier one with: seaworthy rollout undo {} --to NAME",
        name_of(&pool.metadata)
    );
    Some(event(pool, true, PoolEvent::EditReverted, message, None))
}

fn event(
    pool: &MachineConfigPool,
    is_warning: bool,
    reason: PoolEvent,
    message: String,
    config: Option<&str>,
) -> Change {
    let related = config.map(ObjectRef::named::<MachineConfig>);
    Change::emit(ObjectRef::of(pool), Event { is_warning, reason: reason.as_str(), message, related })
}

fn configuration(name: &str, sources: &[String]) -> PoolConfiguration {
    let source = |name: &String| ObjectReference {
        api_version: Some(MachineConfig::api_version(&()).into_owned()),
        kind: Some(MachineConfig::kind(&()).into_owned()),
        name: Some(name.clone()),
        ..ObjectReference::default()
    };
    PoolConfiguration {
        name: Some(name.to_owned()),
        source: Some(sources.iter().map(source).collect()),
        ..PoolConfiguration::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_comes_first_and_the_pool_after_its_rendered_config() {
        let manifest = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
        let pool: MachineConfigPool = serde_json::from_value(manifest("worker")).unwrap();
        let object: MachineConfig = serde_json::from_value(manifest("rendered-worker-1")).unwrap();
        let rendered = RenderedPool {
            object,
            sources: Vec::new(),
            is_image_overridden: false,
            findings: Vec::new(),
            unstored: vec!["no room".to_owned()],
        };
        let outcome = Outcome::Rendered(&rendered);
        let inputs =
            PublicationInputs { pool: &pool, outcome, existing: None, build: "b1", now: Timestamp::UNIX_EPOCH };
        let Publication { warnings, config, pool, report } = desired(&inputs);
        let shown = |decision: &Decision<'static, ()>| -> Vec<(String, Option<&'static str>)> {
            let all = decision.changes();
            all.map(|change| (change.object.to_string(), change.event().map(|event| event.reason))).collect()
        };
        let about_pool = || "MachineConfigPool worker".to_owned();
        assert_eq!(shown(&warnings), [(about_pool(), Some("SnapshotNotKept"))]);
        let created = ("MachineConfig rendered-worker-1".to_owned(), None);
        assert_eq!(shown(&config), [created, (about_pool(), Some("RenderedConfigGenerated"))]);
        assert_eq!(shown(&pool), [(about_pool(), None), (about_pool(), None)]);
        assert_eq!(report.target.as_deref(), Some("rendered-worker-1"));
    }
}
