//! Who sends a request: client certificates, static tokens, tokens of service accounts, bootstrap tokens.
//!
//! - No credentials are the anonymous user. Credentials that are wrong are refused, whatever the path.
//! - Secrets are compared in constant time, and never written anywhere.

mod bootstrap;
mod impersonation;
mod service_account;
mod tokens;

pub use service_account::{Claims, Keys, KeysError};
pub use tokens::{StaticTokens, TokensError};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::access::Identity;
use crate::server::Server;
use crate::status::Failure;

/// The audience of tokens that are meant for this server.
pub const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// The common name and the organisations of a client certificate that the server's own authority signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate(pub Identity);

/// The bearer token of a request. Other schemes are none of ours.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

impl Server {
    /// The identity behind a token meant for one of these audiences; none if nobody has it.
    pub fn identify(&self, token: &str, audiences: &[&str]) -> Option<Identity> {
        if let Some(identity) = self.static_tokens().identify(token) {
            return Some(identity);
        }
        if let Some(identity) = bootstrap::identify(self, token) {
            return Some(identity);
        }
        service_account::identify(self, token, audiences)
    }

    /// The identity of a request, by certificate or token.
    pub(crate) fn authenticate(&self, parts: &http::request::Parts) -> Result<Identity, Failure> {
        if let Some(token) = bearer(&parts.headers) {
            return self.identify(token, &[AUDIENCE]).ok_or_else(Failure::unauthorized);
        }
        match parts.extensions.get::<PeerCertificate>() {
            Some(PeerCertificate(identity)) => Ok(identity.clone()),
            None => Ok(Identity::anonymous()),
        }
    }
}
