//! Validation rules of everything that is fetched: bodies, references, certificates, headers, hashes, proxies.

use super::Check;
use crate::data_url::{self, DataUrlError};
use crate::node::{Node, quote};
use crate::problem::PathRef;
use crate::spelling;
use crate::url::{self, quote_any, quote_url};
use crate::version::Version;

/// A body or a reference.
pub(crate) fn resource(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    compression(node, place, check);
    source(node, place, check);
    // Differs: 3.0 takes such a hash in references, because its rule was for files only; 3.5 does not.
    if let Some(hash) = node.get("verification").and_then(|verification| verification.get("hash"))
        && node.get("source").is_none()
    {
        let message = "a hash needs a source: source must be specified if verification.hash is";
        check.report.error(&place.key("verification").key("hash"), hash, "hash-without-source", message);
    }
    let headers = node.list_of("httpHeaders");
    if !headers.is_empty() {
        let scheme = url::scheme(node.text_of("source"));
        if !matches!(scheme.as_deref(), Some("http" | "https")) {
            let list = node.get("httpHeaders").unwrap_or(node);
            let message = "headers are only sent to http and https sources; drop httpHeaders or change the source";
            check.report.error(&place.key("httpHeaders"), list, "headers-scheme", message);
        }
    }
}

/// How a body is compressed.
pub(crate) fn compression(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if let Some(compression) = node.get("compression")
        && !matches!(compression.as_str(), Some("" | "gzip"))
    {
        let found = quote_any(compression.as_str().unwrap_or_default());
        let message = format!("invalid compression method {found}; expected \"gzip\" or \"\"");
        check.report.error(&place.key("compression"), compression, "compression", message);
    }
}

/// Where a body comes from; an empty source is as good as none.
pub(crate) fn source(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if let Some(source) = node.get("source")
        && check.looks_at_sources
        && !source.as_str().unwrap_or_default().is_empty()
    {
        check_source(source, &place.key("source"), check);
    }
}

/// A source that is given.
fn check_source(source: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let text = source.as_str().unwrap_or_default();
    // The common case first, without taking the URL apart: a body that is embedded already.
    if text.starts_with("data:") {
        if let Err(error) = data_url::check(text) {
            let message = format!("cannot decode {}: {error}{}", quote_url(text), escaped_suggestion(text, &error));
            check.report.error(place, source, "source-data", message);
        }
        return;
    }
    let Some(scheme) = url::scheme(text) else {
        let hint = if text.contains(char::is_whitespace) {
            inline_hint(text)
        } else {
            format!("; accepted in version {} are URLs that start with {}", check.version, schemes(check.version))
        };
        let message = format!("unable to parse the URL {}{hint}", quote_url(text));
        check.report.error(place, source, "source-url", message);
        return;
    };
    match scheme.as_str() {
        "http" | "https" => {}
        "tftp" if check.version >= Version::V2_1 => {}
        "gs" if check.version >= Version::V3_2 => {}
        "s3" if check.version >= Version::V2_1 => check_version_id(text, source, place, check),
        "arn" if check.version >= Version::V3_4 => {
            if is_s3_arn(text) {
                check_version_id(text, source, place, check);
            } else {
                let message = format!(
                    "{} does not name an S3 object; expected arn:<partition>:s3:<region>:<account>:<bucket>/<key> \
                     or …:accesspoint/<name>/object/<key>",
                    quote_url(text)
                );
                check.report.error(place, source, "source-arn", message);
            }
        }
        _ => {
            let found = match scheme.as_str() {
                "" => "no url scheme".to_owned(),
                "data" => "\"data:\" is written in lower case".to_owned(),
                scheme => format!("invalid url scheme {}", quote(scheme)),
            };
            let near = spelling::nearest(&scheme, ["arn", "data", "http", "https"]).filter(|near| *near != scheme);
            let is_text = scheme.is_empty() || text.contains(char::is_whitespace);
            let message = format!(
                "{found} in {}; accepted in version {} are {}{}",
                quote_url(text),
                check.version,
                schemes(check.version),
                match near {
                    Some(near) => format!("; did you mean {near}:?"),
                    None if is_text => inline_hint(text),
                    None => String::new(),
                }
            );
            check.report.error(place, source, "source-scheme", message);
        }
    }
}

