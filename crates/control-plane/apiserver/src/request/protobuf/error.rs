//! Errors of protobuf bodies.

use super::message::{MAX_DEPTH, MAX_MESSAGES};

/// Why a protobuf body cannot be decoded. Messages never quote the body, because it may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// There are no bytes.
    #[error("empty data")]
    NoData,
    /// There is nothing after the first bytes.
    #[error("empty body")]
    NoBody,
    /// The first bytes are not those of an envelope.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// The envelope has no version or no kind.
    #[error("the envelope has no apiVersion or no kind")]
    NoKind,
    /// The envelope has a content encoding such as compression.
    #[error("the envelope has a contentEncoding; only objects without one are supported")]
    ContentEncoding,
    /// The envelope names something that is not in the table.
    #[error("no kind {kind:?} is registered for version {api_version:?} in protobuf; send JSON or YAML")]
    UnknownKind {
        /// The version.
        api_version: String,
        kind: String,
    },
    /// A length or a number goes beyond the end.
    #[error("unexpected EOF")]
    Truncated,
    /// A number takes more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field's number or wire type is invalid.
    #[error("proto: illegal tag")]
    Tag,
    /// A group, which protobuf deprecated.
    #[error("proto: field {number} is a group; groups are not supported")]
    Group {
        /// The field.
        number: u32,
    },
    /// A field is written as another type.
    #[error("proto: wrong wireType for field {number} of {message}")]
    WireType {
        message: String,
        /// The field.
        number: u32,
    },
    /// Text is not UTF-8.
    #[error("proto: field {number} of {message} is not UTF-8")]
    Utf8 {
        message: String,
        /// The field.
        number: u32,
    },
    /// A value is invalid for its type.
    #[error("proto: field {number} of {message} {why}")]
    Value {
        message: String,
        /// The field.
        number: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Messages nest too deep.
    #[error("proto: messages nest deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("proto: more than {MAX_MESSAGES} messages in one object")]
    TooMany,
}
