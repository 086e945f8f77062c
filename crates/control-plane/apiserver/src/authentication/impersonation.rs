//! Impersonation: `Impersonate-*` headers, for users with that right.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::access::{ANONYMOUS, AUTHENTICATED, AccessPolicy, AccessRequest, Identity, UNAUTHENTICATED};
use crate::response::status::{Failure, GroupResource};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";

/// The identity in the headers, unchecked; none without such headers.
fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, Failure> {
    let first = |name: &str| headers.get(name).map(text).transpose().map(Option::unwrap_or_default);
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            // Header names arrive in lower case.
            let key = percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Into::into);
            extra.entry(key).or_default().push(text(value)?);
        }
    }
    let groups = headers.get_all(GROUP).iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let wanted = Identity { user: first(USER)?, uid: first(UID)?, groups, extra };
    match wanted {
        Identity { ref user, .. } if !user.is_empty() => Ok(Some(wanted)),
        Identity { ref uid, ref groups, ref extra, .. } if uid.is_empty() && groups.is_empty() && extra.is_empty() => {
            Ok(None)
        }
        nameless => {
            let requested = spelled(&nameless);
            Err(Failure::bad_request(format!("requested {requested} without impersonating a user name")))
        }
    }
}

fn text(value: &HeaderValue) -> Result<String, Failure> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| Failure::bad_request("an Impersonate header is not UTF-8 text"))
}

/// An identity in the notation of kube-apiserver.
fn spelled(identity: &Identity) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("{{{}}}", texts.join(", "))
    };
    let groups = if identity.groups.is_empty() { "(nil)".to_owned() } else { list(&identity.groups) };
    let extra = if identity.extra.is_empty() {
        "(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            identity.extra.iter().map(|(key, values)| format!("{key:?}:[]string{}", list(values))).collect();
        format!("{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:[]string{groups}, Extra:map[string][]string{extra}}}",
        identity.user, identity.uid
    )
}

/// Namespace and name of a service account's user name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The rights that are required to impersonate this identity.
fn rights(wanted: &Identity) -> Vec<(AccessRequest<'_>, Option<&str>)> {
    let right = |group, resource, name| AccessRequest {
        verb: "impersonate",
        group,
        resource,
        name,
        ..AccessRequest::default()
    };
    let user = match service_account(&wanted.user) {
        Some((namespace, name)) => AccessRequest { namespace, ..right("", "serviceaccounts", name) },
        None => right("", "users", &wanted.user),
    };
    let mut rights = vec![(user, None)];
    rights.extend(wanted.groups.iter().map(|group| (right("", "groups", group), None)));
    if !wanted.uid.is_empty() {
        rights.push((right(AUTHENTICATION, "uids", &wanted.uid), None));
    }
    for (key, values) in &wanted.extra {
        rights.extend(values.iter().map(|value| (right(AUTHENTICATION, "userextras", value), Some(key.as_str()))));
    }
    rights
}

/// The identity with the groups that its name implies.
fn completed(mut wanted: Identity) -> Identity {
    if wanted.groups.is_empty()
        && let Some((namespace, name)) = service_account(&wanted.user)
    {
        wanted.groups = Identity::service_account(namespace, name, "").groups;
    }
    let always = if wanted.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !wanted.is_in(always) && !wanted.is_in(UNAUTHENTICATED) {
        wanted.groups.push(always.to_owned());
    }
    wanted
}

