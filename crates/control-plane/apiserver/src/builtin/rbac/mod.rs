//! RBAC kinds: roles and bindings, and the review kinds.

pub mod review;
pub mod role;