/// What to write when a text itself is meant and not where it comes from.
fn inline_hint(text: &str) -> String {
    const MAX_SUGGESTED_LENGTH: usize = 60;
    if text.contains("://") {
        return "; a space in a URL is written as %20".to_owned();
    }
    if text.starts_with("data;") || text.starts_with("data,") || text.starts_with("base64,") {
        return "; embedded content starts with \"data:,\" or \"data:;base64,\"".to_owned();
    }
    // What is not shown of a URL must not come back as a proposal.
    if text.len() > MAX_SUGGESTED_LENGTH || url::shown(text) != text {
        return "; inline text is written as \"data:,…\" with %20 for a space and %0A for a line break".to_owned();
    }
    format!("; if the text itself is meant, write \"data:,{}\"", data_url::escape(text))
}

/// The whole of a short text in a `data:` URL as it should have been written.
fn escaped_suggestion(url: &str, error: &DataUrlError) -> String {
    const MAX_SUGGESTED_LENGTH: usize = 60;
    match (error, url.split_once(',')) {
        (DataUrlError::Character { .. }, Some((head, body)))
            if body.len() <= MAX_SUGGESTED_LENGTH && !body.contains('%') =>
        {
            format!("; the whole is \"{head},{}\"", data_url::escape(body))
        }
        _ => String::new(),
    }
}

/// The schemes to choose from. `tftp`, which machines take from 2.1.0 on, is not proposed: rendering refuses it.
fn schemes(version: Version) -> &'static str {
    match version {
        Version::V2_0 => "data, http, https",
        Version::V2_1 | Version::V2_2 | Version::V3_0 | Version::V3_1 => "data, http, https, s3",
        Version::V3_2 | Version::V3_3 => "data, gs, http, https, s3",
        Version::V3_4 | Version::V3_5 => "arn, data, gs, http, https, s3",
    }
}

fn check_version_id(text: &str, source: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if url::query(text, "versionId") == Some("") {
        check.report.error(place, source, "source-version-id", "versionId is empty; drop it or name a version");
    }
}

/// `arn:partition:s3:region:account:resource`, where the resource names a bucket and a key in it.
fn is_s3_arn(text: &str) -> bool {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let mut sections = text.splitn(6, ':').skip(2);
    let service = sections.next();
    let Some(resource) = sections.nth(2) else {
        return false;
    };
    let slashes = text.matches('/').count();
    // Behind a slash it is a path and no name.
    let is_name = !text.get("arn:".len()..).unwrap_or_default().starts_with('/');
    is_name && service == Some("s3") && if resource.starts_with("accesspoint/") { slashes >= 2 } else { slashes >= 1 }
}

/// The hash of a body.
pub(crate) fn verification(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    let Some(hash) = node.get("hash") else { return };
    let text = hash.as_str().unwrap_or_default();
    let problem = match text.split_once('-') {
        None => "has no dash",
        Some(("sha256", _)) if check.version < Version::V3_1 => {
            "names a hash function that only version 3.1.0 and later know"
        }
        // Differs: upstream counts characters and takes any, because it never looks inside; a sum that is not
        // hexadecimal cannot be that of any file.
        Some((_, sum)) if !sum.bytes().all(|byte| byte.is_ascii_hexdigit()) => "is not hexadecimal after the dash",
        Some((function, sum)) => match (function, sum.len()) {
            ("sha256", 64) | ("sha512", 128) => return,
            ("sha256" | "sha512", _) => "has the incorrect size for its hash sum",
            _ => "names an unrecognized hash function",
        },
    };
    let message = format!("{} {problem}; expected sha256-<64 hex digits> or sha512-<128 hex digits>", quote(text));
    check.report.error(&place.key("hash"), hash, "hash", message);
}

