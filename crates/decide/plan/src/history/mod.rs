//! Target history of a pool: its revisions, when each was targeted, and the pin that holds the pool on one of them.

pub mod pin;
pub mod revision;
pub mod target_history;
