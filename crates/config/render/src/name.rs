//! Names of rendered MachineConfigs: a digest of the spec, so that equal inputs give equal names.

use std::fmt::{self, Write};

use md5::{Digest, Md5};
use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_ignition::node::Node;

use crate::yaml;

/// Mixed in front of the text. Compat: the machine-config operator uses these bytes, so its names and ours are equal.
const SALT: [u8; 80] = [
    0x10, 0x7c, 0xce, 0xe4, 0x8b, 0x38, 0xaf, 0xaf, 0x4f, 0xe5, 0x86, 0x76, 0x9d, 0x9a, 0xd3, 0x6e, 0x19, 0x5d, 0x2f,
    0xfd, 0xac, 0x6a, 0x25, 0x07, 0xae, 0x0d, 0xa0, 0xb9, 0x6e, 0x11, 0x57, 0x34, 0xdb, 0x83, 0x0c, 0xce, 0xda, 0x8d,
    0x74, 0x87, 0xbc, 0xb5, 0xc0, 0x97, 0xe9, 0x3e, 0x7e, 0xa5, 0x40, 0x53, 0xb3, 0x77, 0x0f, 0xa8, 0xd0, 0xc5, 0x92,
    0x6b, 0x3a, 0xe3, 0x85, 0xbc, 0xee, 0x1a, 0x21, 0x1a, 0xeb, 0xca, 0x20, 0xad, 0x1f, 0xea, 0x29, 0x90, 0x94, 0x4f,
    0x06, 0xce, 0x17, 0x16,
];

/// `rendered-<pool>-<digest>`.
pub(crate) fn rendered(pool: &str, spec: &Node<'_>) -> String {
    let mut digest = DigestWriter {
        digest: Md5::new_with_prefix(SALT),
        buffer: String::with_capacity(DigestWriter::BUFFER_SIZE + 4096),
    };
    // Writing to a digest cannot fail.
    let _ = yaml::write(spec, &mut digest);
    let mut name = format!("{RENDERED_PREFIX}{pool}-");
    for byte in digest.finish() {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Digests what is written to it, in large pieces: many small updates are slow.
struct DigestWriter {
    digest: Md5,
    buffer: String,
}

impl DigestWriter {
    const BUFFER_SIZE: usize = 32 * 1024;

    fn finish(mut self) -> impl IntoIterator<Item = u8> {
        self.digest.update(self.buffer.as_bytes());
        self.digest.finalize()
    }
}

impl Write for DigestWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.buffer.len() + text.len() > Self::BUFFER_SIZE {
            self.digest.update(self.buffer.as_bytes());
            self.buffer.clear();
            if text.len() > Self::BUFFER_SIZE / 2 {
                self.digest.update(text.as_bytes());
                return Ok(());
            }
        }
        self.buffer.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use seaworthy_ignition::node::{Origin, Value};

    use super::*;

    #[test]
    fn a_digest_in_pieces_is_the_digest_of_the_whole() {
        let full = DigestWriter::BUFFER_SIZE;
        for length in [0, 1, full / 2 - 1, full / 2, full / 2 + 1, full - 1, full, full + 1, 3 * full] {
            let texts = ["a".repeat(length), "b c".to_owned(), "d".repeat(length), "e\n".repeat(length)];
            let spec = Node::made(Value::List(texts.iter().map(|text| Node::str_at(text, Origin::NONE)).collect()));
            let mut whole = Md5::new_with_prefix(SALT);
            whole.update(yaml::to_string(&spec).as_bytes());
            let digest: String = whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(rendered("p", &spec), format!("rendered-p-{digest}"), "{length}");
        }
    }
}
