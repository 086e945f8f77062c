//! Core kinds: everything of the core group, with its newer names in `events.k8s.io` and `discovery.k8s.io`.

pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod pod_admission;
pub mod pod_defaults;
pub mod secret;
pub mod service;
pub mod service_account;
