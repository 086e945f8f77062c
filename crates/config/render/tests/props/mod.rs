//! Laws of rendering, tried on many inputs.

mod anything;
mod lookup;
mod manifests;
mod provenance;
mod rendering;
mod yaml;
