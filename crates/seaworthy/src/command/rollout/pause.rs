//! `seaworthy rollout pause|resume`.

use std::io::Write as _;

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_runtime::objects::patch;
use serde_json::json;

use super::read;
use crate::cli::PoolOf;
use crate::failure::{EXIT_OK, Failure};
use crate::{output, terminal};

/// Pauses or resumes a pool.
pub async fn run(of: &PoolOf, paused: bool) -> Result<u8, Failure> {
    let (client, _, pool) = read(of).await?;
    let name = &of.pool;
    if (pool.spec.paused == Some(true)) == paused {
        terminal::note(&format!("pool {name} is {}", if paused { "already paused" } else { "not paused" }));
        return Ok(EXIT_OK);
    }
    patch::<MachineConfigPool>(&client, name, &json!({"spec": {"paused": paused}})).await.map_err(Failure::invalid)?;
    let outcome = if paused { "paused: no further node updates start until it is resumed" } else { "resumed" };
    writeln!(output::plain(), "pool {name} {outcome}")?;
    Ok(EXIT_OK)
}
