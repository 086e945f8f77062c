//! Test cluster on either server: the embedded one, or the real kube-apiserver.

use kube::Client;

use crate::embedded::Embedded;
use crate::kubernetes::Kubernetes;

/// Selects the server that [`Cluster::start`] starts: `embedded`, which is the default, or `kubernetes`.
const VARIABLE: &str = "SEAWORTHY_CLUSTER";

/// A cluster that lives as long as the test, on our server or on the real one.
pub enum Cluster {
    /// Our server, inside the process.
    Embedded(Embedded),
    /// The real kube-apiserver with etcd.
    Kubernetes(Box<Kubernetes>),
}

impl Cluster {
    /// Starts an empty cluster on the server that `SEAWORTHY_CLUSTER` names: `embedded` (if it is not set), or
    /// `kubernetes`.
    ///
    /// # Panics
    ///
    /// If it does not start, or if there is no such server: a test has no use for anything less.
    pub async fn start() -> Cluster {
        let name = std::env::var(VARIABLE).unwrap_or_default();
        match name.as_str() {
            "" | "embedded" => Cluster::Embedded(Embedded::start().await),
            "kubernetes" => Cluster::Kubernetes(Box::new(Kubernetes::start().await)),
            other => panic!("{VARIABLE} is {other:?}; it can be embedded or kubernetes"),
        }
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        match self {
            Cluster::Embedded(cluster) => cluster.client(),
            Cluster::Kubernetes(cluster) => cluster.client(),
        }
    }

    /// A client of this user, who is in these groups and in `system:authenticated`.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        match self {
            Cluster::Embedded(cluster) => cluster.client_as(user, groups),
            Cluster::Kubernetes(cluster) => cluster.client_as(user, groups),
        }
    }
}
