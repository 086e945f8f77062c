//! Test cluster on either server: the embedded one, or the real kube-apiserver.

use kube::Client;
use serde_json::Value;

use crate::embedded::Embedded;
use crate::kubernetes::Kubernetes;
use crate::listening::Listening;

/// Selects the server that [`Cluster::start`] starts: `embedded`, which is the default, or `kubernetes`.
const VARIABLE: &str = "SEAWORTHY_CLUSTER";

/// A cluster that lives as long as the test, on our server or on the real one.
pub enum Cluster {
    /// Our server, inside the process.
    Embedded(Embedded),
    /// Our server, inside the process and on a socket.
    Listening(Listening),
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
        match is_real() {
            false => Cluster::Embedded(Embedded::start().await),
            true => Cluster::Kubernetes(Box::new(Kubernetes::start().await)),
        }
    }

    /// The same with a [`Cluster::kubeconfig`]; its clock is the machine's.
    ///
    /// # Panics
    ///
    /// As [`Cluster::start`].
    pub async fn start_listening() -> Cluster {
        match is_real() {
            false => Cluster::Listening(Listening::start().await),
            true => Cluster::Kubernetes(Box::new(Kubernetes::start().await)),
        }
    }

    /// The kubeconfig of a user who may do everything, as JSON, without references to files.
    ///
    /// # Panics
    ///
    /// If the cluster does not listen.
    pub fn kubeconfig(&self) -> &Value {
        match self {
            Cluster::Embedded(_) => {
                panic!("a cluster without a socket has no kubeconfig; start it with start_listening")
            }
            Cluster::Listening(cluster) => cluster.kubeconfig(),
            Cluster::Kubernetes(cluster) => cluster.kubeconfig(),
        }
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        match self {
            Cluster::Embedded(cluster) => cluster.client(),
            Cluster::Listening(cluster) => cluster.client(),
            Cluster::Kubernetes(cluster) => cluster.client(),
        }
    }

    /// A client of this user, who is in these groups and in `system:authenticated`.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        match self {
            Cluster::Embedded(cluster) => cluster.client_as(user, groups),
            Cluster::Listening(cluster) => cluster.client_as(user, groups),
            Cluster::Kubernetes(cluster) => cluster.client_as(user, groups),
        }
    }
}

/// Whether the real server was selected.
fn is_real() -> bool {
    match std::env::var(VARIABLE).unwrap_or_default().as_str() {
        "" | "embedded" => false,
        "kubernetes" => true,
        other => panic!("{VARIABLE} is {other:?}; it can be embedded or kubernetes"),
    }
}
