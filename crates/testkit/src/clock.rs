//! Test clock: time that only the test moves, and entropy that repeats itself.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use seaworthy_apiserver::ClockAndEntropy;

/// Time and entropy under the test's control. Time does not pass until it is advanced; the entropy is the same in each run.
#[derive(Debug)]
pub struct TestClock {
    seconds: AtomicI64,
    drawn: AtomicU64,
}

impl TestClock {
    pub fn at(time: Timestamp) -> TestClock {
        TestClock { seconds: AtomicI64::new(time.as_second()), drawn: AtomicU64::new(1) }
    }

    pub fn advance(&self, by: SignedDuration) {
        self.seconds.fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

impl ClockAndEntropy for TestClock {
    fn now(&self) -> Timestamp {
        // Only a test that moves the clock by millennia leaves the range.
        Timestamp::from_second(self.seconds.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }

    fn entropy(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            // Consecutive numbers, spread over all bits, so that names and uids differ in every part.
            let mut number = self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            number ^= number >> 27;
            chunk.copy_from_slice(&number.to_be_bytes()[..chunk.len()]);
        }
    }
}
