//! How a pool's rendered MachineConfig is made: asked by the render controller, and by whoever wants to know beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{RenderReason, annotation};
use seaworthy_api::vocabulary::seaworthy::annotation::{BASE, SOURCES};
use seaworthy_fetch::{Digest, Environment, FetchError, Fetcher, Policy, Run, SnapshotKey, Snapshots};
use seaworthy_ignition::Node;
use seaworthy_plan::disruption::reconcilable::{Side, Source};
use seaworthy_plan::history::revision::Sources;
use seaworthy_plan::rendering::base::base_in;
use seaworthy_plan::rendering::condition::Failure;
use seaworthy_plan::rendering::transition::check_reconcilable;
use seaworthy_plan::rendering::{RenderedPool, owner};
use seaworthy_render::remote::{Resolver, Unavailable, Wanted};
use seaworthy_render::{Controller as Renderer, MachineConfig as Input, Pool, Prepared, prepare, render};

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

/// Makes a pool's rendered MachineConfig from those that it selects.
pub async fn make(
    pool: &MachineConfigPool,
    inputs: &[Arc<MachineConfig>],
    around: &Surroundings<'_>,
    remote: &Remote,
) -> Result<RenderedPool, Failure> {
    let read: Vec<Input<'_>> = match inputs {
        // There is nothing to render, but the message lists what could be selected.
        [] => around.sources.iter().zip(0..).map(|(input, nth)| Input::without_spec(input, nth)).collect(),
        _ => inputs.iter().zip(0..).map(|(input, nth)| Input::of(input, nth)).collect(),
    };
    let mut prepared: Vec<Prepared<'_>> = read.iter().map(prepare).collect();
    let view = Pool::of(pool).map_err(|findings| Failure::of_findings(&findings))?;
    let context = rendering(around);
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
    let unstored = remote.resolve(&mut prepared).await;
    let rendered = render(&view, &prepared, &context).map_err(|findings| {
        let failure = Failure::of_findings(&findings);
        if failure.reason == RenderReason::TooLarge { with_largest(failure, inputs) } else { failure }
    })?;

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
    check_reconcilable(around.current, &rendered.name, new, &of_sources)?;
    let findings = if around.wants_findings { rendered.findings() } else { Vec::new() };
    let sources: Vec<String> = rendered.input_names().map(str::to_owned).collect();
    let digests = serde_json::to_string(&digests(inputs, &sources)).map_err(|error| Failure {
        reason: RenderReason::InvalidMachineConfig,
        message: format!("the rendered MachineConfig cannot be written: {error}"),
    })?;
    let mut object = rendered.into_object();
    object.metadata.owner_references = owner(pool).map(|owner| vec![owner]);
    let is_image_overridden = annotation::OS_IMAGE_URL_OVERRIDDEN.of(&object.metadata) == Some("true");
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCES.into(), digests);
    annotations.insert(BASE.into(), base_in(inputs).to_owned());
    Ok(RenderedPool { object, sources, is_image_overridden, findings, unstored })
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

fn rendering(around: &Surroundings<'_>) -> seaworthy_render::Context {
    seaworthy_render::Context {
        // Inputs of another build are waited for, see `unready`.
        controller: Renderer { build: around.build.to_owned(), ..Renderer::default() },
        controller_config: around.controller_config.map(seaworthy_render::ControllerConfig::of).unwrap_or_default(),
        streams: None,
        worker_stream: around.worker_stream.clone(),
        keeps_references: false,
        refuses_large: true,
    }
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

/// Names the MachineConfigs that add most to a result that is too large.
fn with_largest(failure: Failure, inputs: &[Arc<MachineConfig>]) -> Failure {
    const NAMED: usize = 3;
    let size = |input: &MachineConfig| serde_json::to_vec(&input.spec).map_or(0, |text| text.len());
    let mut sizes: Vec<(usize, String)> = inputs.iter().map(|input| (size(input), input.name_any())).collect();
    sizes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let named: Vec<String> =
        sizes.iter().take(NAMED).map(|(size, name)| format!("MachineConfig {name} ({size} bytes)")).collect();
    Failure { message: format!("{}. The largest: {}", failure.message, named.join(", ")), ..failure }
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
    use seaworthy_api::vocabulary::machineconfiguration::label;
    use seaworthy_fetch::{Snapshot, SnapshotError};
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
