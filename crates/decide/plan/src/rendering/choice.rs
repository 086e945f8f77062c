//! Render choice: whether a pool is rendered, stays pinned, waits, or cannot be rendered.
//!
//! The render controller and the preview ask the same function.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool, SettingsStatus,
};
use seaworthy_api::meta::{LabelSelector, Selection, is_owner};
use seaworthy_api::vocabulary::machineconfiguration::{RenderReason, annotation};
use seaworthy_generate::base::{failure as base_failure, is_complete};

use super::base::{base_names, lost_base};
use super::built_in::missing_pool;
use super::name_of;
use crate::history::pin::{self, Pin};
use crate::rendering::condition::RenderFailure;

/// Everything that the choice may look at.
pub struct ChoiceInputs<'a> {
    pub pool: &'a MachineConfigPool,
    pub objects: &'a ChoiceObjects<'a>,
    /// The build of this program.
    pub build: &'a str,
    /// Whether the objects are all that the cluster has. Of manifests alone it is not known whether what is missing has been
    /// deleted or was never given.
    pub is_cluster: bool,
    /// Whether MachineConfigs that another build generated are taken as they are instead of waited for.
    pub accepts_other_builds: bool,
}

/// Finds a MachineConfig by name.
pub type Find<'a> = Box<dyn Fn(&str) -> Option<Arc<MachineConfig>> + 'a>;

/// The objects of a cluster that the choice may look at.
pub struct ChoiceObjects<'a> {
    pub pools: Cow<'a, [Arc<MachineConfigPool>]>,
    /// The MachineConfigs that pools may select: those that are not rendered.
    pub sources: Vec<Arc<MachineConfig>>,
    /// Finds a MachineConfig by name, rendered or not.
    pub find: Find<'a>,
    pub controller_config: Option<Arc<ControllerConfig>>,
    pub kubelet_configs: Cow<'a, [Arc<KubeletConfig>]>,
    pub container_runtime_configs: Cow<'a, [Arc<ContainerRuntimeConfig>]>,
}

/// What to do about a pool.
pub enum Choice {
    /// The pool is being deleted: nothing.
    Deleted,
    /// It targets the rendered MachineConfig that it is pinned to.
    Pinned(Arc<MachineConfig>),
    /// It keeps its target, because it cannot be rendered.
    Refused(RenderFailure),
    /// It keeps its target until another controller has generated what it needs.
    Wait(MissingInput),
    /// It is rendered from these MachineConfigs.
    Render(Vec<Arc<MachineConfig>>),
}

/// Chooses what to do about a pool.
pub fn choose(inputs: &ChoiceInputs<'_>) -> Choice {
    let ChoiceInputs { pool, objects, .. } = *inputs;
    let ChoiceObjects { pools, sources, find, kubelet_configs, container_runtime_configs, .. } = objects;
    let controller_config = objects.controller_config.as_deref();
    if pool.metadata.deletion_timestamp.is_some() {
        return Choice::Deleted;
    }
    let pinned = pin::name(pool).and_then(find);
    match pin::of(pool, |_| pinned.as_deref()) {
        Pin::Free => {}
        Pin::To(_) => return pinned.map_or(Choice::Deleted, Choice::Pinned),
        Pin::Invalid(error) => {
            let reason = RenderReason::PinnedConfigurationUnusable;
            return Choice::Refused(RenderFailure { reason, message: error.to_string() });
        }
    }
    if let Some(role) = missing_pool(controller_config, pools) {
        let what = format!("MachineConfigPool {role} is missing and is being created again");
        return Choice::Wait(MissingInput { what, is_transient: true, is_from_other_build: false });
    }
    let selected = selected(pool, sources);
    if let Some(lost) = lost_base(pool, controller_config, pools, find).filter(|_| inputs.is_cluster) {
        return Choice::Refused(lost);
    }
    let exists = |name: &str| find(name).is_some();
    let missing_input = missing_input(
        pool,
        &selected,
        controller_config,
        kubelet_configs,
        container_runtime_configs,
        inputs.build,
        exists,
    );
    match missing_input.filter(|missing_input| !(inputs.accepts_other_builds && missing_input.is_from_other_build)) {
        Some(missing_input) => Choice::Wait(missing_input),
        None => Choice::Render(selected),
    }
}

