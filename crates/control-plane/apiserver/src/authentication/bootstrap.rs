//! Bootstrap tokens: `abcdef.0123456789abcdef`, kept as Secrets in `kube-system`, for machines that join.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use seaworthy_store::Key;
use serde_json::Value;

use crate::access::Identity;
use crate::object::{Metadata, Object};
use crate::server::{Server, decode};

const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// The identity behind a bootstrap token.
pub fn identify(server: &Server, token: &str) -> Option<Identity> {
    let (id, secret) = token.split_once('.')?;
    let is_shaped = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if !is_shaped(id, 6) || !is_shaped(secret, 16) {
        return None;
    }
    let key = Key::new("core/secrets", "kube-system", format!("bootstrap-token-{id}"));
    let object = decode(&*server.store().get(&key)?);
    accepted(&object, id, secret, server.clock().now())
}

fn accepted(object: &Object, id: &str, secret: &str, now: Timestamp) -> Option<Identity> {
    let text = |key: &str| -> Option<String> {
        let encoded = object.get("data")?.get(key)?.as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    let is_token = object.get("type").and_then(Value::as_str) == Some(SECRET_TYPE);
    if !is_token || object.is_deleting() || text("token-id").as_deref() != Some(id) {
        return None;
    }
    verify_slices_are_equal(text("token-secret")?.as_bytes(), secret.as_bytes()).ok()?;
    // A time that cannot be read is a time that has passed.
    if text("expiration").is_some_and(|time| time.parse::<Timestamp>().map_or(true, |end| end <= now)) {
        return None;
    }
    if text("usage-bootstrap-authentication").as_deref() != Some("true") {
        return None;
    }
    let extra = text("auth-extra-groups").unwrap_or_default();
    let extra = extra.split(',').map(str::trim).filter(|group| group.starts_with("system:bootstrappers:"));
    let groups = std::iter::once(GROUP).chain(extra).map(str::to_owned);
    Some(Identity::authenticated(format!("system:bootstrap:{id}"), groups))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn secret(change: Value) -> Object {
        let encode = |text: &str| STANDARD.encode(text);
        let mut object = json!({"type": SECRET_TYPE, "metadata": {}, "data": {
            "token-id": encode("abcdef"), "token-secret": encode("0123456789abcdef"),
            "usage-bootstrap-authentication": encode("true"),
            "auth-extra-groups": encode("system:bootstrappers:workers,system:masters"),
        }});
        for (key, value) in change.as_object().unwrap() {
            object["data"][key] = encode(value.as_str().unwrap()).into();
        }
        object.as_object().unwrap().clone()
    }

    #[test]
    fn token_gives_the_groups_of_bootstrappers_and_no_others() {
        let identity = accepted(&secret(json!({})), "abcdef", "0123456789abcdef", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(identity.user, "system:bootstrap:abcdef");
        assert_eq!(identity.groups, [GROUP, "system:bootstrappers:workers", "system:authenticated"]);
    }

    #[rstest]
    #[case(json!({"token-secret": "fedcba9876543210"}))]
    #[case(json!({"usage-bootstrap-authentication": "false"}))]
    #[case(json!({"expiration": "1970-01-01T00:00:00Z"}))]
    #[case(json!({"expiration": "soon"}))]
    fn wrong_expired_or_unrelated_token_is_refused(#[case] change: Value) {
        assert_eq!(accepted(&secret(change), "abcdef", "0123456789abcdef", Timestamp::UNIX_EPOCH), None);
    }
}
