//! What the plane would do, worked out beforehand with the functions that it decides with.
//!
//! - [`World::apply`] changes a cluster in thought, [`foresee`] lets the controllers decide about it until nothing is left
//!   to write, and [`outlook`] says how a pool's nodes come to its target.
//! - Nothing is written anywhere.

mod admission;
mod application;
mod attribution;
mod manifest;
mod outlook;
mod settlement;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::Selection;
use seaworthy_api::vocabulary::machineconfiguration::{MACHINE_CONFIGURATION, RenderReason, WORKER, label};
use seaworthy_change::memory::MemoryError;
use seaworthy_generate::base::Templates;
use seaworthy_ignition::{Node, Severity};
use seaworthy_plan::rendering::base::is_owned_by_controller_config;
use seaworthy_plan::rendering::choice::{self, Choice};
use seaworthy_plan::rendering::condition::Failure;
use seaworthy_plan::rendering::publication::{self, Outcome};
use seaworthy_plan::rendering::transition::check_return;
use seaworthy_plan::rendering::{is_rendered, targeted};
use seaworthy_plan::rollout::waiting::Waiting;
use seaworthy_render::{Finding, MachineConfig as Input, Pool, not_selected};
use serde_json::Value;

pub use self::admission::{Admission, Effect, Objection};
pub use self::application::{Application, Applied};
use self::attribution::Lots;
pub use self::outlook::{NodeOutlook, Outlook, Strays, outlook, strays};
use self::settlement::settle;
use crate::render::render_pool::{self, Remote, Surroundings};
use crate::world::World;

/// What is needed to look ahead.
pub struct Means {
    /// Where remote content comes from.
    pub remote: Remote,
    /// What the base is made from.
    pub templates: Templates,
    /// The build of this program.
    pub build: String,
    /// The time.
    pub now: Timestamp,
    /// Whether it is a cluster that is looked at. Of manifests alone nobody can tell whether what is missing has gone, or was
    /// never given.
    pub is_cluster: bool,
}

/// What would be.
pub struct Foresight {
    /// The pools, by name.
    pub pools: Vec<PoolForesight>,
    /// The nodes that take their configuration from no pool, and why.
    pub without_pool: Vec<Waiting>,
    /// Those of them that were in a pool before, by name, with that pool.
    pub lost: BTreeMap<String, String>,
    /// What is wrong, or worth knowing, beside the pools; the gravest first.
    pub problems: Vec<Problem>,
    /// The MachineConfigs that no pool selects.
    pub unselected: Vec<Finding>,
    /// Those of them that a pool selected before, by name.
    pub stranded: BTreeSet<String>,
}

/// Something that is wrong, or worth knowing, beside the pools.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// How grave it is.
    pub severity: Severity,
    /// In a word, for programs.
    pub code: &'static str,
    /// The object that it is about, by kind and name.
    pub object: Option<(&'static str, String)>,
    /// The field of the object; empty for the object as a whole.
    pub path: String,
    /// The pool that it follows from, if that cannot be rendered: then the pool says why.
    pub follows: Option<String>,
    /// For people, the object named.
    pub message: String,
}

impl Problem {
    /// Something that nobody has to do anything about.
    fn note(code: &'static str, message: String) -> Problem {
        Problem { severity: Severity::Info, code, object: None, path: String::new(), follows: None, message }
    }

    /// A change that the preview cannot perform.
    pub(crate) fn unperformed(error: &MemoryError) -> Problem {
        let message = format!("the preview is incomplete, because a change cannot be performed in memory: {error}");
        Problem { severity: Severity::Error, ..Problem::note("preview", message) }
    }

    /// A target of a pool in a manifest that the render controller reverts.
    pub fn overruled(before: &World, manifest: &Value) -> Option<Problem> {
        let name = manifest.pointer("/metadata/name")?.as_str().filter(|_| manifest["kind"] == "MachineConfigPool")?;
        let wanted = manifest.pointer("/spec/configuration/name")?.as_str()?;
        let is_another = targeted(before.pool(name)?).is_some_and(|target| target != wanted);
        let message = format!(
            "MachineConfigPool {name}, spec.configuration.name: it follows from the MachineConfigs of the pool, so {wanted:?} would \
             be put back and move no node; leave it out, or go back with: seaworthy rollout undo {name} --to NAME"
        );
        let told = Problem::of(Severity::Warning, "reverted", "MachineConfigPool", name, message);
        is_another.then(|| Problem { path: "spec.configuration.name".to_owned(), ..told })
    }

    /// Something about an object.
    fn of(severity: Severity, code: &'static str, kind: &'static str, name: &str, message: String) -> Problem {
        let object = Some((kind, name.to_owned()));
        Problem { severity, code, object, path: String::new(), follows: None, message }
    }
}

