//! Hears of it when somebody changes a file of the configuration that the machine is in (server-and-daemon.md, B20).

use std::time::Duration;

use seaworthy_host::{Changed, Host, HostError, Watch};
use tokio::time::Instant;

use crate::places;
use crate::target::Target;

/// Hears of changes, while it is told to.
#[derive(Default)]
pub struct Monitor {
    running: Option<(Vec<String>, Watch)>,
}

impl Monitor {
    /// Begins to listen for a configuration; says whether that is new. What is listened for already goes on.
    pub fn start(&mut self, host: &dyn Host, target: &Target, changed: Changed) -> Result<bool, HostError> {
        let paths: Vec<String> = target.paths.keys().filter(|path| !places::is_unchecked(path)).cloned().collect();
        if self.running.as_ref().is_some_and(|(known, _)| *known == paths) {
            return Ok(false);
        }
        self.running = None;
        let watch = host.watch(&paths, changed)?;
        self.running = Some((paths, watch));
        Ok(true)
    }

    /// Ends listening; says whether there was any.
    pub fn stop(&mut self) -> bool {
        self.running.take().is_some()
    }

    /// Whether it listens.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

/// How long news of files is left to settle before it is looked at: longer each time that there was something to be done, until
/// it has been quiet for a while. A file that is wrong and right by turns is told of now and then, and not every time.
#[derive(Debug)]
pub(crate) struct Settling {
    first: Duration,
    longest: Duration,
    /// After this it begins anew.
    quiet: Duration,
    now: Duration,
    last: Option<Instant>,
}

impl Settling {
    pub(crate) fn new(first: Duration, longest: Duration, quiet: Duration) -> Self {
        Settling { first, longest, quiet, now: first, last: None }
    }

    /// How long news that comes now is left alone.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        if self.last.is_none_or(|last| now.duration_since(last) > self.quiet) {
            self.now = self.first;
        }
        self.now
    }

    /// There was something to be done about it.
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
        let mut settling = Settling::new(seconds(1), seconds(60), seconds(120));
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = settling.pause(now);
            pauses.push(pause.as_secs());
            now += pause;
            settling.acted(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(settling.pause(now + seconds(120)), seconds(60));
        assert_eq!(settling.pause(now + seconds(121)), seconds(1));
    }
}
