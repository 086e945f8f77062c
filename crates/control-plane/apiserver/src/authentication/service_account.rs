//! Service account tokens: signed by the server, bound to the account and optionally to another object.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use seaworthy_store::Key;
use serde_json::{Value, json};
use thiserror::Error;

use crate::access::Identity;
use crate::object::{Metadata, Object};
use crate::server::{Server, decode};

use super::AuthenticatedToken;

/// The issuer of tokens.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How long tokens stay valid after the deletion time of their object, for its last requests.
const DELETION_GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(60);

/// Longer tokens are refused unparsed.
const MAX_LENGTH: usize = 8 * 1024;

/// The key that signs service account tokens. Its holder can impersonate every account.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

#[derive(Debug, Error)]
#[error("cannot use the service account signing key: {0}")]
pub struct SigningKeyError(&'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Not signed by this key, or modified.
    #[error("the token is not signed by this server")]
    Forged,
    /// Expired, or not valid yet.
    #[error("the token is not valid at this time")]
    Expired,
    /// It names other audiences.
    #[error("the token is not meant for this audience")]
    Audience,
}

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub namespace: String,
    pub name: String,
    /// The account's uid: a new account of the same name is another one.
    pub uid: String,
    pub audiences: Vec<String>,
    /// `nbf`, in seconds since 1970.
    pub from: i64,
    /// `exp`, in seconds since 1970.
    pub until: i64,
    /// The bound object: resource, name, uid. The token is invalid without it.
    pub bound: Option<(String, String, String)>,
    /// `jti`, unique.
    pub id: String,
}

impl SigningKey {
    /// A new key in PKCS #8.
    pub fn generate() -> Result<Vec<u8>, SigningKeyError> {
        let failed = |_| SigningKeyError("key generation failed");
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(document.map_err(failed)?.as_ref().to_vec())
    }

    /// Reads a key.
    pub fn read(pkcs8: &[u8]) -> Result<SigningKey, SigningKeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
            .map_err(|_| SigningKeyError("not a P-256 key in PKCS #8"))?;
        let public = pair.public_key().as_der().map_err(|_| SigningKeyError("the public key is missing"))?;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, public.as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest.as_ref());
        Ok(SigningKey { pair, id })
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, SigningKeyError> {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"alg": "ES256", "kid": self.id, "typ": "JWT"});
        let text = format!("{}.{}", encode(&header), encode(&claims.to_json()));
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes());
        let signature = signature.map_err(|_| SigningKeyError("signing failed"))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// The claims of a token, if this key signed it, it names one of the audiences, and it is valid now.
    pub fn verify(&self, token: &str, audiences: &[&str], now: i64) -> Result<Claims, TokenError> {
        if token.len() > MAX_LENGTH {
            return Err(TokenError::Forged);
        }
        let claims = self.signed(token).ok_or(TokenError::Forged)?;
        if now < claims.from || now >= claims.until {
            return Err(TokenError::Expired);
        }
        if !claims.audiences.iter().any(|audience| audiences.contains(&audience.as_str())) {
            return Err(TokenError::Audience);
        }
        Ok(claims)
    }

    fn signed(&self, token: &str) -> Option<Claims> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, body) = text.split_once('.')?;
        let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        // The algorithm is ours to choose, never the token's.
        if json(header)?.get("alg")?.as_str()? != "ES256" {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        public.verify(text.as_bytes(), &signature).ok()?;
        Claims::of_json(&json(body)?)
    }
}

impl Claims {
    fn to_json(&self) -> Value {
        let mut own = json!({
            "namespace": self.namespace, "serviceaccount": {"name": self.name, "uid": self.uid},
        });
        if let Some((resource, name, uid)) = &self.bound {
            own[resource] = json!({"name": name, "uid": uid});
        }
        json!({
            "iss": ISSUER, "aud": self.audiences, "iat": self.from, "nbf": self.from, "exp": self.until, "jti": self.id,
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.name), "kubernetes.io": own,
        })
    }

    fn of_json(json: &Value) -> Option<Claims> {
        if json.get("iss")?.as_str()? != ISSUER {
            return None;
        }
        let own = json.get("kubernetes.io")?;
        let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
        let account = own.get("serviceaccount")?;
        let bound = ["pod", "node", "secret"].into_iter().find_map(|resource| {
            let object = own.get(resource)?;
            Some((resource.to_owned(), text(object, "name")?, text(object, "uid")?))
        });
        let audiences = json.get("aud")?.as_array()?.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        Some(Claims {
            namespace: text(own, "namespace")?,
            name: text(account, "name")?,
            uid: text(account, "uid")?,
            audiences,
            from: json.get("nbf")?.as_i64()?,
            until: json.get("exp")?.as_i64()?,
            bound,
            id: text(json, "jti").unwrap_or_default(),
        })
    }
}

