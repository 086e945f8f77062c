//! Chaos: random histories of all controllers on the embedded server, with API faults, killed processes and random edits.
//!
//! Time is tokio's and passes only while all tasks are idle, so minutes pass in no time and nothing depends on the machine.
//! `SEAWORTHY_CHAOS` sets how many histories are run, `SEAWORTHY_SEED` runs the one with that seed.
mod history;

use history::{Figures, history};

/// How many histories the normal run has.
const HISTORIES: u64 = 10;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

fn run(seed: u64) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(history(seed))
}

#[test]
fn budget_holds_and_all_nodes_are_updated_despite_faults_and_edits() {
    if let Some(seed) = number("SEAWORTHY_SEED") {
        println!("{:?}", run(seed));
        return;
    }
    let count = number("SEAWORTHY_CHAOS").unwrap_or(HISTORIES);
    let mut sum = Figures::default();
    for seed in 0..count {
        sum.add(&run(seed));
    }
    println!("{count} histories: {sum:#?}");
    assert!(sum.orders > 0 && sum.most > 1, "nothing was tried: {sum:?}");
}
