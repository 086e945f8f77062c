//! Embedded Kubernetes API server as a tower service, compatible with kube-apiserver for the kinds that it serves.

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

pub use access::{AccessPolicy, AccessRequest, Identity, MissingRules, PolicyRule, Role, RoleBinding, Subject};
pub use authentication::{PeerCertificate, SigningKey, SigningKeyError, StaticTokens, TokenFileError};
pub use clock::{ClockAndEntropy, FixedClock, SystemClock};
pub use housekeeping::Housekeeping;
pub use request::media::{BodyFormat, Format, NegotiatedFormat, PatchKind, Shape};
pub use request::options::{
    DeleteOptions, FieldValidation, ListOptions, Preconditions, Propagation, Query, RevisionMatch, WriteKind,
    WriteOptions,
};
pub use request::{RequestPath, ResourcePath, Verb};
pub use resource::Resource;
pub use resource::registry::Registry;
pub use response::Body;
pub use response::status::{Cause, Details, Failure, GroupResource};
pub use seaworthy_store::{DataFolder, OpenError};
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use server::{Server, ServerOptions, StorageLocation};
pub use serving::{CertifiedKey, InProcessService, ListenError, Pki, PkiError, TlsServer};
