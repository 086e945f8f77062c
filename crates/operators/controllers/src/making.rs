//! How a pool's rendered MachineConfig is made: asked by the render controller, and by whoever wants to know beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};
use seaworthy_api::machineconfiguration::{
    API_VERSION, ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool,
    SettingsStatus,
};
use seaworthy_api::meta::{LabelSelector, Selection};
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, RenderReason, annotation, label};
use seaworthy_api::vocabulary::seaworthy::annotation::{BASE, SOURCES};
use seaworthy_fetch::{Digest, Environment, FetchError, Fetcher, Policy, Run, SnapshotKey, Snapshots};
use seaworthy_generate::base::{ROLES, failure as base_failure, is_complete, names};
use seaworthy_ignition::Node;
use seaworthy_plan::reconcilable::{self, Side, Source, irreconcilable};
use seaworthy_plan::render_condition::Failure;
use seaworthy_plan::revision::Sources;
use seaworthy_render::remote::{Resolver, Unavailable, Wanted};
use seaworthy_render::{Controller as Renderer, Finding, MachineConfig as Input, Pool, Prepared, prepare, render};
use serde_json::{Value, json};

/// How many digits of a digest tell two versions of a MachineConfig apart.
const DIGITS: usize = 16;

/// Where remote content comes from.
#[derive(Clone)]
pub struct Remote {
    /// What may be fetched.
    pub policy: Policy,
    /// What was fetched before.
    pub snapshots: Arc<dyn Snapshots>,
    /// Whether nothing is fetched.
    pub is_offline: bool,
}

/// What rendering looks at beside a pool and its MachineConfigs.
pub struct Surroundings<'a> {
    /// The ControllerConfig.
    pub controller_config: Option<&'a ControllerConfig>,
    /// The stream that the worker pool asks for.
    pub worker_stream: Option<String>,
    /// What the pool targets now, if it is there.
    pub current: Option<&'a MachineConfig>,
    /// The build of this program.
    pub build: &'a str,
    /// Whether everything worth knowing is looked for.
    pub wants_findings: bool,
    /// All MachineConfigs that pools may select: a pool that selects none of them is told what there is.
    pub sources: &'a [Arc<MachineConfig>],
}

/// A pool's new configuration.
pub struct Made {
    /// The rendered MachineConfig.
    pub object: MachineConfig,
    /// What it was made of, in the order of the merge.
    pub sources: Vec<String>,
    /// Whether a MachineConfig chooses the operating system image.
    pub is_image_overridden: bool,
    /// Everything worth knowing, if that was wanted.
    pub findings: Vec<Finding>,
    /// Why remote content that is in it could not be kept.
    pub unkept: Vec<String>,
}

/// The MachineConfigs that a pool selects. A selector that cannot be read selects none; rendering says so.
pub fn inputs(
    pool: &MachineConfigPool,
    sources: impl IntoIterator<Item = Arc<MachineConfig>>,
) -> Vec<Arc<MachineConfig>> {
    let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
    let is_selected = |input: &Arc<MachineConfig>| {
        selection.as_ref().is_some_and(|selection| selection.matches(input.metadata.labels.as_ref()))
    };
    sources.into_iter().filter(is_selected).collect()
}

/// What has to be made first by another controller.
pub struct Unready {
    /// What, for people.
    pub what: String,
    /// Whether it is likely to be made in a moment; otherwise it waits for somebody to put something right.
    pub will_pass: bool,
    /// Whether it is there, and only made by another build: to whoever looks from outside that is the same.
    pub is_made_elsewhere: bool,
}

