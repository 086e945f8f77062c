//! Time and chance as inputs, so that a test decides both.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

/// What the server cannot work out by itself.
pub trait World: Debug + Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;
    /// Fills the buffer with bytes that nobody can guess.
    fn entropy(&self, buffer: &mut [u8]);
}

/// The machine's clock and the operating system's random bytes.
#[derive(Debug, Default)]
pub struct Machine;

impl World for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn entropy(&self, buffer: &mut [u8]) {
        // An operating system without random bytes can make no identity that is worth its name.
        aws_lc_rs::rand::fill(buffer).expect("the operating system has random bytes");
    }
}

/// A world that stands still, and in which chance repeats itself.
#[derive(Debug)]
pub struct Still {
    now: Timestamp,
    count: AtomicU64,
}

impl Still {
    /// It is always this time.
    pub fn at(now: Timestamp) -> Still {
        Still { now, count: AtomicU64::new(0) }
    }
}

impl World for Still {
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
pub fn uid(world: &dyn World) -> String {
    let mut bytes = [0; 16];
    world.entropy(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Five letters behind a `generateName`: neither vowels nor digits that look like letters, so no words come out.
pub fn suffix(world: &dyn World) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = [0; 5];
    world.entropy(&mut bytes);
    // The slight preference for the first letters is of no consequence: a name that is taken is tried again.
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// A time as objects carry it: whole seconds.
pub fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_has_the_marks_of_version_four() {
        let uid = uid(&Still::at(Timestamp::UNIX_EPOCH));
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]));
    }

    #[test]
    fn time_is_written_in_whole_seconds() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(written(time), "2026-01-02T03:04:05Z");
    }
}
