//! What the controllers that make MachineConfigs would write, carried out in thought until nothing is left to write.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig};
use seaworthy_api::vocabulary::machineconfiguration::annotation;
use seaworthy_generate::base;
use seaworthy_generate::container_runtime::AdditionalStores;
use seaworthy_generate::{Deletion, Inputs, PoolOutcome, Report, Write, container_runtime, kubelet};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Means;
use crate::rollout::to_second;
use crate::world::{World, put};
use crate::writes::is_rendered;

/// How often controllers may answer each other. They come to rest after a few rounds, or never.
const ROUNDS: usize = 20;

/// Lets the controllers that make MachineConfigs decide until nothing is left to write.
pub(super) fn settle(world: &mut World, means: &Means) -> Vec<String> {
    let mut problems = BTreeSet::new();
    let build = means.build.as_str();
    let is_foreign = |object: &&Arc<MachineConfig>| {
        let made_by = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&object.metadata).unwrap_or_default();
        object.owner_references().iter().any(|owner| owner.kind == "ControllerConfig")
            && !made_by.is_empty()
            && made_by != build
    };
    let foreign = world.machine_configs.iter().find(is_foreign).map(|object| object.name_any());
    if let Some(name) = &foreign {
        problems.insert(format!(
            "MachineConfig {name} and the rest of the base were made by another build; taken as they are"
        ));
    }
    for _ in 0..ROUNDS {
        let mut is_settled = true;
        if let Some(object) = world.controller_config().filter(|_| foreign.is_none()).cloned() {
            let decision = base::desired(&base::Inputs {
                controller_config: &object,
                templates: &means.templates,
                cluster_tls: None,
                pools: &world.pools,
                machine_configs: &sources(world),
                build,
                now: time(means.now),
            });
            is_settled &= decision.writes.is_empty();
            problems.extend(decision.problems);
            let changed = carry_out(world, (*object).clone(), decision.writes, means.now);
            put(&mut world.controller_configs, changed);
        }
        for object in world.kubelet_configs.clone() {
            let (all, controller_config) = (world.kubelet_configs.clone(), world.controller_config().cloned());
            let decision = kubelet::desired(
                &inputs(world, &object, &all, controller_config.as_deref(), &sources(world), means),
                None,
            );
            is_settled &= decision.writes.is_empty();
            tell(&mut problems, &format!("KubeletConfig {}", object.name_any()), &decision.report);
            let changed = carry_out(world, (*object).clone(), decision.writes, means.now);
            put(&mut world.kubelet_configs, changed);
        }
        for object in world.container_runtime_configs.clone() {
            let (all, controller_config) =
                (world.container_runtime_configs.clone(), world.controller_config().cloned());
            let decision = container_runtime::desired(
                &inputs(world, &object, &all, controller_config.as_deref(), &sources(world), means),
                AdditionalStores::Allowed,
            );
            is_settled &= decision.writes.is_empty();
            tell(&mut problems, &format!("ContainerRuntimeConfig {}", object.name_any()), &decision.report);
            let changed = carry_out(world, (*object).clone(), decision.writes, means.now);
            put(&mut world.container_runtime_configs, changed);
        }
        let mut orphans = kubelet::orphans(&world.kubelet_configs, &world.pools, &sources(world), build);
        orphans.extend(container_runtime::orphans(
            &world.container_runtime_configs,
            &world.pools,
            &sources(world),
            build,
        ));
        is_settled &= orphans.is_empty();
        orphans.iter().for_each(|orphan| delete(world, orphan));
        if is_settled {
            break;
        }
    }
    problems.into_iter().collect()
}

fn inputs<'a, K>(
    world: &'a World,
    object: &'a K,
    all: &'a [Arc<K>],
    controller_config: Option<&'a ControllerConfig>,
    machine_configs: &'a [Arc<MachineConfig>],
    means: &'a Means,
) -> Inputs<'a, K> {
    let (build, now) = (means.build.as_str(), time(means.now));
    Inputs { object, all, pools: &world.pools, machine_configs, controller_config, build, now }
}

fn sources(world: &World) -> Vec<Arc<MachineConfig>> {
    world.machine_configs.iter().filter(|object| !is_rendered(object)).cloned().collect()
}

fn time(now: Timestamp) -> Time {
    Time(to_second(now))
}

/// Says what was refused.
fn tell(problems: &mut BTreeSet<String>, object: &str, report: &Report) {
    problems.extend(report.refused.iter().map(|refusal| format!("{object}: {}", refusal.message)));
    for pool in &report.pools {
        if let PoolOutcome::Failed(refusal) = &pool.outcome {
            problems.insert(format!("{object}, pool {}: {}", pool.pool, refusal.message));
        }
    }
}

/// Carries out writes in thought; gives the object that they are about as it is then.
fn carry_out<K>(world: &mut World, mut object: K, writes: Vec<Write>, now: Timestamp) -> K
where
    K: Resource<DynamicType = ()> + Clone + serde::Serialize + DeserializeOwned,
{
    for write in writes {
        match write {
            Write::Patch(patch) => {
                object.annotations_mut().extend(patch.annotations);
                if let Some(finalizers) = patch.finalizers {
                    object.meta_mut().finalizers = Some(finalizers);
                }
            }
            Write::Create(mut made) => {
                made.metadata.uid = Some(format!("planned-{}", made.name_any()));
                made.metadata.creation_timestamp = Some(Time(now));
                put(&mut world.machine_configs, made);
            }
            Write::Update(made) => put(&mut world.machine_configs, made),
            Write::Delete(deletion) => delete(world, &deletion),
            Write::CreatePool(mut pool) => {
                pool.metadata.uid = Some(format!("planned-{}", pool.name_any()));
                put(&mut world.pools, pool);
            }
            Write::LabelPool { name, labels } => {
                if let Some(pool) = world.pool(&name) {
                    let mut pool = (**pool).clone();
                    pool.labels_mut().extend(labels);
                    put(&mut world.pools, pool);
                }
            }
            Write::Status(status) => object = with_status(object, &json!(status)),
            Write::ControllerConfigStatus(status) => object = with_status(object, &json!(status)),
        }
    }
    object
}

fn with_status<K: Clone + serde::Serialize + DeserializeOwned>(object: K, status: &Value) -> K {
    let mut value = serde_json::to_value(&object).unwrap_or_default();
    value["status"] = status.clone();
    // What was an object with a status before is one with another status.
    serde_json::from_value(value).unwrap_or(object)
}

fn delete(world: &mut World, deletion: &Deletion) {
    world.machine_configs.retain(|object| object.name_any() != deletion.name);
}