/// What would become of a pool.
pub struct PoolForesight {
    /// The pool.
    pub name: String,
    /// What it targets now.
    pub before: Option<Arc<MachineConfig>>,
    /// What it would target.
    pub after: Option<Arc<MachineConfig>>,
    /// Why it would keep what it targets.
    pub failure: Option<Failure>,
    /// What is worth knowing about the MachineConfigs that change.
    pub findings: Vec<Finding>,
    /// How its nodes would come to it.
    pub outlook: Outlook,
    /// The nodes that would come to it because of the change and not without it, by name, with the pool that they were in:
    /// this one, another, or none.
    pub caused: BTreeMap<String, Option<String>>,
}

/// Lets the controllers decide about a changed cluster, and says what becomes of each pool.
pub async fn foresee(before: &World, mut after: World, means: &Means) -> Foresight {
    let mut problems = settle(&mut after, means);
    let changed = changed(before, &after);
    let names: Vec<String> = after.pools.iter().map(|pool| pool.name_any()).collect();
    let mut made: BTreeMap<String, (Option<Failure>, Vec<Finding>)> = BTreeMap::new();
    for name in &names {
        let outcome = target(&mut after, name, &changed, means).await;
        made.insert(name.clone(), outcome);
    }
    let lots = Lots::of(before, means.now);
    let mut pools = Vec::new();
    for (name, (failure, findings)) in made {
        let Some(outlook) = outlook(&after, &name, means.now) else { continue };
        let of = |world: &World| {
            let name = targeted(world.pool(&name)?)?;
            world.machine_config(name).cloned()
        };
        let (old, new) = (of(before), of(&after));
        let caused = lots.moved_to(&name, new.as_deref(), &outlook);
        pools.push(PoolForesight { before: old, after: new, failure, findings, outlook, caused, name });
    }
    let gone: Vec<String> =
        before.pools.iter().map(|pool| pool.name_any()).filter(|name| !names.contains(name)).collect();
    problems.extend(gone.iter().map(|name| Problem::note("pool-gone", format!("pool {name} is not there any more"))));
    let has_failed = |name: &String| pools.iter().any(|pool| pool.name == *name && pool.failure.is_some());
    problems.retain(|problem| !problem.follows.as_ref().is_some_and(has_failed));
    problems.extend(misnamed(&after));
    problems.extend(without_base(&after));
    let strays = strays(&after);
    problems.extend(strays.problems);
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    let lost = lots.lost(strays.nodes.iter().map(|stray| stray.node.as_str()));
    let unselected = unselected(&after);
    let stranded = stranded(before, &unselected);
    Foresight { pools, without_pool: strays.nodes, lost, problems, unselected, stranded }
}

/// The pools whose machines would have nothing of what makes a machine a node.
fn without_base(world: &World) -> Vec<Problem> {
    let base: Vec<&Arc<MachineConfig>> =
        world.machine_configs.iter().filter(|object| is_owned_by_controller_config(object)).collect();
    let is_without = |pool: &&Arc<MachineConfigPool>| {
        let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
        let selection = selection.filter(|selection| !selection.is_empty());
        selection.is_some_and(|found| !base.iter().any(|object| found.matches(object.metadata.labels.as_ref())))
    };
    let problem = |pool: &Arc<MachineConfigPool>| {
        let (name, role) = (pool.name_any(), label::ROLE);
        let message = format!(
            "MachineConfigPool {name}, spec.machineConfigSelector: it selects none of the platform's MachineConfigs (00-worker, \
             01-worker-kubelet and others), so its machines would have no kubelet and no container runtime; to add to what \
             workers have: matchExpressions: [{{key: {role}, operator: In, values: [worker, {name}]}}]"
        );
        let told = Problem::of(Severity::Warning, "no-base", "MachineConfigPool", &name, message);
        Problem { path: "spec.machineConfigSelector".to_owned(), ..told }
    };
    let pools = world.pools.iter().filter(|_| !base.is_empty());
    pools.filter(is_without).map(problem).collect()
}

/// Policies that nobody looks at, because of their name.
fn misnamed(world: &World) -> Vec<Problem> {
    let names = world.policies.iter().map(|object| object.name_any()).filter(|name| name != MACHINE_CONFIGURATION);
    names
        .map(|name| {
            let message = format!(
                "MachineConfiguration {name}: only the one with the name {MACHINE_CONFIGURATION:?} counts, so this one does \
                 nothing; give it that name"
            );
            Problem::of(Severity::Error, "misnamed", "MachineConfiguration", &name, message)
        })
        .collect()
}

