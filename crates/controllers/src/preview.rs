//! What the plane would do, worked out beforehand with the functions that it decides with.
//!
//! - [`World::apply`] changes a cluster in thought, [`foresee`] lets the controllers decide about it until nothing is left
//!   to write, and [`outlook`] says how a pool's nodes come to its target.
//! - Nothing is written anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::operator::node_disruption_policy::NodeDisruptionPolicyClusterStatus;
use seaworthy_api::vocabulary::machineconfiguration::{NodeCondition, RenderReason, WORKER, annotation};
use seaworthy_generate::base::{self, Templates};
use seaworthy_generate::container_runtime::AdditionalStores;
use seaworthy_generate::{Deletion, Inputs, PoolOutcome, Report, Write, container_runtime, kubelet};
use seaworthy_plan::disruption::{Disruption, Level, disruption};
use seaworthy_plan::eviction::{Budgets, Evictions, Rules, evictions};
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::forecast::{Forecast, Past, estimate, forecast, pasts};
use seaworthy_plan::membership::Pools;
use seaworthy_plan::pin::{self, Pin};
use seaworthy_plan::promise::Promise;
use seaworthy_plan::render_condition::Failure;
use seaworthy_plan::rollout::{self, Partner};
use seaworthy_plan::waiting::{Reason, Waiting};
use seaworthy_plan::{policy, revision};
use seaworthy_render::Finding;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::making::{self, Remote, Surroundings, targeted};
use crate::rollout::{boots, partner, to_second};
use crate::world::{World, put};
use crate::writes::is_rendered;

/// How often controllers may answer each other. They come to rest after a few rounds, or never.
const ROUNDS: usize = 20;

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

/// How the nodes of a pool come to its target.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// What they should run.
    pub target: Option<String>,
    /// How many nodes may be away, or why that cannot be told.
    pub max_unavailable: Result<i64, String>,
    /// The nodes, by name.
    pub nodes: Vec<NodeOutlook>,
    /// Those that run the target, by name.
    pub updated: Vec<String>,
    /// Those that are given it next, in this order.
    pub chosen: Vec<String>,
    /// Those that wait, and why.
    pub waiting: Vec<Waiting>,
    /// How long it takes.
    pub forecast: Forecast,
    /// Whether no node is given anything.
    pub is_paused: bool,
    /// What the pool targets whatever its MachineConfigs say.
    pub pinned: Option<String>,
}

/// How one node comes to its pool's target.
#[derive(Clone, Debug)]
pub struct NodeOutlook {
    /// The node.
    pub name: String,
    /// What it runs.
    pub from: Option<String>,
    /// What the change does to it; `None` where what it runs, or the target, is not known.
    pub disruption: Option<Arc<Disruption>>,
    /// What keeps its pods, where they have to leave and are known.
    pub evictions: Option<Evictions>,
}

impl Outlook {
    /// The greatest disruption of a node that is still to move; what is not known is taken for a reboot.
    pub fn level(&self) -> Level {
        let moving = self.nodes.iter().filter(|node| node.from != self.target);
        let level = |node: &NodeOutlook| node.disruption.as_ref().map_or(Level::Reboot, |found| found.level);
        moving.map(level).max().unwrap_or_default()
    }
}

