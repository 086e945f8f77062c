//! The controllers: each reads caches, asks a pure function what should be, and has it done.
//!
//! Nothing is decided here that could be decided in `generate`, `render` or `plan`.

pub mod base;
pub mod caches;
pub mod cluster;
pub mod context;
mod deleted_pools;
pub mod drain;
pub mod drains;
pub mod garbage;
mod gauges;
pub mod install;
pub mod machine;
pub mod making;
mod moment;
pub mod objects;
mod orders;
pub mod pending;
pub mod plane;
pub mod pools;
pub mod preview;
pub mod process;
pub mod protection;
pub mod render;
pub mod rollout;
pub mod settings;
pub mod snapshots;
pub mod targets;
mod texts;
pub mod world;

pub use caches::Caches;
pub use context::{Clock, Context};
