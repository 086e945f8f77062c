//! Secret files: which files have secret contents. `render` prints the contents, because a machine needs them; `plan`, `diff`
//! and `explain` show their size only, because their output ends up in tickets and in the logs of pipelines.

use std::collections::HashSet;

use seaworthy_ignition::diff::{Change, ChangeKind, Entry};
use seaworthy_ignition::node::Node;
use seaworthy_ignition::{data_url, gzip};
use seaworthy_render::provenance::{self, Subject};
use seaworthy_values::text::counted;

use super::contents::{self, MAX_UNPACKED_BYTES};

/// The mode of a file whose config sets none.
const DEFAULT_MODE: i64 = 0o644;

/// Whether the contents of a file are secret: only its owner may read it, its path is known for secrets, or it contains a
/// private key.
pub fn is_secret_file(file: &Node<'_>) -> bool {
    is_private(file.get("mode").and_then(Node::as_int).unwrap_or(DEFAULT_MODE))
        || is_secret_path(file.text_of("path"))
        || file.get("contents").into_iter().chain(file.list_of("append")).any(|body| has_secret(body.text_of("source")))
}

/// Whether one of the two sides of a change is a file with a secret in it. Then both are hidden: what was one before its mode
/// was changed still is.
pub fn is_in(change: &Change<'_>) -> bool {
    if !matches!(change.entry, Entry::File(_) | Entry::Link(_) | Entry::Directory(_)) {
        return false;
    }
    match &change.what {
        ChangeKind::Added(node) | ChangeKind::Removed(node) => change.list == "files" && is_secret_file(node),
        ChangeKind::Changed { old, new, .. } => change.list == "files" && (is_secret_file(old) || is_secret_file(new)),
        ChangeKind::Moved { from, to, old, new } => {
            (*from == "files" && is_secret_file(old)) || (*to == "files" && is_secret_file(new))
        }
    }
}

/// The files of a history whose contents are a secret, or have been one in a MachineConfig that lost.
pub fn among<'e>(entries: &'e [provenance::Entry<'_>]) -> HashSet<&'e Subject> {
    let is_secret_entry = |entry: &&provenance::Entry<'_>| {
        let Subject::File(path) = &entry.subject else { return false };
        let lost = entry.overrode.iter().chain(&entry.ignored).filter_map(|lost| lost.value.as_ref());
        let mut values = std::iter::once(&entry.value).chain(lost);
        is_secret_path(path)
            || (entry.field == "mode" && values.clone().any(|value| value.as_int().is_some_and(is_private)))
            || (holds_contents(&entry.field) && values.any(|value| value.as_str().is_some_and(has_secret)))
    };
    entries.iter().filter(is_secret_entry).map(|entry| &entry.subject).collect()
}

/// Whether a field of a file reveals its contents: the source, and the hash, from which a short secret can be guessed.
pub fn holds_contents(field: &str) -> bool {
    (field.starts_with("contents") || field.starts_with("append"))
        && (field.ends_with("source") || field.ends_with("hash"))
}

/// The summary of hidden contents.
pub fn summary(bytes: &[u8]) -> String {
    format!("{}, hidden", size(bytes))
}

/// The summary of a change of hidden contents.
pub fn difference(old: &[u8], new: &[u8]) -> String {
    format!("{} → {}, hidden", size(old), size(new))
}

fn size(bytes: &[u8]) -> String {
    if bytes.is_empty() { "empty".to_owned() } else { counted(bytes.len(), "byte") }
}

/// How many bytes the contents of a file have, if the config holds them.
pub fn size_of(file: &Node<'_>) -> Option<usize> {
    contents::of_body(file.get("contents")?).ok().map(|bytes| bytes.len())
}

/// Whether neither the group nor others may read a file with this mode.
fn is_private(mode: i64) -> bool {
    mode & 0o044 == 0
}

/// Whether a path is known for secrets, whatever its mode: keys, kubeconfigs, and what registries are logged in to with.
fn is_secret_path(path: &str) -> bool {
    const ENDINGS: [&str; 9] =
        [".key", "-key.pem", "/key.pem", ".keytab", ".p12", ".pfx", ".jks", ".kubeconfig", "/.kube/config"];
    const NAMES: [&str; 10] = [
        "auth.json",
        ".dockercfg",
        ".netrc",
        "gshadow",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "id_rsa",
        "kubeconfig",
        "shadow",
    ];
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    ENDINGS.iter().any(|ending| path.ends_with(ending))
        || NAMES.contains(&name)
        || (path.starts_with("/etc/kubernetes/") && name.contains("kubeconfig"))
        || (name == "config.json" && (folder == "/var/lib/kubelet" || folder.ends_with("/.docker")))
        || (name.starts_with("ssh_host_") && name.ends_with("_key"))
        || name.ends_with("pull-secret.json")
}

