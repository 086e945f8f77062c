//! Laws of rendering, tried on many inputs.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod anything;
mod lookup;
mod manifests;
mod provenance;
mod rendering;
mod yaml;
