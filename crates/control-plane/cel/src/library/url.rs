//! URLs, parsed as Go's `net/url` does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Native, overload_mismatch};
use crate::collection::{Key, Map};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, Val};

/// A parsed URL.
#[derive(Debug, Default)]
pub struct Url {
    scheme: String,
    opaque: String,
    user: Option<String>,
    host: String,
    path: Vec<u8>,
    /// The path as written, where that differs from the canonical encoding.
    raw_path: String,
    query: Option<String>,
    fragment: String,
}

impl Url {
    /// Reads an absolute URL or an absolute path.
    pub fn parse(text: &str) -> Result<Url, String> {
        check(text)?;
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = read(rest, false).map_err(|problem| format!("parse {rest:?}: {problem}"))?;
        unescape(fragment, UrlComponent::Other).map_err(|problem| format!("parse {text:?}: {problem}"))?;
        url.fragment = fragment.to_owned();
        Ok(url)
    }

    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => self.host.rsplit_once(':').map_or(&*self.host, |(host, _)| host),
        }
    }

    fn port(&self) -> &str {
        let after = self.host.rfind(']').map_or(&*self.host, |index| &self.host[index + 1..]);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    fn escaped_path(&self) -> String {
        if !self.raw_path.is_empty()
            && self.raw_path.bytes().all(is_valid_encoded)
            && unescape(&self.raw_path, UrlComponent::Other).is_ok_and(|path| path == self.path)
        {
            return self.raw_path.clone();
        }
        if self.path == b"*" { "*".to_owned() } else { escape_path(&self.path) }
    }

    fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.as_deref().unwrap_or_default().split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |part: &str| {
                unescape(&part.replace('+', " "), UrlComponent::Other)
                    .ok()
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            };
            if let (Some(key), Some(value)) = (text(key), text(value)) {
                out.entry(key).or_default().push(value);
            }
        }
        out
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if !self.opaque.is_empty() {
            f.write_str(&self.opaque)?;
        } else {
            let authority = !self.host.is_empty() || self.user.is_some();
            if authority || (!self.scheme.is_empty() && !self.path.is_empty()) {
                if authority || self.path.starts_with(b"//") {
                    f.write_str("//")?;
                }
                if let Some(user) = &self.user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&self.host)?;
            }
            f.write_str(&self.escaped_path())?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.fragment)?;
        }
        Ok(())
    }
}

/// Whether the text is what the `uri` format asks for; the problem if not.
pub(super) fn check(text: &str) -> Result<(), String> {
    read(text, true).map(drop).map_err(|problem| format!("parse {}: {problem}", go_quote(text)))
}

fn go_quote(text: &str) -> String {
    format!("{text:?}").replace("\\'", "'")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlComponent {
    Host,
    Other,
}

fn read(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query.to_owned())),
        None => (rest, None),
    };
    url.query = query;
    let mut rest = rest;
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if (!url.scheme.is_empty() || (!request && !rest.starts_with("///")))
        && let Some(after) = rest.strip_prefix("//")
    {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        authority_of(&mut url, authority)?;
        rest = path;
    }
    url.path = unescape(rest, UrlComponent::Other)?;
    if escape_path(&url.path) != rest {
        url.raw_path = rest.to_owned();
    }
    Ok(url)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn authority_of(url: &mut Url, authority: &str) -> Result<(), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let port = if host.starts_with('[') {
        let Some(close) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
        &host[close + 1..]
    } else {
        host.find(':').map_or("", |colon| &host[colon..])
    };
    let valid =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !valid {
        return Err(format!("invalid port {port:?} after host"));
    }
    url.host = String::from_utf8_lossy(&unescape(host, UrlComponent::Host)?).into_owned();
    if let Some(user) = user {
        if !user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        unescape(user, UrlComponent::Other)?;
        url.user = Some(user.to_owned());
    }
    Ok(())
}

fn unescape(text: &str, part: UrlComponent) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'%' {
            let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            let shown = String::from_utf8_lossy(&bytes[at..(at + 3).min(bytes.len())]).into_owned();
            let value = digits
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            match value {
                // Hosts may escape only what is not ASCII.
                Some(value) if part == UrlComponent::Host && value < 0x80 && shown != "%25" => {
                    return Err(format!("invalid URL escape {shown:?}"));
                }
                Some(value) => out.push(value),
                None => return Err(format!("invalid URL escape {shown:?}")),
            }
            at += 3;
            continue;
        }
        if part == UrlComponent::Host && byte < 0x80 && !is_host(byte) {
            return Err(format!("invalid character {:?} in host name", (byte as char).to_string()));
        }
        out.push(byte);
        at += 1;
    }
    Ok(out)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

fn is_host(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn is_valid_encoded(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@[]%/".contains(&byte)
}

fn escape_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path {
        if is_unreserved(*byte) || b"$&+,/:;=@".contains(byte) {
            out.push(*byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "url" => |args| match args {
            [Val::String(text)] => match Url::parse(text) {
                Ok(url) => Ok(Val::Opaque(Opaque::Url(Arc::new(url)))),
                Err(problem) => {
                    Err(EvalError::new(format!("URL parse error during conversion from string: {problem}")))
                }
            },
            _ => overload_mismatch(),
        },
        "isURL" => |args| match args {
            [Val::String(text)] => Ok(Val::Bool(check(text).is_ok())),
            _ => overload_mismatch(),
        },
        "getScheme" => |args| with_url(args, |url| Val::string(url.scheme.as_str())),
        "getHost" => |args| with_url(args, |url| Val::string(url.host.as_str())),
        "getHostname" => |args| with_url(args, |url| Val::string(url.hostname())),
        "getPort" => |args| with_url(args, |url| Val::string(url.port())),
        "getEscapedPath" => |args| with_url(args, |url| Val::string(url.escaped_path())),
        "getQuery" => |args| with_url(args, query),
        _ => return None,
    };
    Some(native)
}

fn with_url<'a>(args: &[Val<'a>], apply: fn(&Url) -> Val<'a>) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Url(url))] => Ok(apply(url)),
        _ => overload_mismatch(),
    }
}

fn query<'a>(url: &Url) -> Val<'a> {
    let entries = url.query().into_iter().map(|(key, values)| {
        let values = Val::list(values.into_iter().map(Val::string).collect());
        (Key::String(key.as_str().into()), (Val::string(key), values))
    });
    Val::Map(Map::Values(Arc::new(entries.collect())))
}
