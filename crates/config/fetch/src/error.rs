//! [`FetchError`]: which content could not be fetched, why, and the next step.

use std::fmt;
use std::time::Duration;

use crate::{Digest, PolicyViolation};

/// Why content is never fetched by tftp: the text for all places that refuse it.
pub const TFTP_REFUSAL: &str = "tftp is not supported: it has neither encryption nor a way to detect \
                                truncation; serve the content over https and give its hash";

/// A fetch that failed. Shows no credentials: URLs are redacted, header values never included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchError {
    /// The requested URL, redacted.
    pub url: String,
    /// The URL of the last redirect, redacted.
    pub redirected_to: Option<String>,
    /// How many attempts were made; zero when it failed before the first.
    pub attempts: u32,
    /// What went wrong in the last attempt.
    pub kind: FailureKind,
}

/// The condition reason that a failed fetch leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureCategory {
    /// The content could not be fetched.
    RemoteFetchFailed,
    /// Content arrived, but not the expected one.
    RemoteVerificationFailed,
}

/// How long a failed fetch is retried.
///
/// Differs: Ignition retries without limit, because a machine at first boot has to wait for its servers. A render must fail
/// early for a misspelt name or a server that is not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Retry {
    /// The next attempt would fail as well.
    Never,
    /// A few times, in case a server is just being restarted.
    Briefly,
    /// Until the timeout of the whole fetch.
    UntilTimeout,
}

/// What to do about a certificate that is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertificateStep {
    /// Add its CA to the CAs of the config.
    AddAuthority,
    /// Add its CA to those of the system, because those of a config do not apply.
    AddRoot,
    Renew,
    SetClock,
    /// Use another name, or issue one for this name.
    MatchName,
    /// Issue one for the server: this one is an authority's.
    IssueForServer,
}

/// What went wrong in a fetch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureKind {
    /// The URL cannot be understood.
    #[error("not a usable URL: {reason}")]
    Url { reason: String },
    /// The URL's scheme is not fetched.
    #[error("{}", scheme_message(.scheme))]
    Scheme { scheme: String },
    /// A header cannot be sent.
    #[error("header {name:?} cannot be sent: {reason}")]
    Header { name: String, reason: &'static str },
    /// A bundle of certificate authorities cannot be used.
    #[error("certificate authority bundle {index} cannot be used: {reason}; expected PEM certificates")]
    Authority {
        /// Its place in the list, from 0.
        index: usize,
        reason: String,
    },
    /// The request asks for unpacking where that is not allowed.
    #[error(
        "compression gzip is not allowed with {scheme} URLs; store the object decompressed or serve \
         it over https"
    )]
    Compression { scheme: String },
    /// The policy does not allow the connection.
    #[error(transparent)]
    Refused(#[from] PolicyViolation),
    /// The proxy cannot be used or does not let us through.
    #[error("proxy {proxy}: {reason}")]
    Proxy {
        /// The proxy's URL, redacted.
        proxy: String,
        reason: String,
        /// How long to retry.
        retry: Retry,
    },
    /// The server has no such content.
    #[error("not found (404); check the URL, or publish the content there")]
    NotFound,
    /// The server answered with something other than the content.
    #[error(
        "the server answered {}{}; expected 200 or 204{}",
        status_text(*.code),
        detail_text(.detail.as_deref()),
        status_hint(*.code, *.is_anonymous)
    )]
    Status {
        /// The HTTP status code.
        code: u16,
        /// The error code that an object store gives in its answer.
        detail: Option<String>,
        /// Whether an object store was asked without credentials.
        is_anonymous: bool,
    },
    /// A redirect cannot be followed.
    #[error("redirect refused: {reason}")]
    Redirect { reason: String },
    /// No server: no address for the name, or a refused connection.
    #[error("{reason}; {step}")]
    Unreachable {
        reason: String,
        /// What to do about it.
        step: &'static str,
    },
    /// The connection failed: no response, or an incomplete one.
    #[error("{reason}")]
    Transport { reason: String },
    /// The server's certificate cannot be trusted.
    #[error("the certificate of {host} is not trusted: {reason}; {step}")]
    Certificate {
        host: String,
        reason: String,
        /// What to do about it.
        step: CertificateStep,
        /// Whether the request carries the operator's credentials, so that the CAs of a config do not
        /// apply.
        is_operators: bool,
    },
    /// The server does not speak TLS.
    #[error(
        "{host} does not answer with TLS on port {port}; write http:// if the server has no encryption, or correct the \
         port"
    )]
    NotEncrypted { host: String, port: u16 },
    /// No head of a response within the time allowed for it.
    #[error(
        "no response headers within {}; raise ignition.timeouts.httpResponseHeaders if the \
         server is that slow", seconds(*.limit)
    )]
    HeadersTimeout { limit: Duration },
    /// The time allowed for the whole fetch has run out.
    #[error(
        "not complete within {}{}; find out why the server is that slow",
        seconds(*.limit),
        last_text(.last.as_deref())
    )]
    TotalTimeout {
        limit: Duration,
        /// What went wrong in the attempt before the last, if there was one.
        last: Option<Box<FailureKind>>,
    },
    /// The content is larger than a single one may be.
    #[error("larger than the limit of {limit} bytes{}", if *.is_unpacked { " when decompressed" } else { "" })]
    TooLarge {
        limit: u64,
        /// Whether it was within the limit before it was unpacked.
        is_unpacked: bool,
    },
    /// With this content, those of one run are too large together.
    #[error(
        "its {size} bytes make all remote contents together larger than the limit of {limit} bytes; refer to less, \
         or put some of it into an image"
    )]
    TotalTooLarge {
        /// How large this one is.
        size: u64,
        /// The limit for all.
        limit: u64,
    },
    /// The time allowed for all fetches of one run has run out.
    #[error(
        "the time limit of {} for all fetches is reached; render fewer pools at once, or find out which server \
         is slow", seconds(*.limit)
    )]
    OutOfTime { limit: Duration },
    /// There is no snapshot, and nothing may be fetched.
    #[error("no snapshot found, and fetching is disabled")]
    Offline,
    /// The content is not what `compression: gzip` promises.
    #[error(
        "compression gzip is declared, but the content cannot be decompressed: {reason}; remove the \
         field if the content is plain"
    )]
    Gzip { reason: String },
    /// The content has another hash.
    #[error(
        "the content is {found}, but verification.hash says {expected}; correct the hash, or \
         find out who changed the content"
    )]
    Verification {
        /// The hash in the request.
        expected: Box<Digest>,
        /// The hash of the unpacked content.
        found: Box<Digest>,
    },
    /// The environment's settings for an object store cannot be used.
    #[error("{variable} in the environment cannot be used: {reason}")]
    Environment { variable: String, reason: String },
    /// The credentials for an object store cannot be used.
    #[error("credentials: {reason}")]
    Credentials {
        /// What is wrong with them, without saying what they are.
        reason: String,
    },
}

