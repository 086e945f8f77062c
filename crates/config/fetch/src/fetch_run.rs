//! [`FetchRun`]: obtains all contents that one render refers to, from snapshots where there are any, otherwise from the
//! network.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::{
    FailureKind, FetchError, Fetcher, Policy, Proxy, Request, Snapshot, SnapshotError, SnapshotKey, Snapshots, redact,
};

/// Limit of concurrent fetches.
const MAX_CONCURRENT_FETCHES: usize = 8;

/// Limit of the time of all fetches of a run together: one may take a minute, and a config may have many.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);

/// Obtains contents for one render, many at once, within limits for all of them together.
///
/// The result does not depend on the order in which bodies arrive, nor on what was fetched before: sizes are counted in the
/// order of the requests.
pub struct FetchRun {
    snapshots: Arc<dyn Snapshots>,
    policy: Policy,
    /// `None` where nothing may be fetched.
    fetcher: Option<Fetcher>,
    /// Bytes of all returned contents.
    used: u64,
    /// Time spent fetching.
    spent: Duration,
    /// Servers that were unreachable, and why: a thousand files of one server must not wait for it a thousand times.
    unreachable: HashMap<ServerRoute, FailureKind>,
}

/// The first server of a request, and the proxies on the route to it.
type ServerRoute = (String, Proxy);

/// The outcome of one request.
#[derive(Debug)]
pub struct FetchOutcome {
    /// The content, or why there is none.
    pub content: Result<Snapshot, FetchError>,
    /// Whether it is an existing snapshot.
    pub is_reused: bool,
    /// Errors of the snapshot store. They do not affect this content, but a damaged entry or a full store must be reported:
    /// the next render may get other content.
    pub problems: Vec<SnapshotError>,
}

impl FetchRun {
    /// A run that fetches contents without a snapshot, and stores them.
    #[must_use]
    pub fn new(fetcher: Fetcher, snapshots: Arc<dyn Snapshots>) -> Self {
        let policy = fetcher.policy().clone();
        Self { snapshots, policy, fetcher: Some(fetcher), used: 0, spent: Duration::ZERO, unreachable: HashMap::new() }
    }

    /// A run that uses snapshots only. Of the policy, the size limits apply.
    #[must_use]
    pub fn offline(policy: Policy, snapshots: Arc<dyn Snapshots>) -> Self {
        Self { snapshots, policy, fetcher: None, used: 0, spent: Duration::ZERO, unreachable: HashMap::new() }
    }

    /// Obtains all contents; the outcomes are in the same order.
    pub async fn obtain(&mut self, wanted: &[(SnapshotKey, Request)]) -> Vec<FetchOutcome> {
        let mut outcomes = Vec::with_capacity(wanted.len());
        for batch in wanted.chunks(MAX_CONCURRENT_FETCHES) {
            let began = tokio::time::Instant::now();
            let left = RUN_TIMEOUT.saturating_sub(self.spent);
            let found = join_all(batch.iter().map(|(key, request)| self.find(key, request, left)).collect()).await;
            self.spent = self.spent.saturating_add(began.elapsed());
            for ((key, request), found) in batch.iter().zip(found) {
                outcomes.push(self.hand_out(key, request, found));
            }
        }
        outcomes
    }

    /// The snapshot of that key or, if there is none that is intact, the content from the network.
    async fn find(&self, key: &SnapshotKey, request: &Request, left: Duration) -> FetchOutcome {
        let mut problems = Vec::new();
        match self.snapshots.get(key) {
            Ok(Some(snapshot)) => return FetchOutcome { content: Ok(snapshot), is_reused: true, problems },
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
        let content = match (&self.fetcher, self.unreachable.get(&server_route(request))) {
            (None, _) => Err(unfetched(request, FailureKind::Offline)),
            (_, Some(failure)) => Err(unfetched(request, failure.clone())),
            (Some(fetcher), None) => match tokio::time::timeout(left, fetcher.fetch(request)).await {
                Ok(fetched) => fetched,
                Err(_) => Err(unfetched(request, FailureKind::OutOfTime { limit: RUN_TIMEOUT })),
            },
        };
        FetchOutcome { content, is_reused: false, problems }
    }

    /// Counts the content, and stores it if it is new.
    fn hand_out(&mut self, key: &SnapshotKey, request: &Request, mut found: FetchOutcome) -> FetchOutcome {
        if let Err(error) = &found.content
            && error.redirected_to.is_none()
            && matches!(error.kind, FailureKind::Unreachable { .. })
        {
            self.unreachable.insert(server_route(request), error.kind.clone());
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
            // Another process may have been faster, and then its content is returned.
            self.used = self.count(&kept).map_err(|kind| unfetched(request, kind))?;
            Ok(kept)
        });
        found
    }

    /// The total size with this content, if it is within the limits. A snapshot counts as if it had been fetched now.
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

fn server_route(request: &Request) -> ServerRoute {
    let url = request.url.trim();
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url[authority..].find(['/', '\\', '?', '#']).map_or(url.len(), |at| authority + at);
    (url[..end].to_owned(), request.settings.proxy.clone())
}

/// The error of content that was not requested from a server.
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
