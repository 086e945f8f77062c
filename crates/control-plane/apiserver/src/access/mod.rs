//! Authorisation (RBAC): identities, roles, bindings, and the decision.

mod identity;
mod missing_rules;
mod policy;
mod rule;

pub use identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED};
pub use missing_rules::MissingRules;
pub use policy::{AccessPolicy, AccessRequest, Role, RoleBinding, Subject};
pub use rule::PolicyRule;
