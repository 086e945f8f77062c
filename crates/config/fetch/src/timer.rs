//! A [`Timer`] measures and waits, so that tests of waiting need not wait.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

/// The first pause between two attempts; each further one is twice as long. Compat: Ignition.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause between two attempts. Compat: Ignition.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Measures the time between attempts and lets it pass.
pub trait Timer: Send + Sync {
    /// The time since some fixed moment.
    fn elapsed(&self) -> Duration;

    /// Ends after `pause`.
    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
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

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(pause))
    }
}

/// The pauses between attempts, in order.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| Some((*pause * 2).min(LONGEST_PAUSE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_200_ms_to_5_s() {
        let pauses: Vec<_> = pauses().take(7).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }
}
