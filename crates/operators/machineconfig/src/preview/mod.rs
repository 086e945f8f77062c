//! Preview: what the controllers would do after a change, computed in memory with their own decision functions.
//!
//! - [`ClusterState::apply`] changes a cluster in memory, [`preview_changes`] runs the decisions of all operators' controllers on
//!   it until nothing is left to write (`seaworthy_preview`), renders each pool, and [`outlook`] predicts the roll-out of its
//!   target.
//! - Nothing is written anywhere.

mod baseline;
mod outlook;
mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::{Selection, is_object};
use seaworthy_api::operator::MachineConfiguration;
use seaworthy_api::vocabulary::machineconfiguration::{MACHINE_CONFIGURATION, RenderReason, WORKER, label};
use seaworthy_change::ObjectRef;
use seaworthy_ignition::Severity;
use seaworthy_plan::rendering::base::is_owned_by_controller_config;
use seaworthy_plan::rendering::choice::{self, Choice, ChoiceInputs};
use seaworthy_plan::rendering::condition::RenderFailure;
use seaworthy_plan::rendering::publication::{self, Outcome, Publication};
use seaworthy_plan::rendering::transition::check_return;
use seaworthy_plan::rendering::{is_rendered, targeted};
use seaworthy_plan::rollout::waiting::Waiting;
use seaworthy_preview::{PreviewPart, PreviewProblem, run_to_fixpoint};
use seaworthy_render::{Finding, MachineConfig as Input, Pool};
use serde_json::Value;

use self::baseline::Baseline;
pub use self::outlook::{NodeOutlook, Outlook, UnassignedNodes, outlook, unassigned_nodes};
pub use self::parts::parts;
use crate::cluster_state::ClusterState;
use crate::render::render_pool::{self, Remote, RenderContext};

pub struct PreviewInputs {
    /// The preview parts of all operators.
    pub parts: Vec<Box<dyn PreviewPart>>,
    pub remote: Remote,
    pub build: String,
    pub now: Timestamp,
    /// Whether the state was read from a cluster. With manifests alone, a missing object may be deleted or just not given.
    pub is_cluster: bool,
}

/// The state of a cluster after a change.
pub struct Preview {
    /// Sorted by name.
    pub pools: Vec<PoolPreview>,
    /// The nodes that take their configuration from no pool, and why.
    pub without_pool: Vec<Waiting>,
    /// Those of them that were in a pool before, by name, with that pool.
    pub newly_unassigned: BTreeMap<String, String>,
    /// Problems and notes that are not about one pool's rendering; the most severe first.
    pub problems: Vec<PreviewProblem>,
    /// The MachineConfigs that no pool selects.
    pub unselected: Vec<Finding>,
    /// Those of them that a pool selected before, by name.
    pub newly_unselected: BTreeSet<String>,
}

/// A pool's target in a manifest, which the render controller would revert.
pub fn reverted_target(before: &ClusterState, manifest: &Value) -> Option<PreviewProblem> {
    let name = manifest.pointer("/metadata/name")?.as_str().filter(|_| is_object::<MachineConfigPool>(manifest))?;
    let wanted = manifest.pointer("/spec/configuration/name")?.as_str()?;
    let is_another = targeted(before.pool(name)?).is_some_and(|target| target != wanted);
    let message = format!(
        "MachineConfigPool {name}, spec.configuration.name: it is computed from the MachineConfigs of the pool, so \
         {wanted:?} would be reverted and move no node; leave it out, or roll back with: seaworthy rollout undo {name} --to NAME"
    );
    let problem = PreviewProblem::new(Severity::Warning, "reverted", message);
    is_another.then(|| problem.about(ObjectRef::named::<MachineConfigPool>(name)).at("spec.configuration.name"))
}

/// A pool after a change.
pub struct PoolPreview {
    pub name: String,
    /// Its target now.
    pub before: Option<Arc<MachineConfig>>,
    /// Its target after the change.
    pub after: Option<Arc<MachineConfig>>,
    /// Why it would keep its target.
    pub failure: Option<RenderFailure>,
    /// Findings about the MachineConfigs that change.
    pub findings: Vec<Finding>,
    pub outlook: Outlook,
    /// The nodes that would move because of the change and not without it, by name, with the pool that they were in: this one,
    /// another, or none.
    pub moved_nodes: BTreeMap<String, Option<String>>,
}