/// The MachineConfigs that a pool selects. A selector that cannot be read selects none; rendering reports it.
pub fn selected(pool: &MachineConfigPool, sources: &[Arc<MachineConfig>]) -> Vec<Arc<MachineConfig>> {
    let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
    let is_selected = |input: &&Arc<MachineConfig>| {
        selection.as_ref().is_some_and(|selection| selection.matches(input.metadata.labels.as_ref()))
    };
    sources.iter().filter(is_selected).cloned().collect()
}

/// What another controller has to generate first.
pub struct MissingInput {
    /// What, for people.
    pub what: String,
    /// Whether it is likely to pass by itself; otherwise a user has to correct something.
    pub is_transient: bool,
    /// Whether it exists and was only generated by another build, which makes no difference to a preview.
    pub is_from_other_build: bool,
}

/// What another controller has to generate first; rendering before would roll out a state that no user asked for.
pub fn missing_input(
    pool: &MachineConfigPool,
    inputs: &[Arc<MachineConfig>],
    controller_config: Option<&ControllerConfig>,
    kubelet_configs: &[Arc<KubeletConfig>],
    container_runtime_configs: &[Arc<ContainerRuntimeConfig>],
    build: &str,
    exists: impl Fn(&str) -> bool,
) -> Option<MissingInput> {
    let passing = |what: String| Some(MissingInput { what, is_transient: true, is_from_other_build: false });
    if let Some(found) = controller_config.filter(|found| !is_complete(found)) {
        let base = format!("the base MachineConfigs of ControllerConfig {}", name_of(&found.metadata));
        return match base_failure(found) {
            Some(why) => Some(MissingInput {
                what: format!("{base} cannot be generated: {why}"),
                is_transient: false,
                is_from_other_build: false,
            }),
            None => passing(format!("{base} are being generated")),
        };
    }
    // A user who deletes what controllers keep gets it back at once; nodes are not affected.
    let mut base = base_names(pool).filter(|_| controller_config.is_some());
    if let Some(missing) = base.find(|name| !exists(name)) {
        return passing(format!("MachineConfig {missing} of the base is missing and is being created again"));
    }
    let finalizers = |metadata: &ObjectMeta| match metadata.deletion_timestamp {
        None => metadata.finalizers.clone().unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    let generated = format!("99-{}-generated-", name_of(&pool.metadata));
    let of_settings = kubelet_configs.iter().flat_map(|object| finalizers(&object.metadata));
    let of_settings =
        of_settings.chain(container_runtime_configs.iter().flat_map(|object| finalizers(&object.metadata)));
    let is_missing = |name: &String| name.starts_with(&generated) && !exists(name);
    if let Some(missing) = of_settings.into_iter().find(is_missing) {
        return passing(format!("MachineConfig {missing} is missing and is being created"));
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
            return passing(format!("KubeletConfig {} is being turned into MachineConfigs", name_of(&object.metadata)));
        }
    }
    for object in container_runtime_configs {
        let selector = object.spec.machine_config_pool_selector.as_ref();
        if is_behind(selector, object.metadata.generation, object.status.as_ref()) {
            return passing(format!(
                "ContainerRuntimeConfig {} is being turned into MachineConfigs",
                name_of(&object.metadata)
            ));
        }
    }
    // Differs: the upstream refuses such inputs with an error of the pool; here the pool waits, because they are about to be
    // generated again, and the message names the one that is awaited.
    let is_stale = |input: &&Arc<MachineConfig>| {
        let made_by = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&input.metadata).unwrap_or_default();
        let is_made_here = input.metadata.owner_references.iter().flatten().any(|owner| {
            is_owner::<ControllerConfig>(owner)
                || is_owner::<KubeletConfig>(owner)
                || is_owner::<ContainerRuntimeConfig>(owner)
        });
        is_made_here && !made_by.is_empty() && made_by != build
    };
    let stale = inputs.iter().find(is_stale)?;
    let what = format!(
        "MachineConfig {} was generated by another build and is being generated again",
        name_of(&stale.metadata)
    );
    Some(MissingInput { what, is_transient: true, is_from_other_build: true })
}
