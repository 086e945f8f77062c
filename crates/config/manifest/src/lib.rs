//! Manifest texts: JSON and YAML as kubectl reads them, with the place of every value and errors for their authors.
//!
//! - A text is taken whole: no file is read here.
//! - All cores read one large list ([`parallel`]); the result is the same as on one.
//! - Values and nesting are bounded, whatever aliases expand to.

mod file_location;
mod items;
mod json;
mod manifest_text;
pub mod parallel;
mod parse_error;
mod yaml;

pub use file_location::FileLocation;
pub use json::pretty;
pub use manifest_text::{EntryPart, ManifestText, is_object};