/// Runs the controllers' decisions on a changed cluster.
pub async fn preview_changes(before: &ClusterState, mut after: ClusterState, inputs: &PreviewInputs) -> Preview {
    let problems = run_to_fixpoint(after.objects_mut(), &inputs.parts, &inputs.build, inputs.now);
    let mut problems: Vec<PreviewProblem> = problems.into_iter().collect();
    let changed = changed(before, &after);
    let names: Vec<String> = after.pools().iter().map(|pool| pool.name_any()).collect();
    let mut made: BTreeMap<String, (Option<RenderFailure>, Vec<Finding>)> = BTreeMap::new();
    for name in &names {
        let outcome = render_target(&mut after, name, &changed, inputs, &mut problems).await;
        made.insert(name.clone(), outcome);
    }
    let baseline = Baseline::of(before, inputs.now);
    let mut pools = Vec::new();
    for (name, (failure, findings)) in made {
        let Some(outlook) = outlook(&after, &name, inputs.now) else { continue };
        let of = |cluster: &ClusterState| {
            let name = targeted(cluster.pool(&name)?)?;
            cluster.machine_config(name).cloned()
        };
        let (old, new) = (of(before), of(&after));
        let moved_nodes = baseline.moved_to(&name, new.as_deref(), &outlook);
        pools.push(PoolPreview { before: old, after: new, failure, findings, outlook, moved_nodes, name });
    }
    let gone: Vec<String> =
        before.pools().iter().map(|pool| pool.name_any()).filter(|name| !names.contains(name)).collect();
    problems.extend(gone.iter().map(|name| PreviewProblem::note("pool-gone", format!("pool {name} is deleted"))));
    let failed = pools.iter().filter(|pool| pool.failure.is_some());
    let failed: BTreeSet<ObjectRef> = failed.map(|pool| ObjectRef::named::<MachineConfigPool>(&pool.name)).collect();
    problems.retain(|problem| problem.caused_by.as_ref().is_none_or(|object| !failed.contains(object)));
    problems.extend(after.unreadable());
    problems.extend(misnamed(&after));
    problems.extend(relative_paths(&after));
    problems.extend(without_base(&after));
    let unassigned = unassigned_nodes(&after);
    problems.extend(unassigned.problems);
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    let newly_unassigned = baseline.newly_unassigned(unassigned.nodes.iter().map(|waiting| waiting.node.as_str()));
    let unselected = unselected(&after);
    let newly_unselected = newly_unselected(before, &unselected);
    Preview { pools, without_pool: unassigned.nodes, newly_unassigned, problems, unselected, newly_unselected }
}

/// The pools that select no base, whose machines would lack kubelet and container runtime.
fn without_base(cluster: &ClusterState) -> Vec<PreviewProblem> {
    let base: Vec<&Arc<MachineConfig>> =
        cluster.machine_configs().iter().filter(|object| is_owned_by_controller_config(object)).collect();
    let is_without = |pool: &&Arc<MachineConfigPool>| {
        let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
        let selection = selection.filter(|selection| !selection.is_empty());
        selection.is_some_and(|found| !base.iter().any(|object| found.matches(object.metadata.labels.as_ref())))
    };
    let problem = |pool: &Arc<MachineConfigPool>| {
        let (name, role) = (pool.name_any(), label::ROLE);
        let message = format!(
            "MachineConfigPool {name}, spec.machineConfigSelector: it selects none of the platform's MachineConfigs (00-worker, \
             01-worker-kubelet and others), so its machines would have no kubelet and no container runtime; to include those of \
             the worker pool: matchExpressions: [{{key: {role}, operator: In, values: [worker, {name}]}}]"
        );
        PreviewProblem::new(Severity::Warning, "no-base", message)
            .about(ObjectRef::named::<MachineConfigPool>(name))
            .at("spec.machineConfigSelector")
    };
    let pools = cluster.pools().iter().filter(|_| !base.is_empty());
    pools.filter(is_without).map(problem).collect()
}

/// Policies that are ignored because of their name.
fn misnamed(cluster: &ClusterState) -> Vec<PreviewProblem> {
    let names = cluster.policies().iter().map(|object| object.name_any()).filter(|name| name != MACHINE_CONFIGURATION);
    names
        .map(|name| {
            let message = format!(
                "MachineConfiguration {name}: only the name {MACHINE_CONFIGURATION:?} has an effect, so this one is \
                 ignored; rename it"
            );
            let object = ObjectRef::named::<MachineConfiguration>(name);
            PreviewProblem::new(Severity::Error, "misnamed", message).about(object)
        })
        .collect()
}

/// Paths of disruption policies that no file has.
fn relative_paths(cluster: &ClusterState) -> Vec<PreviewProblem> {
    let of_policy = |object: &Arc<MachineConfiguration>| {
        let name = object.name_any();
        let files = object.spec.node_disruption_policy.iter().flat_map(|policy| policy.files.iter().flatten());
        let relative = files.enumerate().filter(|(_, file)| !file.path.starts_with('/'));
        let problem = |(nth, path): (usize, String)| {
            let field = format!("spec.nodeDisruptionPolicy.files[{nth}].path");
            let message = format!(
                "MachineConfiguration {name}, {field}: {path:?} is not an absolute path and matches no file; write \"/{path}\""
            );
            let object = ObjectRef::named::<MachineConfiguration>(&name);
            PreviewProblem::new(Severity::Warning, "relative-path", message).about(object).at(field)
        };
        relative.map(|(nth, file)| (nth, file.path.clone())).map(problem).collect::<Vec<_>>()
    };
    cluster.policies().iter().flat_map(of_policy).collect()
}

