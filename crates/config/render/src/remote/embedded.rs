//! Embedded content: what replaced a reference in a config.

use std::time::SystemTime;

use seaworthy_ignition::node::Origin;

use crate::finding::FieldLocation;

/// Something that became part of a config: for the record on the rendered object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedded {
    /// Where it came from, without credentials.
    pub url: String,
    /// The digest of its bytes.
    pub digest: String,
    /// When it was fetched.
    pub fetched_at: SystemTime,
    /// Who refers to it.
    pub place: FieldLocation,
    /// The reference: the body that took its place in the result has the same origin.
    pub origin: Origin,
}

impl Embedded {
    /// When it was fetched, for people: UTC, to the second.
    pub fn fetched_at_utc(&self) -> String {
        seaworthy_fetch::utc(self.fetched_at)
    }
}
