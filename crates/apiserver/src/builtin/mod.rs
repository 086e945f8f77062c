//! The built-in kinds, one file a kind or a family of kinds, and the list of all of them.

mod config_map;
pub mod definition;
pub mod definitions;
pub mod namespace;
mod secret;

use crate::kind::Kind;

/// Every built-in kind.
pub static KINDS: &[&Kind] =
    &[&config_map::CONFIG_MAP, &definition::CUSTOM_RESOURCE_DEFINITION, &namespace::NAMESPACE, &secret::SECRET];