// === impl FetchError ===

impl FetchError {
    /// The condition reason that this failure leads to.
    #[must_use]
    pub fn category(&self) -> FailureCategory {
        match self.kind {
            FailureKind::Verification { .. } => FailureCategory::RemoteVerificationFailed,
            _ => FailureCategory::RemoteFetchFailed,
        }
    }

    /// Whether retrying cannot help: the same request fails until a user edits the config, the
    /// policy or the credentials, or replaces the content with a wrong hash or size.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match &self.kind {
            FailureKind::Url { .. }
            | FailureKind::Scheme { .. }
            | FailureKind::Header { .. }
            | FailureKind::Authority { .. }
            | FailureKind::Compression { .. }
            | FailureKind::Refused(_)
            | FailureKind::Redirect { .. }
            | FailureKind::Certificate { .. }
            | FailureKind::NotEncrypted { .. }
            | FailureKind::TooLarge { .. }
            | FailureKind::TotalTooLarge { .. }
            | FailureKind::Offline
            | FailureKind::Gzip { .. }
            | FailureKind::Verification { .. }
            | FailureKind::Environment { .. }
            | FailureKind::Credentials { .. } => true,
            FailureKind::Proxy { retry, .. } => *retry == Retry::Never,
            // A user may publish the object, grant access or start the server.
            FailureKind::NotFound
            | FailureKind::Status { .. }
            | FailureKind::Unreachable { .. }
            | FailureKind::OutOfTime { .. }
            | FailureKind::Transport { .. }
            | FailureKind::HeadersTimeout { .. }
            | FailureKind::TotalTimeout { .. } => false,
        }
    }

    /// The narrowest pattern that, put among [`Policy::allow_hosts`](crate::Policy::allow_hosts),
    /// would have allowed the connection; `None` if it was not the policy that refused. The message
    /// does not have it: only the caller knows where patterns are given.
    #[must_use]
    pub fn allow_pattern(&self) -> Option<&str> {
        match &self.kind {
            FailureKind::Refused(refusal) => Some(&refusal.allow),
            _ => None,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot fetch {}", self.url)?;
        if let Some(redirected_to) = &self.redirected_to {
            write!(f, " (redirected to {redirected_to})")?;
        }
        if self.attempts > 1 {
            write!(f, " in {} attempts", self.attempts)?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The kind is part of the message; naming it again as the source would print it twice.
        None
    }
}

// === impl CertificateStep ===

impl fmt::Display for CertificateStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddAuthority => "add its CA to ignition.security.tls.certificateAuthorities",
            Self::AddRoot => {
                "add its CA to the system's trust store; CAs from a config are not used for requests with credentials"
            }
            Self::Renew => "renew it, or set the clock of this machine",
            Self::SetClock => "set the clock of this machine, or of the one that issued it",
            Self::MatchName => "use a host name that the certificate covers, or issue one for this name",
            Self::IssueForServer => {
                "issue a server certificate without CA:TRUE (`openssl req -x509` sets it), signed by the CA"
            }
        })
    }
}

