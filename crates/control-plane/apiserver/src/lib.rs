//! A Kubernetes API server as a tower service: the smallest that clients cannot tell from the real one.

mod access;
mod admission;
mod authentication;
mod builtin;
mod clock;
mod discovery;
mod dispatch;
mod housekeeping;
mod object;
mod request;
mod resource;
mod response;
mod selector;
mod server;
mod serving;
mod subresource;
mod verb;
mod write;

pub use access::{Action, Binding, Identity, Policy, Role, Rule, Subject};
pub use authentication::{Keys, KeysError, PeerCertificate, StaticTokens, TokensError};
pub use clock::{Machine, Still, World};
pub use housekeeping::Housekeeping;
pub use request::media::{Accepted, BodyFormat, Format, PatchKind, Shape};
pub use request::options::{
    DeleteOptions, FieldValidation, ListOptions, Match, Preconditions, Propagation, Query, WriteKind, WriteOptions,
};
pub use request::{ResourcePath, Target, Verb};
pub use resource::Resource;
pub use resource::registry::Registry;
pub use response::Body;
pub use response::status::{Cause, Details, Failure, Named};
pub use seaworthy_store::{Folder, OpenError};
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use server::{Place, Server, Settings};
pub use serving::{Certified, Inside, ListenError, Listening, Pki, PkiError};
