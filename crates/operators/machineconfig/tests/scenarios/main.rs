//! The plane at work, on whichever API server the suite is run: what a user writes reaches every node.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod base;
mod container_runtime;
mod drain;
mod fleet;
mod kubelet;
mod pools;
mod preview;
mod remote;
mod render;
mod rights;
mod rollout;
mod told;
