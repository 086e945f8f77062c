//! Workload kinds (`apps`, `batch`): DaemonSet, Deployment and Job, and what they share.

pub mod daemon_set;
pub mod deployment;
pub mod job;
pub mod workload;
