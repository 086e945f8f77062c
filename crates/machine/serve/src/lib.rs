//! Ignition endpoint: serves new machines their pool's configuration at their first boot.
//!
//! Pure modules, which decide over data:
//!
//! - [`version_negotiation`]: which version of Ignition a client understands;
//! - [`first_boot_config`]: which of a pool's configurations new machines get;
//! - [`servable_config`] and [`kubeconfig`]: what is added to it, and its form in each version;
//! - [`remote_reference`]: rejects configs that refer to remote content;
//! - [`stub`]: the Ignition config that points a machine to the endpoint.
//!
//! Modules with effects:
//!
//! - [`answers`]: the answers of all pools, encoded before they are requested;
//! - [`cluster_source`] and [`bootstrap_folder`]: the sources of answers, an API server or a folder;
//! - [`access`] and [`rate_limits`]: who gets them, and how often;
//! - [`endpoint`]: handles a request;
//! - [`response_body`] and [`metrics`]: sending a response, its log line and its counters;
//! - [`server`] and [`certificates`]: the socket;
//! - [`periodic`] and [`token_file`]: files that are read again while the endpoint runs.

pub mod access;
pub mod answers;
pub mod bootstrap_folder;
pub mod certificates;
pub mod cluster_source;
pub mod endpoint;
pub mod first_boot_config;
pub mod kubeconfig;
pub mod metrics;
pub mod periodic;
pub mod rate_limits;
pub mod remote_reference;
pub mod response_body;
pub mod servable_config;
pub mod server;
pub mod stub;
pub mod token_file;
pub mod version_negotiation;

pub use access::{Access, Token};
pub use answers::{AnswerStore, Answers};
pub use certificates::Certificates;
pub use endpoint::{Endpoint, Peer};
pub use metrics::Metrics;
pub use server::EndpointServer;
