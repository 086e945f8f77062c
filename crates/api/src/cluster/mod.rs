//! `cluster.x-k8s.io`: clusters, their machines, and pools of machines that scale together.
//!
//! [`v1beta2`] is stored; [`v1beta1`] is still served. MachinePool is complete in both. Cluster and Machine belong to
//! other controllers: they are described as far as the upstream describes them, except for a Cluster's topology, and
//! whatever else they carry is kept.

pub mod condition_gate;
pub mod deprecated;
pub mod machine_status;
pub mod machine_taint;
pub mod old_condition;
mod pattern;
pub mod reference;
pub mod replica_status;
pub mod template_metadata;
pub mod v1beta1;
pub mod v1beta2;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use condition_gate::{ConditionGate, Polarity};
pub use deprecated::Deprecated;
pub use machine_status::{MachineAddress, MachineAddressType, MachineDeletionStatus, NodeInfo, NodeSwap};
pub use machine_taint::{MachineTaint, TaintEffect, TaintPropagation};
pub use old_condition::OldCondition;
pub use reference::{ContractReference, NodeReference};
pub use replica_status::{ReplicaStatus, UpgradeStep, VersionCount};
pub use template_metadata::TemplateMetadata;

use crate::crds::{self, generated::Definition};

pub fn definitions() -> Vec<CustomResourceDefinition> {
    crds::for_group("cluster.x-k8s.io")
}

/// The definitions of this group, generated from its types.
pub(crate) fn generated() -> Vec<CustomResourceDefinition> {
    [
        Definition::of::<v1beta1::Cluster>()
            .spec_optional()
            .and_version(Definition::of::<v1beta2::Cluster>())
            .keeps_unknown_fields(),
        Definition::of::<v1beta1::Machine>()
            .spec_optional()
            .and_version(Definition::of::<v1beta2::Machine>())
            .keeps_unknown_fields(),
        Definition::of::<v1beta1::MachinePool>().spec_optional().and_version(Definition::of::<v1beta2::MachinePool>()),
    ]
    .into_iter()
    .map(Definition::build)
    .collect()
}
