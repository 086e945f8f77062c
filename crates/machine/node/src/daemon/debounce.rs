//! Debounce of file changes: the delay between a change and the comparison of the machine with its configuration.

use std::time::Duration;

use tokio::time::Instant;

/// The delay after a change. It doubles each time that there was something to do, until there was nothing for a while, so that
/// a file that keeps changing is not reported every time.
#[derive(Debug)]
pub(crate) struct Debounce {
    first: Duration,
    max: Duration,
    /// After this time without action the delay is the first one again.
    reset_after: Duration,
    now: Duration,
    last: Option<Instant>,
}

impl Debounce {
    pub(crate) fn new(first: Duration, max: Duration, reset_after: Duration) -> Self {
        Debounce { first, max, reset_after, now: first, last: None }
    }

    /// The delay after a change that happens now.
    pub(crate) fn delay(&mut self, now: Instant) -> Duration {
        if self.last.is_none_or(|last| now.duration_since(last) > self.reset_after) {
            self.now = self.first;
        }
        self.now
    }

    /// There was something to do.
    pub(crate) fn acted(&mut self, now: Instant) {
        self.now = (self.now * 2).min(self.max);
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_there_is_something_to_be_done_and_are_short_again_after_a_while() {
        let seconds = Duration::from_secs;
        let mut debounce = Debounce::new(seconds(1), seconds(60), seconds(120));
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = debounce.delay(now);
            pauses.push(pause.as_secs());
            now += pause;
            debounce.acted(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(debounce.delay(now + seconds(120)), seconds(60));
        assert_eq!(debounce.delay(now + seconds(121)), seconds(1));
    }
}
