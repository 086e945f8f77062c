//! Workload clusters: one connection and one watch of Nodes for each Cluster, shared by its pools.
//!
//! - When what is done is decided by [`connection_state`], a pure function; [`connection_task`] does it.
//! - A cluster has a task of its own: one that does not answer holds up no other.
//! - Nothing of a kubeconfig but the address of its server is in a log, an error or a condition: [`kubeconfig`].

mod connection_state;
mod connection_task;
mod kubeconfig;
mod node_cache;
mod watched_node;
mod workload_clusters;

pub use workload_clusters::{Connection, ConnectionView, WorkloadClusters};
