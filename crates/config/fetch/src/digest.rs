//! [`Digest`]: the hash of content, in Ignition's format.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// A SHA-2 hash of some bytes, written `sha256-<64 hex digits>` or `sha512-<128 hex digits>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Digest {
    /// SHA-256.
    Sha256([u8; 32]),
    /// SHA-512.
    Sha512([u8; 64]),
}

/// A text that is not a [`Digest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a hash: expected sha256-<64 hex digits> or sha512-<128 hex digits>")]
pub struct ParseDigestError {
    found: String,
}

impl Digest {
    /// The SHA-256 of `bytes`.
    #[must_use]
    pub fn sha256(bytes: &[u8]) -> Self {
        Self::Sha256(Sha256::digest(bytes).into())
    }

    /// The SHA-512 of `bytes`.
    #[must_use]
    pub fn sha512(bytes: &[u8]) -> Self {
        Self::Sha512(Sha512::digest(bytes).into())
    }

    /// The hash of `bytes` by the same algorithm as `self`, to be compared with it.
    #[must_use]
    pub fn of_same_kind(&self, bytes: &[u8]) -> Self {
        match self {
            Self::Sha256(_) => Self::sha256(bytes),
            Self::Sha512(_) => Self::sha512(bytes),
        }
    }

    /// The lower-case hex digits without the algorithm.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(self.as_bytes())
    }

    /// The raw bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Sha512(bytes) => bytes,
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self {
            Self::Sha256(_) => "sha256",
            Self::Sha512(_) => "sha512",
        };
        write!(f, "{algorithm}-{}", self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = match text.split_once('-') {
            Some(("sha256", digits)) => unhex(digits).map(Self::Sha256),
            Some(("sha512", digits)) => unhex(digits).map(Self::Sha512),
            _ => None,
        };
        parsed.ok_or_else(|| ParseDigestError {
            // Long enough to recognise, short enough for one line.
            found: text.chars().take(160).collect(),
        })
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|nibble| char::from(DIGITS[usize::from(nibble)])).collect()
}

/// Exactly `N` bytes of hex digits of either case, or nothing.
pub(crate) fn unhex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_algorithms_agree_with_published_values() {
        assert_eq!(
            Digest::sha256(b"abc").to_string(),
            "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            Digest::sha512(b"abc").to_string(),
            "sha512-ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        );
    }

    #[test]
    fn upper_case_digits_are_the_same_hash() {
        let digest = Digest::sha256(b"abc");
        let upper = format!("sha256-{}", digest.to_hex().to_uppercase());
        assert_eq!(upper.parse::<Digest>().unwrap(), digest);
    }

    #[test]
    fn other_texts_are_refused_with_what_is_accepted() {
        let sha1 = "sha1-da39a3ee5e6b4b0d3255bfef95601890afd80709";
        let odd = format!("sha256-{}", "a".repeat(63));
        let signs = format!("sha256-{}", "+1".repeat(32));
        let wide = format!("sha256-{}é", "a".repeat(62));
        for text in ["", "sha256", sha1, &odd, &signs, &wide] {
            let error = text.parse::<Digest>().unwrap_err().to_string();
            assert!(error.contains("sha512-<128 hex digits>"), "{error}");
        }
    }
}
