//! Gzip decompression with a limit, because a few bytes can unpack to any number of them.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// Why a body cannot be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GzipError {
    /// It is not gzip, or it is damaged.
    #[error(
        "compression is gzip, but the content cannot be decompressed: {0}; drop compression if the content is plain"
    )]
    Malformed(String),
    /// It unpacks to more than is allowed.
    #[error("the content decompresses to more than {limit} bytes")]
    TooLarge {
        /// How much is allowed.
        limit: u64,
    },
}

/// The plain bytes of one or more gzip members, at most `limit` of them.
pub fn unpack(packed: &[u8], limit: u64) -> Result<Vec<u8>, GzipError> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(packed)
        .take(limit.saturating_add(1))
        .read_to_end(&mut plain)
        .map_err(|error| GzipError::Malformed(error.to_string()))?;
    if plain.len() as u64 > limit { Err(GzipError::TooLarge { limit }) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pack(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_are_unpacked_one_after_the_other() {
        assert_eq!(unpack(&[pack(b"one "), pack(b"two")].concat(), 7).unwrap(), b"one two");
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        assert_eq!(unpack(&pack(&[0; 1000]), 999), Err(GzipError::TooLarge { limit: 999 }));
        assert_eq!(unpack(&pack(&[0; 1000]), 1000).unwrap().len(), 1000);
    }

    #[test]
    fn damaged_and_plain_bytes_are_refused() {
        assert!(matches!(unpack(b"plain", 99), Err(GzipError::Malformed(_))));
        let packed = pack(b"plain");
        assert!(matches!(unpack(&packed[..packed.len() - 3], 99), Err(GzipError::Malformed(_))));
    }
}
