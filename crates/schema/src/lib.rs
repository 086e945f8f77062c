//! Schemas of API objects: structure, defaults, pruning, validation, rules.
//!
//! One model serves built-in kinds and custom resources, validation and field ownership: a [`Document`] is an arena of
//! [`Node`]s, a [`Schema`] is a place in it.

mod cause;
mod document;
mod node;
mod read;
mod wording;

pub use cause::{Cause, Reason, Shown, summary};
pub use document::{Document, NodeId, Schema};
pub use node::{Additional, Limits, ListKind, Logic, MapKind, Node, Patching, Rule, Type};
