//! Pools: writes to pools, for commands.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_runtime::cluster::{ClusterError, call_error};
use serde_json::Value;

/// Applies a merge patch.
///
/// # Errors
///
/// If the cluster refuses it.
pub async fn patch(client: &Client, name: &str, patch: &Value) -> Result<MachineConfigPool, ClusterError> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let patched = pools.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|error| call_error(&format!("patch MachineConfigPool {name}"), &error))
}
