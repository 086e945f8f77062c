//! Field management: ownership of fields, server-side apply, and the other patch types.
//!
//! Three layers, each pure: no clock, no input or output, values in and values out.
//!
//! - A [`Set`] is a tree of [`PathElement`]s. It knows the operations of sets and its stored form, `FieldsV1`.
//! - An [`ObjectType`] walks objects by their schema: which fields an object sets, what changed between two
//!   ([`Comparison`]), how a configuration is merged into a live object.
//! - A [`Writer`] keeps `metadata.managedFields` true: [`Writer::update`] for creates, updates and patches,
//!   [`Writer::apply`] for server-side apply with its [`Conflicts`]. [`discard_timestamp_change`] finds writes that
//!   change nothing.
//!
//! Beside them the other three ways to patch: [`json_patch`], [`merge_patch`] and [`strategic_patch`].
//!
//! ```
//! use seaworthy_fields::{ObjectType, Writer};
//! use serde_json::json;
//!
//! let writer =
//!     Writer { kind: ObjectType::unknown(), api_version: "v1", subresource: "", ignored: None, versions: None };
//! let config = |size| json!({"apiVersion": "v1", "kind": "Boat", "metadata": {"name": "a"}, "spec": {"size": size}});
//! let boat = writer.apply(None, &config(1), "one", false, "2026-01-01T00:00:00Z")?;
//! let conflict = writer.apply(Some(&boat), &config(2), "two", false, "2026-01-01T00:00:01Z").unwrap_err();
//! assert_eq!(conflict.to_string(), r#"Apply failed with 1 conflict: conflict with "one": .spec.size"#);
//! let boat = writer.apply(Some(&boat), &config(2), "two", true, "2026-01-01T00:00:01Z")?;
//! assert_eq!(boat["spec"]["size"], 2);
//! # Ok::<(), seaworthy_fields::ApplyError>(())
//! ```

mod apply;
mod codec;
mod compare;
mod conflict;
mod depth;
mod json_patch;
mod list_key;
mod managers;
mod merge;
mod merge_patch;
mod object_type;
mod patch;
mod path;
mod reconcile;
mod remove;
mod scale;
mod set;
mod strategic;
mod typed;
mod update;
mod writer;

pub use apply::ApplyError;
pub use codec::FieldsError;
pub use compare::Comparison;
pub use conflict::{Conflict, Conflicts};
pub use json_patch::json_patch;
pub use managers::{Manager, Managers, ManagersError, Operation};
pub use merge_patch::merge_patch;
pub use object_type::ObjectType;
pub use patch::PatchError;
pub use path::PathElement;
pub use scale::ReplicasPaths;
pub use set::Set;
pub use strategic::strategic_patch;
pub use typed::{TypeError, TypeErrors};
pub use update::discard_timestamp_change;
pub use writer::{Versions, Writer};
