//! What can be wrong with a protobuf body.

use super::message::{DEPTH, MESSAGES};

/// Why a body is not an object. Nothing of the body's content is in it, because that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There are no bytes.
    #[error("empty data")]
    NoData,
    /// There is nothing after the first bytes.
    #[error("empty body")]
    NoBody,
    /// The first bytes are not those of an envelope.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// The envelope does not say what is in it.
    #[error("the envelope names no apiVersion or no kind")]
    NoKind,
    /// The envelope says that the object is compressed or the like.
    #[error("the envelope has a content encoding; only objects without one are read")]
    Packed,
    /// The envelope names something that is not in the table.
    #[error("no kind {kind:?} is registered for version {api_version:?} in protobuf; send JSON or YAML")]
    UnknownKind {
        /// The version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A length or a number goes beyond the end.
    #[error("unexpected EOF")]
    Truncated,
    /// A number takes more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field's number or wire type is one that there is not.
    #[error("proto: illegal tag")]
    Tag,
    /// A field of the kind that protobuf gave up long ago.
    #[error("proto: field {number} is a group, which no kind has")]
    Group {
        /// The field.
        number: u32,
    },
    /// A field is written as another type.
    #[error("proto: wrong wireType for field {number} of {message}")]
    WireType {
        /// The message.
        message: String,
        /// The field.
        number: u32,
    },
    /// Text is not UTF-8.
    #[error("proto: field {number} of {message} is not UTF-8")]
    Utf8 {
        /// The message.
        message: String,
        /// The field.
        number: u32,
    },
    /// A value is none of its type.
    #[error("proto: field {number} of {message} {why}")]
    Value {
        /// The message.
        message: String,
        /// The field.
        number: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Messages in messages.
    #[error("proto: messages nest deeper than {DEPTH} levels")]
    TooDeep,
    /// More messages than any object has.
    #[error("proto: more than {MESSAGES} messages in one object")]
    TooMany,
}
