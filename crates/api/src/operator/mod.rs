//! `operator.openshift.io/v1`: the one kind of this group that node roll-outs depend on, MachineConfiguration.

pub mod boot_images;
pub mod machine_configuration;
pub mod node_disruption_policy;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use machine_configuration::{MachineConfiguration, MachineConfigurationSpec, MachineConfigurationStatus};
pub use node_disruption_policy::{NodeDisruptionPolicy, NodeDisruptionPolicyClusterStatus};

use crate::crds::{self, generated::Definition};

pub const GROUP: &str = "operator.openshift.io";

/// Group and version, as objects name it.
pub const API_VERSION: &str = "operator.openshift.io/v1";

pub fn definitions() -> Vec<CustomResourceDefinition> {
    crds::for_group(GROUP)
}

/// The definitions of this group, generated from its types.
pub(crate) fn generated() -> Vec<CustomResourceDefinition> {
    vec![Definition::of::<MachineConfiguration>().build()]
}
