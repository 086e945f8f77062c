//! URI format: a URI that a request line may carry, absolute or an absolute path.

use std::net::Ipv6Addr;

/// The component of a URI decides which characters are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UriComponent {
    Path,
    User,
    Host,
}

pub(crate) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Ok((scheme, rest)) = split_scheme(text) else { return false };
    let (rest, _query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        // `mailto:x` has no path to look at; a relative path has no place in a request.
        return scheme.is_some();
    }
    let mut path = rest;
    if let (Some(_), Some(after)) = (scheme, rest.strip_prefix("//")) {
        let end = after.find('/').unwrap_or(after.len());
        if !is_authority(&after[..end]) {
            return false;
        }
        path = &after[end..];
    }
    is_escaped_well(path, UriComponent::Path)
}

/// The scheme, if there is one, and what follows it. An empty one is a mistake.
fn split_scheme(text: &str) -> Result<(Option<&str>, &str), ()> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index > 0 => return Ok((Some(&text[..index]), &text[index + 1..])),
            b':' => return Err(()),
            _ => break,
        }
    }
    Ok((None, text))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, text),
    };
    let user_is_fine = user.is_none_or(|user| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        user.bytes().all(allowed) && is_escaped_well(user, UriComponent::User)
    });
    user_is_fine && is_host(host)
}

fn is_host(text: &str) -> bool {
    let is_port =
        |text: &str| text.is_empty() || text.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if let Some(inside) = text.strip_prefix('[') {
        let Some((address, port)) = inside.rsplit_once(']') else { return false };
        let (address, zone) =
            address.split_once("%25").map_or((address, None), |(address, zone)| (address, Some(zone)));
        return is_port(port) && zone.is_none_or(|zone| !zone.is_empty()) && address.parse::<Ipv6Addr>().is_ok();
    }
    let port_is_fine = text.find(':').is_none_or(|colon| is_port(&text[colon..]));
    port_is_fine && is_escaped_well(text, UriComponent::Host)
}

fn is_escaped_well(text: &str, part: UriComponent) -> bool {
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index] {
            b'%' => {
                let digits = bytes.get(index + 1..index + 3).unwrap_or_default();
                if digits.len() != 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return false;
                }
                // In a host, escapes are for characters beyond ASCII.
                if part == UriComponent::Host && digits[0] < b'8' && digits != b"25" {
                    return false;
                }
                index += 3;
                continue;
            }
            byte if part == UriComponent::Host
                && byte.is_ascii()
                && !byte.is_ascii_alphanumeric()
                && !b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte) =>
            {
                return false;
            }
            _ => {}
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://example.com/x", true)]
    #[case("http://user:pw@[::1]:80/", true)]
    #[case("mailto:a@b", true)]
    #[case("/path", true)]
    #[case("*", true)]
    #[case("", false)]
    #[case("path", false)]
    #[case("://x", false)]
    #[case("http://a b/", false)]
    #[case("http://a:x/", false)]
    #[case("/%zz", false)]
    #[case("http://[::1", false)]
    fn request_uris(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_request_uri(text), expected);
    }
}
