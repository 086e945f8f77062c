//! URLs: checked as Go's `net/url` does, because the machine's Ignition uses that, and redacted for messages.

use std::borrow::Cow;

use crate::node::quote;

/// What a message says for a text that is meant to be a URL, sound or not: nothing in it that may be a secret.
pub(crate) fn quote_url(text: &str) -> String {
    quote(&shown(text))
}

/// What a message says for a text that may be anything, a URL in the wrong place included.
pub(crate) fn quote_any(text: &str) -> String {
    if text.contains("://") { quote_url(text) } else { quote(text) }
}

/// A URL without what may be a secret: user and password, the values of its query, its fragment.
///
/// The text need not be a URL: those that are refused are the ones that are shown most. In doubt more is left out.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    const ELLIPSIS: char = '…';
    const SCHEMES: [&str; 5] = ["http", "https", "tftp", "s3", "gs"];
    if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) || !text.contains(['@', '?', '#']) {
        return Cow::Borrowed(text);
    }
    let name = split_scheme(text).map_or(String::new(), |(scheme, _)| scheme);
    let start = if name.is_empty() { 0 } else { name.len() + 1 };
    let has_host = text[start..].starts_with("//");
    let (scheme, rest) = text.split_at(if has_host { start + 2 } else { start });
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // A sign that comes late may end a password with a slash, a question mark or a hash sign that was not escaped, and
    // then nothing is where it seems to be; nor is it where a user's name looks like a scheme.
    let is_user = !name.is_empty() && !SCHEMES.contains(&&*name);
    if rest.contains('@') && !has_host || behind.contains('@') && (is_user || authority.contains(':')) {
        return Cow::Owned(format!("{scheme}{ELLIPSIS}"));
    }
    let rest = authority.rfind('@').map_or(rest, |at| &rest[at + 1..]);
    let mut out = scheme.to_owned();
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    out.push_str(path);
    for (nth, pair) in query.into_iter().flat_map(|query| query.split(['&', ';'])).enumerate() {
        out.push(if nth == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some(("versionId", _)) => out.push_str(pair),
            Some((name, _)) => {
                out.push_str(name);
                out.push('=');
                out.push(ELLIPSIS);
            }
            // A name alone may be the token itself.
            None if !pair.is_empty() && pair != "versionId" => out.push(ELLIPSIS),
            None => out.push_str(pair),
        }
    }
    Cow::Owned(out)
}

/// The scheme of a URL, in lower case; empty when there is none. `None` when the text is not a URL.
pub(crate) fn scheme(text: &str) -> Option<String> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return None;
    }
    // The fragment is cut off before anything else and must be well escaped.
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    if !is_escaped(fragment) {
        return None;
    }
    let (scheme, rest) = split_scheme(text)?;
    let rest = rest.split_once('?').map_or(rest, |(path, _query)| path);
    if !rest.starts_with('/') && !scheme.is_empty() {
        // Opaque, such as `data:…` or `arn:…`: not looked at.
        return Some(scheme);
    }
    if scheme.is_empty() && rest.split('/').next().unwrap_or_default().contains(':') {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        Some(after) if !after.starts_with('/') || !scheme.is_empty() => {
            let end = after.find('/').unwrap_or(after.len());
            if !is_authority(&after[..end], &scheme) {
                return None;
            }
            &after[end..]
        }
        _ => rest,
    };
    is_escaped(path).then_some(scheme)
}

/// The value of a query parameter, when it is given: the first one, unescaped as far as emptiness goes.
pub(crate) fn query<'u>(text: &'u str, name: &str) -> Option<&'u str> {
    let text = text.split_once('#').map_or(text, |(text, _)| text);
    let (_, query) = text.split_once('?')?;
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

/// What a host is asked for a URL: scheme, host and port. `None` for URLs that name no host.
pub(crate) fn host_of(text: &str) -> Option<&str> {
    // The scheme ends at the first colon: a long `data:` URL is not searched for another.
    let end = text.find(':')?;
    let rest = text[end..].strip_prefix("://")?;
    let length = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some(&text[..end + 3 + length])
}

fn split_scheme(text: &str) -> Option<(String, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Some((String::new(), text))
}

fn is_authority(text: &str, scheme: &str) -> bool {
    let (userinfo, host) = match text.rfind('@') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => ("", text),
    };
    let is_userinfo = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !userinfo.chars().all(is_userinfo) || !is_escaped(userinfo) {
        return false;
    }
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.rsplit_once(']') {
            Some((address, port)) if is_address(address) => (address, port),
            _ => return false,
        },
        None if host.contains('[') => return false,
        // Only the web has a say in how many colons a host may have.
        None => match if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') } {
            Some(colon) => host.split_at(colon),
            None => (host, ""),
        },
    };
    let port_ok = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    let is_host = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c);
    // A host may escape only bytes beyond ASCII, and an address the percent sign before its zone.
    let is_literal = host.starts_with('[');
    let escapes_ok =
        host_escapes(name).all(|byte| byte.is_some_and(|byte| byte >= 0x80 || (is_literal && byte == b'%')));
    port_ok && name.chars().all(is_host) && escapes_ok
}

