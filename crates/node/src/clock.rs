//! The time as the daemon sees it. A test has its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

/// Says what time it is.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since the daemon's start. Nobody sets this one: whatever is measured, is measured by it.
    pub passed: Duration,
    /// The date, for people.
    pub date: Timestamp,
}

impl Moment {
    /// How long it is since an earlier moment.
    pub fn since(self, earlier: Moment) -> Duration {
        self.passed.saturating_sub(earlier.passed)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0}", self.date)
    }
}

/// The machine's clocks.
pub fn real() -> Clock {
    let start = Instant::now();
    Arc::new(move || Moment { passed: start.elapsed(), date: Timestamp::now() })
}