/// The effective user of a request: the sender, or the user in its headers if the sender may impersonate that user.
///
/// Differs: the right is `impersonate` on users, groups and so on, as ever. The newer rights that hold for single
/// actions only are not known here, because nothing uses them; the refusal is worded by them, as the real server asks
/// for them first.
pub fn acting(
    policy: &AccessPolicy,
    sender: Identity,
    headers: &HeaderMap,
    request: &AccessRequest<'_>,
) -> Result<Identity, Failure> {
    let Some(wanted) = wanted(headers)? else { return Ok(sender) };
    let may = rights(&wanted).into_iter().all(|(right, below)| {
        policy.allows(&sender, &AccessRequest { subresource: below.unwrap_or_default(), ..right })
    });
    if may {
        return Ok(completed(wanted));
    }
    let mode = match &wanted.user {
        user if service_account(user).is_some() => "serviceaccount",
        user if user.starts_with("system:node:") => "arbitrary-node",
        _ => "user-info",
    };
    let verb = format!("impersonate-on:{mode}:{}", request.verb);
    let refused = AccessRequest { verb: &verb, ..*request };
    Err(Failure::forbidden(
        GroupResource { group: request.group, resource: request.resource },
        request.name,
        &refused.refusal(&sender),
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use crate::object::Object;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn object(value: serde_json::Value) -> Object {
        value.as_object().unwrap().clone()
    }

    /// Ann may be bob in the group crew with a scope, and the service account a/mate.
    fn policy() -> AccessPolicy {
        let mut policy = AccessPolicy::default();
        let role = json!({"rules": [
            {"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]},
            {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["crew"], "verbs": ["impersonate"]},
            {"apiGroups": [AUTHENTICATION], "resources": ["userextras/example.com/scope"], "resourceNames": ["deck"],
                "verbs": ["impersonate"]}
        ]});
        policy.set("clusterroles", "", "bob", Some(&object(role)));
        let subjects = json!([{"kind": "User", "name": "ann"}]);
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "bob"}, "subjects": subjects});
        policy.set("clusterrolebindings", "", "bob", Some(&object(binding)));
        let role = json!({"rules": [
            {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["mate"], "verbs": ["impersonate"]}
        ]});
        policy.set("roles", "a", "mate", Some(&object(role)));
        let binding = json!({"roleRef": {"kind": "Role", "name": "mate"}, "subjects": subjects});
        policy.set("rolebindings", "a", "mate", Some(&object(binding)));
        policy
    }

    fn acting_as(pairs: &[(&'static str, &'static str)]) -> Result<Identity, Failure> {
        let request = AccessRequest { verb: "list", resource: "pods", namespace: "a", ..AccessRequest::default() };
        acting(&policy(), Identity::authenticated("ann", []), &headers(pairs), &request)
    }

    #[test]
    fn without_headers_the_sender_acts() {
        assert_eq!(acting_as(&[("impersonate", "bob")]).unwrap().user, "ann");
    }

    #[test]
    fn who_may_acts_with_the_groups_and_extras_asked_for() {
        let bob = acting_as(&[
            ("Impersonate-User", "bob"),
            ("Impersonate-Group", "crew"),
            ("Impersonate-Extra-Example.com%2fScope", "deck"),
        ]);
        let bob = bob.unwrap();
        assert_eq!((bob.user.as_str(), bob.uid.as_str()), ("bob", ""));
        assert_eq!(bob.groups, ["crew", "system:authenticated"]);
        assert_eq!(bob.extra["example.com/scope"], ["deck"]);
    }

    #[test]
    fn service_account_gets_its_groups() {
        let mate = acting_as(&[("impersonate-user", "system:serviceaccount:a:mate")]).unwrap();
        assert_eq!(mate.groups, ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]);
    }

    #[rstest]
    #[case(&[("impersonate-user", "eve")], "user-info")]
    #[case(&[("impersonate-user", "bob"), ("impersonate-group", "system:masters")], "user-info")]
    #[case(&[("impersonate-user", "bob"), ("impersonate-group", "crew"), ("impersonate-group", "other")], "user-info")]
    #[case(&[("impersonate-user", "bob"), ("impersonate-uid", "1")], "user-info")]
    #[case(&[("impersonate-user", "bob"), ("impersonate-extra-example.com%2fscope", "hold")], "user-info")]
    #[case(&[("impersonate-user", "bob"), ("impersonate-extra-other", "deck")], "user-info")]
    #[case(&[("impersonate-user", "system:serviceaccount:b:mate")], "serviceaccount")]
    fn every_part_takes_a_right_of_its_own(#[case] pairs: &[(&'static str, &'static str)], #[case] mode: &str) {
        let failure = acting_as(pairs).unwrap_err();
        let verb = format!("impersonate-on:{mode}:list");
        let why = format!("User \"ann\" cannot {verb} resource \"pods\" in API group \"\" in the namespace \"a\"");
        assert_eq!((failure.code, failure.message), (403, format!("pods is forbidden: {why}")));
    }

    #[rstest]
    #[case(&[("impersonate-group", "crew")], "Groups:[]string{\"crew\"}, Extra:map[string][]string(nil)")]
    #[case(&[("impersonate-uid", "1")], "Groups:[]string(nil), Extra:map[string][]string(nil)")]
    #[case(&[("impersonate-extra-a", "b")], "Groups:[]string(nil), Extra:map[string][]string{\"a\":[]string{\"b\"}}")]
    fn everything_but_a_user_makes_no_sense(#[case] pairs: &[(&'static str, &'static str)], #[case] shown: &str) {
        let failure = acting_as(pairs).unwrap_err();
        assert_eq!(failure.code, 400);
        assert!(failure.message.contains(shown), "{}", failure.message);
    }

    #[test]
    fn anonymous_is_not_authenticated() {
        let wanted = Identity { user: ANONYMOUS.to_owned(), ..Identity::default() };
        assert_eq!(completed(wanted), Identity::anonymous());
    }
}
