//! One object at one revision, as it is kept and served.

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
    /// Where it lives.
    pub key: Key,
    /// The revision that wrote this state.
    pub revision: u64,
    /// The revision that created the object.
    pub created_revision: u64,
    pub(crate) body: Packed,
    /// What selectors ask for, so that nobody has to parse the body.
    pub tags: Tags,
}

impl Record {
    /// A record of a body that is kept as it is.
    pub fn new(key: Key, revision: u64, created_revision: u64, body: Bytes, tags: Tags) -> Self {
        Record { key, revision, created_revision, body: Packed::Plain(body), tags }
    }

    /// The bytes to serve: what the writer handed in, with the revision in its hole. They are unpacked each time, so ask
    /// once.
    pub fn body(&self) -> Bytes {
        self.body.bytes()
    }

    /// How many bytes there are to serve.
    pub fn size(&self) -> usize {
        self.body.len()
    }
}

/// The bytes of an object before it has a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Everything but the revision.
    pub bytes: Bytes,
    /// Where the revision's decimal digits go.
    pub hole: usize,
}

impl Body {
    /// A body whose revision goes in at `hole`.
    pub fn new(bytes: impl Into<Bytes>, hole: usize) -> Self {
        Body { bytes: bytes.into(), hole }
    }

    /// The bytes with the revision in place. `hole` was checked when the change was handed in.
    pub(crate) fn fill(&self, revision: u64) -> Bytes {
        // Twenty digits hold any u64. Reserving them all would leave slack in every stored body, so count first.
        let digits = revision.checked_ilog10().unwrap_or(0) as usize + 1;
        let (before, after) = self.bytes.split_at(self.hole);
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
    fn filled_body_has_the_revision_in_its_hole_and_no_slack() {
        for (revision, wanted) in
            [(0, "<0>"), (9, "<9>"), (10, "<10>"), (99, "<99>"), (100, "<100>"), (u64::MAX, "<18446744073709551615>")]
        {
            assert_eq!(Body::new("<>", 1).fill(revision), wanted);
        }
        assert_eq!(Body::new("ab", 0).fill(7), "7ab");
        assert_eq!(Body::new("ab", 2).fill(7), "ab7");
    }
}
