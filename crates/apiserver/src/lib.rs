//! A Kubernetes API server as a tower service: the smallest that clients cannot tell from the real one.

mod access;
mod admission;
mod authentication;
mod body;
mod builtin;
mod call;
mod clock;
mod custom;
mod decode;
mod discovery;
mod housekeeping;
mod kind;
mod listen;
mod media;
mod meta;
mod object;
mod openapi;
mod options;
mod pki;
mod present;
mod protobuf;
mod quantity;
mod reach;
mod registry;
mod request;
mod resource;
mod selector;
mod server;
mod service;
mod status;
mod subresource;
mod swagger;
mod table;
mod verb;
mod version;
mod write;

pub use access::{Action, Binding, Identity, Policy, Role, Rule, Subject};
pub use authentication::{Keys, KeysError, PeerCertificate, StaticTokens, TokensError};
pub use body::Body;
pub use clock::{Machine, Still, World};
pub use housekeeping::Housekeeping;
pub use listen::{ListenError, Listening};
pub use media::{Accepted, BodyFormat, Format, PatchKind, Shape};
pub use options::{
    DeleteOptions, FieldValidation, ListOptions, Match, Preconditions, Propagation, Query, WriteKind, WriteOptions,
};
pub use pki::{Certified, Pki, PkiError};
pub use registry::Registry;
pub use request::{ResourcePath, Target, Verb};
pub use resource::Resource;
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use server::{Place, Server, Settings};
pub use status::{Cause, Details, Failure, Named};
