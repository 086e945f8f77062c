//! Decisions of the roll-out: which node moves, which waits and why, and what a change does to a node.
//!
//! Pure: no I/O, no clock, no randomness, no environment; time is an argument. The controllers, `seaworthy plan` and
//! `seaworthy rollout` call the same functions, so they cannot disagree.
//!
//! | question | module |
//! |---|---|
//! | what does a decision know of pools and nodes, and which pool does a node belong to? | [`fleet`] |
//! | how many nodes may be away, which one moves, which one waits and why, and how long will it take? | [`rollout`] |
//! | what is written into the status of pools and into MachineConfigNodes? | [`status`] |
//! | how do the pods leave? | [`drain`] |
//! | what does a change do to a node, and can it be applied at all? | [`disruption`] |
//! | what does a pool target, and which rendered MachineConfigs may be deleted? | [`rendering`] |
//! | what did a pool target before, and what is it pinned to? | [`history`] |
//! | what becomes of a pool of Cluster API's MachinePools, its Machines and its Nodes? | [`machinepool`] |

pub mod disruption;
pub mod drain;
pub mod duration;
pub mod fleet;
pub mod history;
mod image_name;
pub mod machinepool;
pub mod rendering;
pub mod rollout;
pub mod status;
