//! [`redact()`]: removes passwords and signatures from a URL, so that it may be shown.

use seaworthy_values::text::abbreviate;

/// The only query parameter whose value is shown: it picks a version of an object and is needed
/// to recognise which one was meant.
const SHOWN_PARAMETER: &str = "versionId";

/// Limit of the shown characters.
const MAX_SHOWN_CHARS: usize = 1000;

/// Replaces removed text.
const HIDDEN: &str = "…";

/// The URL without user information, fragment and query values, cut off where it is too long to read.
///
/// Works on text, not on a parsed URL, because a URL that cannot be parsed must be redacted as
/// well. Where in doubt it takes out too much: slashes may be missing or written backwards, as
/// URL parsers forgive that.
///
/// ```
/// use seaworthy_fetch::redact;
///
/// assert_eq!(redact("https://me:secret@host/f?sig=a%2Fb"), "https://host/f?sig=…");
/// assert_eq!(redact("s3://bucket/key?versionId=7"), "s3://bucket/key?versionId=7");
/// ```
#[must_use]
pub fn redact(url: &str) -> String {
    let mut shown = redact_once(url);
    // What is left may look like a URL with user information of its own.
    loop {
        let again = redact_once(&shown);
        if again == shown {
            return shown;
        }
        shown = again;
    }
}

fn redact_once(url: &str) -> String {
    // A longer URL is one that no person reads.
    abbreviate(&redact_parts(url), MAX_SHOWN_CHARS).into_owned()
}

fn redact_parts(url: &str) -> String {
    // Control characters could forge further lines in a log.
    let url: String = url.trim().chars().filter(|c| !c.is_control()).collect();
    if let Some(scheme) = scheme_of_broken(&url) {
        return format!("{scheme}{HIDDEN}");
    }
    let (url, fragment) = match url.split_once('#') {
        Some((url, _)) => (url.to_owned(), true),
        None => (url, false),
    };
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (url.as_str(), None),
    };
    let mut shown = without_userinfo(place);
    if let Some(query) = query {
        let parameters: Vec<String> = query.split('&').map(parameter).collect();
        shown.push('?');
        shown.push_str(&parameters.join("&"));
    }
    if fragment {
        shown.push('#');
        shown.push_str(HIDDEN);
    }
    shown
}

fn without_userinfo(place: &str) -> String {
    let (scheme, rest) = match place.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
        _ => ("", place),
    };
    let is_slash = |c| c == '/' || c == '\\';
    let authority_start = rest.len() - rest.trim_start_matches(is_slash).len();
    let (slashes, rest) = rest.split_at(authority_start);
    let authority_end = rest.find(is_slash).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    // The last one: a password may contain the sign itself.
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let colon = if scheme.is_empty() { "" } else { ":" };
    format!("{scheme}{colon}{slashes}{host}{path}")
}

/// The scheme (with the slashes) of a URL whose password has a slash, a question mark or a hash sign that was not
/// escaped: then nothing is where it seems to be, and none of the rest may be shown.
fn scheme_of_broken(url: &str) -> Option<&str> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let (authority, behind) = rest.split_at(rest.find(['/', '\\', '?', '#'])?);
    let port = authority.rsplit_once(':').map(|(_, port)| port)?;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) || port.ends_with(']');
    (behind.contains('@') && !is_port && !authority.contains('@')).then_some(scheme)
}

/// Whether `text` before a colon is a scheme rather than the user name of `user:password@host`.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, value)) if name == SHOWN_PARAMETER => format!("{name}={value}"),
        Some((name, _)) => format!("{name}={HIDDEN}"),
        // Without a name the whole of it may be the secret.
        None if parameter.is_empty() => String::new(),
        None => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("http://host/path", "http://host/path")]
    #[case("http://host:8080/a@b", "http://host:8080/a@b")]
    #[case("https://user@host/", "https://host/")]
    #[case("https://user:p@ss@host/", "https://host/")]
    #[case("https:\\\\user:pass@host\\x", "https:\\\\host\\x")]
    #[case("https:user:pass@host/x", "https:host/x")]
    #[case("https:///user:pass@host/x", "https:///host/x")]
    #[case("user:pass@host/x", "user:host/x")]
    #[case("@a://me:pass@host", "a://host")]
    #[case("https://me:pa/ss@host/", "https://…")]
    #[case("https://me:pa?ss@host/", "https://…")]
    #[case("https://me:pa#ss@host/", "https://…")]
    #[case("https://[::1]/a@b", "https://[::1]/a@b")]
    #[case("https://host/?mail=a@b", "https://host/?mail=…")]
    #[case("https://host/?X-Amz-Signature=ab&X-Amz-Expires=9", "https://host/?X-Amz-Signature=…&X-Amz-Expires=…")]
    #[case("https://host/?token", "https://host/?…")]
    #[case("https://host/?", "https://host/?")]
    #[case("https://host/#access_token=x", "https://host/#…")]
    #[case("s3://b/k?versionId=1&x=2", "s3://b/k?versionId=1&x=…")]
    #[case("arn:aws:s3:::bucket/key", "arn:aws:s3:::bucket/key")]
    #[case("  http://host/\r\nforged: line", "http://host/forged: line")]
    #[case("", "")]
    fn secrets_are_taken_out(#[case] url: &str, #[case] shown: &str) {
        assert_eq!(redact(url), shown);
    }

    #[test]
    fn a_long_url_is_cut() {
        for long in [format!("https://host/{}", "x".repeat(5000)), format!("https://host/?{}", "a&".repeat(5000))] {
            let shown = redact(&long);
            assert_eq!(shown.chars().count(), MAX_SHOWN_CHARS + 1, "{shown}");
            assert_eq!(redact(&shown), shown);
        }
    }

    proptest! {
        #[test]
        fn no_password_or_query_value_survives(
            user in "[a-z]{1,8}",
            host in "[a-z]{1,8}",
            name in "[a-z]{1,8}",
        ) {
            let shown = redact(&format!("https://{user}:SECRET@{host}/p?{name}=SECRET#SECRET"));
            prop_assert!(!shown.contains("SECRET"), "{}", shown);
            prop_assert!(shown.contains(&host));
        }

        #[test]
        fn any_text_is_taken(text in any::<String>()) {
            let shown = redact(&text);
            prop_assert!(!shown.contains('\n'));
            prop_assert_eq!(redact(&shown), shown);
        }
    }
}
