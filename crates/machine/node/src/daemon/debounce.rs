//! Debounce of file changes: how long they are left to settle before the machine is compared with its configuration.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after a change: longer each time that there was something to do, until it has been quiet for a while. A file that
/// is wrong and right by turns is reported now and then, and not every time.
#[derive(Debug)]
pub(crate) struct Debounce {
    first: Duration,
    longest: Duration,
    /// After this long without action the pause is the first one again.
    quiet: Duration,
    now: Duration,
    last: Option<Instant>,
}

impl Debounce {
    pub(crate) fn new(first: Duration, longest: Duration, quiet: Duration) -> Self {
        Debounce { first, longest, quiet, now: first, last: None }
    }

    /// The pause after a change that happens now.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        if self.last.is_none_or(|last| now.duration_since(last) > self.quiet) {
            self.now = self.first;
        }
        self.now
    }

    /// There was something to do.
    pub(crate) fn acted(&mut self, now: Instant) {
        self.now = (self.now * 2).min(self.longest);
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
            let pause = debounce.pause(now);
            pauses.push(pause.as_secs());
            now += pause;
            debounce.acted(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(debounce.pause(now + seconds(120)), seconds(60));
        assert_eq!(debounce.pause(now + seconds(121)), seconds(1));
    }
}
