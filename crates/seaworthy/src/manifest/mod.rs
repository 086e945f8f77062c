//! Manifests: finding files, and sorting their objects by kind.

mod fleet_objects;
mod manifest_set;
pub mod objects;
mod read;

pub use fleet_objects::FleetObjects;
pub use manifest_set::{MAX_LOCATE_BYTES, ManifestSet, misspelt};
pub use read::{Inputs, load};

/// The largest input that is read unless --max-input says otherwise. The largest sensible folder of MachineConfigs is far
/// below it, and a text needs several times its size in memory.
pub const DEFAULT_MAX_INPUT_MIB: u64 = 80;
