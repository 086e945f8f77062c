//! [`Record`]: one object at one revision.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;

use crate::packed::Packed;
use crate::{Key, Tags};

/// An object at one revision. Never changes; a newer state is a newer record.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    pub key: Key,
    /// The revision that wrote this state.
    pub revision: u64,
    /// The revision that created the object.
    pub created_revision: u64,
    pub(crate) body: Packed,
    /// What selectors need, so that the body is not parsed for them.
    pub tags: Tags,
}

impl Record {
    /// A record of a body without compression.
    pub fn new(key: Key, revision: u64, created_revision: u64, body: Bytes, tags: Tags) -> Self {
        Record { key, revision, created_revision, body: Packed::Plain(body), tags }
    }

    /// The bytes to serve: those of the commit with the revision inserted. Each call unpacks them.
    pub fn body(&self) -> Bytes {
        self.body.bytes()
    }

    /// Length of the body.
    pub fn size(&self) -> usize {
        self.body.len()
    }
}

/// The bytes of an object before it has a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Everything but the revision.
    pub bytes: Bytes,
    /// The offset at which the revision's decimal digits are inserted.
    pub revision_offset: usize,
}

impl Body {
    /// A body whose revision is inserted at `revision_offset`.
    pub fn new(bytes: impl Into<Bytes>, revision_offset: usize) -> Self {
        Body { bytes: bytes.into(), revision_offset }
    }

    /// The bytes with the revision inserted. The offset was checked by `Store::commit`.
    pub(crate) fn with_revision(&self, revision: u64) -> Bytes {
        // Twenty digits hold any u64. Reserving them all would leave slack in every stored body, so count first.
        let digits = revision.checked_ilog10().unwrap_or(0) as usize + 1;
        let (before, after) = self.bytes.split_at(self.revision_offset);
        let mut filled = Vec::with_capacity(self.bytes.len() + digits);
        filled.extend_from_slice(before);
        // Writing to a Vec cannot fail.
        let _ = write!(filled, "{revision}");
        filled.extend_from_slice(after);
        filled.into()
    }
}

/// A record that a set finds by its key: the key is stored once, inside the record.
#[derive(Clone, Debug)]
pub(crate) struct ByKey(pub Arc<Record>);

impl Borrow<Key> for ByKey {
    fn borrow(&self) -> &Key {
        &self.0.key
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_is_inserted_without_slack() {
        for (revision, wanted) in
            [(0, "<0>"), (9, "<9>"), (10, "<10>"), (99, "<99>"), (100, "<100>"), (u64::MAX, "<18446744073709551615>")]
        {
            assert_eq!(Body::new("<>", 1).with_revision(revision), wanted);
        }
        assert_eq!(Body::new("ab", 0).with_revision(7), "7ab");
        assert_eq!(Body::new("ab", 2).with_revision(7), "ab7");
    }
}
