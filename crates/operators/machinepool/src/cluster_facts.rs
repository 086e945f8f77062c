//! Cluster facts: what of a Cluster its pools and its connection depend on.
//!
//! Differs: pools are decided on again when any of these changes, because upstream reacts to `spec.paused` alone and so misses
//! that the control plane has answered. All other changes of a Cluster, such as its sums over pools, are ignored.

use jiff::Timestamp;
use seaworthy_api::cluster::v1beta2::Cluster;
use seaworthy_plan::machinepool::is_initialized;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    pub uid: Option<String>,
    pub created: Option<Timestamp>,
    pub is_deleting: bool,
    pub is_paused: bool,
    /// Whether there is anything to connect to.
    pub is_provisioned: bool,
    /// Whether its control plane has answered once.
    pub is_initialized: bool,
}

impl ClusterFacts {
    /// Whether it can be connected to.
    pub fn is_ready(&self) -> bool {
        self.is_provisioned && self.is_initialized
    }

    pub fn of(cluster: &Cluster) -> ClusterFacts {
        let metadata = &cluster.metadata;
        let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
        ClusterFacts {
            uid: metadata.uid.clone(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_paused: cluster.spec.paused == Some(true),
            is_provisioned: initialization.and_then(|found| found.infrastructure_provisioned) == Some(true),
            is_initialized: is_initialized(cluster),
        }
    }
}
