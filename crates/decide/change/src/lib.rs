//! Changes: the writes that a decision asks for, as data.
//!
//! Every decider returns a [`Decision`]: changes in stages, a report with the reason for everything that does not change,
//! and when to decide again. One applier performs it against an API server (`seaworthy_runtime::Applier`); the preview
//! performs the same value on objects in memory ([`memory`]). Neither knows a kind.
//!
//! - A change names its object by group, version, kind and name, never by a string that another module has to parse.
//! - A change is bound to the state that was decided on: its uid and its resource version, where they matter.
//! - An object that an earlier stage of the same decision has written is written again at the revision of that write.

mod change;
mod decision;
mod event;
pub mod memory;
mod object;
mod resource;
mod table;
mod time;
mod written;

pub use change::{Action, Change};
pub use decision::{Decision, Deferred, Flow, Purpose, Stage};
pub use event::Event;
pub use object::ObjectRef;
pub use resource::{ResourceNames, ResourceType, Scope, group_and_kind};
pub use table::{ObjectTable, Table, TableConflict, Tables};
pub use time::to_second;
pub use written::{ObjectVersion, WrittenObjects};
