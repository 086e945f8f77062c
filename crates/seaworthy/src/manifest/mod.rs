//! Manifests: found, read, sorted by kind.

mod complaint;
mod document;
mod file_place;
mod fleet;
mod items;
pub mod objects;
mod read;
mod set;
mod yaml;

pub use document::{Part, Text};
pub use file_place::FilePlace;
pub use fleet::Fleet;
pub use read::{Inputs, load};
pub use set::{LOCATE_BUDGET, Set, misspelt};

/// The largest input that is read unless the user says otherwise. The largest sensible folder of MachineConfigs is far
/// below it, and a text needs several times its size in memory.
pub const DEFAULT_LIMIT_MIB: u64 = 80;
