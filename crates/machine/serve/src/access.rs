//! Who gets a config: it has secrets in it, of which one lets a machine join the cluster.
//!
//! Differs: upstream answers whoever reaches its port. Here a machine shows a token or a certificate, and whoever wants an
//! open port has to say so.

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

/// The type of a Secret that holds a bootstrap token.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Where those Secrets are.
pub const SECRET_NAMESPACE: &str = "kube-system";
/// No token is longer.
const LONGEST: usize = 4096;

/// A word that opens the door. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes a text, without the blanks around it; `None` if it cannot stand in a header.
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        let is_plain = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_plain.then(|| Token(text.to_owned()))
    }

    /// The word itself, to write it where it belongs.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether they are the same, in a time that does not tell where they differ.
    fn is(&self, shown: &str) -> bool {
        are_equal(self.0.as_bytes(), shown.as_bytes())
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
    File {
        /// Which.
        file: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A line is no token.
    #[error(
        "{file}, line {line}: this is no token; a line is one token without blanks, or a comment that begins with #"
    )]
    Line {
        /// Which file.
        file: String,
        /// Which line, counted from 1.
        line: usize,
    },
    /// There is none.
    #[error("{file}: there is no token in it; write one to a line")]
    Empty {
        /// Which file.
        file: String,
    },
}

impl TokensError {
    /// Whether there is no token, be it that the file is empty or that there is none.
    pub fn is_without(&self) -> bool {
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

/// Tokens that may be exchanged while they are in use; all clones have the same.
#[derive(Clone, Default)]
pub struct Tokens(Arc<RwLock<Vec<Token>>>);

impl Tokens {
    /// Puts these in the place of the former ones, and says whether that makes a difference.
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

/// Who gets in.
#[derive(Clone)]
pub enum Access {
    /// Everyone.
    Open,
    /// Whoever shows a token or a certificate.
    Asked(Keys),
}

/// What opens the door.
#[derive(Clone, Default)]
pub struct Keys {
    /// Tokens that were given to us.
    pub tokens: Tokens,
    /// The cluster's bootstrap tokens.
    pub secrets: Option<Arc<Cache<Secret>>>,
}

/// Why somebody does not get in. It is for the log: a stranger is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was shown.
    #[error("no token, and no certificate of a known authority")]
    Nothing,
    /// More than one header was shown: that is a trick.
    #[error("more than one authorization header")]
    Several,
    /// The header is of another kind.
    #[error("the authorization header is not of the form Bearer TOKEN")]
    Form,
    /// Nobody knows the token.
    #[error("the token is not known")]
    Unknown,
    /// It was good.
    #[error("the token has expired")]
    Expired,
    /// It is good for something else.
    #[error("the token is known, and its Secret does not say usage-bootstrap-authentication: true")]
    OtherUse,
}

impl Access {
    /// Whether a visitor gets in, by headers or by the certificate that was checked when hands were shaken.
    pub fn admit(&self, headers: &HeaderMap, has_certificate: bool, now: Timestamp) -> Result<(), Denied> {
        let keys = match self {
            Access::Open => return Ok(()),
            Access::Asked(keys) => keys,
        };
        if has_certificate {
            return Ok(());
        }
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        let header = match (shown.next(), shown.next()) {
            (Some(header), None) => header,
            (None, _) => return Err(Denied::Nothing),
            (_, Some(_)) => return Err(Denied::Several),
        };
        match header.to_str().ok().and_then(|header| header.split_once(' ')) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => keys.open(token.trim(), now),
            _ => Err(Denied::Form),
        }
    }
}

impl Keys {
    fn open(&self, shown: &str, now: Timestamp) -> Result<(), Denied> {
        // All of them are looked at, so that the time does not tell which it was.
        let is_ours = self.tokens.read().iter().fold(false, |found, token| found | token.is(shown));
        match &self.secrets {
            _ if is_ours => Ok(()),
            Some(secrets) => open_with_secret(secrets, shown, now),
            None => Err(Denied::Unknown),
        }
    }
}

/// Whether a token is one of the cluster's: `abcdef.0123456789abcdef`, with a Secret that says so and has not expired.
fn open_with_secret(secrets: &Cache<Secret>, shown: &str, now: Timestamp) -> Result<(), Denied> {
    let is_shaped = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let Some((id, word)) = shown.split_once('.').filter(|(id, word)| is_shaped(id, 6) && is_shaped(word, 16)) else {
        return Err(Denied::Unknown);
    };
    let key = Key { namespace: SECRET_NAMESPACE.to_owned(), name: format!("bootstrap-token-{id}") };
    secrets.get(&key).ok_or(Denied::Unknown).and_then(|secret| open(&secret, id, word, now))
}

fn open(secret: &Secret, id: &str, word: &str, now: Timestamp) -> Result<(), Denied> {
    let data = |key: &str| secret.data.as_ref()?.get(key).map(|ByteString(bytes)| bytes.as_slice());
    let is_token = secret.type_.as_deref() == Some(SECRET_TYPE)
        && secret.metadata.deletion_timestamp.is_none()
        && data("token-id") == Some(id.as_bytes())
        && data("token-secret").is_some_and(|known| are_equal(known, word.as_bytes()));
    // A time that cannot be read is a time that has passed.
    let is_over = data("expiration").is_some_and(|time| {
        let end = std::str::from_utf8(time).ok().and_then(|time| time.trim().parse::<Timestamp>().ok());
        end.is_none_or(|end| end <= now)
    });
    match (is_token, is_over, data("usage-bootstrap-authentication")) {
        (false, ..) => Err(Denied::Unknown),
        (true, true, _) => Err(Denied::Expired),
        (true, false, Some(b"true")) => Ok(()),
        (true, false, _) => Err(Denied::OtherUse),
    }
}
