//! Acting as somebody else: who may impersonate, sends along who they want to be.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::access::{Action, Identity};
use crate::server::Server;
use crate::status::{Failure, Named};

const AUTHENTICATION: &str = "authentication.k8s.io";
const EXTRA: &str = "impersonate-extra-";
const ACCOUNT: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";

/// Whom a request wants to be.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Wish {
    fn read(headers: &HeaderMap) -> Wish {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(EXTRA) {
                // Keys may hold what header names may not.
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                extra.entry(key).or_default().push(text(value));
            }
        }
        Wish {
            user: first("impersonate-user"),
            uid: first("impersonate-uid"),
            groups: headers.get_all("impersonate-group").iter().map(text).collect(),
            extra,
        }
    }

    fn account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix(ACCOUNT)?.split_once(':')
    }

    /// What the wisher must be allowed to do, all of it.
    fn actions(&self) -> Vec<Action<'_>> {
        let verb = "impersonate";
        let mut actions = vec![match self.account() {
            Some((namespace, name)) => {
                Action { verb, resource: "serviceaccounts", namespace, name, ..Action::default() }
            }
            None => Action { verb, resource: "users", name: &self.user, ..Action::default() },
        }];
        actions.extend(self.groups.iter().map(|name| Action { verb, resource: "groups", name, ..Action::default() }));
        if !self.uid.is_empty() {
            let name = &self.uid;
            actions.push(Action { verb, group: AUTHENTICATION, resource: "uids", name, ..Action::default() });
        }
        for (key, values) in &self.extra {
            actions.extend(values.iter().map(|name| Action {
                verb,
                group: AUTHENTICATION,
                resource: "userextras",
                subresource: key,
                name,
                ..Action::default()
            }));
        }
        actions
    }

    fn granted(self) -> Identity {
        let mut identity = match self.account() {
            // An account is in the groups of all accounts unless others are named.
            Some((namespace, name)) if self.groups.is_empty() => Identity::service_account(namespace, name, ""),
            _ if self.user == ANONYMOUS && self.groups.is_empty() => Identity::anonymous(),
            _ => Identity::authenticated(self.user, self.groups),
        };
        (identity.uid, identity.extra) = (self.uid, self.extra);
        identity
    }
}

impl Server {
    /// The identity in whose name a request is made: the sender's own, or the one that it may and wants to have.
    pub(crate) fn impersonate(&self, identity: Identity, headers: &HeaderMap) -> Result<Identity, Failure> {
        let wish = Wish::read(headers);
        if wish == Wish::default() {
            return Ok(identity);
        }
        if wish.user.is_empty() {
            return Err(Failure::bad_request(
                "requested a group, a uid or extra fields without impersonating a user name",
            ));
        }
        let policy = self.policy();
        if let Some(refused) = wish.actions().iter().find(|action| !policy.allows(&identity, action)) {
            let named = Named { group: refused.group, word: refused.resource };
            return Err(Failure::forbidden(named, refused.name, &refused.refusal(&identity)));
        }
        Ok(wish.granted())
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use rstest::rstest;

    use super::*;

    fn wish(headers: &[(&'static str, &'static str)]) -> Wish {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Wish::read(&headers.collect())
    }

    #[test]
    fn every_part_of_a_wish_needs_a_right() {
        let wish = wish(&[
            ("impersonate-user", "ann"),
            ("impersonate-group", "crew"),
            ("impersonate-group", "deck"),
            ("impersonate-extra-example.com%2fscope", "all"),
        ]);
        let actions: Vec<(&str, &str, &str)> =
            wish.actions().iter().map(|action| (action.resource, action.subresource, action.name)).collect();
        assert_eq!(
            actions,
            [
                ("users", "", "ann"),
                ("groups", "", "crew"),
                ("groups", "", "deck"),
                ("userextras", "example.com/scope", "all")
            ]
        );
    }

    #[rstest]
    #[case(&[("impersonate-user", "ann"), ("impersonate-group", "crew")], &["crew", "system:authenticated"])]
    #[case(&[("impersonate-user", "system:serviceaccount:a:b")],
        &["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"])]
    #[case(&[("impersonate-user", "system:anonymous")], &["system:unauthenticated"])]
    fn groups_are_those_that_the_user_would_have(
        #[case] headers: &[(&'static str, &'static str)],
        #[case] groups: &[&str],
    ) {
        assert_eq!(wish(headers).granted().groups, groups);
    }
}
