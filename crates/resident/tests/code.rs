//! Code pages of the test process itself.
#![allow(clippy::unwrap_used)]

use std::fs;

use seaworthy_resident::OwnCode;

/// How much code is resident, in KiB.
fn resident() -> u64 {
    let own = OwnCode::find().unwrap();
    // The constants that the file begins with, and the code.
    let own = own.mappings();
    assert_eq!(own.len(), 2, "{own:?}");
    let text = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_code = false;
    let mut sum = 0;
    for line in text.lines() {
        if let Some(mapping) = seaworthy_resident::Mapping::parse(line) {
            is_code = own.contains(&mapping);
        } else if is_code && let Some(size) = line.strip_prefix("Rss:") {
            sum += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    sum
}

#[test]
fn code_is_released_and_read_back() {
    // Twice, so that the code of this function is resident before.
    resident();
    let before = resident();
    assert!(before > 0, "there is code");
    let own = OwnCode::find().unwrap();
    for _ in 0..3 {
        own.release().unwrap();
    }
    // The process goes on, and has less.
    let after = resident();
    assert!(after > 0 && after < before, "{before} KiB before, {after} KiB after");
}
