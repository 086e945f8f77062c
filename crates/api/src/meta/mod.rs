//! Structures of Kubernetes itself that our kinds embed, with the list types and bounds of the upstreams' definitions.
//!
//! The types of `k8s-openapi` have no place for unknown keys, and their schemas carry neither list types nor bounds;
//! these have both. Conversions lead to and from the `k8s-openapi` types where a client needs those.

mod base64;
mod condition;
mod embedded;
mod int_or_string;
mod kind;
mod label_selector;
mod local_object_reference;
mod object_reference;
mod pairs;
mod selection;
mod toleration;

pub use base64::Base64;
pub use condition::{Condition, ConditionStatus};
pub use embedded::Embedded;
pub use int_or_string::{IntOrString, Quantity};
pub use kind::{is_kind, is_object, is_owner};
pub use label_selector::{LabelSelector, LabelSelectorRequirement};
pub use local_object_reference::LocalObjectReference;
pub use object_reference::ObjectReference;
pub use pairs::Pairs;
pub use selection::{Selection, SelectionError};
pub use toleration::Toleration;
