//! SSH keys for display: comment and fingerprint instead of the key data.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use seaworthy_fetch::Digest;

/// A line of an `authorized_keys` file in a few words: `me@host (ssh-ed25519, SHA256:…)`, the fingerprint being the one
/// that `ssh-keygen -l` prints. `None` when the line holds no key.
pub fn described(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // Options may precede the key. The key type is repeated in the key's own bytes, which identifies it.
    let (at, blob) = words.windows(2).enumerate().find_map(|(at, pair)| {
        let blob = STANDARD.decode(pair[1]).ok()?;
        holds_kind(&blob, pair[0]).then_some((at, blob))
    })?;
    let fingerprint = STANDARD_NO_PAD.encode(Digest::sha256(&blob).as_bytes());
    let options = if at > 0 { ", with options" } else { "" };
    let key = format!("({}, SHA256:{fingerprint}{options})", words[at]);
    let comment = words[at + 2..].join(" ");
    Some(if comment.is_empty() { format!("without a comment {key}") } else { format!("{comment} {key}") })
}

/// Whether the bytes of a key begin with its kind, as all do: four bytes of length, then the text.
fn holds_kind(blob: &[u8], kind: &str) -> bool {
    let length = u32::try_from(kind.len()).unwrap_or(u32::MAX).to_be_bytes();
    blob.strip_prefix(&length).is_some_and(|rest| rest.starts_with(kind.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::described;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHhcFiKMP64BnbjatY23LJDtkoqCZr5vbbjUO3Qi6ZA3";
    // As ssh-keygen -l prints it.
    const FINGERPRINT: &str = "SHA256:1DvnS6lWhUZjaSJWGD/lE3u78+lP/oEs0vXRGtYN6UM";

    #[test]
    fn key_is_described_by_comment_and_fingerprint() {
        let comment = described(&format!("{KEY} me@host at work")).unwrap();
        assert_eq!(comment, format!("me@host at work (ssh-ed25519, {FINGERPRINT})"));
        assert_eq!(described(KEY).unwrap(), format!("without a comment (ssh-ed25519, {FINGERPRINT})"));
        let options = described(&format!("command=\"/bin/true now\",no-pty {KEY} me")).unwrap();
        assert_eq!(options, format!("me (ssh-ed25519, {FINGERPRINT}, with options)"));
    }

    #[test]
    fn what_is_no_key_is_not_described() {
        for line in
            ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa not base64", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIGx3"]
        {
            assert_eq!(described(line), None, "{line}");
        }
    }
}
