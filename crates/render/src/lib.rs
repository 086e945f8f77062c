//! Turns many MachineConfigs into one per pool.

pub mod yaml;
mod yaml_resolve;