/// What has to be made first by another controller; rendering before would roll out a state that nobody wants.
pub fn unready(
    pool: &MachineConfigPool,
    inputs: &[Arc<MachineConfig>],
    controller_config: Option<&ControllerConfig>,
    kubelet_configs: &[Arc<KubeletConfig>],
    container_runtime_configs: &[Arc<ContainerRuntimeConfig>],
    build: &str,
    exists: impl Fn(&str) -> bool,
) -> Option<Unready> {
    let passing = |what: String| Some(Unready { what, will_pass: true, is_made_elsewhere: false });
    if let Some(found) = controller_config.filter(|found| !is_complete(found)) {
        let base = format!("the base MachineConfigs of ControllerConfig {}", found.name_any());
        return match base_failure(found) {
            Some(why) => Some(Unready {
                what: format!("{base} cannot be made: {why}"),
                will_pass: false,
                is_made_elsewhere: false,
            }),
            None => passing(format!("{base} are being made")),
        };
    }
    // Whoever deletes what controllers keep has it back in a moment; nodes shall not learn of it.
    let mut base = base_names(pool).filter(|_| controller_config.is_some());
    if let Some(missing) = base.find(|name| !exists(name)) {
        return passing(format!("MachineConfig {missing} of the base is missing and is being made again"));
    }
    let finalizers = |metadata: &ObjectMeta| match metadata.deletion_timestamp {
        None => metadata.finalizers.clone().unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    let generated = format!("99-{}-generated-", pool.name_any());
    let of_settings = kubelet_configs.iter().flat_map(|object| finalizers(&object.metadata));
    let of_settings =
        of_settings.chain(container_runtime_configs.iter().flat_map(|object| finalizers(&object.metadata)));
    let is_missing = |name: &String| name.starts_with(&generated) && !exists(name);
    if let Some(missing) = of_settings.into_iter().find(is_missing) {
        return passing(format!("MachineConfig {missing} is missing and is being made"));
    }
    let labels = pool.metadata.labels.as_ref();
    let is_behind = |selector: Option<&LabelSelector>, generation: Option<i64>, status: Option<&SettingsStatus>| {
        let selection = selector.and_then(|selector| Selection::of(selector).ok()).unwrap_or_default();
        let observed = status.and_then(|status| status.observed_generation);
        !selection.is_empty() && selection.matches(labels) && observed != generation
    };
    for object in kubelet_configs {
        let selector = object.spec.machine_config_pool_selector.as_ref();
        if is_behind(selector, object.metadata.generation, object.status.as_ref()) {
            return passing(format!("KubeletConfig {} is being turned into MachineConfigs", object.name_any()));
        }
    }
    for object in container_runtime_configs {
        let selector = object.spec.machine_config_pool_selector.as_ref();
        if is_behind(selector, object.metadata.generation, object.status.as_ref()) {
            return passing(format!(
                "ContainerRuntimeConfig {} is being turned into MachineConfigs",
                object.name_any()
            ));
        }
    }
    let is_stale = |input: &&Arc<MachineConfig>| {
        let made_by = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&input.metadata).unwrap_or_default();
        let is_made_here = input.owner_references().iter().any(|owner| {
            ["ControllerConfig", "KubeletConfig", "ContainerRuntimeConfig"].contains(&owner.kind.as_str())
        });
        is_made_here && !made_by.is_empty() && made_by != build
    };
    let stale = inputs.iter().find(is_stale)?;
    let what = format!("MachineConfig {} was made by another build and is being made anew", stale.name_any());
    Some(Unready { what, will_pass: true, is_made_elsewhere: true })
}

/// The MachineConfigs of the platform's base that a pool selects.
fn base_names(pool: &MachineConfigPool) -> impl Iterator<Item = String> {
    let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
    let selects = move |role: &&str| {
        let labels = BTreeMap::from([(label::ROLE.as_str().to_owned(), (*role).to_owned())]);
        selection.as_ref().is_some_and(|selection| selection.matches(Some(&labels)))
    };
    ROLES.into_iter().filter(selects).flat_map(names)
}

/// Why a pool must not be rendered because the platform's base is going, or gone, with the ControllerConfig. Nodes that run
/// it would lose their kubelet. A cluster that never had a base is rendered as it is, and so is one where somebody has put
/// MachineConfigs of their own in the base's place.
pub fn lost_base(
    pool: &MachineConfigPool,
    controller_config: Option<&ControllerConfig>,
    pools: &[Arc<MachineConfigPool>],
    find: impl Fn(&str) -> Option<Arc<MachineConfig>>,
) -> Option<Failure> {
    if controller_config.is_some_and(|found| found.metadata.deletion_timestamp.is_none()) {
        return None;
    }
    let is_going = |found: Arc<MachineConfig>| is_owned_by_controller_config(&found);
    let lost: Vec<String> = base_names(pool).filter(|name| find(name).is_none_or(is_going)).collect();
    let had_base = |pool: &Arc<MachineConfigPool>| has_base(pool, targeted(pool).and_then(&find).as_deref());
    if lost.is_empty() || !pools.iter().any(had_base) {
        return None;
    }
    let what = if controller_config.is_some() { "is being deleted" } else { "is missing" };
    let message = format!(
        "ControllerConfig {CONTROLLER_CONFIG} {what}, and with it the base MachineConfigs of the platform ({}); without them \
         nodes would lose their kubelet, so the pool keeps what it has. Create the ControllerConfig again (`kubectl apply -f` \
         the manifest that it was made from; examples/controller-config.yaml shows one)",
        lost.join(", ")
    );
    Some(Failure { reason: RenderReason::ControllerConfigMissing, message })
}

