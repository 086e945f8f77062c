//! Who may do what: identities, the rules of roles, and the decision.

mod identity;
mod policy;
mod rule;

pub use identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED};
pub use policy::{Action, Binding, Policy, Role, Subject};
pub use rule::Rule;
