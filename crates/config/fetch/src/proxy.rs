//! [`Proxy`]: selects the proxy for a host, if any.
//!
//! Compat: golang.org/x/net `http/httpproxy`, which Ignition uses to read the same three fields.

use std::fmt;
use std::net::IpAddr;

use crate::policy::{Cidr, Host};
use crate::redact;

/// The proxies of a config or of the operator; `Debug` shows no credentials.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Proxy {
    /// The proxy for `http` URLs: an `http` or `https` URL, possibly with credentials.
    pub http: Option<String>,
    /// The proxy for `https` URLs, also used for object stores that are asked without credentials.
    pub https: Option<String>,
    /// Hosts that are reached without a proxy: `*`, a domain (with its subdomains), `.domain` or
    /// `*.domain` (subdomains only), an address, a network; each but `*` and networks with an
    /// optional `:port`.
    pub no_proxy: Vec<String>,
}

impl Proxy {
    /// The proxies that the usual environment variables name: `HTTP_PROXY`, `HTTPS_PROXY` and
    /// `NO_PROXY`, in upper or lower case (lower case wins).
    #[must_use]
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |lower: &str| {
            variable(lower).or_else(|| variable(&lower.to_ascii_uppercase())).filter(|value| !value.is_empty())
        };
        let no_proxy = either("no_proxy").unwrap_or_default();
        Self {
            http: either("http_proxy"),
            https: either("https_proxy"),
            no_proxy: no_proxy.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect(),
        }
    }

    /// The URL of the proxy for a connection, or `None` to connect directly.
    #[must_use]
    pub fn for_connection(&self, is_https: bool, host: &Host, port: u16) -> Option<&str> {
        let proxy = if is_https { &self.https } else { &self.http };
        let proxy = proxy.as_deref().filter(|proxy| !proxy.is_empty())?;
        (!self.is_exempt(host, port)).then_some(proxy)
    }

    fn is_exempt(&self, host: &Host, port: u16) -> bool {
        // A proxy elsewhere has another idea of what "localhost" is.
        match host {
            Host::Name(name) if name == "localhost" => return true,
            Host::Ip(address) if address.to_canonical().is_loopback() => return true,
            _ => {}
        }
        // One item of the list may itself be a comma-separated list.
        self.no_proxy
            .iter()
            .flat_map(|item| item.split(','))
            .map(|item| item.trim().to_ascii_lowercase())
            .any(|item| matches(&item, host, port))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("http", &self.http.as_deref().map(redact))
            .field("https", &self.https.as_deref().map(redact))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

fn matches(item: &str, host: &Host, port: u16) -> bool {
    if item == "*" {
        return true;
    }
    if let Some(network) = Cidr::parse(item) {
        return matches!(host, Host::Ip(address) if network.contains(*address));
    }
    let (item, item_port) = split_port(item);
    if item_port.is_some_and(|item_port| item_port != port) {
        return false;
    }
    match host {
        Host::Ip(address) => item.parse::<IpAddr>().is_ok_and(|item| item.to_canonical() == address.to_canonical()),
        Host::Name(name) => {
            let item = item.strip_prefix('*').unwrap_or(item);
            match item.strip_prefix('.') {
                Some(domain) => is_subdomain(name, domain),
                None => !item.is_empty() && (name == item || is_subdomain(name, item)),
            }
        }
    }
}

fn is_subdomain(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
}

/// `host:port`, `[v6]:port`, `[v6]` or a bare host.
fn split_port(item: &str) -> (&str, Option<u16>) {
    if let Some(rest) = item.strip_prefix('[')
        && let Some((address, rest)) = rest.split_once(']')
    {
        return (address, rest.strip_prefix(':').and_then(|p| p.parse().ok()));
    }
    match item.split_once(':') {
        Some((host, port)) if !port.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (item, None),
        },
        _ => (item, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn uses_proxy(no_proxy: &str, host: &str, port: u16) -> bool {
        let proxy = Proxy { http: Some("http://proxy:3128".into()), https: None, no_proxy: vec![no_proxy.into()] };
        proxy.for_connection(false, &Host::parse(host), port).is_some()
    }

    #[rstest]
    #[case("", "example.com")]
    #[case("other.com", "example.com")]
    #[case("ample.com", "example.com")]
    #[case(".example.com", "example.com")]
    #[case("*.example.com", "example.com")]
    #[case("example.com:8080", "example.com")]
    #[case("10.0.0.0/8", "11.0.0.1")]
    #[case("10.0.0.1:81", "10.0.0.1")]
    #[case("10.0.0.1", "10.0.0.10")]
    fn unlisted_hosts_go_through_the_proxy(#[case] no_proxy: &str, #[case] host: &str) {
        assert!(uses_proxy(no_proxy, host, 80));
    }

    #[rstest]
    #[case("*", "example.com")]
    #[case("example.com", "example.com")]
    #[case("example.com", "a.b.example.com")]
    #[case("EXAMPLE.com", "example.com")]
    #[case(".example.com", "a.example.com")]
    #[case("*.example.com", "a.example.com")]
    #[case("example.com:80", "example.com")]
    #[case("x, example.com ,y", "example.com")]
    #[case("10.0.0.0/8", "10.1.2.3")]
    #[case("10.0.0.1", "10.0.0.1")]
    #[case("[fd01::1]:80", "fd01::1")]
    #[case("fd01::/16", "fd01::2")]
    #[case("", "localhost")]
    #[case("", "127.0.0.9")]
    #[case("", "::1")]
    #[case("", "::ffff:127.0.0.1")]
    fn listed_hosts_are_reached_directly(#[case] no_proxy: &str, #[case] host: &str) {
        assert!(!uses_proxy(no_proxy, host, 80));
    }

    #[test]
    fn each_scheme_has_its_own_proxy() {
        let proxy = Proxy { http: Some("http://a".into()), https: Some("http://b".into()), no_proxy: vec![] };
        let host = Host::parse("example.com");
        assert_eq!(proxy.for_connection(false, &host, 80), Some("http://a"));
        assert_eq!(proxy.for_connection(true, &host, 443), Some("http://b"));
    }

    #[test]
    fn variables_in_lower_case_win() {
        let proxy = Proxy::from_variables(|name| match name {
            "http_proxy" => Some("http://lower".into()),
            "HTTP_PROXY" => Some("http://upper".into()),
            "HTTPS_PROXY" => Some("http://secure".into()),
            "NO_PROXY" => Some("a, b,".into()),
            _ => None,
        });
        assert_eq!(proxy.http.as_deref(), Some("http://lower"));
        assert_eq!(proxy.https.as_deref(), Some("http://secure"));
        assert_eq!(proxy.no_proxy, ["a", "b"]);
    }
}
