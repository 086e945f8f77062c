//! Schemas of API objects: structure, defaults, pruning, validation, rules.
//!
//! One model serves built-in kinds and custom resources, validation and field ownership: a [`Document`] is an arena of
//! [`Node`]s, a [`Schema`] is a place in it.

mod cause;
mod column;
mod correlation;
mod custom_resource;
mod defaults;
mod definition;
mod document;
mod duration;
mod email;
mod embedded;
mod format;
mod jsonpath;
mod lists;
mod node;
mod number;
pub mod openapi;
mod path;
mod pattern;
mod prune;
mod read;
mod rules;
mod scale;
mod uri;
mod validation;
mod wording;

pub use cause::{Cause, Reason, ShownValue, summary};
pub use column::{Column, age};
pub use custom_resource::{CustomResource, ValidationResult};
pub use defaults::{apply_defaults, drop_nulls, fill};
pub use definition::{
    default_definition, definition_mistakes, definition_warnings, remember_stored_version, status_mistakes,
};
pub use document::{Document, NodeId, Schema};
pub use embedded::{embedded_resources, undecodable_metadata, undecodable_resource};
pub use jsonpath::JsonPath;
pub use lists::duplicates;
pub use node::{Additional, Limits, ListKind, Logic, MapKind, Node, Patching, Rule, Type};
pub use path::Path;
pub use pattern::Pattern;
pub use prune::{Pruning, unknown_field};
pub use rules::rule_mistakes;
pub use scale::Scale;
pub use validation::validate;
pub use wording::quoted;