/// The text in brackets: an IPv6 address, perhaps with a zone.
fn is_address(text: &str) -> bool {
    let (address, zone) = text.split_once("%25").map_or((text, None), |(address, zone)| (address, Some(zone)));
    address.parse::<std::net::Ipv6Addr>().is_ok() && zone != Some("")
}

fn host_escapes(text: &str) -> impl Iterator<Item = Option<u8>> + '_ {
    text.match_indices('%').map(|(at, _)| text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
}

fn is_escaped(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().all(|(at, byte)| {
        *byte != b'%' || bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://h/p", Some("http"))]
    #[case("HTTPS://h:443/%20", Some("https"))]
    #[case("data:,%zz", Some("data"))]
    #[case("arn:aws:s3:::b/k", Some("arn"))]
    #[case("/a/b", Some(""))]
    #[case("http://h/ blank", Some("http"))]
    #[case("http://[::1]:80/", Some("http"))]
    #[case("http://[fe80::1%25eth0]/", Some("http"))]
    #[case("http://[x]/", None)]
    #[case("http://[127.0.0.1]/", None)]
    #[case("http://a[b]/", None)]
    #[case("http://a:1:2/", None)]
    #[case("s3://a:1:2/", Some("s3"))]
    #[case("http://a:/", Some("http"))]
    #[case("http://h:8x/", None)]
    #[case("http://[::1/", None)]
    #[case("http://h/%zz", None)]
    #[case("http://h/\n", None)]
    #[case("http://a b/", None)]
    #[case(":x", None)]
    #[case("1x:y", None)]
    fn schemes(#[case] url: &str, #[case] expected: Option<&str>) {
        assert_eq!(scheme(url).as_deref(), expected);
    }

    #[test]
    fn the_host_is_scheme_and_authority() {
        assert_eq!(host_of("http://u@h:1/x?y#z"), Some("http://u@h:1"));
        assert_eq!(host_of("https://h"), Some("https://h"));
        assert_eq!(host_of("data:,x"), None);
    }

    #[test]
    fn queries_are_found_by_name() {
        assert_eq!(query("s3://b/k?versionId=", "versionId"), Some(""));
        assert_eq!(query("s3://b/k?a=1&versionId=x#f", "versionId"), Some("x"));
        assert_eq!(query("s3://b/k", "versionId"), None);
    }

    #[rstest]
    #[case("http://h/a", "http://h/a")]
    #[case("http://u:hunter2@h/%zz?sig=hunter2", "http://h/%zz?sig=…")]
    #[case("http://u:hunter2@h:80", "http://h:80")]
    #[case("http://hunter2@h/a#hunter2", "http://h/a")]
    #[case("http://u:hun/ter2@h/a", "http://…")]
    #[case("http://u:hun?ter2@h/a", "http://…")]
    #[case("http://u:hun#ter2@h/a", "http://…")]
    #[case("http://u:hun@ter2@h/a", "http://h/a")]
    #[case("http://h/pkg@1", "http://h/pkg@1")]
    #[case("S3://h/pkg@1", "S3://h/pkg@1")]
    #[case("root://hunter2?@h/", "root://…")]
    #[case("root://hunter2/@h/", "root://…")]
    #[case("//u:hunter2@h/a", "//h/a")]
    #[case("http:/u:hunter2@h/a", "http:…")]
    #[case("u:hunter2@h/a", "u:…")]
    #[case("1:hunter2@h//a", "…")]
    #[case("http://h:80/a?b=c@hunter2#d@hunter2", "http://…")]
    #[case("s3://b/k?a=hunter2&versionId=7;hunter2", "s3://b/k?a=…&versionId=7&…")]
    #[case("arn:aws:s3:::b/k?versionId=7", "arn:aws:s3:::b/k?versionId=7")]
    #[case("data:,a@b?c#d", "data:,a@b?c#d")]
    fn secrets_are_not_shown(#[case] url: &str, #[case] expected: &str) {
        assert_eq!(shown(url), expected);
    }

    proptest! {
        #[test]
        fn a_password_is_never_shown(
            scheme in "(http://|https://|s3://|gs:/|x:|//|)",
            // None that is a scheme that is known: then the password would be a host.
            user in "[a-f%1]{0,3}",
            word in "[/?#@:&=%a-z]{0,3}SECRET[/?#@:&=%a-z]{0,3}",
            rest in "h(:80)?/[a-z/%]{0,5}",
        ) {
            let text = shown(&format!("{scheme}{user}:{word}@{rest}")).into_owned();
            prop_assert!(!text.contains("SECRET"), "{}", text);
        }

        #[test]
        fn a_value_of_a_query_is_never_shown(start in "(http://|x:|/|)[a-z@:/]{0,6}", name in "[a-z]{0,3}", more in "[a-z=@/?]{0,5}(SECRET)?") {
            let text = shown(&format!("{start}?{name}=SECRET{more}#SECRET")).into_owned();
            prop_assert!(!text.contains("SECRET"), "{}", text);
        }

        #[test]
        fn any_text_has_a_scheme_or_is_refused(text in "\\PC{0,60}") {
            let _ = scheme(&text);
            let _ = query(&text, "versionId");
            let _ = host_of(&text);
            let _ = (quote_url(&text), quote_any(&text));
        }
    }
}