/// Whether what a pool targets was made with the platform's base.
fn has_base(pool: &MachineConfigPool, rendered: Option<&MachineConfig>) -> bool {
    if let Some(said) = rendered.and_then(|rendered| BASE.of(&rendered.metadata)) {
        return !said.is_empty();
    }
    // Rendered by an older build, or by the upstream: by what it was made of.
    let sources = pool.spec.configuration.iter().flat_map(|found| found.source.iter().flatten());
    let sources: BTreeSet<&str> = sources.filter_map(|source| source.name.as_deref()).collect();
    ROLES.into_iter().any(|role| names(role).all(|name| sources.contains(name.as_str())))
}

pub(crate) fn is_owned_by_controller_config(object: &MachineConfig) -> bool {
    object.owner_references().iter().any(|owner| owner.kind == "ControllerConfig")
}

/// The ControllerConfig whose base is among the inputs; empty where none is.
fn base_in(inputs: &[Arc<MachineConfig>]) -> &'static str {
    let is_base = |input: &Arc<MachineConfig>| {
        let made_by = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&input.metadata).unwrap_or_default();
        let is_named = ROLES.into_iter().flat_map(names).any(|name| name == input.name_any());
        is_named && (is_owned_by_controller_config(input) || !made_by.is_empty())
    };
    if inputs.iter().any(is_base) { CONTROLLER_CONFIG } else { "" }
}

/// Makes a pool's rendered MachineConfig from those that it selects.
pub async fn make(
    pool: &MachineConfigPool,
    inputs: &[Arc<MachineConfig>],
    around: &Surroundings<'_>,
    remote: &Remote,
) -> Result<Made, Failure> {
    let texts: Vec<Value> = match inputs {
        // Nothing comes of it, but which there are is said.
        [] => around.sources.iter().map(|input| without_spec(input)).collect(),
        _ => inputs.iter().filter_map(|input| serde_json::to_value(&**input).ok()).collect(),
    };
    let read: Vec<Input<'_>> = texts.iter().zip(0..).map(|(text, nth)| numbered(text, nth)).collect();
    let mut prepared: Vec<Prepared<'_>> = read.iter().map(prepare).collect();
    let mut object = serde_json::to_value(pool).unwrap_or_default();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        // Which nodes and how many at a time is the roll-out's matter; a mistake there is told there.
        spec.retain(|key, _| !["maxUnavailable", "nodeSelector", "paused"].contains(&key.as_str()));
    }
    let view = Pool::read(&Node::from_json(&object)).map_err(|findings| Failure::of_findings(&findings))?;
    let context = rendering(around)?;
    if inputs.is_empty() {
        // Nothing is made of the others, whose specs are not here, though one of them may have come to be selected meanwhile: that
        // is looked at by itself.
        let found = render(&view, &prepared, &context).err();
        let only_now = || Failure {
            reason: RenderReason::NoMachineConfigs,
            message: format!("no MachineConfigs found matching the selector of pool {}", pool.name_any()),
        };
        return Err(found.map_or_else(only_now, |findings| Failure::of_findings(&findings)));
    }
    let unkept = remote.resolve(&mut prepared).await;
    let rendered = render(&view, &prepared, &context).map_err(|findings| {
        let failure = Failure::of_findings(&findings);
        if failure.reason == RenderReason::TooLarge { with_largest(failure, &texts) } else { failure }
    })?;

    let mut bytes = Vec::new();
    let unwritable = |error: &dyn std::fmt::Display| Failure {
        reason: RenderReason::InvalidMachineConfig,
        message: format!("the rendered MachineConfig cannot be written: {error}"),
    };
    rendered.write_json(&mut bytes).map_err(|error| unwritable(&error))?;
    let mut object: MachineConfig = serde_json::from_slice(&bytes).map_err(|error| unwritable(&error))?;
    object.metadata.owner_references = owner(pool).map(|owner| vec![owner]);
    let is_image_overridden = annotation::OS_IMAGE_URL_OVERRIDDEN.of(&object.metadata) == Some("true");
    let sources: Vec<String> = rendered.input_names().map(str::to_owned).collect();
    let digests = serde_json::to_string(&digests(inputs, &sources)).map_err(|error| unwritable(&error))?;
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCES.into(), digests);
    annotations.insert(BASE.into(), base_in(inputs).to_owned());

    let new = Side { config: rendered.spec.get("config"), is_fips: rendered.spec.bool_of("fips").unwrap_or_default() };
    let of_sources: Vec<Source<'_>> = prepared
        .iter()
        .map(|input| Source {
            name: input.source.name(),
            side: Side {
                config: input.config.as_ref(),
                is_fips: input.source.field("fips").and_then(Node::as_bool).unwrap_or_default(),
            },
        })
        .collect();
    check_reconcilable(around.current, &object.name_any(), new, &of_sources)?;
    let findings = if around.wants_findings { rendered.findings() } else { Vec::new() };
    Ok(Made { object, sources, is_image_overridden, findings, unkept })
}

