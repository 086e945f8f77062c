//! A Kubernetes API server in the binary.

pub mod data;