/// The outlook of a pool as it is; `None` if there is no such pool.
pub fn outlook(world: &World, name: &str, now: Timestamp) -> Option<Outlook> {
    let object = world.pool(name)?;
    let now = to_second(now);
    let progress: BTreeMap<&str, &MachineConfigNode> =
        world.progress.iter().map(|found| (found.spec.node.name.as_str(), &**found)).collect();
    let told = |name: Option<&str>| progress.get(name.unwrap_or_default()).copied();
    let views: Vec<NodeView<'_>> =
        world.nodes.iter().map(|node| NodeView::of(node, told(node.metadata.name.as_deref()))).collect();
    let pools = Pools::new(world.pools.iter().map(|pool| PoolView::of(pool)));
    let assignment = pools.assign(&views);
    let nodes = assignment.nodes_of(name);
    let infrastructure = world.controller_config().and_then(|found| found.spec.infra.as_ref()?.status.as_ref());
    let topology = infrastructure.and_then(|status| status.control_plane_topology.as_ref()).map(|word| word.as_str());
    let partner = partner(name, topology, &world.pools);
    let partner = partner.map(|pool| Partner { pool, nodes: assignment.nodes_of(pool.name) });
    let rendered: Vec<Arc<MachineConfig>> =
        world.machine_configs.iter().filter(|object| is_rendered(object)).map(Arc::clone).collect();
    let boots = boots(&world.pools, &rendered);
    let promised = Promise::of(object);
    let decision = rollout::decide(&rollout::Inputs {
        pool: PoolView::of(object),
        nodes,
        holds: &[],
        operator_nodes: &[],
        boots: &boots,
        partner,
        promised: &promised,
        now,
    });
    let target = targeted(object);
    let target_object = target.and_then(|target| world.machine_config(target));
    let policies = policies(world);
    let mut known: BTreeMap<String, Option<Arc<Disruption>>> = BTreeMap::new();
    let budgets = Budgets::new(world.budgets.iter().map(|budget| &**budget));
    let of_node = |node: &&NodeView<'_>| {
        let from = node.current_config;
        let found = from.and_then(|from| {
            let of_change = || {
                let (old, new) = (world.machine_config(from)?, target_object?);
                Some(Arc::new(disruption(&old.spec, &new.spec, Some(&policies))))
            };
            known.entry(from.to_owned()).or_insert_with(of_change).clone()
        });
        let needs_drain = from != target && found.as_ref().is_none_or(|found| found.needs_drain());
        let pods = world.pods.as_ref().filter(|_| needs_drain).map(|pods| {
            let is_here = |pod: &&Arc<k8s_openapi::api::core::v1::Pod>| {
                pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node.name)
            };
            let pods: Vec<_> = pods.iter().filter(is_here).map(|pod| &**pod).collect();
            evictions(&pods, &budgets, Rules::default())
        });
        NodeOutlook { name: node.name.to_owned(), from: from.map(str::to_owned), disruption: found, evictions: pods }
    };
    let mut of_nodes: Vec<NodeOutlook> = nodes.iter().map(of_node).collect();
    of_nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let max = decision.max_unavailable.as_ref().map(|max| *max).map_err(ToString::to_string);
    let mut outlook = Outlook {
        target: target.map(str::to_owned),
        nodes: of_nodes,
        updated: decision.updated.iter().map(|name| (*name).to_owned()).collect(),
        chosen: decision.chosen.iter().map(|name| (*name).to_owned()).collect(),
        forecast: forecast(&[], 0, 0, estimate(Level::None, &[])),
        is_paused: object.spec.paused == Some(true),
        pinned: pin::name(object).map(str::to_owned),
        max_unavailable: max,
        waiting: decision.waiting,
    };
    let is_waiting = |name: &str, is: fn(&Reason) -> bool| {
        outlook.waiting.iter().any(|waiting| waiting.node == name && is(&waiting.reason))
    };
    let is_next = |reason: &Reason| matches!(reason, Reason::Budget { .. } | Reason::RunsOperator);
    let is_busy = |reason: &Reason| matches!(reason, Reason::Updating { .. } | Reason::DrainBlocked { .. });
    let mut later: Vec<&NodeView<'_>> = nodes.iter().copied().filter(|node| is_waiting(node.name, is_next)).collect();
    rollout::in_order(&mut later);
    let order: Vec<&str> = decision.chosen.iter().copied().chain(later.iter().map(|node| node.name)).collect();
    let busy = nodes.iter().filter(|node| is_waiting(node.name, is_busy)).count();
    let budget = outlook.max_unavailable.as_ref().map_or(0, |max| *max);
    let level = outlook.level();
    let each = estimate(level, &history(world, object, nodes, budget));
    outlook.forecast = forecast(&order, budget, busy, each);
    if order.is_empty() && busy > 0 {
        // The last ones are on their way.
        outlook.forecast.seconds = each.seconds;
    }
    Some(outlook)
}

