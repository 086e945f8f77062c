//! The machineconfig operator: each controller reads caches, asks a pure function for a decision, and has it performed.
//!
//! Nothing is decided here that could be decided in `generate`, `render` or `plan`.
//!
//! - [`operator`]: the operator as one value, and its controllers;
//! - [`base`], [`settings`], [`render`], [`rollout`], [`garbage`], [`protection`]: one folder or file for each controller;
//! - [`caches`], [`cached_node`], [`context`], [`metrics`], [`rights`]: what they share;
//! - [`preview`] on a [`world`]: what the controllers would do; [`pending`]: what they have not done yet;
//! - [`cluster`], [`objects`], [`pools`]: what commands need of a cluster.

pub mod base;
pub mod cached_node;
pub mod caches;
pub mod cluster;
pub mod context;
pub mod garbage;
pub mod metrics;
pub mod objects;
pub mod operator;
pub mod pending;
pub mod pools;
pub mod preview;
pub mod protection;
pub mod render;
pub mod rights;
pub mod rollout;
pub mod settings;
mod shared_texts;
pub mod world;

pub use caches::Caches;
pub use context::{Clock, Context};
pub use operator::MachineConfigOperator;
