//! Rendering of one pool, for the render controller and for previews: resolves remote content, renders and checks the result.

use std::sync::Arc;
use std::time::SystemTime;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{RenderReason, annotation};
use seaworthy_api::vocabulary::seaworthy::annotation::{BASE, SOURCES};
use seaworthy_fetch::{Digest, Environment, FetchError, FetchRun, Fetcher, Policy, Snapshots};
use seaworthy_ignition::Node;
use seaworthy_plan::disruption::reconcilable::{ConfigSide, ConfigSource};
use seaworthy_plan::history::revision::Sources;
use seaworthy_plan::rendering::base::base_in;
use seaworthy_plan::rendering::condition::RenderFailure;
use seaworthy_plan::rendering::transition::check_reconcilable;
use seaworthy_plan::rendering::{RenderedPool, owner};
use seaworthy_render::remote::{ContentRequest, Resolution};
use seaworthy_render::{Context, MachineConfig as Input, Pool, Prepared, prepare, render};

/// How many digits of a digest are kept to distinguish two versions of a MachineConfig.
const DIGEST_DIGITS: usize = 16;

/// The source of remote content.
#[derive(Clone)]
pub struct Remote {
    pub policy: Policy,
    pub snapshots: Arc<dyn Snapshots>,
    /// Whether only snapshots are used.
    pub is_offline: bool,
}

/// The inputs of rendering besides the pool and its MachineConfigs.
pub struct RenderContext<'a> {
    pub controller_config: Option<&'a ControllerConfig>,
    /// The OS image stream of the worker pool.
    pub worker_stream: Option<String>,
    /// The pool's present target, if it exists.
    pub current: Option<&'a MachineConfig>,
    pub build: &'a str,
    /// Whether findings of all severities are collected.
    pub wants_findings: bool,
    /// All MachineConfigs that pools may select: the failure of a pool that selects none lists them.
    pub sources: &'a [Arc<MachineConfig>],
}

/// Renders a pool from the MachineConfigs that it selects.
pub async fn render_pool(
    pool: &MachineConfigPool,
    inputs: &[Arc<MachineConfig>],
    context: &RenderContext<'_>,
    remote: &Remote,
) -> Result<RenderedPool, RenderFailure> {
    let read: Vec<Input<'_>> = match inputs {
        // There is nothing to render, but the message lists what could be selected.
        [] => context.sources.iter().zip(0..).map(|(input, nth)| Input::without_spec(input, nth)).collect(),
        _ => inputs.iter().zip(0..).map(|(input, nth)| Input::of(input, nth)).collect(),
    };
    let mut prepared: Vec<Prepared<'_>> = read.iter().map(prepare).collect();
    let view = Pool::of(pool).map_err(|findings| RenderFailure::of_findings(&findings))?;
    let controller_config = context.controller_config.map(seaworthy_render::ControllerConfig::of).unwrap_or_default();
    let renderer_context = Context::new(context.build, controller_config, context.worker_stream.clone());
    if inputs.is_empty() {
        // The others are not rendered, because their specs are left out; if one of them is selected meanwhile, that triggers
        // another reconcile.
        let found = render(&view, &prepared, &renderer_context).err();
        let none_selected = || RenderFailure {
            reason: RenderReason::NoMachineConfigs,
            message: format!("no MachineConfigs found matching the selector of pool {}", pool.name_any()),
        };
        return Err(found.map_or_else(none_selected, |findings| RenderFailure::of_findings(&findings)));
    }
    let unstored = remote.resolve(&mut prepared).await;
    let rendered = render(&view, &prepared, &renderer_context).map_err(|findings| {
        let failure = RenderFailure::of_findings(&findings);
        if failure.reason == RenderReason::TooLarge { with_largest(failure, inputs) } else { failure }
    })?;

    let new =
        ConfigSide { config: rendered.spec.get("config"), is_fips: rendered.spec.bool_of("fips").unwrap_or_default() };
    let of_sources: Vec<ConfigSource<'_>> = prepared
        .iter()
        .map(|input| ConfigSource {
            name: input.source.name(),
            side: ConfigSide {
                config: input.config.as_ref(),
                is_fips: input.source.field("fips").and_then(Node::as_bool).unwrap_or_default(),
            },
        })
        .collect();
    check_reconcilable(context.current, &rendered.name, new, &of_sources)?;
    let findings = if context.wants_findings { rendered.findings() } else { Vec::new() };
    let sources: Vec<String> = rendered.input_names().map(str::to_owned).collect();
    let digests = serde_json::to_string(&digests(inputs, &sources)).map_err(|error| RenderFailure {
        reason: RenderReason::InvalidMachineConfig,
        message: format!("the rendered MachineConfig cannot be serialized: {error}"),
    })?;
    let mut object = rendered.into_object();
    object.metadata.owner_references = owner(pool).map(|owner| vec![owner]);
    let is_image_overridden = annotation::OS_IMAGE_URL_OVERRIDDEN.of(&object.metadata) == Some("true");
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCES.into(), digests);
    annotations.insert(BASE.into(), base_in(inputs).to_owned());
    Ok(RenderedPool { object, sources, is_image_overridden, findings, unstored })
}

