//! The schemas of the built-in kinds, read from the OpenAPI data when a kind is first used.

use seaworthy_schema::Schema;

use crate::kind::Kind;

/// The schema of a kind.
pub fn of(_kind: &Kind) -> Option<Schema<'static>> {
    None
}

/// The schema of the metadata that all objects have.
pub fn object_meta() -> Option<Schema<'static>> {
    None
}
