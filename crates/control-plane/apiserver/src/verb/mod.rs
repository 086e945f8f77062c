//! Verbs: one file each. A verb reads the request and answers; writes go through [`crate::write`]. No verb knows any
//! kind.

mod create;
mod delete;
mod get;
mod list;
mod patch;
mod update;
mod watch;

pub use create::create;
pub use delete::{delete, delete_collection};
pub use get::get;
pub use list::list;
pub use patch::{as_invalid_patch, patch, refused};
pub use update::update;
pub use watch::watch;
