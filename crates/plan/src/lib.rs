//! Decides the roll-out: which node moves, which waits and why, and what a change does to a node.
//!
//! Pure: no I/O, no clock, no randomness, no environment; time is an argument. The controllers, `seaworthy plan` and
//! `seaworthy rollout` ask the same functions, so they cannot disagree.

pub mod budget;
pub mod change;
pub mod custom_boot;
pub mod disruption;
pub mod drain;
pub mod duration;
pub mod eviction;
pub mod fleet;
pub mod forecast;
pub mod garbage;
pub mod hold;
pub mod membership;
pub mod node_status;
pub mod policy;
pub mod pool_status;
pub mod promise;
pub mod reconcilable;
mod registries;
pub mod render_condition;
pub mod rollout;
mod standing;
pub mod targeting;
pub mod waiting;
