//! The machine as the node daemon sees it: one trait, a Linux machine and one in memory that behave alike.
//!
//! - Every path is absolute, has no `..`, and stays below the machine's root whatever links it passes.
//! - A change is done whole or not at all, and once a call has returned, it survives a power cut. Only what other programs
//!   write (enabled units, passwords) needs [`Host::sync`] for that.
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

pub use boot::{Boot, BootChange, Driver, Kernel};
pub use entry::{Attributes, Entry, Kind, User};
pub use error::HostError;
pub use fake::{FakeHost, Unsynced};
pub use host::{Host, Output, Vendor};
pub use linux::LinuxHost;
pub use path::checked;
pub use unit_state::UnitState;
pub use watch::{Changed, Watch};
