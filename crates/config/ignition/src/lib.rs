//! Ignition configs: read, validate, translate between versions, merge, compare.
//!
//! Pure: no I/O, no clock, no randomness. Everything works in spec 3.5 ([`Version::INTERNAL`]); older configs are
//! brought up when they are read and down when they are served.

pub mod body;
pub mod data_url;
pub mod diff;
mod down;
pub mod gzip;
mod json;
pub mod locate;
pub mod merge;
pub mod node;
mod parse;
pub mod path;
pub mod problem;
pub mod schema;
mod shape;
pub mod spelling;
mod tree;
pub mod unit;
mod url;
mod v2;
mod validate;
pub mod version;

pub use body::body_of;
pub use diff::{Change, diff};
pub use down::{take_kernel_arguments, translate_down};
pub use locate::{Position, locate, locate_key};
pub use merge::{MergedConfig, Merger, merge};
pub use node::{Node, Origin, Value};
pub use parse::{Parsed, check, parse, version_of};
pub use path::Path;
pub use problem::{Problem, Severity};
pub use validate::unit::{UNITS, dropin_path, unit_path};
pub use version::{Version, VersionError};
