//! The machine as the node daemon sees it: one trait, and a Linux machine, a folder and a machine in memory that behave alike.
//!
//! - Every path is absolute, has no `..`, and stays below the machine's root whatever links it passes.
//! - Whoever looks sees a change whole or not at all. After a power cut that holds only for what was there at the last
//!   [`Host::sync`] or was [written through](Host::write_through): of everything later some may be there, some may not, and
//!   some may be empty. That is what makes hundreds of files as fast as one.
//! - Calls block. Whoever serves many machines at once gives each its own thread, or uses [`FakeHost`], which never waits.

mod boot;
mod entry;
mod error;
pub mod fake;
mod host;
pub mod linux;
mod path;
mod unit_state;
mod watch;

pub use boot::{Boot, BootChange, Driver, Kernel, arguments};
pub use entry::{Attributes, Entry, Kind, User};
pub use error::HostError;
pub use fake::{FakeHost, Unsynced};
pub use host::{Host, Output, Vendor};
pub use linux::{FolderHost, LinuxHost};
pub use path::checked;
pub use unit_state::UnitState;
pub use watch::{Changed, Watch};