impl Remote {
    /// Embeds the remote content of inputs. A failed fetch becomes a finding of the input; snapshots that cannot be stored are
    /// returned as messages.
    async fn resolve(&self, prepared: &mut [Prepared<'_>]) -> Vec<String> {
        let documents = u32::try_from(prepared.len()).unwrap_or(u32::MAX);
        let mut resolution = Resolution::new(prepared, documents);
        let mut run: Option<FetchRun> = None;
        let mut unstored = Vec::new();
        loop {
            let needed = resolution.needed();
            if needed.is_empty() {
                for (name, references) in resolution.references() {
                    self.snapshots.note(name, &references.keys, !references.has_failed);
                }
                return unstored;
            }
            // Noted before it is stored, so that it is stored with the MachineConfig that refers to it.
            for (name, references) in resolution.references() {
                self.snapshots.note(name, &references.keys, false);
            }
            let run = run.get_or_insert_with(|| self.run());
            let requests: Vec<_> = needed.into_iter().map(|ContentRequest { key, request }| (key, request)).collect();
            let outcomes = run.obtain(&requests).await;
            for ((key, _), outcome) in requests.into_iter().zip(outcomes) {
                for problem in &outcome.problems {
                    tracing::warn!(%problem, "cannot store snapshot");
                    unstored.push(problem.to_string());
                }
                resolution.answer(key, outcome.content, advice);
            }
        }
    }

    fn run(&self) -> FetchRun {
        if self.is_offline {
            return FetchRun::offline(self.policy.clone(), Arc::clone(&self.snapshots));
        }
        let fetcher =
            Fetcher::new(self.policy.clone(), Arc::new(SystemTime::now)).with_environment(Environment::of_process());
        FetchRun::new(fetcher, Arc::clone(&self.snapshots))
    }
}

/// Digests of the sources, by which a pool's history distinguishes their versions.
pub(crate) fn digests(inputs: &[Arc<MachineConfig>], sources: &[String]) -> Sources {
    let digest = |name: &String| {
        let input = inputs.iter().find(|input| input.metadata.name.as_ref() == Some(name))?;
        let text = serde_json::to_vec(&input.spec).ok()?;
        let mut digest = Digest::sha256(&text).to_hex();
        digest.truncate(DIGEST_DIGITS);
        Some(digest)
    };
    sources.iter().map(|name| (name.clone(), digest(name).unwrap_or_default())).collect()
}

/// Names the MachineConfigs that add most to a result that is too large.
fn with_largest(failure: RenderFailure, inputs: &[Arc<MachineConfig>]) -> RenderFailure {
    const MAX_NAMED: usize = 3;
    let size = |input: &MachineConfig| serde_json::to_vec(&input.spec).map_or(0, |text| text.len());
    let mut sizes: Vec<(usize, String)> = inputs.iter().map(|input| (size(input), input.name_any())).collect();
    sizes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let named: Vec<String> =
        sizes.iter().take(MAX_NAMED).map(|(size, name)| format!("MachineConfig {name} ({size} bytes)")).collect();
    RenderFailure { message: format!("{}. The largest: {}", failure.message, named.join(", ")), ..failure }
}

/// The option of the controllers that helps against a fetch error.
fn advice(error: &FetchError) -> Option<String> {
    let pattern = error.allow_pattern()?;
    Some(format!("; if content may come from there, start the controllers with --allow-host {pattern}"))
}

#[cfg(test)]
mod tests {
    use seaworthy_api::vocabulary::machineconfiguration::label;
    use std::collections::BTreeSet;

    use seaworthy_fetch::{Snapshot, SnapshotError, SnapshotKey};
    use serde_json::{Value, json};

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

    /// Panics when references of a MachineConfig are noted.
    struct NoReferences;

    impl Snapshots for NoReferences {
        fn get(&self, _: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError> {
            Ok(None)
        }

        fn put(&self, _: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
            Ok(snapshot)
        }

        fn note(&self, machine_config: &str, _: &BTreeSet<SnapshotKey>, _: bool) {
            panic!("{machine_config} is not rendered");
        }

        fn retain(&self, _: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn unselected_configs_are_not_rendered_and_their_references_are_kept() {
        let remote = Remote { policy: Policy::default(), snapshots: Arc::new(NoReferences), is_offline: true };
        // The second was created between two reads of the cache.
        for role in ["worker", "infra"] {
            let sources = [machine_config("50-a", json!({"labels": {label::ROLE.as_str(): role}}))];
            let context = RenderContext {
                controller_config: None,
                worker_stream: None,
                current: None,
                build: "b1",
                wants_findings: false,
                sources: &sources,
            };
            let failure = render_pool(&pool("infra", &[]), &[], &context, &remote).await.err().unwrap();
            assert_eq!(failure.reason, RenderReason::NoMachineConfigs);
            assert!(failure.message.contains("no MachineConfigs found matching"), "{}", failure.message);
        }
    }
}
