//! Turns many MachineConfigs into one per pool, and explains the result.
//!
//! Pure: no I/O, no clock, no randomness, no environment. The steps, in the order of the data:
//!
//! 1. [`MachineConfig::read`], [`Pool::read`], [`ControllerConfig::read`]: manifests, with their types checked;
//! 2. [`prepare()`]: one MachineConfig made ready, once for all pools that select it;
//! 3. [`render()`]: a pool's inputs selected, ordered, merged, checked and named;
//! 4. [`Rendered`] answers for itself: provenance of every value, findings.

pub mod controller_config;
mod fields;
pub mod finding;
mod findings;
mod inspection;
mod json;
pub mod keys;
mod locator;
pub mod machine_config;
mod name;
pub mod object;
mod order;
pub mod pool;
pub mod prepare;
pub mod provenance;
pub mod remote;
pub mod render;
mod runtime;
pub mod selector;
pub mod yaml;

pub use controller_config::{Controller, ControllerConfig, OsImageStreams};
pub use finding::{Finding, Place};
pub use machine_config::MachineConfig;
pub use order::{not_selected, role_for_people};
pub use pool::Pool;
pub use prepare::{Prepared, prepare};
pub use render::{Context, Merged, Rendered, merge, render};
