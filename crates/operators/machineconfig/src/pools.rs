//! What commands write to pools on a user's behalf.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use seaworthy_api::machineconfiguration::MachineConfigPool;
use serde_json::Value;

use crate::cluster::{Blocked, blocked};

/// Patches a pool.
///
/// # Errors
///
/// If the cluster refuses it.
pub async fn patch(client: &Client, name: &str, patch: &Value) -> Result<MachineConfigPool, Blocked> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let patched = pools.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|error| blocked(&format!("patch MachineConfigPool {name}"), &error))
}