/// Whether there is a secret in what a source embeds. Compressed content is decompressed, also without a `compression` field.
fn has_secret(source: &str) -> bool {
    let Some(bytes) = source.starts_with("data:").then(|| data_url::decode(source).ok()).flatten() else {
        return false;
    };
    match bytes.starts_with(&[0x1f, 0x8b]).then(|| gzip::unpack(&bytes, MAX_UNPACKED_BYTES)) {
        Some(Ok(unpacked)) => is_secret(&unpacked),
        _ => is_secret(&bytes),
    }
}

/// Whether bytes have a private key in them (a PEM block, or what a kubeconfig has one in), or the logins of registries.
fn is_secret(bytes: &[u8]) -> bool {
    const BEGIN: &str = "-----BEGIN ";
    let text = String::from_utf8_lossy(bytes);
    let is_private_key = |rest: &str| {
        let label = rest.split_once("-----").map_or("", |(label, _)| label);
        !label.contains('\n') && (label.ends_with("PRIVATE KEY") || label.ends_with("PRIVATE KEY BLOCK"))
    };
    text.split(BEGIN).skip(1).any(is_private_key) || text.contains("client-key-data") || text.contains("\"auths\"")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn is_secret_with(path: &str, mode: Value, source: &str) -> bool {
        let file = json!({"path": path, "mode": mode, "contents": {"source": source}});
        is_secret_file(&Node::from_json(&file))
    }

    #[test]
    fn file_that_only_its_owner_reads_is_a_secret() {
        for (mode, expected) in [
            (0o600, true),
            (0o400, true),
            (0o700, true),
            (0o711, true),
            (0o4700, true),
            (0, true),
            (0o640, false),
            (0o604, false),
            (0o644, false),
        ] {
            assert_eq!(is_secret_with("/etc/a", json!(mode), "data:,a"), expected, "{mode:o}");
        }
    }

    #[test]
    fn file_without_a_mode_is_read_by_all() {
        assert!(!is_secret_with("/etc/a", Value::Null, "data:,a"));
        assert!(!is_secret_file(&Node::from_json(&json!({"path": "/etc/a"}))));
    }

    #[test]
    fn contents_with_a_private_key_or_logins_are_a_secret() {
        for (source, expected) in [
            ("data:,-----BEGIN%20PRIVATE%20KEY-----%0AMIIE", true),
            ("data:,a%0A-----BEGIN%20RSA%20PRIVATE%20KEY-----%0AMIIE", true),
            ("data:,-----BEGIN%20OPENSSH%20PRIVATE%20KEY-----", true),
            ("data:;base64,LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCg==", true),
            ("data:,-----BEGIN%20CERTIFICATE-----%0AMIIE", false),
            ("data:,-----BEGIN%20PUBLIC%20KEY-----%0AMIIE", false),
            ("data:,%20client-key-data:%20x", true),
            ("data:,%7B%22auths%22:%7B%7D%7D", true),
            ("data:,the%20PRIVATE%20KEY%20is%20elsewhere", false),
            ("https://h/a", false),
            ("", false),
        ] {
            assert_eq!(is_secret_with("/etc/a", json!(420), source), expected, "{source}");
            let appended = json!({"path": "/etc/a", "append": [{"source": "data:,a"}, {"source": source}]});
            assert_eq!(is_secret_file(&Node::from_json(&appended)), expected, "{source}");
        }
    }

    #[test]
    fn compressed_private_key_is_a_secret_with_or_without_the_compression_field() {
        // printf -- '-----BEGIN PRIVATE KEY-----\n' | gzip -n | base64
        let source = "data:;base64,H4sIAAAAAAAAA9PVBQInV3dPP4WAIM8wxxBXBW/XSJCgLhcAzf/8GxwAAAA=";
        assert!(is_secret_with("/etc/a", json!(420), source));
        let declared = json!({"path": "/etc/a", "contents": {"source": source, "compression": "gzip"}});
        assert!(is_secret_file(&Node::from_json(&declared)));
    }

    #[test]
    fn paths_that_are_known_for_secrets_are_secret() {
        for (path, expected) in [
            ("/var/lib/kubelet/config.json", true),
            ("/root/.docker/config.json", true),
            ("/etc/containers/auth.json", true),
            ("/etc/ostree/auth.json", true),
            ("/etc/mco/internal-registry-pull-secret.json", true),
            ("/etc/ssl/tls.key", true),
            ("/etc/kubernetes/kubeconfig", true),
            ("/etc/kubernetes/bootstrap-kubeconfig.yaml", true),
            ("/root/.kube/config", true),
            ("/etc/ssh/ssh_host_ed25519_key", true),
            ("/etc/ssh/ssh_host_ed25519_key.pub", false),
            ("/etc/kubernetes/kubelet.conf", false),
            ("/etc/keyboard", false),
            ("/opt/config.json", false),
        ] {
            assert_eq!(is_secret_with(path, json!(420), "data:,a"), expected, "{path}");
        }
    }

    #[test]
    fn hidden_contents_are_shown_by_size_without_a_digest() {
        assert_eq!(summary(b"\0\0"), "2 bytes, hidden");
        assert_eq!(difference(b"", b"a"), "empty → 1 byte, hidden");
    }
}
