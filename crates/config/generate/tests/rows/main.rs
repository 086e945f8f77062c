//! KubeletConfigs (`kc_`), ContainerRuntimeConfigs (`cr_`) and the platform's base, by number of the upstream behaviour:
//! docs/reference/upstream-behaviour.md says what the numbers mean, and which are left out.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod base;
mod conditions;
mod container_runtime;
mod kubelet;
mod kubelet_document;
mod kubelet_names;
mod laws;
mod support;
