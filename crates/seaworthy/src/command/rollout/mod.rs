//! `seaworthy rollout`, one module for each subcommand: `decide` works on manifests, the others on a cluster.

mod decide;
mod history;
mod pause;
mod status;
mod undo;

use std::sync::Arc;

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_runtime::cluster::Client;

use crate::cli::{PoolOf, Rollout};
use crate::cluster::{client, no_pool};
use crate::failure::Failure;
use crate::process::block_on;

pub fn run(command: &Rollout) -> Result<u8, Failure> {
    match command {
        Rollout::Decide { input, pool, output } => decide::run(input, pool.as_deref(), *output),
        Rollout::Status { of, watch, timeout, output } => block_on(status::run(of, *watch, *timeout, *output)),
        Rollout::Pause(of) => block_on(pause::run(of, true)),
        Rollout::Resume(of) => block_on(pause::run(of, false)),
        Rollout::Undo { of, release: true, dry_run, .. } => block_on(undo::release(of, *dry_run)),
        Rollout::Undo { of, to, dry_run, .. } => block_on(undo::run(of, to.as_deref(), *dry_run)),
        Rollout::History { of, output } => block_on(history::run(of, *output)),
    }
}

/// Reads a cluster, and its pool of this name.
async fn read(of: &PoolOf) -> Result<(Client, ClusterState, Arc<MachineConfigPool>), Failure> {
    let client = client(&of.cluster).await?;
    let cluster = ClusterState::read(&client, ReadScope::Own).await.map_err(Failure::invalid)?;
    let pool = pool_of(&cluster, &of.pool)?;
    Ok((client, cluster, pool))
}

fn pool_of(cluster: &ClusterState, name: &str) -> Result<Arc<MachineConfigPool>, Failure> {
    let known = || cluster.pools().iter().filter_map(|pool| pool.metadata.name.clone()).collect::<Vec<_>>();
    cluster.pool(name).cloned().ok_or_else(|| no_pool(name, &known()))
}
