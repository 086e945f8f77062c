//! A [`Run`] obtains everything that one render refers to: from snapshots where there are any, from the network else.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::{
    FailureKind, FetchError, Fetcher, Policy, Proxy, Request, Snapshot, SnapshotError, SnapshotKey, Snapshots, redact,
};

/// How many fetches are under way at the same time.
const AT_ONCE: usize = 8;

/// How long all fetches of a run may take together: one may take a minute, and a config may name many.
const LONGEST: Duration = Duration::from_secs(600);

/// Obtains contents for one render, many at once, within limits for all of them together.
///
/// Whatever the order in which bodies arrive, and whatever had been fetched before: the same contents give the same
/// verdicts, because they are counted in the order in which they are asked for.
pub struct Run {
    snapshots: Arc<dyn Snapshots>,
    policy: Policy,
    /// `None` where nothing may be fetched.
    fetcher: Option<Fetcher>,
    /// How many bytes were handed out.
    used: u64,
    /// How much time has passed while fetching.
    spent: Duration,
    /// Where nobody was reached, and why: a thousand files of one server must not wait for it a thousand times.
    unreachable: HashMap<Way, FailureKind>,
}

/// The server that a request goes to first, and the proxies on the way to it.
type Way = (String, Proxy);

/// What became of one thing that was wanted.
#[derive(Debug)]
pub struct Obtained {
    /// The content, or why there is none.
    pub content: Result<Snapshot, FetchError>,
    /// Whether it was there already.
    pub is_reused: bool,
    /// What was wrong with the snapshot store. It changes nothing about the content, but a damaged
    /// entry or a full store is to be reported: the next render may see other content.
    pub problems: Vec<SnapshotError>,
}

impl Run {
    /// A run that fetches what there is no snapshot of, and keeps it.
    #[must_use]
    pub fn new(fetcher: Fetcher, snapshots: Arc<dyn Snapshots>) -> Self {
        let policy = fetcher.policy().clone();
        Self { snapshots, policy, fetcher: Some(fetcher), used: 0, spent: Duration::ZERO, unreachable: HashMap::new() }
    }

    /// A run that has only snapshots. Of the policy, the sizes count.
    #[must_use]
    pub fn offline(policy: Policy, snapshots: Arc<dyn Snapshots>) -> Self {
        Self { snapshots, policy, fetcher: None, used: 0, spent: Duration::ZERO, unreachable: HashMap::new() }
    }

    /// Obtains all that is wanted; the outcomes are in the same order.
    pub async fn obtain(&mut self, wanted: &[(SnapshotKey, Request)]) -> Vec<Obtained> {
        let mut outcomes = Vec::with_capacity(wanted.len());
        for batch in wanted.chunks(AT_ONCE) {
            let began = tokio::time::Instant::now();
            let left = LONGEST.saturating_sub(self.spent);
            let found = join_all(batch.iter().map(|(key, request)| self.find(key, request, left)).collect()).await;
            self.spent = self.spent.saturating_add(began.elapsed());
            for ((key, request), found) in batch.iter().zip(found) {
                outcomes.push(self.hand_out(key, request, found));
            }
        }
        outcomes
    }

    /// The snapshot of that key or, where there is none that can be trusted, what the network has.
    async fn find(&self, key: &SnapshotKey, request: &Request, left: Duration) -> Obtained {
        let mut problems = Vec::new();
        match self.snapshots.get(key) {
            Ok(Some(snapshot)) => return Obtained { content: Ok(snapshot), is_reused: true, problems },
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
        let content = match (&self.fetcher, self.unreachable.get(&way(request))) {
            (None, _) => Err(unfetched(request, FailureKind::Offline)),
            (_, Some(failure)) => Err(unfetched(request, failure.clone())),
            (Some(fetcher), None) => match tokio::time::timeout(left, fetcher.fetch(request)).await {
                Ok(fetched) => fetched,
                Err(_) => Err(unfetched(request, FailureKind::OutOfTime { limit: LONGEST })),
            },
        };
        Obtained { content, is_reused: false, problems }
    }

    /// Counts what was found, and keeps it if it is new.
    fn hand_out(&mut self, key: &SnapshotKey, request: &Request, mut found: Obtained) -> Obtained {
        if let Err(error) = &found.content
            && error.redirected_to.is_none()
            && matches!(error.kind, FailureKind::Unreachable { .. })
        {
            self.unreachable.insert(way(request), error.kind.clone());
        }
        found.content = found.content.and_then(|content| {
            let used = self.count(&content).map_err(|kind| unfetched(request, kind))?;
            if found.is_reused {
                self.used = used;
                return Ok(content);
            }
            let kept = self.snapshots.put(key, content.clone()).unwrap_or_else(|problem| {
                found.problems.push(problem);
                content
            });
            // Somebody else may have been faster, and then it is their content that is handed out.
            self.used = self.count(&kept).map_err(|kind| unfetched(request, kind))?;
            Ok(kept)
        });
        found
    }

    /// How many bytes are handed out with this content, if that is not too much. A snapshot is judged as if it had been
    /// fetched now.
    fn count(&self, snapshot: &Snapshot) -> Result<u64, FailureKind> {
        let size = snapshot.bytes().len() as u64;
        let (limit, total) = (self.policy.max_object_bytes, self.policy.max_total_bytes);
        if size > limit {
            return Err(FailureKind::TooLarge { limit, is_unpacked: false });
        }
        let used = self.used.checked_add(size).filter(|used| *used <= total);
        used.ok_or(FailureKind::TotalTooLarge { size, limit: total })
    }
}

fn way(request: &Request) -> Way {
    let url = request.url.trim();
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url[authority..].find(['/', '\\', '?', '#']).map_or(url.len(), |at| authority + at);
    (url[..end].to_owned(), request.settings.proxy.clone())
}

/// A failure of content that was not asked for.
fn unfetched(request: &Request, kind: FailureKind) -> FetchError {
    FetchError { url: redact(&request.url), redirected_to: None, attempts: 0, kind }
}

/// Waits for all futures at once.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(move |context| {
        let mut is_done = true;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => is_done = false,
                }
            }
        }
        if !is_done {
            return Poll::Pending;
        }
        Poll::Ready(futures.iter_mut().filter_map(|(_, output)| output.take()).collect())
    })
    .await
}
