//! Test clusters: our API server inside the process, with a clock that the test moves, or the real kube-apiserver.
//!
//! - [`Cluster::start`] is for suites that must hold on both. They use its clients and nothing else, wait for what
//!   they expect instead of assuming it, and know neither the time nor the names of objects that the server creates.
//!   `SEAWORTHY_CLUSTER=kubernetes` runs them on the real kube-apiserver; `cargo xtask test` does so with those that
//!   are listed in `xtask/src/kube/conformance.rs`.
//! - [`Cluster::start_listening`] is the same with a kubeconfig, for what reaches a cluster by one.
//! - [`Embedded::start`] is for tests that move the clock or access the server itself.
//! - [`Kubernetes::start`] is for tests that only make sense on the real one.
//!
//! Each test has a cluster of its own. Garbage collection and namespace deletion work on both.
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
mod fault_injector;
mod kubernetes;
mod listening;
mod manifests;
mod node_simulator;
mod observer;

pub use clock::TestClock;
pub use cluster::Cluster;
pub use embedded::Embedded;
pub use fault_injector::{FaultCounts, FaultInjector, FaultRates, SeededRandom};
pub use kubernetes::Kubernetes;
pub use listening::Listening;
pub use manifests::{controller_config, file};
pub use node_simulator::{NodeBehaviour, NodeSimulator, node};
pub use observer::{Observations, Observer};
