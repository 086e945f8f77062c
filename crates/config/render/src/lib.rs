//! Rendering: merges the MachineConfigs of a pool into one, and explains the result.
//!
//! Pure: no I/O, no clock, no randomness, no environment. The steps, in the order of the data:
//!
//! 1. [`MachineConfig::read`], [`Pool::read`], [`ControllerConfig::read`]: manifests, with their types checked;
//! 2. [`prepare()`]: one MachineConfig made ready, once for all pools that select it;
//! 3. [`render()`]: a pool's inputs selected, ordered, merged, checked and named;
//! 4. [`Rendered`] explains itself: provenance of every value, findings.

pub mod controller_config;
mod fields;
pub mod finding;
mod findings;
mod inspection;
mod json;
pub mod keys;
pub mod kinds;
mod locator;
pub mod machine_config;
mod name;
pub mod object;
pub mod pool;
pub mod prepare;
pub mod provenance;
pub mod remote;
pub mod render;
mod runtime;
mod selection;
pub mod selector;
pub mod yaml;

/// The buffer of what is written in many small pieces.
const BUFFER_BYTES: usize = 1 << 16;

pub use controller_config::{ControllerConfig, OsImageStreams};
pub use finding::{FieldLocation, Finding};
pub use machine_config::MachineConfig;
pub use pool::Pool;
pub use prepare::{Prepared, prepare};
pub use render::{Context, Merged, Rendered, merge, render};
pub use selection::unselected;
