//! What the controllers that make MachineConfigs would write, carried out in thought until nothing is left to write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig};
use seaworthy_api::vocabulary::machineconfiguration::{GeneratorReason, annotation};
use seaworthy_change::{Decision, Purpose, Stage};
use seaworthy_generate::base;
use seaworthy_generate::{Inputs, PoolOutcome, Report};
use seaworthy_ignition::Severity;
use seaworthy_plan::rendering::base::is_owned_by_controller_config;
use seaworthy_plan::rendering::is_rendered;

use super::{Means, Problem};
use crate::rollout::to_second;
use crate::settings::Kind;
use crate::world::World;

/// How often controllers may answer each other. They come to rest after a few rounds, or never.
const ROUNDS: usize = 20;

/// Lets the controllers that make MachineConfigs decide until nothing is left to write.
pub(super) fn settle(world: &mut World, means: &Means) -> Vec<Problem> {
    let mut problems = BTreeSet::new();
    let build = means.build.as_str();
    let is_foreign = |object: &&Arc<MachineConfig>| {
        let made_by = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&object.metadata).unwrap_or_default();
        is_owned_by_controller_config(object) && !made_by.is_empty() && made_by != build
    };
    let foreign = world.machine_configs.iter().find(is_foreign).map(|object| object.name_any());
    if let Some(name) = &foreign {
        problems.insert(Problem::note(
            "other-build",
            format!("MachineConfig {name} and the rest of the base were made by another build; taken as they are"),
        ));
    }
    // What was wrong in one round may have been put right in the next.
    let mut said = BTreeSet::new();
    for _ in 0..ROUNDS {
        said.clear();
        let mut is_settled = true;
        if let Some(object) = world.controller_config().filter(|_| foreign.is_none()).cloned() {
            let decision = base::desired(&base::Inputs {
                controller_config: &object,
                templates: &means.templates,
                cluster_tls: None,
                pools: &world.pools,
                deleted_pools: &BTreeMap::new(),
                machine_configs: &sources(world),
                build,
                now: time(means.now),
            });
            is_settled &= decision.is_empty();
            let of_base = |message: String| {
                let message = format!("ControllerConfig {}: {message}", object.name_any());
                Problem::of(Severity::Error, "base", "ControllerConfig", &object.name_any(), message)
            };
            said.extend(decision.report.problems.iter().cloned().map(of_base));
            said.extend(world.perform(&decision, means.now));
        }
        is_settled &= generate::<KubeletConfig>(world, means, &mut said);
        is_settled &= generate::<ContainerRuntimeConfig>(world, means, &mut said);
        if is_settled {
            break;
        }
    }
    problems.extend(said);
    problems.into_iter().collect()
}

/// Lets the controller of one kind of settings decide about all objects. Whether there was nothing to do.
fn generate<K>(world: &mut World, means: &Means, said: &mut BTreeSet<Problem>) -> bool
where
    K: Kind,
{
    let mut is_settled = true;
    for object in K::of_world(world).clone() {
        let all = K::of_world(world).clone();
        let decision = K::desired(&Inputs {
            object: &*object,
            all: &all,
            pools: &world.pools,
            machine_configs: &sources(world),
            controller_config: world.controller_config().map(|found| &**found),
            build: &means.build,
            now: time(means.now),
        });
        is_settled &= decision.is_empty();
        tell(said, K::KIND, &object.name_any(), &decision.report);
        said.extend(world.perform(&decision, means.now));
    }
    let all = K::of_world(world).clone();
    let orphans = K::orphans(&all, &world.pools, &sources(world), &means.build);
    let decision = Decision::of([Stage::sequence(Purpose::Write, orphans)]);
    said.extend(world.perform(&decision, means.now));
    is_settled && decision.is_empty()
}

fn sources(world: &World) -> Vec<Arc<MachineConfig>> {
    world.machine_configs.iter().filter(|object| !is_rendered(object)).cloned().collect()
}

fn time(now: Timestamp) -> Time {
    Time(to_second(now))
}

/// Says what was refused, and what is worth knowing.
fn tell(problems: &mut BTreeSet<Problem>, kind: &'static str, name: &str, report: &Report) {
    // The status of the object begins so; whoever reads this knows that it is an error.
    let plain = |text: &str| text.strip_prefix("Error: ").unwrap_or(text).to_owned();
    let problem = |severity: Severity, code: &'static str, place: &str, text: &str| {
        Problem::of(severity, code, kind, name, format!("{kind} {name}{place}: {}", plain(text)))
    };
    let refused = report.refused.iter();
    problems.extend(refused.map(|refusal| Problem {
        path: refusal.path.clone(),
        ..problem(Severity::Error, "not-accepted", "", &refusal.message)
    }));
    problems.extend(report.notices.iter().map(|notice| problem(Severity::Warning, "settings", "", notice)));
    for pool in &report.pools {
        if let PoolOutcome::Failed(refusal) = &pool.outcome {
            let place = format!(", pool {}", pool.pool);
            let told = problem(Severity::Error, "not-accepted", &place, &refusal.message);
            let follows = Some(pool.pool.clone()).filter(|_| refusal.reason == GeneratorReason::NoBase);
            problems.insert(Problem { follows, path: refusal.path.clone(), ..told });
        }
    }
}
