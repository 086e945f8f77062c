//! [`Row`]: one change in the log, and its encoding on disk.
//!
//! ```text
//! kind u8 | created u64 | resource u16 | namespace u16 | name u16 | resource, namespace, name | body
//! ```
//!
//! Numbers are little endian; the three u16 are lengths. The storage underneath has checksums, so rows have none.

use std::str;
use std::sync::Arc;

use bytes::Bytes;

use crate::Key;

/// The kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// The object has this state now.
    Put,
    /// The object is gone; the body is its last state.
    Delete,
}

/// One change in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub revision: u64,
    pub kind: RowKind,
    /// The revision that created the object. Its row may have been compacted.
    pub created_revision: u64,
    pub key: Key,
    /// The new state, or the last one of a deleted object.
    pub body: Bytes,
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const HEAD: usize = 1 + 8 + 3 * 2;

impl Row {
    /// The number of bytes that [`Row::encode`] writes.
    pub(super) fn encoded_len(&self) -> usize {
        let Key { resource, namespace, name } = &self.key;
        HEAD + resource.len() + namespace.len() + name.len() + self.body.len()
    }

    /// Writes the row into `out`, which has [`Row::encoded_len`] bytes.
    pub(super) fn encode(&self, out: &mut [u8]) {
        let Key { resource, namespace, name } = &self.key;
        // `Store::commit` refuses keys with longer parts.
        let length = |text: &str| (text.len() as u16).to_le_bytes();
        let kind = match self.kind {
            RowKind::Put => PUT,
            RowKind::Delete => DELETE,
        };
        let mut rest = out;
        for part in [
            &[kind][..],
            &self.created_revision.to_le_bytes(),
            &length(resource),
            &length(namespace),
            &length(name),
            resource.as_bytes(),
            namespace.as_bytes(),
            name.as_bytes(),
            &self.body,
        ] {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
    }

    /// The row from its bytes; the error says what is wrong with them.
    pub(super) fn decode(revision: u64, bytes: &[u8]) -> Result<Row, String> {
        let bad = |what: &str| format!("row {revision}: {what}");
        let mut rest = bytes;
        let mut take = |length: usize| {
            let (part, after) =
                rest.split_at_checked(length).ok_or_else(|| bad(&format!("ends after {} bytes", bytes.len())))?;
            rest = after;
            Ok::<_, String>(part)
        };
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let kind = match take(1)? {
            [PUT] => RowKind::Put,
            [DELETE] => RowKind::Delete,
            other => return Err(bad(&format!("kind {other:?}; known are {PUT} and {DELETE}"))),
        };
        let created_revision = number(take(8)?);
        if created_revision == 0 || created_revision > revision {
            return Err(bad(&format!("created at {created_revision}")));
        }
        let lengths = [number(take(2)?), number(take(2)?), number(take(2)?)];
        let [resource, namespace, name] = lengths.map(|length| {
            let text = str::from_utf8(take(length as usize)?).map_err(|_| bad("key is not UTF-8"))?;
            Ok::<_, String>(Arc::<str>::from(text))
        });
        let key = Key { resource: resource?, namespace: namespace?, name: name? };
        Ok(Row { revision, kind, created_revision, key, body: Bytes::copy_from_slice(rest) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(row: &Row) -> Vec<u8> {
        let mut bytes = vec![0; row.encoded_len()];
        row.encode(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_row_survives_the_disk(
            (revision, created_revision) in (1..u64::MAX).prop_flat_map(|revision| (Just(revision), 1..=revision)),
            put: bool, key in ("\\PC{1,40}", "\\PC{0,40}", "\\PC{1,40}"), body: Vec<u8>,
        ) {
            let row = Row {
                revision,
                kind: if put { RowKind::Put } else { RowKind::Delete },
                created_revision,
                key: Key::new(key.0, key.1, key.2),
                body: body.into(),
            };
            prop_assert_eq!(Row::decode(revision, &encoded(&row)), Ok(row));
        }

        #[test]
        fn any_bytes_give_a_row_or_a_message(bytes: Vec<u8>) {
            if let Ok(row) = Row::decode(u64::MAX, &bytes) {
                prop_assert_eq!(encoded(&row), bytes);
            }
        }
    }

    #[test]
    fn a_row_that_is_cut_off_is_reported() {
        let row =
            Row { revision: 7, kind: RowKind::Put, created_revision: 7, key: Key::new("r", "", "n"), body: "".into() };
        let bytes = encoded(&row);
        for length in 0..bytes.len() {
            assert_eq!(Row::decode(7, &bytes[..length]), Err(format!("row 7: ends after {length} bytes")));
        }
    }
}
