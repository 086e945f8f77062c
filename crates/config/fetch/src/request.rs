//! [`Request`]: a request for one piece of remote content.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Digest, Proxy, redact};

/// One piece of remote content: where it is, how to ask for it, how to know it is the right one.
///
/// `Debug` shows neither credentials nor header values.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The URL as written in the config: `http`, `https`, `s3`, `gs` or `arn`.
    pub url: String,
    /// The `httpHeaders` of the config, in their order; sent to the URL's own origin only.
    pub headers: Vec<(String, String)>,
    /// What kind of content is asked for.
    pub accept: ContentKind,
    /// How the content is packed at its place; what is handed out is always unpacked.
    pub compression: Option<Compression>,
    /// The hash that the unpacked content must have.
    pub verification: Option<Digest>,
    /// How to connect.
    pub settings: FetchSettings,
}

/// What kind of content a [`Request`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentKind {
    /// An Ignition config: the request names the version, for servers that have several.
    Config,
    /// Anything else: a file, a key, a certificate.
    Resource,
}

/// How content is packed at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// One or more gzip members.
    Gzip,
}

/// How to connect: timeouts, proxy and extra certificate authorities of the config that refers to
/// the content.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct FetchSettings {
    /// How long to wait for the head of a response once the request is out. `None` is the default
    /// of [`FetchSettings::DEFAULT_RESPONSE_HEADERS_TIMEOUT`]; zero waits as long as the total allows.
    pub response_headers_timeout: Option<Duration>,
    /// How long the whole fetch may take, repeated attempts included. `None`, zero and anything
    /// above it mean [`FetchSettings::MAX_TOTAL_TIMEOUT`].
    pub total_timeout: Option<Duration>,
    /// Which proxy to use for which hosts. Like the authorities, it does not apply to requests with
    /// the operator's credentials.
    pub proxy: Proxy,
    /// PEM bundles that are trusted in addition to the roots of the system; shared, because a thousand requests of one
    /// config have the same.
    pub certificate_authorities: Vec<Arc<[u8]>>,
}

// === impl Request ===

impl Request {
    /// A request for a file, key or certificate, with nothing but its URL.
    #[must_use]
    pub fn resource(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            accept: ContentKind::Resource,
            compression: None,
            verification: None,
            settings: FetchSettings::default(),
        }
    }

    /// A request for an Ignition config, with nothing but its URL.
    #[must_use]
    pub fn config(url: impl Into<String>) -> Self {
        Self { accept: ContentKind::Config, ..Self::resource(url) }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Request")
            .field("url", &redact(&self.url))
            .field("headers", &names)
            .field("accept", &self.accept)
            .field("compression", &self.compression)
            .field("verification", &self.verification)
            .field("settings", &self.settings)
            .finish()
    }
}

// === impl ContentKind ===

impl ContentKind {
    /// The value of the `Accept` header, where there is one to send.
    #[must_use]
    pub fn media_types(self) -> Option<&'static str> {
        match self {
            Self::Config => Some("application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1"),
            Self::Resource => None,
        }
    }
}

// === impl FetchSettings ===

impl FetchSettings {
    /// Ignition's own default.
    pub const DEFAULT_RESPONSE_HEADERS_TIMEOUT: Duration = Duration::from_secs(10);

    /// Differs: Ignition has no default limit, because a machine at first boot can only wait; a render must end, so that
    /// its failure can be reported.
    pub const MAX_TOTAL_TIMEOUT: Duration = Duration::from_secs(60);

    /// How long to wait for the head of a response; `None` is no limit of its own.
    #[must_use]
    pub fn response_headers_limit(&self) -> Option<Duration> {
        match self.response_headers_timeout {
            None => Some(Self::DEFAULT_RESPONSE_HEADERS_TIMEOUT),
            Some(Duration::ZERO) => None,
            some => some,
        }
    }

    /// How long the whole fetch may take.
    #[must_use]
    pub fn total_limit(&self) -> Duration {
        match self.total_timeout {
            None | Some(Duration::ZERO) => Self::MAX_TOTAL_TIMEOUT,
            Some(total) => total.min(Self::MAX_TOTAL_TIMEOUT),
        }
    }
}

impl fmt::Debug for FetchSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchSettings")
            .field("response_headers_timeout", &self.response_headers_timeout)
            .field("total_timeout", &self.total_timeout)
            .field("proxy", &self.proxy)
            .field("certificate_authorities", &self.certificate_authorities.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_follow_ignition_except_for_the_cap() {
        let seconds = Duration::from_secs;
        let mut settings = FetchSettings::default();
        assert_eq!(settings.response_headers_limit(), Some(seconds(10)));
        assert_eq!(settings.total_limit(), seconds(60));
        settings.response_headers_timeout = Some(Duration::ZERO);
        settings.total_timeout = Some(Duration::ZERO);
        assert_eq!(settings.response_headers_limit(), None);
        assert_eq!(settings.total_limit(), seconds(60));
        settings.response_headers_timeout = Some(seconds(3));
        settings.total_timeout = Some(seconds(600));
        assert_eq!(settings.response_headers_limit(), Some(seconds(3)));
        assert_eq!(settings.total_limit(), seconds(60));
        settings.total_timeout = Some(seconds(7));
        assert_eq!(settings.total_limit(), seconds(7));
    }

    #[test]
    fn debug_output_keeps_secrets() {
        let mut request = Request::config("https://me:SECRET@host/?sig=SECRET");
        request.headers.push(("Authorization".into(), "Bearer SECRET".into()));
        request.settings.proxy.https = Some("http://p:SECRET@proxy:3128".into());
        let shown = format!("{request:?}");
        assert!(!shown.contains("SECRET"), "{shown}");
        assert!(shown.contains("Authorization") && shown.contains("proxy:3128"));
    }
}
