//! [`Key`]: the name of an object: resource, namespace, name.

use std::fmt;
use std::sync::Arc;

/// The name of an object. Ordered by resource, then namespace, then name, which is the order of every list.
///
/// A clone is three counters; the store shares the texts between all records that have them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Group and plural, such as `apps/daemonsets` or `core/pods`.
    pub resource: Arc<str>,
    /// Empty for objects that belong to no namespace.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    /// The longest part that a row on disk can hold.
    pub const MAX_PART_BYTES: usize = u16::MAX as usize;

    /// A key from its three parts; `namespace` is empty for objects that belong to none.
    pub fn new(resource: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Key { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Why this key cannot be stored, if it cannot.
    pub(crate) fn invalid_reason(&self) -> Option<String> {
        if self.resource.is_empty() || self.name.is_empty() {
            return Some("a key needs a resource and a name".to_owned());
        }
        [("resource", &self.resource), ("namespace", &self.namespace), ("name", &self.name)]
            .into_iter()
            .find(|(_, text)| text.len() > Self::MAX_PART_BYTES)
            .map(|(part, text)| format!("the {part} has {} bytes; at most {} fit", text.len(), Self::MAX_PART_BYTES))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.resource, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.resource, self.name),
        }
    }
}
