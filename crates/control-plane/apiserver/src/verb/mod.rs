//! What can be done with a resource, one file a verb. None of them knows any kind.

mod create;
mod delete;
mod get;
mod list;
mod patch;
mod update;
mod watch;

pub use create::create;
pub use delete::{delete, delete_collection, delete_object, deletion};
pub use get::get;
pub use list::list;
pub use patch::{as_invalid_patch, patch, refused};
pub use update::{Changed, Outcome, change, change_and_show, in_version, update};
pub use watch::watch;
