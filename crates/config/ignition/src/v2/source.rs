//! Sources of spec 2.0.0, which are URLs rather than texts: they are parsed when read and serialized again.
//!
//! Compat: a rendered name depends on the result, so it is written the way Go's `net/url` writes a URL. Later versions
//! keep the text as it is.

use std::borrow::Cow;

use crate::url;

/// The URL as it is written again. A text that is no URL stays what it is, for the rules to refuse.
pub(super) fn rewritten(text: &str) -> Cow<'_, str> {
    if url::scheme(text).is_none() {
        return Cow::Borrowed(text);
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (scheme, rest) = split_scheme(rest);
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let mut out = String::with_capacity(text.len());
    if !scheme.is_empty() {
        out.push_str(&scheme.to_ascii_lowercase());
        out.push(':');
    }
    if !scheme.is_empty() && !rest.starts_with('/') {
        out.push_str(rest);
    } else {
        hierarchy(rest, scheme, &mut out);
    }
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
    if !fragment.is_empty() {
        out.push('#');
        out.push_str(&part(fragment, "$&+,/:;=?@!()*"));
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

fn split_scheme(text: &str) -> (&str, &str) {
    match text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))) {
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (&text[..end], &text[end + 1..])
        }
        _ => ("", text),
    }
}

/// Authority and path.
fn hierarchy(rest: &str, scheme: &str, out: &mut String) {
    let authority = rest.strip_prefix("//").filter(|after| !scheme.is_empty() || !after.starts_with('/'));
    let path = match authority {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            if !after.is_empty() {
                out.push_str("//");
            }
            let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
            if let Some(user) = user {
                let (name, password) = user.split_once(':').map_or((user, None), |(name, word)| (name, Some(word)));
                escape(&unescape(name), "$&+,;=", out);
                if let Some(password) = password {
                    out.push(':');
                    escape(&unescape(password), "$&+,;=", out);
                }
                out.push('@');
            }
            escape(&unescape(host), "!$&'()*+,;=:[]<>\"", out);
            path
        }
        None => rest,
    };
    out.push_str(&part(path, "$&+,/:;=@"));
}

/// A path or a fragment: unchanged when every character is valid there, otherwise escaped again.
fn part<'t>(text: &'t str, plain: &str) -> Cow<'t, str> {
    let may_stand = |c: char| is_unreserved(c) || plain.contains(c) || "!$&'()*+,;=:@[]%".contains(c);
    if text.chars().all(may_stand) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    escape(&unescape(text), plain, &mut out);
    Cow::Owned(out)
}

fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~".contains(c)
}

fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, hex) {
            (b'%', Some(escaped)) => {
                out.push(escaped);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

fn escape(bytes: &[u8], plain: &str, out: &mut String) {
    for byte in bytes {
        let c = char::from(*byte);
        if byte.is_ascii() && (is_unreserved(c) || plain.contains(c)) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("HTTP://a", "http://a")]
    #[case("http://a/é", "http://a/%C3%A9")]
    #[case("DATA:,x y", "data:,x y")]
    #[case("data:,x#", "data:,x")]
    #[case("http://h/a(b)", "http://h/a(b)")]
    #[case("http://h/a b(c)", "http://h/a%20b%28c%29")]
    #[case("http://h/%7e", "http://h/%7e")]
    #[case("http://u:p@é.example:80/?q=é#f g", "http://u:p@%C3%A9.example:80/?q=é#f%20g")]
    #[case("http://h?", "http://h?")]
    #[case("http:", "http:")]
    #[case("http:///p", "http:///p")]
    #[case("http://h/%zz", "http://h/%zz")]
    fn urls_are_written_like_go_writes_them(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(rewritten(text), expected);
    }

    proptest! {
        #[test]
        fn any_text_is_rewritten_or_kept(text in "\\PC{0,40}") {
            let _ = rewritten(&text);
        }

        #[test]
        fn a_rewritten_url_stays_what_it_is(text in "[a-zA-Z]{1,4}:[ -~é]{0,20}") {
            let once = rewritten(&text).into_owned();
            prop_assert_eq!(rewritten(&once).into_owned(), once.clone());
        }
    }
}
