//! What can be done with a resource, one file a verb. None of them knows any kind.

mod get;
mod list;
mod watch;

pub use get::get;
pub use list::list;
pub use watch::watch;
