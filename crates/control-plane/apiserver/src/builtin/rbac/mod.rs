//! Access kinds: roles and bindings, and the reviews that ask about access.

pub mod review;
pub mod role;
