//! The Ignition endpoint: what a new machine is given at its first boot, and to whom.
//!
//! Pure rooms decide, over data:
//!
//! - [`accept`]: which version of Ignition a client understands;
//! - [`choice`]: which of a pool's configurations new machines get;
//! - [`content`] and [`kubeconfig`]: what is added to it, and what it becomes in each version;
//! - [`remote`]: that nothing in it lies elsewhere;
//! - [`stub`]: the few lines that lead a machine here.
//!
//! The shell around them:
//!
//! - [`answers`]: everything that may be asked for, encoded before it is;
//! - [`cluster`] and [`bootstrap`]: where answers come from, an API or a folder;
//! - [`access`] and [`rate`]: who gets them, and how often;
//! - [`endpoint`]: a request in, a response out;
//! - [`parcel`] and [`metrics`]: how a response gets there, and what is written down of it;
//! - [`listen`] and [`certificates`]: the socket;
//! - [`looks`] and [`token_file`]: what is read again while it runs.

pub mod accept;
pub mod access;
pub mod answers;
pub mod bootstrap;
pub mod certificates;
pub mod choice;
pub mod cluster;
pub mod content;
pub mod endpoint;
pub mod kubeconfig;
pub mod listen;
pub mod looks;
pub mod metrics;
pub mod parcel;
pub mod rate;
pub mod remote;
pub mod stub;
pub mod token_file;

pub use access::{Access, Token};
pub use answers::{Answers, Shelf};
pub use certificates::Certificates;
pub use endpoint::{Endpoint, Visitor};
pub use listen::Listening;
pub use metrics::Metrics;
