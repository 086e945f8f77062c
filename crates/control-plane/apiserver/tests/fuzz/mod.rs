//! Fuzz tests: parsers of untrusted input, with malformed input.
//!
//! Each target takes bytes and must not panic; where there is a law, it must hold. Inputs are examples that make sense,
//! damaged at random. Each run tries a fixed number of them; `cargo xtask fuzz TARGET --seconds 600` goes on longer. A
//! failure prints the seed that repeats it.

mod mutate;
mod targets;

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use mutate::Random;

/// Inputs of each target in a run of all tests: a few seconds for all of them.
const DEFAULT_INPUTS: u64 = 1500;
/// Longer inputs are refused before they are read.
const MAX_INPUT_LENGTH: usize = 1 << 16;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn fuzz(target: fn(&[u8]), corpus: &[&str]) {
    // The examples themselves are to be understood, or they are of no use.
    corpus.iter().for_each(|example| target(example.as_bytes()));
    let seed = number("SEAWORTHY_FUZZ_SEED");
    let first = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    // For so long, or so many. A seed alone is one that is to be repeated.
    let until = number("SEAWORTHY_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let inputs = number("SEAWORTHY_FUZZ_INPUTS").unwrap_or(if seed.is_some() { 1 } else { DEFAULT_INPUTS });
    let mut tried = 0;
    while until.map_or(tried < inputs, |until| Instant::now() < until) {
        let seed = first.wrapping_add(tried);
        let mut input = Random::new(seed).damaged(corpus);
        input.truncate(MAX_INPUT_LENGTH);
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| target(&input))) {
            eprintln!("SEAWORTHY_FUZZ_SEED={seed} repeats it; the input was:\n{}", input.escape_ascii());
            panic::resume_unwind(panic);
        }
        tried += 1;
    }
    println!("{tried} inputs from SEAWORTHY_FUZZ_SEED={first}");
}

macro_rules! targets {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            fuzz(targets::$name::target, targets::$name::CORPUS);
        }
    )+};
}

targets!(
    path,
    label_selector,
    field_selector,
    json_patch,
    merge_patch,
    strategic_patch,
    apply,
    managed_fields,
    definition
);
