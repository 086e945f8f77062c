//! Host: the node daemon's interface to its machine, with a Linux machine, a folder and a machine in memory behind it.
//!
//! - Every path is absolute, has no `..`, and stays below the machine's root whatever links it passes.
//! - Readers see a change as a whole or not at all. After a power cut that holds only for the state of the last [`Host::sync`] and
//!   for files that were [written through](Host::write_through): later changes may be there, missing or empty. That makes hundreds
//!   of files as fast as one.
//! - Calls block. A process with many machines gives each its own thread, or uses [`FakeHost`], which never waits.

mod boot;
mod entry;
mod error;
pub mod fake;
mod host;
pub mod linux;
mod path;
mod unit_state;
mod watch;

pub use boot::{Boot, BootChange, BootDriver, Kernel, arguments};
pub use entry::{Attributes, Entry, EntryKind, User};
pub use error::HostError;
pub use fake::{FakeHost, Unsynced};
pub use host::{Host, Output, Vendor};
pub use linux::{FolderHost, LinuxHost};
pub use path::checked;
pub use unit_state::UnitState;
pub use watch::{ChangeCallback, Watch};
