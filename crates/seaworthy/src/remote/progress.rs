//! Fetch progress on standard error: a line or two per URL, and never a spinner.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seaworthy_fetch::{FailedAttempt, FetchObserver, Request, Snapshot, redact, utc};

use crate::terminal;

/// How often fetches in progress are reported if standard error is not a terminal.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// How many reused snapshots are listed.
const MAX_LISTED_SNAPSHOTS: usize = 10;

/// How many digits of a digest are shown.
const DIGEST_DIGITS: usize = 12;

/// Reports fetches: at once on a terminal, otherwise only those that take longer than [`INTERVAL`].
pub struct FetchProgress {
    is_terminal: bool,
    fetches: Mutex<BTreeMap<String, Fetch>>,
}

/// State of the fetches of a URL (which is redacted), and what was reported of it.
#[derive(Default)]
struct Fetch {
    under_way: usize,
    is_reported: bool,
    failure: Option<String>,
    is_failure_reported: bool,
}

impl FetchProgress {
    pub fn new() -> Self {
        FetchProgress { is_terminal: std::io::stderr().is_terminal(), fetches: Mutex::default() }
    }

    /// Reports what is still being fetched.
    pub fn report(&self) {
        for (url, fetch) in self.fetches().iter_mut().filter(|(_, fetch)| fetch.under_way > 0) {
            fetch.report(url);
        }
    }

    /// Reports content that was taken from snapshots.
    pub fn reused(&self, snapshots: &[Snapshot]) {
        let mut seen = BTreeSet::new();
        let once: Vec<&Snapshot> = snapshots.iter().filter(|snapshot| seen.insert(snapshot.url())).collect();
        for snapshot in once.iter().take(MAX_LISTED_SNAPSHOTS) {
            let digest: String = snapshot.digest().to_hex().chars().take(DIGEST_DIGITS).collect();
            let time = utc(snapshot.fetched_at());
            terminal::note(&format!("using the snapshot of {} from {time}, sha256 {digest}…", snapshot.url()));
        }
        if let Some(more @ 1..) = once.len().checked_sub(MAX_LISTED_SNAPSHOTS) {
            terminal::note(&format!("using {more} more snapshots"));
        }
    }

    fn fetches(&self) -> MutexGuard<'_, BTreeMap<String, Fetch>> {
        // The state stays valid wherever a holder could have panicked.
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetch {
    /// Reports what has not been reported yet.
    fn report(&mut self, url: &str) {
        if !self.is_reported {
            terminal::note(&format!("fetching {url}"));
            self.is_reported = true;
        }
        if let Some(failure) = self.failure.as_ref().filter(|_| !self.is_failure_reported) {
            terminal::note(&format!("retrying {url} {failure}"));
            self.is_failure_reported = true;
        }
    }
}

impl FetchObserver for FetchProgress {
    fn started(&self, request: &Request) {
        let url = redact(&request.url);
        let mut fetches = self.fetches();
        let fetch = fetches.entry(url.clone()).or_default();
        fetch.under_way += 1;
        if self.is_terminal {
            fetch.report(&url);
        }
    }

    fn failed(&self, request: &Request, attempt: &FailedAttempt<'_>) {
        let url = redact(&request.url);
        let mut fetches = self.fetches();
        let fetch = fetches.entry(url.clone()).or_default();
        fetch.failure = Some(format!("for at most {} s: {}", attempt.limit.as_secs(), attempt.failure));
        if fetch.is_reported {
            fetch.report(&url);
        }
    }

    fn ended(&self, request: &Request) {
        if let Some(fetch) = self.fetches().get_mut(&redact(&request.url)) {
            fetch.under_way = fetch.under_way.saturating_sub(1);
        }
    }
}
