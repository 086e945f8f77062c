//! Image names: a check. A node annotation may hold any text; what is not a valid name must not be copied into an object.

/// Whether this can be the image of a MachineConfigNode: `host[:port][/namespace]/name@sha256:` and 64 digits.
pub(crate) fn is_image_name(text: &str) -> bool {
    let Some((name, digest)) = text.split_once('@').filter(|_| text.len() <= 447) else { return false };
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_digest = digest.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_hex));
    let is_word = |text: &str, others: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || others.contains(&byte))
    };
    let is_host = |text: &str| {
        let (host, port) = text.split_once(':').unwrap_or((text, "443"));
        let is_port = (2..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        is_port && host.contains('.') && host.split('.').all(|label| !label.is_empty() && is_word(label, b""))
    };
    let is_named = match name.split('/').collect::<Vec<_>>().as_slice() {
        [host, image] => is_host(host) && is_word(image, b"_."),
        [host, namespace, image] => {
            is_host(host) && namespace.len() <= 61 && is_word(namespace, b"_") && is_word(image, b"_.")
        }
        _ => false,
    };
    is_digest && is_named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_are_recognized() {
        let digest = format!("@sha256:{}", "0a".repeat(32));
        for name in ["quay.io/os", "quay.io:5000/a_b/c.d", "a-b.c/x"] {
            assert!(is_image_name(&format!("{name}{digest}")), "{name}");
        }
        for name in ["", "os", "localhost/os", "https://quay.io/os", "quay.io:1/os", "quay.io/a/b/c", "quay..io/os"] {
            assert!(!is_image_name(&format!("{name}{digest}")), "{name}");
        }
        for text in ["quay.io/os:latest", "quay.io/os@sha256:0a", &format!("quay.io/os{digest}@"), ""] {
            assert!(!is_image_name(text), "{text}");
        }
    }
}
