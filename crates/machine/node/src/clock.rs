//! Clock of the daemon; tests replace it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

/// Returns the present time.
pub type DaemonClock = Arc<dyn Fn() -> ClockReading + Send + Sync>;

/// A reading of a monotonic clock, by which durations are measured, and of the date, which is only displayed.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// Since the daemon's start.
    elapsed: Duration,
    date: Timestamp,
}

impl ClockReading {
    /// A reading at this time after the daemon's start, at a date in seconds since 1970.
    pub fn new(elapsed: Duration, date: i64) -> Self {
        // A date out of range is replaced by 1970.
        ClockReading { elapsed, date: Timestamp::from_second(date).unwrap_or_default() }
    }

    /// The time since an earlier reading.
    pub fn since(self, earlier: ClockReading) -> Duration {
        self.elapsed.saturating_sub(earlier.elapsed)
    }
}

impl fmt::Display for ClockReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.date)
    }
}

/// The machine's clocks.
pub fn system() -> DaemonClock {
    let start = Instant::now();
    Arc::new(move || ClockReading { elapsed: start.elapsed(), date: Timestamp::now() })
}
