//! Requests: path and verb, options, headers and bodies, read into typed values.

mod call;
pub mod decode;
pub mod media;
pub mod options;
mod path;
mod protobuf;

pub use call::Call;
pub use path::{RequestPath, ResourcePath, Verb};
