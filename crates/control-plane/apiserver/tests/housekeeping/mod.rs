//! What the server does by itself, seen by its clients: nothing here starts a task or waits for one but the test that
//! is about that; `settle` returns when everything is in order.
#![allow(clippy::unwrap_used)]

mod background;
mod cluster;
mod creation;
mod definitions;
mod eviction;
mod garbage;
mod graph;
mod namespace;
mod time;
