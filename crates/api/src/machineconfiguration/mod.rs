//! `machineconfiguration.openshift.io/v1`: MachineConfigs, pools, settings, and the progress of nodes.

pub mod cluster_dns;
pub mod container_runtime_config;
pub mod controller_config;
pub mod infrastructure;
pub mod kubelet_config;
#[allow(dead_code)] // optional_spec: the copy of the struct that the schema derive makes is never read.
pub mod machine_config;
pub mod machine_config_node;
pub mod machine_config_pool;
pub mod pinned_image_set;
mod rules;
mod settings_status;
mod status_condition;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use container_runtime_config::{ContainerRuntimeConfig, ContainerRuntimeConfigSpec};
pub use controller_config::{ControllerConfig, ControllerConfigSpec, ControllerConfigStatus};
pub use kubelet_config::{KubeletConfig, KubeletConfigSpec};
pub use machine_config::{MachineConfig, MachineConfigSpec};
pub use machine_config_node::{MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus};
pub use machine_config_pool::{MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus, PoolConfiguration};
pub use pinned_image_set::{PinnedImageSet, PinnedImageSetSpec};
pub use settings_status::SettingsStatus;
pub use status_condition::StatusCondition;

use crate::crds::{self, generated::Definition};

pub const GROUP: &str = "machineconfiguration.openshift.io";

/// Group and version, as objects name it.
pub const API_VERSION: &str = "machineconfiguration.openshift.io/v1";

/// Label that marks a definition as installed by an operator.
const OPERATOR_MANAGED: &str = "openshift.io/operator-managed";

pub fn definitions() -> Vec<CustomResourceDefinition> {
    crds::for_group(GROUP)
}

/// The definitions of this group, generated from its types.
pub(crate) fn generated() -> Vec<CustomResourceDefinition> {
    [
        Definition::of::<ContainerRuntimeConfig>(),
        Definition::of::<ControllerConfig>(),
        Definition::of::<KubeletConfig>(),
        Definition::of::<MachineConfig>().spec_optional(),
        Definition::of::<MachineConfigNode>(),
        Definition::of::<MachineConfigPool>(),
        Definition::of::<PinnedImageSet>(),
    ]
    .into_iter()
    .map(|definition| definition.label(OPERATOR_MANAGED, "").build())
    .collect()
}
