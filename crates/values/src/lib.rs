//! Values that Kubernetes objects are written in, and texts about them.
//!
//! - The lowest layer: it uses no crate of ours, and every crate of ours may use it.
//! - One reading of each notation. What a crate makes of it (an integer, an exact amount, an error message) stays in that crate
//!   where it differs on purpose.

pub mod api_version;
pub mod duration;
pub mod error;
pub mod label_selector;
pub mod list;
pub mod names;
pub mod quantity;
mod severity;
pub mod text;

pub use severity::Severity;