/// Whether this is still the bound object, and its deletion time is not past: after that it gives no access, even if a
/// finalizer holds it.
fn is_valid(object: &Object, uid: &str, now: Timestamp) -> bool {
    let end = object.meta_text("deletionTimestamp");
    // A time that cannot be read is a time that has passed.
    let is_over = || end.parse::<Timestamp>().map_or(true, |end| now.duration_since(end) >= DELETION_GRACE_PERIOD);
    object.uid() == uid && (end.is_empty() || !is_over())
}

/// The account of a token, if the account and the bound object exist.
pub fn identify(server: &Server, token: &str, audiences: &[&str]) -> Option<AuthenticatedToken> {
    let now = server.clock().now();
    let claims = server.signing_key().verify(token, audiences, now.as_second()).ok()?;
    let is_alive = |resource: &str, namespace: &str, name: &str, uid: &str| {
        let found = server.store().get(&Key::new(resource, namespace, name));
        found.is_some_and(|record| is_valid(&decode(&record), uid, now))
    };
    if !is_alive("core/serviceaccounts", &claims.namespace, &claims.name, &claims.uid) {
        return None;
    }
    let mut identity = Identity::service_account(&claims.namespace, &claims.name, &claims.uid);
    if let Some((resource, name, uid)) = &claims.bound {
        let namespace = if resource == "node" { "" } else { &claims.namespace };
        if !is_alive(&format!("core/{resource}s"), namespace, name, uid) {
            return None;
        }
        if resource != "secret" {
            let extra = |part: &str| format!("authentication.kubernetes.io/{resource}-{part}");
            identity.extra.insert(extra("name"), vec![name.clone()]);
            identity.extra.insert(extra("uid"), vec![uid.clone()]);
        }
    }
    let credential = format!("JTI={}", claims.id);
    identity.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![credential]);
    let audiences = claims.audiences.into_iter().filter(|own| audiences.contains(&own.as_str())).collect();
    Some(AuthenticatedToken { identity, audiences })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn signing_key() -> SigningKey {
        SigningKey::read(&SigningKey::generate().unwrap()).unwrap()
    }

    fn claims() -> Claims {
        Claims {
            namespace: "a".to_owned(),
            name: "mate".to_owned(),
            uid: "u".to_owned(),
            audiences: vec!["here".to_owned()],
            from: 100,
            until: 200,
            bound: Some(("pod".to_owned(), "p".to_owned(), "pu".to_owned())),
            id: "1".to_owned(),
        }
    }

    #[rstest]
    #[case(json!({"uid": "u"}), true)]
    #[case(json!({"uid": "other"}), false)]
    #[case(json!({"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}), true)]
    #[case(json!({"uid": "u", "deletionTimestamp": "2025-12-31T23:59:00Z"}), false)]
    #[case(json!({"uid": "u", "deletionTimestamp": "9999-12-30T22:00:00Z"}), true)]
    #[case(json!({"uid": "u", "deletionTimestamp": "soon"}), false)]
    fn what_should_be_gone_gives_no_access(#[case] metadata: Value, #[case] valid: bool) {
        let object = json!({"metadata": metadata});
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(is_valid(object.as_object().unwrap(), "u", now), valid);
    }

    #[test]
    fn token_that_was_signed_says_what_was_put_in() {
        let signing_key = signing_key();
        let token = signing_key.sign(&claims()).unwrap();
        assert_eq!(signing_key.verify(&token, &["there", "here"], 150), Ok(claims()));
    }

    #[rstest]
    #[case(99, "here", TokenError::Expired)]
    #[case(200, "here", TokenError::Expired)]
    #[case(150, "there", TokenError::Audience)]
    fn token_is_for_its_time_and_its_audience(#[case] now: i64, #[case] audience: &str, #[case] error: TokenError) {
        let signing_key = signing_key();
        let token = signing_key.sign(&claims()).unwrap();
        assert_eq!(signing_key.verify(&token, &[audience], now), Err(error));
    }

    #[test]
    fn token_of_another_key_or_with_another_body_is_forged() {
        let signing_key = signing_key();
        let token = signing_key.sign(&claims()).unwrap();
        assert_eq!(super::tests::signing_key().verify(&token, &["here"], 150), Err(TokenError::Forged));
        let parts: Vec<&str> = token.split('.').collect();
        let body = Claims { name: "captain".to_owned(), ..claims() }.to_json().to_string();
        let changed = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(body), parts[2]);
        assert_eq!(signing_key.verify(&changed, &["here"], 150), Err(TokenError::Forged));
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        assert_eq!(signing_key.verify(&format!("{none}.{}.", parts[1]), &["here"], 150), Err(TokenError::Forged));
        for text in ["", ".", "..", "a.b.c", &"x".repeat(10_000)] {
            assert_eq!(signing_key.verify(text, &["here"], 150), Err(TokenError::Forged));
        }
    }
}
