//! Timed parse of a JSON file into a generic value.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// How long the parse takes. Reading the file and freeing the value do not count.
pub fn nanoseconds(file: &Path) -> Result<u64> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let begun = Instant::now();
    let value: Value = serde_json::from_slice(black_box(&bytes))?;
    let took = begun.elapsed();
    drop(black_box(value));
    // Half a millennium fits.
    Ok(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
}
