//! The plane at work, on whichever API server the suite is run: what a user writes reaches every node.
#![allow(clippy::unwrap_used)]

mod container_runtime;
mod fleet;
mod preview;
mod render;
mod rollout;
