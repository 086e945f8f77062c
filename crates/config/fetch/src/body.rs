//! [`Reply`]: the body of a response, which is read, unpacked and verified within a limit.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::transport::TaskGuard;
use crate::{Compression, Digest, FailureKind};

/// The body of a response together with the connection that it is still arriving on.
#[derive(Debug)]
pub(crate) struct Reply {
    incoming: Incoming,
    /// Ends the connection when the reply is dropped, read or not.
    _connection: TaskGuard,
}

impl Reply {
    pub(crate) fn new(incoming: Incoming, connection: TaskGuard) -> Self {
        Self { incoming, _connection: connection }
    }

    /// All of the body, or a failure as soon as it turns out to be larger than `limit`.
    pub(crate) async fn read(mut self, limit: u64) -> Result<Bytes, FailureKind> {
        let announced = self.incoming.size_hint().lower();
        if announced > limit {
            return Err(too_large(limit, false));
        }
        let mut bytes = Vec::new();
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(|error| broken_off(&error, bytes.len()))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len() as u64 + data.len() as u64 > limit {
                    return Err(too_large(limit, false));
                }
                bytes.extend_from_slice(data);
            }
        }
        Ok(bytes.into())
    }

    /// The first `limit` bytes of the body, as far as they can be read.
    pub(crate) async fn beginning(mut self, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < limit {
            match self.incoming.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        bytes.extend_from_slice(data);
                    }
                }
                _ => break,
            }
        }
        bytes.truncate(limit);
        bytes
    }
}

/// The plain bytes of a body: unpacked within `limit`, then compared with the expected hash.
pub(crate) fn unpack_and_verify(
    body: Vec<u8>,
    compression: Option<Compression>,
    verification: Option<&Digest>,
    limit: u64,
) -> Result<Vec<u8>, FailureKind> {
    let plain = match compression {
        None => body,
        Some(Compression::Gzip) => gunzip(&body, limit)?,
    };
    if let Some(expected) = verification {
        let found = expected.of_same_kind(&plain);
        if found != *expected {
            return Err(FailureKind::Verification { expected: Box::new(expected.clone()), found: Box::new(found) });
        }
    }
    Ok(plain)
}

fn gunzip(packed: &[u8], limit: u64) -> Result<Vec<u8>, FailureKind> {
    let mut plain = Vec::new();
    // One byte more than the limit distinguishes "full" from "too large" without unpacking any further.
    MultiGzDecoder::new(packed)
        .take(limit.saturating_add(1))
        .read_to_end(&mut plain)
        .map_err(|error| FailureKind::Gzip { reason: error.to_string() })?;
    if plain.len() as u64 > limit {
        return Err(too_large(limit, true));
    }
    Ok(plain)
}

fn too_large(limit: u64, is_unpacked: bool) -> FailureKind {
    FailureKind::TooLarge { limit, is_unpacked }
}

fn broken_off(error: &hyper::Error, received: usize) -> FailureKind {
    FailureKind::Transport { reason: format!("the response body ended early after {received} bytes: {error}") }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(body: Vec<u8>, limit: u64) -> Result<Vec<u8>, FailureKind> {
        unpack_and_verify(body, Some(Compression::Gzip), None, limit)
    }

    #[test]
    fn the_hash_is_that_of_the_unpacked_bytes() {
        let packed = gzip(b"plain");
        let gzip = Some(Compression::Gzip);
        for expected in [Digest::sha256(b"plain"), Digest::sha512(b"plain")] {
            let plain = unpack_and_verify(packed.clone(), gzip, Some(&expected), 99).unwrap();
            assert_eq!(plain, b"plain");
        }
        let of_packed = Digest::sha256(&packed);
        let failure = unpack_and_verify(packed, gzip, Some(&of_packed), 99).unwrap_err();
        assert!(matches!(failure, FailureKind::Verification { .. }));
    }

    #[test]
    fn several_members_are_one_content() {
        let body = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(unpack(body, 99).unwrap(), b"one two");
    }

    #[test]
    fn unpacked_bytes_may_fill_the_limit_but_not_exceed_it() {
        let body = gzip(&[0; 1000]);
        assert_eq!(unpack(body.clone(), 1000).unwrap().len(), 1000);
        let failure = unpack(body, 999).unwrap_err();
        let (limit, is_unpacked) = (999, true);
        assert_eq!(failure, FailureKind::TooLarge { limit, is_unpacked });
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        // 100 MB packed into 100 kB.
        let body = gzip(&vec![0; 100_000_000]);
        assert!(body.len() < 200_000);
        let failure = unpack(body, 1 << 20).unwrap_err();
        assert!(matches!(failure, FailureKind::TooLarge { .. }));
    }

    #[test]
    fn plain_cut_off_and_trailing_bytes_are_not_gzip() {
        let packed = gzip(b"plain");
        let cut_off = packed[..packed.len() - 4].to_vec();
        let trailing = [packed, b"trailing".to_vec()].concat();
        for body in [b"plain".to_vec(), Vec::new(), cut_off, trailing] {
            let failure = unpack(body, 99).unwrap_err();
            assert!(matches!(failure, FailureKind::Gzip { .. }), "{failure}");
        }
    }
}
