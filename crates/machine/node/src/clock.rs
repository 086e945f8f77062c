//! The time as the daemon sees it. A test has its own.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

/// Says what time it is.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// A moment. What has passed since another one is measured by a clock that nobody sets; the date is only ever shown.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Since the daemon's start.
    passed: Duration,
    date: Timestamp,
}

impl Moment {
    /// A moment so long after the daemon's start, at a date in seconds since 1970.
    pub fn new(passed: Duration, date: i64) -> Self {
        // A date beyond all calendars is none.
        Moment { passed, date: Timestamp::from_second(date).unwrap_or_default() }
    }

    /// How long it is since an earlier moment.
    pub fn since(self, earlier: Moment) -> Duration {
        self.passed.saturating_sub(earlier.passed)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.date)
    }
}

/// The machine's clocks.
pub fn real() -> Clock {
    let start = Instant::now();
    Arc::new(move || Moment { passed: start.elapsed(), date: Timestamp::now() })
}
