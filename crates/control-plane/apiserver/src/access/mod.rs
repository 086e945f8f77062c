//! Authorisation (RBAC): identities, roles, bindings, and the decision.

mod identity;
mod policy;
mod rule;

pub use identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED};
pub use policy::{AccessPolicy, AccessRequest, Role, RoleBinding, Subject};
pub use rule::PolicyRule;
