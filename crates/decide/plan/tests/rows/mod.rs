//! Pools, nodes and status, by number of the upstream behaviour (`row_90` to `row_119`): docs/reference/upstream-behaviour.md says
//! what the numbers mean, and where the others are.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arbiter;
mod capacity;
mod eligibility;
mod first_boot;
mod membership;
mod status;
mod targeting;

use crate::support::pool;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use serde_json::{Value, json};

fn worker(max: Value) -> MachineConfigPool {
    pool("worker", "1", json!({ "maxUnavailable": max }))
}
