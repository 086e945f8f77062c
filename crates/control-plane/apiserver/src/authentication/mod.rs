//! Authentication: client certificates, static tokens, service account tokens, bootstrap tokens.
//!
//! - No credentials are the anonymous user. Credentials that are wrong are refused, whatever the path.
//! - Secrets are compared in constant time, and never written anywhere.

mod bootstrap;
pub mod impersonation;
mod service_account;
mod tokens;

pub use service_account::{Claims, SigningKey, SigningKeyError};
pub use tokens::{StaticTokens, TokenFileError};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::access::Identity;
use crate::response::status::Failure;
use crate::server::Server;

/// The audience of tokens that are meant for this server.
pub const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// The common name and the organisations of a client certificate that the server's own authority signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate(pub Identity);

/// The bearer token of a request. Other schemes are ignored.
///
/// A token that is not UTF-8 is invalid, which is not the same as no token.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}

/// A valid token.
pub struct AuthenticatedToken {
    pub identity: Identity,
    /// Those of the requested audiences that the token names.
    pub audiences: Vec<String>,
}

impl Server {
    /// The identity of a token for one of these audiences; none if the token is invalid.
    pub(crate) fn identify(&self, token: &str, audiences: &[&str]) -> Option<AuthenticatedToken> {
        // Tokens that name no audience are meant for this server alone.
        if audiences.contains(&AUDIENCE) {
            let known = self.static_tokens().identify(token).or_else(|| bootstrap::identify(self, token));
            if let Some(identity) = known {
                return Some(AuthenticatedToken { identity, audiences: vec![AUDIENCE.to_owned()] });
            }
        }
        service_account::identify(self, token, audiences)
    }

    /// The identity of a request, by certificate or token.
    pub(crate) fn authenticate(&self, parts: &http::request::Parts) -> Result<Identity, Failure> {
        // A client certificate decides; other credentials are not looked at.
        if let Some(PeerCertificate(identity)) = parts.extensions.get::<PeerCertificate>() {
            return Ok(identity.clone());
        }
        if let Some(token) = bearer(&parts.headers) {
            let accepted = std::str::from_utf8(token).ok().and_then(|token| self.identify(token, &[AUDIENCE]));
            return accepted.map(|accepted| accepted.identity).ok_or_else(Failure::unauthorized);
        }
        Ok(Identity::anonymous())
    }
}
