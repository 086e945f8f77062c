//! [`Access`]: authenticates clients by token or certificate. A config has secrets in it, one of which lets a machine join
//! the cluster.
//!
//! Differs: upstream serves every client that reaches its port. Here a client presents a token or a certificate, unless
//! the operator disables authentication.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use seaworthy_runtime::{Cache, Key};

/// The type of Secrets with bootstrap tokens.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The namespace of Secrets with bootstrap tokens.
pub const SECRET_NAMESPACE: &str = "kube-system";
const MAX_TOKEN_BYTES: usize = 4096;

/// A bearer token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of a text without the blanks around it; `None` if it cannot be sent in a header.
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        let is_plain =
            !text.is_empty() && text.len() <= MAX_TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_plain.then(|| Token(text.to_owned()))
    }

    /// The token itself, to write it where it belongs.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on where they differ.
    fn matches(&self, presented: &str) -> bool {
        are_equal(self.0.as_bytes(), presented.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Hashed first, so that not even the length shows.
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(digest(&SHA256, one).as_ref(), digest(&SHA256, other).as_ref()).is_ok()
}

/// Why tokens cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {cause}")]
    File { file: String, cause: std::io::Error },
    /// A line is not a token.
    #[error("{file}, line {line}: not a token; a line is one token without spaces, or a comment that begins with #")]
    Line {
        file: String,
        /// Counted from 1.
        line: usize,
    },
    /// The file has no tokens.
    #[error("{file}: there is no token in it; write one per line")]
    Empty { file: String },
}

impl TokensError {
    /// Whether the file is empty or does not exist.
    pub fn has_no_tokens(&self) -> bool {
        match self {
            TokensError::Empty { .. } => true,
            TokensError::File { cause, .. } => cause.kind() == std::io::ErrorKind::NotFound,
            TokensError::Line { .. } => false,
        }
    }
}

/// Reads the tokens of a file, one to a line.
pub fn read_tokens(path: &Path) -> Result<Vec<Token>, TokensError> {
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse_tokens(&text, &file),
        Err(cause) => Err(TokensError::File { file, cause }),
    }
}

/// Reads tokens, one to a line; `file` is for messages.
pub fn parse_tokens(text: &str, file: &str) -> Result<Vec<Token>, TokensError> {
    let lines = text.lines().enumerate().map(|(nth, line)| (nth + 1, line.trim()));
    let tokens: Result<Vec<Token>, TokensError> = lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, text)| Token::new(text).ok_or_else(|| TokensError::Line { file: file.to_owned(), line }))
        .collect();
    match tokens {
        Ok(tokens) if tokens.is_empty() => Err(TokensError::Empty { file: file.to_owned() }),
        tokens => tokens,
    }
}

/// Tokens that can be replaced while they are in use; clones share them.
#[derive(Clone, Default)]
pub struct Tokens(Arc<RwLock<Vec<Token>>>);

impl Tokens {
    /// Replaces all tokens, and returns whether they differ from the former ones.
    pub fn replace(&self, tokens: Vec<Token>) -> bool {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = *held != tokens;
        *held = tokens;
        is_new
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Token>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Vec<Token>> for Tokens {
    fn from(tokens: Vec<Token>) -> Tokens {
        Tokens(Arc::new(RwLock::new(tokens)))
    }
}

/// Which clients are admitted.
#[derive(Clone)]
pub enum Access {
    /// All.
    Open,
    /// Those that present a token or a certificate.
    Restricted(Credentials),
}

/// The accepted credentials besides client certificates.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Tokens of a file.
    pub tokens: Tokens,
    /// The cluster's bootstrap tokens.
    pub secrets: Option<Arc<Cache<Secret>>>,
}

/// Why a client is not admitted. It is logged, and not part of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Neither token nor certificate was presented.
    #[error("no token, and no certificate of a known authority")]
    NoCredentials,
    /// More than one header was sent, which no proper client does.
    #[error("more than one authorization header")]
    SeveralHeaders,
    /// The header has another scheme than `Bearer`.
    #[error("the authorization header is not of the form Bearer TOKEN")]
    NotBearer,
    /// No file and no Secret has the token.
    #[error("unknown token")]
    UnknownToken,
    /// The Secret's expiration has passed.
    #[error("the token has expired")]
    Expired,
    /// The Secret does not allow its use for authentication.
    #[error("the token's Secret does not have usage-bootstrap-authentication: true")]
    WrongUsage,
}

impl Access {
    /// Whether a client is admitted, by headers or by the certificate that the TLS handshake verified.
    pub fn admit(&self, headers: &HeaderMap, has_certificate: bool, now: Timestamp) -> Result<(), Denied> {
        let credentials = match self {
            Access::Open => return Ok(()),
            Access::Restricted(credentials) => credentials,
        };
        if has_certificate {
            return Ok(());
        }
        let mut authorizations = headers.get_all(AUTHORIZATION).iter();
        let header = match (authorizations.next(), authorizations.next()) {
            (Some(header), None) => header,
            (None, _) => return Err(Denied::NoCredentials),
            (_, Some(_)) => return Err(Denied::SeveralHeaders),
        };
        match header.to_str().ok().and_then(|header| header.split_once(' ')) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => credentials.accept(token.trim(), now),
            _ => Err(Denied::NotBearer),
        }
    }
}

impl Credentials {
    fn accept(&self, presented: &str, now: Timestamp) -> Result<(), Denied> {
        // All of them are compared, so that the time does not depend on which one matches.
        let is_in_file = self.tokens.read().iter().fold(false, |found, token| found | token.matches(presented));
        match &self.secrets {
            _ if is_in_file => Ok(()),
            Some(secrets) => accept_bootstrap_token(secrets, presented, now),
            None => Err(Denied::UnknownToken),
        }
    }
}

/// Whether a token is a bootstrap token of the cluster: `abcdef.0123456789abcdef`, with a Secret that has not expired.
fn accept_bootstrap_token(secrets: &Cache<Secret>, presented: &str, now: Timestamp) -> Result<(), Denied> {
    let is_shaped = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let parts = presented.split_once('.').filter(|(id, secret)| is_shaped(id, 6) && is_shaped(secret, 16));
    let Some((id, token_secret)) = parts else {
        return Err(Denied::UnknownToken);
    };
    let key = Key { namespace: SECRET_NAMESPACE.to_owned(), name: format!("bootstrap-token-{id}") };
    secrets.get(&key).ok_or(Denied::UnknownToken).and_then(|secret| check_secret(&secret, id, token_secret, now))
}

fn check_secret(secret: &Secret, id: &str, token_secret: &str, now: Timestamp) -> Result<(), Denied> {
    let data = |key: &str| secret.data.as_ref()?.get(key).map(|ByteString(bytes)| bytes.as_slice());
    let is_token = secret.type_.as_deref() == Some(SECRET_TYPE)
        && secret.metadata.deletion_timestamp.is_none()
        && data("token-id") == Some(id.as_bytes())
        && data("token-secret").is_some_and(|known| are_equal(known, token_secret.as_bytes()));
    // A time that cannot be parsed counts as passed.
    let is_expired = data("expiration").is_some_and(|time| {
        let end = std::str::from_utf8(time).ok().and_then(|time| time.trim().parse::<Timestamp>().ok());
        end.is_none_or(|end| end <= now)
    });
    match (is_token, is_expired, data("usage-bootstrap-authentication")) {
        (false, ..) => Err(Denied::UnknownToken),
        (true, true, _) => Err(Denied::Expired),
        (true, false, Some(b"true")) => Ok(()),
        (true, false, _) => Err(Denied::WrongUsage),
    }
}
