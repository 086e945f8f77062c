//! What the plane would do, worked out beforehand with the functions that it decides with.
//!
//! - [`World::apply`] changes a cluster in thought, [`foresee`] lets the controllers decide about it until nothing is left
//!   to write, and [`outlook`] says how a pool's nodes come to its target.
//! - Nothing is written anywhere.

mod admission;
mod application;
mod outlook;
mod settlement;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{RenderReason, WORKER};
use seaworthy_generate::base::Templates;
use seaworthy_plan::pin::{self, Pin};
use seaworthy_plan::render_condition::Failure;
use seaworthy_plan::waiting::Waiting;
use seaworthy_render::Finding;

pub use self::admission::{Admission, Objection};
pub use self::application::{Application, Applied};
pub use self::outlook::{NodeOutlook, Outlook, Strays, outlook, strays};
use self::settlement::settle;
use crate::making::{self, Remote, Surroundings, targeted};
use crate::world::{World, put};
use crate::writes::is_rendered;

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
}

/// What would be.
pub struct Foresight {
    /// The pools, by name.
    pub pools: Vec<PoolForesight>,
    /// The nodes that take their configuration from no pool, and why.
    pub without_pool: Vec<Waiting>,
    /// What is wrong, or worth knowing, beside the pools.
    pub problems: Vec<String>,
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
    let mut pools = Vec::new();
    for (name, (failure, findings)) in made {
        let Some(outlook) = outlook(&after, &name, means.now) else { continue };
        let of = |world: &World| {
            let name = targeted(world.pool(&name)?)?;
            world.machine_config(name).cloned()
        };
        pools.push(PoolForesight { before: of(before), after: of(&after), failure, findings, outlook, name });
    }
    let gone: Vec<String> =
        before.pools.iter().map(|pool| pool.name_any()).filter(|name| !names.contains(name)).collect();
    problems.extend(gone.iter().map(|name| format!("pool {name} is not there any more")));
    let strays = strays(&after);
    problems.extend(strays.problems);
    Foresight { pools, without_pool: strays.nodes, problems }
}

/// Brings about, in thought, that a pool targets what the render controller would have it target.
async fn target(
    world: &mut World,
    name: &str,
    changed: &BTreeSet<String>,
    means: &Means,
) -> (Option<Failure>, Vec<Finding>) {
    let pool = world.pool(name).filter(|pool| pool.metadata.deletion_timestamp.is_none());
    let Some(pool) = pool.cloned() else { return (None, Vec::new()) };
    let current = targeted(&pool).and_then(|name| world.machine_config(name)).cloned();
    match pin::of(&pool, |name| world.machine_config(name).map(|found| &**found)) {
        Pin::Free => {}
        Pin::To(object) => {
            let failure = making::check_return(current.as_deref(), object).err();
            if failure.is_none() {
                let name = object.name_any();
                set_target(world, &pool, &name);
            }
            return (failure, Vec::new());
        }
        Pin::Unusable(unusable) => {
            let reason = RenderReason::PinnedConfigurationUnusable;
            return (Some(Failure { reason, message: unusable.to_string() }), Vec::new());
        }
    }
    let sources = world.machine_configs.iter().filter(|object| !is_rendered(object)).cloned();
    let inputs = making::inputs(&pool, sources);
    let controller_config = world.controller_config().cloned();
    let unready = making::unready(
        &pool,
        &inputs,
        controller_config.as_deref(),
        &world.kubelet_configs,
        &world.container_runtime_configs,
        &means.build,
        |name| world.machine_config(name).is_some(),
    );
    // What another build has made is made anew before: the same, as far as can be told from here.
    if let Some(unready) = unready.filter(|unready| !unready.what.contains("another build")) {
        return (Some(Failure { reason: RenderReason::InputsNotReady, message: unready.what }), Vec::new());
    }
    let worker = world.pool(WORKER).and_then(|pool| pool.spec.os_image_stream.as_ref());
    let around = Surroundings {
        controller_config: controller_config.as_deref(),
        worker_stream: worker.map(|stream| stream.name.clone()),
        current: current.as_deref(),
        build: &means.build,
        wants_findings: true,
    };
    match making::make(&pool, &inputs, &around, &means.remote).await {
        Err(failure) => (Some(failure), Vec::new()),
        Ok(made) => {
            let name = made.object.name_any();
            if world.machine_config(&name).is_none() {
                let mut object = made.object;
                object.metadata.creation_timestamp = Some(Time(means.now));
                put(&mut world.machine_configs, object);
            }
            set_target(world, &pool, &name);
            let concerns = |finding: &Finding| finding.places.iter().any(|place| changed.contains(&place.name));
            (None, made.findings.into_iter().filter(concerns).collect())
        }
    }
}

fn set_target(world: &mut World, pool: &MachineConfigPool, name: &str) {
    let mut pool = pool.clone();
    pool.spec.configuration.get_or_insert_default().name = Some(name.to_owned());
    put(&mut world.pools, pool);
}

/// The source MachineConfigs that differ between two worlds.
fn changed(before: &World, after: &World) -> BTreeSet<String> {
    let differs = |object: &&Arc<MachineConfig>| {
        let old = before.machine_config(&object.name_any());
        !is_rendered(object) && old.is_none_or(|old| old.spec != object.spec || old.labels() != object.labels())
    };
    after.machine_configs.iter().filter(differs).map(|object| object.name_any()).collect()
}
