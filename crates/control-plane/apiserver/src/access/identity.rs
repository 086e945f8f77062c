//! User identities: name, uid, groups and extra attributes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// An authenticated user, or the anonymous one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub user: String,
    /// An identifier that outlives the name, empty for none.
    pub uid: String,
    pub groups: Vec<String>,
    /// Additional facts of the authenticator, such as the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user who sends no credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything, whatever the rules say, so that broken rules can be repaired.
pub const MASTERS: &str = "system:masters";
/// The group of everyone with valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

impl Identity {
    /// A user with valid credentials.
    pub fn authenticated(user: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Identity {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Identity { user: user.into(), groups, ..Identity::default() }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Identity {
        Identity { user: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Identity::default() }
    }

    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Identity {
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        let user = format!("system:serviceaccount:{namespace}:{name}");
        Identity { uid: uid.to_owned(), ..Identity::authenticated(user, groups) }
    }

    /// The identity as reviews and policies show it.
    pub fn to_json(&self) -> Value {
        let mut info = json!({"username": self.user, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }

    /// Whether the rules do not concern this user.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
