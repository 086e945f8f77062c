//! Kinds around scheduling (`scheduling.k8s.io`, `node.k8s.io`, `coordination.k8s.io`): PriorityClass, RuntimeClass,
//! Lease.

pub mod lease;
pub mod priority_class;
pub mod runtime_class;
