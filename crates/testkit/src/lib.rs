//! A cluster for a test: ours inside the process, with a clock that the test turns, or the real one beside it.
//!
//! - [`Cluster::start`] is for suites that must hold on both. They use its clients and nothing else, wait for what
//!   they expect instead of assuming it, and know neither the time nor the names of what the server makes itself.
//!   `SEAWORTHY_CLUSTER=kubernetes` runs them on the real kube-apiserver; `cargo xtask test` does so with those that
//!   are listed in `xtask/src/kube/lane.rs`.
//! - [`Embedded::start`] is for tests that turn the clock or look behind the API.
//! - [`Kubernetes::start`] is for tests of what only the real one can show.
//!
//! Each has a cluster of its own, whichever it is. Garbage is collected and namespaces end on both.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! use k8s_openapi::api::core::v1::Namespace;
//! use kube::Api;
//! use seaworthy_testkit::Cluster;
//!
//! let cluster = Cluster::start().await;
//! let namespaces: Api<Namespace> = Api::all(cluster.client());
//! assert!(namespaces.get("default").await.is_ok());
//! # });
//! ```

mod clock;
mod cluster;
mod embedded;
mod faults;
mod kubernetes;
mod machines;
mod manifests;
mod observer;

pub use clock::Clock;
pub use cluster::Cluster;
pub use embedded::Embedded;
pub use faults::{Chance, Faults, Injected, Weather};
pub use kubernetes::Kubernetes;
pub use machines::{Machines, Manners, node};
pub use manifests::{controller_config, file};
pub use observer::{Observer, Seen};