/// The selectors of all pools, as far as they can be used.
fn selections(world: &World) -> Vec<Selection> {
    let all = world.pools.iter().filter_map(|pool| Selection::of(pool.spec.machine_config_selector.as_ref()?).ok());
    all.filter(|selection| !selection.is_empty()).collect()
}

/// The MachineConfigs of these findings that a pool selects in another world, by name.
fn stranded(world: &World, unselected: &[Finding]) -> BTreeSet<String> {
    let selections = selections(world);
    let is_selected = |name: &&String| {
        let Some(object) = world.machine_config(name) else { return false };
        selections.iter().any(|selection| selection.matches(object.metadata.labels.as_ref()))
    };
    let names = unselected.iter().flat_map(|finding| &finding.places).map(|place| &place.name);
    names.filter(is_selected).cloned().collect()
}

/// The MachineConfigs that no pool selects, as `seaworthy lint` tells of them.
fn unselected(world: &World) -> Vec<Finding> {
    let texts: Vec<Value> = world.pools.iter().filter_map(|pool| serde_json::to_value(&**pool).ok()).collect();
    let pools: Vec<Pool> = texts.iter().filter_map(|text| Pool::read(&Node::from_json(text)).ok()).collect();
    let selections = selections(world);
    // A pool whose selector cannot be used says so itself; what it would have selected is anyone's guess.
    if selections.len() < world.pools.len() || pools.len() < world.pools.len() {
        return Vec::new();
    }
    let is_left_out = |object: &&Arc<MachineConfig>| {
        let labels = object.metadata.labels.as_ref();
        !is_rendered(object) && !selections.iter().any(|selection| selection.matches(labels))
    };
    let finding = |object: &Arc<MachineConfig>| {
        let text = serde_json::to_value(&**object).ok()?;
        Some(not_selected(&Input::read(Node::from_json(&text)), &pools))
    };
    world.machine_configs.iter().filter(is_left_out).filter_map(finding).collect()
}

/// Renders a pool as the render controller would, and has it target the result in this world.
async fn target(
    world: &mut World,
    name: &str,
    changed: &BTreeSet<String>,
    means: &Means,
) -> (Option<Failure>, Vec<Finding>) {
    let Some(pool) = world.pool(name).cloned() else { return (None, Vec::new()) };
    let current = targeted(&pool).and_then(|name| world.machine_config(name)).cloned();
    let sources: Vec<_> = world.machine_configs.iter().filter(|object| !is_rendered(object)).cloned().collect();
    let controller_config = world.controller_config().cloned();
    let choice = choice::choose(&choice::Inputs {
        pool: &pool,
        pools: &world.pools,
        sources: &sources,
        find: &|name| world.machine_config(name).cloned(),
        controller_config: controller_config.as_deref(),
        kubelet_configs: &world.kubelet_configs,
        container_runtime_configs: &world.container_runtime_configs,
        build: &means.build,
        is_cluster: means.is_cluster,
        accepts_other_builds: true,
    });
    let mut findings = Vec::new();
    let (rendered, pinned);
    let outcome = match choice {
        Choice::Deleted => return (None, findings),
        Choice::Refused(failure) => Err(failure),
        Choice::Wait(unready) => Err(Failure { reason: RenderReason::InputsNotReady, message: unready.what }),
        Choice::Pinned(object) => {
            pinned = object;
            check_return(current.as_deref(), &pinned).map(|()| Outcome::Pinned(&pinned))
        }
        Choice::Render(inputs) => {
            let worker = world.pool(WORKER).and_then(|pool| pool.spec.os_image_stream.as_ref());
            let around = Surroundings {
                controller_config: controller_config.as_deref(),
                worker_stream: worker.map(|stream| stream.name.clone()),
                current: current.as_deref(),
                build: &means.build,
                wants_findings: true,
                sources: &sources,
            };
            match render_pool::make(&pool, &inputs, &around, &means.remote).await {
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
        Outcome::Rendered(rendered) => world.machine_config(&rendered.object.name_any()).cloned(),
        Outcome::Pinned(_) | Outcome::Failed(_) => None,
    };
    let inputs = publication::Inputs {
        pool: &pool,
        outcome,
        existing: existing.as_deref(),
        build: &means.build,
        now: means.now,
    };
    let decision = publication::desired(&inputs);
    world.perform(&decision, means.now);
    (None, findings)
}

/// The source MachineConfigs that differ between two worlds.
fn changed(before: &World, after: &World) -> BTreeSet<String> {
    let differs = |object: &&Arc<MachineConfig>| {
        let old = before.machine_config(&object.name_any());
        !is_rendered(object) && old.is_none_or(|old| old.spec != object.spec || old.labels() != object.labels())
    };
    after.machine_configs.iter().filter(differs).map(|object| object.name_any()).collect()
}
