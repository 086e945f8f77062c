//! Rows 90 to 119 of the table of upstream behaviour: pools, nodes and status.
//!
//! Elsewhere: 85 to 89 beside `reconcilable`, 91 and 92 beside `budget`. Left out: 120 to 125, which are about rendering,
//! bootstrap files and conversions.

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
