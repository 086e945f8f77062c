//! A Kubernetes API server as a tower service: the smallest that clients cannot tell from the real one.

mod access;
mod builtin;
mod kind;
mod media;
mod name;
mod object;
mod options;
mod request;
mod selector;
mod status;
mod table;

pub use access::{Action, Binding, Identity, Policy, Role, Rule, Subject};
pub use media::{Accepted, Format, PatchKind, Shape};
pub use options::{
    DeleteOptions, FieldValidation, ListOptions, Match, Preconditions, Propagation, Query, WriteKind, WriteOptions,
};
pub use request::{ResourcePath, Target, Verb};
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use status::{Cause, Details, Failure, Named};
