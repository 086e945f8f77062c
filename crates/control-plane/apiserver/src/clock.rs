//! Time and random bytes as inputs, so that tests control both.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

/// Source of time and random bytes.
pub trait ClockAndEntropy: Debug + Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// Fills the buffer with unpredictable bytes.
    fn entropy(&self, buffer: &mut [u8]);
}

/// The machine's clock and the operating system's random bytes.
#[derive(Debug, Default)]
pub struct SystemClock;

impl ClockAndEntropy for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn entropy(&self, buffer: &mut [u8]) {
        // Without random bytes, uids and tokens would be predictable.
        aws_lc_rs::rand::fill(buffer).expect("the operating system has random bytes");
    }
}

/// A fixed time, and a repeatable sequence of bytes.
#[derive(Debug)]
pub struct FixedClock {
    now: Timestamp,
    count: AtomicU64,
}

impl FixedClock {
    pub fn at(now: Timestamp) -> FixedClock {
        FixedClock { now, count: AtomicU64::new(0) }
    }
}

impl ClockAndEntropy for FixedClock {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn entropy(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let number = self.count.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&number.to_be_bytes()[..chunk.len()]);
        }
    }
}

/// A random uid, version 4.
pub fn uid(clock: &dyn ClockAndEntropy) -> String {
    let mut bytes = [0; 16];
    clock.entropy(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Five letters after a `generateName`: neither vowels nor digits that look like letters, so that no words result.
pub fn name_suffix(clock: &dyn ClockAndEntropy) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = [0; 5];
    clock.entropy(&mut bytes);
    // The slight bias towards the first letters does not matter: a name that is taken is generated again.
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// A time in the format of API objects: RFC 3339 with whole seconds.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_has_the_marks_of_version_four() {
        let uid = uid(&FixedClock::at(Timestamp::UNIX_EPOCH));
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]));
    }

    #[test]
    fn time_is_written_in_whole_seconds() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(rfc3339(time), "2026-01-02T03:04:05Z");
    }
}
