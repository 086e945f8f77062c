//! Inputs in files: manifests, found in folders and sorted by the kinds of their objects, and templates.

mod fleet_objects;
mod manifest_set;
pub mod objects;
mod read;
pub mod templates;

pub use fleet_objects::FleetObjects;
pub use manifest_set::ManifestSet;
pub use objects::MAX_LOCATE_BYTES;
pub use read::{Inputs, load};

/// The largest input that is read unless --max-input says otherwise. The largest sensible folder of MachineConfigs is far
/// below it, and a text needs several times its size in memory.
pub const DEFAULT_MAX_INPUT_MIB: u64 = 80;
