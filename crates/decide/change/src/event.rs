//! Events: what happened to an object, for `kubectl describe` and for the log.

use serde::Serialize;

use crate::object::ObjectRef;

/// An event about the object of its change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Whether a person should look.
    pub is_warning: bool,
    /// The reason in one word; a constant of the vocabulary.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// Another object that it is about. The same sentence about another one is another event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectRef>,
}
