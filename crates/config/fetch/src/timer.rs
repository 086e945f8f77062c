//! [`Timer`]: time measurement and sleep, replaceable in tests.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

/// The first delay between two attempts; each further one is twice as long. Compat: Ignition.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The longest delay between two attempts. Compat: Ignition.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Measures the time, and sleeps between attempts.
pub trait Timer: Send + Sync {
    /// The time since some fixed moment.
    fn elapsed(&self) -> Duration;

    /// Completes after `delay`.
    fn sleep(&self, delay: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The time of the tokio runtime.
#[derive(Debug, Clone, Copy)]
pub struct TokioTimer {
    start: Instant,
}

impl Default for TokioTimer {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Timer for TokioTimer {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, delay: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(delay))
    }
}

/// The delays between attempts, in order.
pub(crate) fn retry_delays() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(MIN_RETRY_DELAY), |delay| Some((*delay * 2).min(MAX_RETRY_DELAY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_200_ms_to_5_s() {
        let delays: Vec<_> = retry_delays().take(7).map(|delay| delay.as_millis()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }
}