/// The pools as rendering reads them, and the findings of those that it cannot read.
fn rendering_pools(cluster: &ClusterState) -> (Vec<Pool>, Vec<Finding>) {
    let mut broken = Vec::new();
    let read = |pool: &Arc<MachineConfigPool>| Pool::of(pool).map_err(|findings| broken.extend(findings)).ok();
    let pools = cluster.pools().iter().filter_map(read).collect();
    (pools, broken)
}

/// The MachineConfigs of these findings that a pool of this state selects, by name.
fn newly_unselected(cluster: &ClusterState, unselected: &[Finding]) -> BTreeSet<String> {
    let (pools, _) = rendering_pools(cluster);
    let is_selected = |name: &&String| {
        let object = cluster.machine_config(name).map(|object| Input::without_spec(object, 0));
        object.is_some_and(|object| pools.iter().any(|pool| pool.selects(&object)))
    };
    let names = unselected.iter().flat_map(|finding| &finding.places).map(|place| &place.name);
    names.filter(is_selected).cloned().collect()
}

/// The MachineConfigs that no pool selects, as findings of `seaworthy lint`.
fn unselected(cluster: &ClusterState) -> Vec<Finding> {
    let (pools, broken) = rendering_pools(cluster);
    let sources: Vec<Input<'_>> =
        cluster.machine_configs().iter().map(|object| Input::without_spec(object, 0)).collect();
    seaworthy_render::unselected(&sources, &pools, &broken)
}

/// Renders a pool as the render controller would, and sets the result as its target in this state.
async fn render_target(
    cluster: &mut ClusterState,
    name: &str,
    changed: &BTreeSet<String>,
    preview_inputs: &PreviewInputs,
    problems: &mut Vec<PreviewProblem>,
) -> (Option<RenderFailure>, Vec<Finding>) {
    let Some(pool) = cluster.pool(name).cloned() else { return (None, Vec::new()) };
    let current = targeted(&pool).and_then(|name| cluster.machine_config(name)).cloned();
    let (choice, sources, controller_config) = {
        let objects = cluster.choice_objects();
        let choice = choice::choose(&ChoiceInputs {
            pool: &pool,
            objects: &objects,
            build: &preview_inputs.build,
            is_cluster: preview_inputs.is_cluster,
            accepts_other_builds: true,
        });
        (choice, objects.sources, objects.controller_config)
    };
    let mut findings = Vec::new();
    let (rendered, pinned);
    let outcome = match choice {
        Choice::Deleted => return (None, findings),
        Choice::Refused(failure) => Err(failure),
        Choice::Wait(unready) => Err(RenderFailure { reason: RenderReason::InputsNotReady, message: unready.what }),
        Choice::Pinned(object) => {
            pinned = object;
            check_return(current.as_deref(), &pinned).map(|()| Outcome::Pinned(&pinned))
        }
        Choice::Render(sources_of_pool) => {
            let worker = cluster.pool(WORKER).and_then(|pool| pool.spec.os_image_stream.as_ref());
            let context = RenderContext {
                controller_config: controller_config.as_deref(),
                worker_stream: worker.map(|stream| stream.name.clone()),
                current: current.as_deref(),
                build: &preview_inputs.build,
                wants_findings: true,
                sources: &sources,
            };
            match render_pool::render_pool(&pool, &sources_of_pool, &context, &preview_inputs.remote).await {
                Err(failure) => Err(failure),
                Ok(made) => {
                    let concerns =
                        |finding: &&Finding| finding.places.iter().any(|place| changed.contains(&place.name));
                    findings.extend(made.findings.iter().filter(concerns).cloned());
                    rendered = made;
                    Ok(Outcome::Rendered(&rendered))
                }
            }
        }
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => return (Some(failure), findings),
    };
    let existing = match &outcome {
        Outcome::Rendered(rendered) => cluster.machine_config(&rendered.object.name_any()).cloned(),
        Outcome::Pinned(_) | Outcome::Failed(_) => None,
    };
    let inputs = publication::PublicationInputs {
        pool: &pool,
        outcome,
        existing: existing.as_deref(),
        build: &preview_inputs.build,
        now: preview_inputs.now,
    };
    let Publication { config, pool, .. } = publication::desired(&inputs);
    let now = preview_inputs.now;
    problems.extend(cluster.perform(&config, now).or_else(|| cluster.perform(&pool, now)));
    (None, findings)
}

/// The source MachineConfigs that differ between two states.
fn changed(before: &ClusterState, after: &ClusterState) -> BTreeSet<String> {
    let differs = |object: &&Arc<MachineConfig>| {
        let old = before.machine_config(&object.name_any());
        !is_rendered(object) && old.is_none_or(|old| old.spec != object.spec || old.labels() != object.labels())
    };
    after.machine_configs().iter().filter(differs).map(|object| object.name_any()).collect()
}
