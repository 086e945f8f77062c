//! The cluster that a command works on: its client, and the answer to a pool that it does not have.

use seaworthy_ignition::spelling;
use seaworthy_runtime::cluster::{Client, connect};

use crate::cli::Cluster;
use crate::failure::Failure;

/// A client for the cluster.
pub async fn client(cluster: &Cluster) -> Result<Client, Failure> {
    connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await.map_err(Failure::invalid)
}

/// The failure for a pool that does not exist.
pub fn no_pool(name: &str, known: &[String]) -> Failure {
    if known.is_empty() {
        return Failure::invalid(format!(
            "pool {name:?} not found: the cluster has no pools. `seaworthy controllers` creates the pools master and \
             worker for a ControllerConfig (examples/controller-config.yaml); create any other as a MachineConfigPool"
        ));
    }
    let near = spelling::nearest(name, known.iter().map(String::as_str));
    let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Failure::invalid(format!("pool {name:?} not found; available pools: {}{hint}", known.join(", ")))
}