/// Refuses to go back to a rendered MachineConfig that nodes which run the present target could not take over.
pub fn check_return(current: Option<&MachineConfig>, to: &MachineConfig) -> Result<(), Failure> {
    let text = serde_json::to_value(&to.spec).unwrap_or_default();
    let node = Node::from_json(&text);
    let new = Side { config: node.get("config"), is_fips: node.bool_of("fips").unwrap_or_default() };
    check_reconcilable(current, &to.name_any(), new, &[])
}

/// Refuses what nodes that run the present target could not take over.
fn check_reconcilable(
    current: Option<&MachineConfig>,
    name: &str,
    new: Side<'_>,
    sources: &[Source<'_>],
) -> Result<(), Failure> {
    // Where the targeted one is gone there is nothing to compare with.
    let Some(current) = current.filter(|current| current.name_any() != name) else { return Ok(()) };
    let text = serde_json::to_value(&current.spec).unwrap_or_default();
    let node = Node::from_json(&text);
    let old = Side { config: node.get("config"), is_fips: node.bool_of("fips").unwrap_or_default() };
    match irreconcilable(old, new, &[], sources).as_slice() {
        [] => Ok(()),
        found => {
            let message = reconcilable::message(&current.name_any(), found);
            Err(Failure { reason: RenderReason::Irreconcilable, message })
        }
    }
}

/// What one input refers to.
#[derive(Default)]
struct Asked {
    keys: BTreeSet<SnapshotKey>,
    has_failed: bool,
}

impl Remote {
    /// Embeds what inputs refer to. What cannot be had becomes a finding of the input; what cannot be kept is given back.
    async fn resolve(&self, prepared: &mut [Prepared<'_>]) -> Vec<String> {
        let mut resolver = Resolver::new(u32::try_from(prepared.len()).unwrap_or(u32::MAX));
        let mut run: Option<Run> = None;
        let mut unkept = Vec::new();
        let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
        loop {
            let mut requests = Vec::new();
            for input in prepared.iter_mut() {
                let asked = asked.entry(input.source.name().to_owned()).or_default();
                for Wanted { key, request } in resolver.resolve(input) {
                    asked.keys.insert(key);
                    requests.push((key, request));
                }
            }
            if requests.is_empty() {
                for (name, asked) in &asked {
                    self.snapshots.note(name, &asked.keys, !asked.has_failed);
                }
                return unkept;
            }
            // Known before it is kept, so that it is kept with whom it is for.
            asked.iter().for_each(|(name, asked)| self.snapshots.note(name, &asked.keys, false));
            let run = run.get_or_insert_with(|| self.run());
            let outcomes = run.obtain(&requests).await;
            for ((key, _), outcome) in requests.into_iter().zip(outcomes) {
                for problem in &outcome.problems {
                    tracing::warn!(%problem, "a snapshot cannot be kept");
                    unkept.push(problem.to_string());
                }
                if outcome.content.is_err() {
                    // What lies behind it is not known.
                    asked
                        .values_mut()
                        .filter(|asked| asked.keys.contains(&key))
                        .for_each(|asked| asked.has_failed = true);
                }
                resolver.answer(key, outcome.content.map_err(unavailable));
            }
        }
    }

    fn run(&self) -> Run {
        if self.is_offline {
            return Run::offline(self.policy.clone(), Arc::clone(&self.snapshots));
        }
        let fetcher =
            Fetcher::new(self.policy.clone(), Arc::new(SystemTime::now)).with_environment(Environment::of_process());
        Run::new(fetcher, Arc::clone(&self.snapshots))
    }
}

fn rendering(around: &Surroundings<'_>) -> Result<seaworthy_render::Context, Failure> {
    let controller_config = match around.controller_config {
        Some(found) => {
            let text = serde_json::to_value(found).unwrap_or_default();
            let read = seaworthy_render::ControllerConfig::read(&Node::from_json(&text));
            read.map_err(|findings| Failure::of_findings(&findings))?
        }
        None => seaworthy_render::ControllerConfig::default(),
    };
    Ok(seaworthy_render::Context {
        // Inputs of another build are waited for, see `unready`.
        controller: Renderer { build: around.build.to_owned(), ..Renderer::default() },
        controller_config,
        streams: None,
        worker_stream: around.worker_stream.clone(),
        keeps_references: false,
        refuses_large: true,
    })
}

/// What a history tells versions of the sources apart by.
pub(crate) fn digests(inputs: &[Arc<MachineConfig>], sources: &[String]) -> Sources {
    let digest = |name: &String| {
        let input = inputs.iter().find(|input| input.metadata.name.as_ref() == Some(name))?;
        let text = serde_json::to_vec(&input.spec).ok()?;
        let mut digest = Digest::sha256(&text).to_hex();
        digest.truncate(DIGITS);
        Some(digest)
    };
    sources.iter().map(|name| (name.clone(), digest(name).unwrap_or_default())).collect()
}

/// A MachineConfig with no more of it than what it is called and selected by: of the others there may be many, and large ones.
fn without_spec(object: &MachineConfig) -> Value {
    let metadata = &object.metadata;
    json!({
        "apiVersion": API_VERSION, "kind": "MachineConfig", "spec": {},
        "metadata": {"name": metadata.name, "labels": metadata.labels},
    })
}

fn numbered(text: &Value, nth: u32) -> Input<'_> {
    let mut node = Node::from_json(text);
    node.number(nth);
    Input::read(node)
}

/// Names the MachineConfigs that add most to a result that is too large.
fn with_largest(failure: Failure, inputs: &[Value]) -> Failure {
    const NAMED: usize = 3;
    let name = |input: &Value| input["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut sizes: Vec<(usize, String)> =
        inputs.iter().map(|input| (input["spec"].to_string().len(), name(input))).collect();
    sizes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let named: Vec<String> =
        sizes.iter().take(NAMED).map(|(size, name)| format!("MachineConfig {name} ({size} bytes)")).collect();
    Failure { message: format!("{}. The largest: {}", failure.message, named.join(", ")), ..failure }
}

/// A pool as owner of what is rendered for it.
pub(crate) fn owner(pool: &MachineConfigPool) -> Option<OwnerReference> {
    let mut owner = pool.controller_owner_ref(&())?;
    owner.block_owner_deletion = Some(true);
    Some(owner)
}

/// The name of what a pool targets.
pub fn targeted(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// Why content could not be had, with what those who run the controllers can do about it.
fn unavailable(error: FetchError) -> Unavailable {
    let advice = error
        .allow_pattern()
        .map(|pattern| format!("; if content may come from there, start the controllers with --allow-host {pattern}"));
    let mut unavailable = Unavailable::from(error);
    unavailable.message.extend(advice);
    unavailable
}

#[cfg(test)]
mod tests {
    use seaworthy_fetch::{Snapshot, SnapshotError};
    use serde_json::json;

    use super::*;

    fn pool(name: &str, sources: &[&str]) -> Arc<MachineConfigPool> {
        let sources: Vec<Value> = sources.iter().map(|name| json!({"name": name})).collect();
        let target = json!({"name": format!("rendered-{name}-1"), "source": sources});
        let selector = json!({"matchLabels": {label::ROLE.as_str(): name}});
        let spec = json!({"machineConfigSelector": selector, "configuration": target});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
    }

    fn machine_config(name: &str, metadata: Value) -> Arc<MachineConfig> {
        let mut object: MachineConfig = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        object.metadata.name = Some(name.to_owned());
        Arc::new(object)
    }

    fn controller_config(metadata: Value) -> ControllerConfig {
        ControllerConfig { metadata: serde_json::from_value(metadata).unwrap(), ..ControllerConfig::default() }
    }

    fn reason(
        pool: &MachineConfigPool,
        controller_config: Option<&ControllerConfig>,
        all: &[Arc<MachineConfig>],
    ) -> Option<String> {
        let find = |name: &str| all.iter().find(|found| found.name_any() == name).cloned();
        let pools = [Arc::new(pool.clone())];
        lost_base(pool, controller_config, &pools, find).map(|failure| {
            assert_eq!(failure.reason, RenderReason::ControllerConfigMissing);
            failure.message
        })
    }

    const BASE_OF_WORKER: [&str; 3] = ["00-worker", "01-worker-container-runtime", "01-worker-kubelet"];

    #[test]
    fn pool_that_has_the_base_is_not_rendered_without_it() {
        let pool = pool("worker", &BASE_OF_WORKER);
        let rendered = machine_config("rendered-worker-1", json!({"annotations": {BASE.as_str(): CONTROLLER_CONFIG}}));
        let there = controller_config(json!({}));
        assert_eq!(reason(&pool, Some(&there), std::slice::from_ref(&rendered)), None, "it is made again");
        let message = reason(&pool, None, std::slice::from_ref(&rendered)).unwrap();
        assert!(message.contains("ControllerConfig machine-config-controller is missing"), "{message}");
        assert!(message.contains("01-worker-kubelet") && message.contains("kubectl apply"), "{message}");
        let going = controller_config(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let message = reason(&pool, Some(&going), &[rendered]).unwrap();
        assert!(message.contains("is being deleted"), "{message}");
        assert!(reason(&pool, None, &[]).is_some(), "what was rendered by others is known by its sources");
    }

    #[test]
    fn base_that_is_about_to_be_collected_is_as_good_as_gone() {
        let owner = json!({"apiVersion": "v1", "kind": "ControllerConfig", "name": CONTROLLER_CONFIG, "uid": "1"});
        let base = |metadata: &Value| BASE_OF_WORKER.map(|name| machine_config(name, metadata.clone()));
        let pool = pool("worker", &BASE_OF_WORKER);
        assert!(reason(&pool, None, &base(&json!({"ownerReferences": [owner]}))).is_some());
        assert_eq!(reason(&pool, None, &base(&json!({}))), None, "somebody's own stand in its place");
    }

    #[test]
    fn cluster_without_a_controller_config_is_rendered_as_it_is() {
        let named = pool("worker", &["00-worker", "50-own"]);
        assert_eq!(reason(&named, None, &[]), None);
        let own = machine_config("rendered-worker-1", json!({"annotations": {BASE.as_str(): ""}}));
        assert_eq!(reason(&pool("worker", &BASE_OF_WORKER), None, &[own]), None, "they were somebody's own");
        let based = machine_config("rendered-infra-1", json!({"annotations": {BASE.as_str(): CONTROLLER_CONFIG}}));
        assert_eq!(reason(&pool("infra", &BASE_OF_WORKER), None, &[based]), None, "it selects nothing of the base");
    }

    /// Lets nobody say that a MachineConfig refers to anything, or to nothing.
    struct Silent;

    impl Snapshots for Silent {
        fn get(&self, _: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError> {
            Ok(None)
        }

        fn put(&self, _: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
            Ok(snapshot)
        }

        fn note(&self, machine_config: &str, _: &BTreeSet<SnapshotKey>, _: bool) {
            panic!("{machine_config} was not looked at");
        }

        fn retain(&self, _: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn of_configs_that_a_pool_does_not_select_nothing_is_made_and_nothing_forgotten() {
        let remote = Remote { policy: Policy::default(), snapshots: Arc::new(Silent), is_offline: true };
        // The second has come between two looks at the cache.
        for role in ["worker", "infra"] {
            let sources = [machine_config("50-a", json!({"labels": {label::ROLE.as_str(): role}}))];
            let around = Surroundings {
                controller_config: None,
                worker_stream: None,
                current: None,
                build: "b1",
                wants_findings: false,
                sources: &sources,
            };
            let failure = make(&pool("infra", &[]), &[], &around, &remote).await.err().unwrap();
            assert_eq!(failure.reason, RenderReason::NoMachineConfigs);
            assert!(failure.message.contains("no MachineConfigs found matching"), "{}", failure.message);
        }
    }
}