/// How long nodes took to come to what the pool targets, or had before.
fn history(world: &World, pool: &MachineConfigPool, nodes: &[&NodeView<'_>], budget: i64) -> Vec<Past> {
    let revisions = revision::revisions(pool, world.machine_configs.iter().map(|object| &**object));
    let budget = usize::try_from(budget).unwrap_or(1);
    let policies = policies(world);
    let mut all = Vec::new();
    for pair in revisions.windows(2) {
        let [old, new] = pair else { continue };
        let Some(start) = new.created else { continue };
        let done = world.progress.iter().filter(|found| {
            nodes.iter().any(|node| node.name == found.spec.node.name && node.current_config == Some(new.name))
        });
        let done = done.filter_map(|found| {
            let conditions = found.status.as_ref()?.conditions.as_ref()?;
            let updated = conditions.iter().find(|condition| condition.type_ == NodeCondition::Updated.as_str())?;
            (updated.status == ConditionStatus::True).then_some(updated.last_transition_time.0)
        });
        let level = disruption(&old.object.spec, &new.object.spec, Some(&policies)).level;
        all.extend(pasts(start, &done.collect::<Vec<_>>(), budget, level));
    }
    all
}

/// The disruption policies of a cluster: as its operator reports them, or else from what its user asks for.
fn policies(world: &World) -> NodeDisruptionPolicyClusterStatus {
    let object = crate::world::named(&world.policies, "cluster");
    let reported = object
        .and_then(|object| object.status.as_ref()?.node_disruption_policy_status.as_ref()?.cluster_policies.clone());
    reported
        .unwrap_or_else(|| policy::of_cluster(object.and_then(|object| object.spec.node_disruption_policy.as_ref())))
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
    Foresight { pools, problems }
}

/// Brings about, in thought, that a pool targets what the render controller would have it target.
async fn target(
    world: &mut World,
    name: &str,
    changed: &BTreeSet<String>,
    means: &Means,
) -> (Option<Failure>, Vec<Finding>) {
    let Some(pool) = world.pool(name).cloned() else { return (None, Vec::new()) };
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
    );
    // What another build has made is made anew before: the same, as far as can be told from here.
    if let Some(message) = unready.filter(|text| !text.contains("another build")) {
        return (Some(Failure { reason: RenderReason::InputsNotReady, message }), Vec::new());
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

/// Lets the controllers that make MachineConfigs decide until nothing is left to write.
fn settle(world: &mut World, means: &Means) -> Vec<String> {
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
    controller_config: Option<&'a seaworthy_api::machineconfiguration::ControllerConfig>,
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

/// What became of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Applied {
    /// It is new.
    New,
    /// It changes an object.
    Changed,
    /// It changes nothing.
    Same,
    /// Nothing here looks at objects of its kind.
    Ignored,
}

impl World {
    /// Applies a manifest, in thought.
    ///
    /// # Errors
    ///
    /// If it is not an object of its kind.
    pub fn apply(&mut self, manifest: &Value, now: Timestamp) -> Result<Applied, String> {
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        match (group, text("kind")) {
            ("machineconfiguration.openshift.io", "MachineConfigPool") => merge(&mut self.pools, manifest, now),
            ("machineconfiguration.openshift.io", "MachineConfig") => merge(&mut self.machine_configs, manifest, now),
            ("machineconfiguration.openshift.io", "KubeletConfig") => merge(&mut self.kubelet_configs, manifest, now),
            ("machineconfiguration.openshift.io", "ContainerRuntimeConfig") => {
                merge(&mut self.container_runtime_configs, manifest, now)
            }
            ("machineconfiguration.openshift.io", "ControllerConfig") => {
                merge(&mut self.controller_configs, manifest, now)
            }
            ("machineconfiguration.openshift.io", "MachineConfigNode") => merge(&mut self.progress, manifest, now),
            ("operator.openshift.io", "MachineConfiguration") => merge(&mut self.policies, manifest, now),
            ("", "Node") => merge(&mut self.nodes, manifest, now),
            ("", "Pod") => merge(self.pods.get_or_insert_default(), manifest, now),
            ("policy", "PodDisruptionBudget") => merge(&mut self.budgets, manifest, now),
            _ => Ok(Applied::Ignored),
        }
    }
}

/// What applying changes: labels and annotations are added, the rest of the manifest takes the place of what was there. What
/// the API itself or a controller writes stays.
fn merge<K>(objects: &mut Vec<Arc<K>>, manifest: &Value, now: Timestamp) -> Result<Applied, String>
where
    K: Resource<DynamicType = ()> + Clone + serde::Serialize + DeserializeOwned,
{
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let kind = K::kind(&());
    if name.is_empty() {
        return Err(format!("a {kind} has no metadata.name; give it one"));
    }
    let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
    let is_it = |object: &&Arc<K>| {
        object.meta().name.as_deref() == Some(name)
            && (namespace.is_none() || object.meta().namespace.as_deref() == namespace)
    };
    let old = objects.iter().position(|object| is_it(&object));
    let before = old.map(|at| serde_json::to_value(&*objects[at]).unwrap_or_default());
    let mut new = manifest.clone();
    match &before {
        None => {
            let metadata = &mut new["metadata"];
            let mut fill = |key: &str, value: Value| {
                if metadata.get(key).is_none_or(Value::is_null) {
                    metadata[key] = value;
                }
            };
            fill("uid", json!(format!("planned-{}-{name}", kind.to_lowercase())));
            fill("generation", json!(1));
            fill("creationTimestamp", json!(to_second(now).to_string()));
        }
        Some(before) => {
            let mut metadata = before["metadata"].clone();
            for key in ["labels", "annotations"] {
                for (label, value) in manifest["metadata"].get(key).and_then(Value::as_object).into_iter().flatten() {
                    metadata[key][label] = value.clone();
                }
            }
            new["metadata"] = metadata;
            if let Some(status) = before.get("status") {
                new["status"] = status.clone();
            }
            if let Some(configuration) = before.pointer("/spec/configuration").filter(|_| kind == "MachineConfigPool") {
                new["spec"]["configuration"] = configuration.clone();
            }
        }
    }
    let read =
        |value: &Value| serde_json::from_value::<K>(value.clone()).map_err(|error| format!("{kind} {name}: {error}"));
    let mut object = read(&new)?;
    let after = serde_json::to_value(&object).unwrap_or_default();
    let Some((before, at)) = before.zip(old) else {
        objects.push(Arc::new(object));
        return Ok(Applied::New);
    };
    if after == before {
        return Ok(Applied::Same);
    }
    if after.get("spec") != before.get("spec") {
        object.meta_mut().generation = Some(object.meta().generation.unwrap_or_default() + 1);
    }
    objects[at] = Arc::new(object);
    Ok(Applied::Changed)
}
