//! Version v1beta1, the older one: references carry a version, timeouts are texts, conditions have a severity.

// optional_spec: the copy of the struct that the schema derive makes is never read.
#![allow(dead_code)]

pub mod cluster;
pub mod machine;
pub mod machine_pool;

pub use cluster::{
    Cluster, ClusterEndpoint, ClusterFailureDomain, ClusterNetwork, ClusterSpec, ClusterStatus, ClusterTopology,
    ClusterV1Beta2Status, NetworkRanges,
};
pub use machine::{Bootstrap, Machine, MachineSpec, MachineStatus, MachineV1Beta2Status};
pub use machine_pool::{MachinePool, MachinePoolSpec, MachinePoolStatus, MachinePoolV1Beta2Status, MachineTemplate};
