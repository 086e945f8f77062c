//! The machinepool operator: pools of Cluster API's MachinePools, from objects in the management cluster to the Nodes of
//! workload clusters.
//!
//! What becomes of a pool is decided by `seaworthy_plan::machinepool`; this crate gathers what that looks at, and performs it:
//!
//! - [`pool_controller`]: one reconcile of one pool; [`pool_directory`]: which pools an event concerns;
//! - [`provider`]: the objects of providers, whose kinds are known at run time only;
//! - [`workload`]: one connection and one watch of Nodes for each Cluster; [`node_writes`]: writes there, beside the controller.

mod caches;
mod cluster_facts;
mod machine_index;
mod metrics;
mod node_writes;
mod operator;
mod pool_controller;
mod pool_directory;
mod pool_progress;
mod pool_queue;
mod provider;
mod rights;
mod task_guard;
mod workload;

pub use operator::MachinePoolOperator;
