//! Manifests: finding files, parsing them, sorting objects by kind.

mod file_location;
mod fleet_objects;
mod items;
mod manifest_set;
mod manifest_text;
pub mod objects;
mod parse_error;
mod read;
mod yaml;

pub use file_location::FileLocation;
pub use fleet_objects::FleetObjects;
pub use manifest_set::{LOCATE_BUDGET, ManifestSet, misspelt};
pub use manifest_text::{EntryPart, ManifestText};
pub use read::{Inputs, load};

/// The largest input that is read unless --max-input says otherwise. The largest sensible folder of MachineConfigs is far
/// below it, and a text needs several times its size in memory.
pub const DEFAULT_LIMIT_MIB: u64 = 80;
