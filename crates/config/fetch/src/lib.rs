//! Remote content: fetches [`Request`]s into verified plain bytes, and stores them as snapshots.
//!
//! The crate does not know the configs that need the content. A pure caller computes which
//! requests a config needs, passes them to a [`FetchRun`], and resolves again with the results.
//!
//! Invariants:
//!
//! * Bytes are returned only after size limit, decompression and hash have been checked, in
//!   that order.
//! * Every socket is opened by one function, which checks the very address it is about to connect
//!   to against the [`Policy`]; redirects, proxies and object stores pass through it as well.
//! * Requests with the operator's credentials go through the operator's proxy and trust the
//!   system's roots; the proxy and the authorities of a config do not apply to them.
//! * No header value, password, token or signed query ends up in an error, a log or a snapshot's
//!   description: URLs are shown through [`redact()`] only.
//! * The clock, the timer, the resolver and the environment are passed in, never looked up. Two
//!   libraries are exceptions: the roots of the system are found by its own conventions
//!   (`SSL_CERT_FILE` among them), and requests to object stores are signed with its time.
//!
//! With `default-features = false` only plain data is left, which touches neither files nor
//! sockets: requests, policy, errors, snapshots in memory. The feature `fs` adds
//! [`FolderSnapshots`]; the feature `net` (on by default) adds the [`Fetcher`], and `fs` with it.

#![cfg_attr(not(feature = "net"), allow(rustdoc::broken_intra_doc_links))]

mod address;
mod digest;
mod error;
mod policy;
mod proxy;
mod redact;
mod request;
mod snapshot;

pub use address::AddressClass;
pub use digest::{Digest, ParseDigestError};
pub use error::{CertificateStep, FailureCategory, FailureKind, FetchError, Retry, TFTP_REFUSAL};
pub use policy::{Host, HostPattern, ParseHostPatternError, Policy, PolicyViolation};
pub use proxy::Proxy;
pub use redact::redact;
pub use request::{Compression, ContentKind, FetchSettings, Request};
pub use snapshot::{MemorySnapshots, Snapshot, SnapshotError, SnapshotKey, Snapshots, utc};

#[cfg(feature = "fs")]
mod folder_snapshots;
#[cfg(feature = "fs")]
pub use folder_snapshots::FolderSnapshots;

#[cfg(feature = "net")]
mod body;
#[cfg(feature = "net")]
mod connector;
#[cfg(feature = "net")]
mod environment;
#[cfg(feature = "net")]
mod fetch_run;
#[cfg(feature = "net")]
mod fetcher;
#[cfg(feature = "net")]
mod http_source;
#[cfg(feature = "net")]
mod object_client;
#[cfg(feature = "net")]
mod object_url;
#[cfg(feature = "net")]
mod resolver;
#[cfg(feature = "net")]
mod timer;
#[cfg(feature = "net")]
mod tls;
#[cfg(feature = "net")]
mod transport;

#[cfg(feature = "net")]
pub use environment::Environment;
#[cfg(feature = "net")]
pub use fetch_run::{FetchOutcome, FetchRun};
#[cfg(feature = "net")]
pub use fetcher::{FailedAttempt, FetchObserver, Fetcher, SnapshotClock};
#[cfg(feature = "net")]
pub use resolver::{Resolver, SystemResolver};
#[cfg(feature = "net")]
pub use timer::{Timer, TokioTimer};
