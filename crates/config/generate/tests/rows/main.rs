//! Every row of the pages on KubeletConfig and ContainerRuntimeConfig, by its number.
//!
//! Left out, because plain Kubernetes lacks what they are about: KC-50 and KC-51 (the config object Node, whose cgroup
//! mode becomes kernel arguments), and CR-43 to CR-47 (registries and image policies from OpenShift's image objects: not
//! part of the first milestone; their names and paths are reserved). CR-42 is a check of rendering and is tested there,
//! `crates/config/render`, with the streams.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod base;
mod conditions;
mod container_runtime;
mod kubelet;
mod kubelet_document;
mod kubelet_names;
mod laws;
mod support;
