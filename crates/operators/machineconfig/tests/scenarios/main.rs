//! Scenarios of the controllers on our API server or on kube-apiserver: from what a user writes to every node.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod base;
mod container_runtime;
mod drain;
mod fleet;
mod kubelet;
mod pools;
mod preview;
mod remote;
mod render;
mod reporting;
mod rights;
mod rollout;
