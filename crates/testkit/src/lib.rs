//! A cluster inside the test: the API server without a socket, a real client, a clock that the test turns.
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

pub use clock::Clock;
pub use cluster::Cluster;
