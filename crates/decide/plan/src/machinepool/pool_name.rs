//! Pool name as a label value: the name itself, or its hash where it is too long.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use seaworthy_values::names;

/// The value of the label with the pool's name.
///
/// Compat: the form of the hash is upstream's, because providers label their machines with it.
pub fn label_value(name: &str) -> String {
    if names::label_value(name).is_empty() {
        return name.to_owned();
    }
    format!("hash_{}_z", BASE64_URL_SAFE_NO_PAD.encode(fnv_1a(name.as_bytes()).to_be_bytes()))
}

/// FNV-1a with 32 bits.
fn fnv_1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_published_one() {
        assert_eq!(fnv_1a(b""), 0x811c_9dc5);
        assert_eq!(fnv_1a(b"a"), 0xe40c_292c);
        assert_eq!(fnv_1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn short_name_is_the_value_and_a_long_one_its_hash() {
        assert_eq!(label_value("pool"), "pool");
        assert_eq!(label_value(&"a".repeat(63)), "a".repeat(63));
        let hashed = label_value(&"a".repeat(64));
        assert!(hashed.starts_with("hash_") && hashed.ends_with("_z") && hashed.len() == 13, "{hashed}");
        assert_ne!(hashed, label_value(&"a".repeat(65)));
    }
}