/// A header that is sent with a request.
pub(crate) fn header(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    if node.text_of("name").is_empty() {
        check.report.error(&place.key("name"), node, "header-name", "a header's name may not be empty");
    }
    if let Some(value) = node.get("value")
        && value.as_str() == Some("")
    {
        let message = "a header's value may not be empty; leave it out to take the header away";
        check.report.error(&place.key("value"), value, "header-value", message);
    }
}

/// The references to other configs.
pub(crate) fn references(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    required_sources(node, "merge", place, check);
}

/// Certificate authorities.
pub(crate) fn tls(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    required_sources(node, "certificateAuthorities", place, check);
}

/// Differs: 3.0 and 2.x take a reference without a source, because theirs has no pointer to check; it does nothing, and
/// in
/// 3.5, which everything is merged in, it is no valid config.
fn required_sources(node: &Node<'_>, list: &str, place: &PathRef<'_>, check: &mut Check) {
    for (index, item) in node.list_of(list).iter().enumerate() {
        if item.text_of("source").is_empty() {
            check.report.error(&place.key(list).index(index), item, "source-required", "source is required");
        }
    }
}

/// The proxies for fetching.
pub(crate) fn proxy(node: &Node<'_>, place: &PathRef<'_>, check: &mut Check) {
    for key in ["httpProxy", "httpsProxy"] {
        let Some(proxy) = node.get(key) else { continue };
        let text = proxy.as_str().unwrap_or_default();
        let here = place.key(key);
        match url::scheme(text).as_deref() {
            Some("https") => {}
            Some("http") if key == "httpProxy" => {}
            Some("http") => {
                let message = "requests for https sources go to the proxy unencrypted; use an https proxy";
                check.report.warn(&here, proxy, "insecure-proxy", message);
            }
            _ => {
                let message = format!("{} is not a proxy URL; expected an http:// or https:// URL", quote_url(text));
                check.report.error(&here, proxy, "proxy", message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use crate::node::Node;
    use crate::parse::{check, parse};
    use crate::{Version, diff, translate_down};

    const SECRET: &str = "http://u:hunter2@h/%zz?sig=hunter2";
    const FTP: &str = "ftp://u:hunter2@h/?sig=hunter2";

    fn file(source: &str) -> Value {
        json!({"storage": {"files": [{"path": "/a", "contents": {"source": source}}]}})
    }

    fn tang(url: &str) -> Value {
        json!({"storage": {"luks": [{"name": "a", "device": "/d", "clevis": {"tang": [
            {"url": url, "thumbprint": "x"}, {"url": url, "thumbprint": "x"}]}}]}})
    }

    #[rstest]
    #[case::not_a_url("3.5.0", file(SECRET), "source-url")]
    #[case::scheme("3.5.0", file(FTP), "source-scheme")]
    #[case::arn("3.5.0", file("arn:u:hunter2@h?sig=hunter2"), "source-arn")]
    #[case::version_2("2.2.0", json!({"storage": {"files": [
        {"filesystem": "root", "path": "/a", "contents": {"source": FTP}}]}}), "source-scheme")]
    #[case::tang("3.5.0", tang(FTP), "tang-url")]
    #[case::tang_twice("3.5.0", tang(SECRET), "duplicate")]
    #[case::proxy("3.5.0", json!({"ignition": {"proxy": {"httpProxy": SECRET}}}), "proxy")]
    #[case::merge_twice("3.5.0", json!({"ignition": {"config": {"merge": [{"source": SECRET}, {"source": SECRET}]}}}), "duplicate")]
    #[case::authority_twice("3.5.0",
        json!({"ignition": {"security": {"tls": {"certificateAuthorities": [{"source": SECRET}, {"source": SECRET}]}}}}),
        "duplicate")]
    #[case::compression("3.5.0", json!({"storage": {"files": [{"path": "/a", "contents": {"compression": SECRET}}]}}), "compression")]
    #[case::wrong_place("3.5.0", json!({"storage": {"files": [{"path": "/a", "contents": SECRET}]}}), "wrong-type")]
    #[case::path("3.5.0", json!({"storage": {"files": [{"path": SECRET}]}}), "path-not-absolute")]
    #[case::path_2("2.2.0", json!({"storage": {"files": [{"filesystem": "root", "path": SECRET}]}}), "path-not-absolute")]
    fn no_message_has_the_secrets_of_a_url(#[case] version: &str, #[case] mut config: Value, #[case] code: &str) {
        config["ignition"]["version"] = version.into();
        let mut node = Node::from_json(&config);
        node.number(0);
        let problems = parse(&node).unwrap_err();
        assert!(problems.iter().any(|problem| problem.code == code), "{problems:?}");
        assert!(!format!("{problems:?}").contains("hunter2"), "{problems:?}");
        assert!(!format!("{:?}", check(&node)).contains("hunter2"));
    }

    #[rstest]
    #[case(
        "hello world",
        "no url scheme in \"hello world\"; accepted in version 3.5.0 are arn, data, gs, http, https, s3; \
        if the text itself is meant, write \"data:,hello%20world\""
    )]
    #[case("a: b\nc", "unable to parse the URL \"a: b\\nc\"; if the text itself is meant, write \"data:,a:%20b%0Ac\"")]
    #[case("data:,50 %25", "cannot decode \"data:,50 %25\": character 3 after the comma, ' ', must be written as %20")]
    #[case(
        "data:,a b",
        "cannot decode \"data:,a b\": character 2 after the comma, ' ', must be written as %20; \
        the whole is \"data:,a%20b\""
    )]
    #[case(
        "DATA:,x",
        "\"data:\" is written in lower case in \"DATA:,x\"; accepted in version 3.5.0 are arn, data, gs, \
        http, https, s3"
    )]
    #[case(
        "ftp://h/a",
        "invalid url scheme \"ftp\" in \"ftp://h/a\"; accepted in version 3.5.0 are arn, data, gs, \
        http, https, s3"
    )]
    #[case(
        "data;base64,aGk=",
        "no url scheme in \"data;base64,aGk=\"; accepted in version 3.5.0 are arn, data, gs, http, \
        https, s3; embedded content starts with \"data:,\" or \"data:;base64,\""
    )]
    #[case(
        "date:,x",
        "invalid url scheme \"date\" in \"date:,x\"; accepted in version 3.5.0 are arn, data, gs, http, https, \
        s3; did you mean data:?"
    )]
    #[case("https://h /a", "unable to parse the URL \"https://h /a\"; a space in a URL is written as %20")]
    fn a_source_that_is_none_is_answered_with_what_to_write(#[case] source: &str, #[case] expected: &str) {
        let mut config = file(source);
        config["ignition"] = json!({"version": "3.5.0"});
        assert_eq!(parse(&Node::from_json(&config)).unwrap_err()[0].message, expected);
    }

    #[test]
    fn neither_a_translation_nor_a_comparison_shows_them() {
        let mut config = file("gs://u:hunter2@h/a?sig=hunter2");
        config["ignition"] =
            json!({"version": "3.5.0", "config": {"merge": [{"source": "http://u:hunter2@h/?sig=hunter2"}]}});
        let node = Node::from_json(&config);
        let problems = translate_down(&node, Version::V2_2).unwrap_err();
        assert!(problems[0].message.contains("gs://h/a?sig=…"), "{problems:?}");
        assert!(!format!("{problems:?}").contains("hunter2"), "{problems:?}");
        let empty = Node::empty_config("3.5.0");
        let entries: Vec<String> = diff(&empty, &node).iter().map(|change| change.entry.to_string()).collect();
        assert!(entries.iter().any(|entry| entry.contains("http://h/?sig=…")), "{entries:?}");
        assert!(!entries.concat().contains("hunter2"), "{entries:?}");
    }
}
