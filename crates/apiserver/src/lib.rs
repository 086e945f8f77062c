//! A Kubernetes API server as a tower service: the smallest that clients cannot tell from the real one.

mod name;
mod request;
mod selector;
mod status;

pub use request::{ResourcePath, Target, Verb};
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use status::{Cause, Details, Failure, Named};
