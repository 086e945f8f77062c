//! Machineconfig operator: each controller reads caches, calls a pure function for a decision, and has it performed.
//!
//! Nothing is decided here that could be decided in `generate`, `render` or `plan`.
//!
//! - [`operator`]: the operator as one value, and its controllers;
//! - [`base`], [`settings`], [`render`], [`rollout`], [`garbage`], [`protection`]: one folder or file for each controller;
//! - [`caches`], [`cached_node`], [`context`], [`metrics`], [`rights`]: what they share;
//! - [`preview`] on a [`cluster_state`]: what the controllers would do; [`pending`]: what is not rendered yet.

pub mod base;
pub mod cached_node;
pub mod caches;
pub mod cluster_state;
pub mod context;
pub mod garbage;
pub mod metrics;
pub mod operator;
pub mod pending;
pub mod preview;
pub mod protection;
pub mod render;
pub mod rights;
pub mod rollout;
pub mod settings;
mod text_interner;

pub use caches::Caches;
pub use context::{Clock, Context};
pub use operator::MachineConfigOperator;
