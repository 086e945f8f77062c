//! Version v1beta2, the stored one: references leave the version to the provider's contract, timeouts are seconds.

pub mod cluster;
pub mod machine;
pub mod machine_pool;

pub use cluster::{
    ClassReference, Cluster, ClusterDeprecatedV1Beta1, ClusterEndpoint, ClusterFailureDomain, ClusterInitialization,
    ClusterNetwork, ClusterSpec, ClusterStatus, ClusterTopology, NetworkRanges,
};
pub use machine::{
    Bootstrap, Machine, MachineDeletion, MachineDeprecatedV1Beta1, MachineInitialization, MachineSpec, MachineStatus,
};
pub use machine_pool::{
    MachinePool, MachinePoolDeprecatedV1Beta1, MachinePoolSpec, MachinePoolStatus, MachineTemplate,
};
