//! Rendering of a pool: what is decided before the merge and after it.
//!
//! - [`choice`]: whether the pool is rendered, pinned, waits, or cannot be rendered.
//! - [`publication`]: the writes that make a pool target what was rendered.
//! - [`base`], [`built_in`], [`deleted_pools`]: what the platform itself has in a pool, and what happens when it is deleted.
//! - [`condition`]: what the pool reports about its rendering.
//! - [`garbage`]: which rendered MachineConfigs are deleted, and which are kept.
//! - [`transition`]: whether nodes can go from one target to the next.

pub mod base;
pub mod built_in;
pub mod choice;
pub mod condition;
pub mod deleted_pools;
pub mod garbage;
pub mod publication;
pub mod transition;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_render::Finding;

/// What was rendered for a pool.
pub struct RenderedPool {
    /// The rendered MachineConfig.
    pub object: MachineConfig,
    /// The MachineConfigs that it was merged from, in the order of the merge.
    pub sources: Vec<String>,
    /// Whether a MachineConfig chooses the operating system image.
    pub is_image_overridden: bool,
    /// Everything worth knowing, if that was asked for.
    pub findings: Vec<Finding>,
    /// Why remote content in it could not be stored.
    pub unstored: Vec<String>,
}

/// The name of what a pool targets.
pub fn targeted(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// Whether a MachineConfig is the result of rendering.
pub fn is_rendered(machine_config: &MachineConfig) -> bool {
    name_of(&machine_config.metadata).starts_with(RENDERED_PREFIX)
}

/// A pool as owner of what is rendered for it.
pub fn owner(pool: &MachineConfigPool) -> Option<OwnerReference> {
    Some(OwnerReference { block_owner_deletion: Some(true), ..pool.controller_owner_ref(&())? })
}

fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}
