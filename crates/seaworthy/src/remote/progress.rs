//! What is said on standard error while remote content is obtained: a line or two per URL, and never a spinner.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seaworthy_fetch::{Attempt, Request, Snapshot, Watch, redact, utc};

use crate::paint;

/// How long nothing is said of a fetch where nobody is watching.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// How many snapshots are named that are used again.
const MOST_REUSED: usize = 10;

/// How many digits of a digest tell it from others.
const DIGITS: usize = 12;

/// Says what is being fetched: at once on a terminal, else only of what takes long.
pub struct Progress {
    is_terminal: bool,
    fetches: Mutex<BTreeMap<String, Fetch>>,
}

/// What is known, and was said, of a URL (which is redacted).
#[derive(Default)]
struct Fetch {
    under_way: usize,
    is_said: bool,
    failure: Option<String>,
    is_failure_said: bool,
}

impl Progress {
    pub fn new() -> Self {
        Progress { is_terminal: std::io::stderr().is_terminal(), fetches: Mutex::default() }
    }

    /// Says what is still being fetched.
    pub fn tell(&self) {
        for (url, fetch) in self.fetches().iter_mut().filter(|(_, fetch)| fetch.under_way > 0) {
            fetch.say(url);
        }
    }

    /// Says what was not fetched because it had been before.
    pub fn reused(&self, snapshots: &[Snapshot]) {
        let mut seen = BTreeSet::new();
        let once: Vec<&Snapshot> = snapshots.iter().filter(|snapshot| seen.insert(snapshot.url())).collect();
        for snapshot in once.iter().take(MOST_REUSED) {
            let digest: String = snapshot.digest().to_hex().chars().take(DIGITS).collect();
            let time = utc(snapshot.fetched_at());
            paint::note(&format!("using the snapshot of {} from {time}, sha256 {digest}…", snapshot.url()));
        }
        if let Some(more @ 1..) = once.len().checked_sub(MOST_REUSED) {
            paint::note(&format!("using {more} more snapshots"));
        }
    }

    fn fetches(&self) -> MutexGuard<'_, BTreeMap<String, Fetch>> {
        // What was said stays said, wherever a holder could have panicked.
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetch {
    /// Says what has not been said yet.
    fn say(&mut self, url: &str) {
        if !self.is_said {
            paint::note(&format!("fetching {url}"));
            self.is_said = true;
        }
        if let Some(failure) = self.failure.as_ref().filter(|_| !self.is_failure_said) {
            paint::note(&format!("retrying {url} {failure}"));
            self.is_failure_said = true;
        }
    }
}

impl Watch for Progress {
    fn started(&self, request: &Request) {
        let url = redact(&request.url);
        let mut fetches = self.fetches();
        let fetch = fetches.entry(url.clone()).or_default();
        fetch.under_way += 1;
        if self.is_terminal {
            fetch.say(&url);
        }
    }

    fn failed(&self, request: &Request, attempt: &Attempt<'_>) {
        let url = redact(&request.url);
        let mut fetches = self.fetches();
        let fetch = fetches.entry(url.clone()).or_default();
        fetch.failure = Some(format!("for at most {} s: {}", attempt.limit.as_secs(), attempt.failure));
        if fetch.is_said {
            fetch.say(&url);
        }
    }

    fn ended(&self, request: &Request) {
        if let Some(fetch) = self.fetches().get_mut(&redact(&request.url)) {
            fetch.under_way = fetch.under_way.saturating_sub(1);
        }
    }
}