// === impl FailureCategory ===

impl FailureCategory {
    /// The reason as it appears in conditions, events and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RemoteFetchFailed => "RemoteFetchFailed",
            Self::RemoteVerificationFailed => "RemoteVerificationFailed",
        }
    }
}

impl fmt::Display for FailureCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl FailureKind ===

impl FailureKind {
    /// How long to retry: server errors and broken connections may be temporary.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Unreachable { .. } => Retry::Briefly,
            Self::Transport { .. } | Self::HeadersTimeout { .. } => Retry::UntilTimeout,
            Self::Status { code, .. } if *code >= 500 => Retry::UntilTimeout,
            Self::Proxy { retry, .. } => *retry,
            _ => Retry::Never,
        }
    }
}

fn scheme_message(scheme: &str) -> String {
    match scheme {
        "tftp" => TFTP_REFUSAL.to_owned(),
        "data" => "a data URL carries its content and is decoded, not fetched".to_owned(),
        _ => format!("scheme {scheme:?} is not fetched; expected one of http, https, s3, gs, arn, data"),
    }
}

fn status_text(code: u16) -> String {
    let name = match code {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        407 => "Proxy Authentication Required",
        410 => "Gone",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => return code.to_string(),
    };
    format!("{code} {name}")
}

fn status_hint(code: u16, is_anonymous: bool) -> &'static str {
    match (code, is_anonymous) {
        (401 | 403, true) => "; the request had no credentials: set them in the environment, or make the object public",
        (401 | 403, false) => "; check the credentials or httpHeaders",
        (500.., _) => "; retry when the server has recovered",
        _ => "",
    }
}

fn detail_text(detail: Option<&str>) -> String {
    detail.map(|detail| format!(" ({detail})")).unwrap_or_default()
}

fn last_text(last: Option<&FailureKind>) -> String {
    last.map(|last| format!(" (before that: {last})")).unwrap_or_default()
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Policy};

    fn failure(kind: FailureKind) -> FetchError {
        FetchError { url: "https://host/x".into(), redirected_to: None, attempts: 1, kind }
    }

    #[test]
    fn a_message_names_url_redirect_attempts_and_next_step() {
        let error = FetchError {
            redirected_to: Some("https://other/y".into()),
            attempts: 3,
            ..failure(FailureKind::Status { code: 403, detail: None, is_anonymous: false })
        };
        assert_eq!(
            error.to_string(),
            "cannot fetch https://host/x (redirected to https://other/y) in 3 attempts: the \
             server answered 403 Forbidden; expected 200 or 204; check the credentials or \
             httpHeaders"
        );
    }

    #[test]
    fn only_a_wrong_hash_is_a_verification_failure() {
        let error = failure(FailureKind::Verification {
            expected: Box::new(Digest::sha256(b"a")),
            found: Box::new(Digest::sha256(b"b")),
        });
        assert_eq!(error.category().as_str(), "RemoteVerificationFailed");
        assert!(error.is_permanent());
        let error = failure(FailureKind::NotFound);
        assert_eq!(error.category().as_str(), "RemoteFetchFailed");
        assert!(!error.is_permanent());
    }

    #[test]
    fn tftp_is_refused_with_what_to_use_instead() {
        let scheme = "tftp".into();
        let message = failure(FailureKind::Scheme { scheme }).to_string();
        assert_eq!(
            message,
            "cannot fetch https://host/x: tftp is not supported: it has neither encryption nor a way to detect \
             truncation; serve the content over https and give its hash"
        );
    }

    #[test]
    fn only_a_refusal_names_a_pattern_to_allow() {
        let address = "127.0.0.1".parse().unwrap();
        let refusal = Policy::default().check_address(&Host::Ip(address), address, 8080).unwrap_err();
        let error = failure(FailureKind::Refused(refusal));
        assert_eq!(error.allow_pattern(), Some("127.0.0.1:8080"));
        assert!(error.to_string().ends_with(": address 127.0.0.1 is refused: loopback"), "{error}");
        assert_eq!(failure(FailureKind::NotFound).allow_pattern(), None);
    }

    #[test]
    fn server_errors_are_transient_and_client_errors_are_not() {
        let status = |code| FailureKind::Status { code, detail: None, is_anonymous: false };
        assert_eq!([status(500).retry(), status(599).retry()], [Retry::UntilTimeout; 2]);
        assert_eq!([status(499).retry(), status(429).retry()], [Retry::Never; 2]);
    }
}
