//! The [`Fetcher`] gets content: one attempt after the other, within the time and the size
//! allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::body::unpack_and_verify;
use crate::bucket::Bucket;
use crate::http_source::{self, Failed};
use crate::object_url::ObjectUrl;
use crate::timer::pauses;
use crate::tls::SystemRoots;
use crate::transport::{Link, Transport};
use crate::{
    Environment, FailureKind, FetchError, Policy, Request, Resolver, Snapshot, SnapshotError, SnapshotKey, Snapshots,
    SystemResolver, Timer, TokioTimer, redact,
};

/// Tells the time that snapshots carry.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Gets remote content as a [`Policy`] allows. Cheap to clone; clones share the total size limit.
#[derive(Clone)]
pub struct Fetcher {
    transport: Arc<Transport>,
    environment: Arc<Environment>,
    timer: Arc<dyn Timer>,
    clock: Clock,
    handed_out: Arc<AtomicU64>,
}

/// Content that was fetched, or reused from a snapshot.
#[derive(Debug)]
pub struct Resolved {
    /// The content.
    pub snapshot: Snapshot,
    /// Whether it was there already.
    pub is_reused: bool,
    /// What was wrong with the snapshot store. The content is sound all the same, but a damaged
    /// entry or a full store is to be reported: the next render may see other content.
    pub problems: Vec<SnapshotError>,
}

/// The ways that the requests of one fetch can take.
struct Links {
    config: Arc<Link>,
    operator: Arc<Link>,
}

/// Where content is.
enum Source {
    Http,
    Object(ObjectUrl),
}

impl Fetcher {
    /// A fetcher that asks the system for addresses and object stores without credentials.
    #[must_use]
    pub fn new(policy: Policy, clock: Clock) -> Self {
        Self {
            transport: Arc::new(Transport { policy, resolver: Arc::new(SystemResolver), roots: Arc::default() }),
            environment: Arc::default(),
            timer: Arc::new(TokioTimer::default()),
            clock,
            handed_out: Arc::default(),
        }
    }

    /// The same with credentials and endpoints for object stores, and the operator's proxies for
    /// requests with those credentials.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment: Arc::new(environment), ..self }
    }

    /// The same with another source of addresses.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolver>) -> Self {
        let policy = self.transport.policy.clone();
        let transport = Transport { policy, resolver, roots: self.transport.roots.clone() };
        Self { transport: Arc::new(transport), ..self }
    }

    /// The same that trusts the authorities in these PEM bundles as it trusts the roots of the
    /// system: for every request, those with the operator's credentials included.
    ///
    /// # Errors
    ///
    /// [`FailureKind::Authority`] when a bundle cannot be used.
    pub fn with_authorities(self, bundles: &[Vec<u8>]) -> Result<Self, FailureKind> {
        let roots = Arc::new(SystemRoots::with(bundles)?);
        let (policy, resolver) = (self.transport.policy.clone(), self.transport.resolver.clone());
        Ok(Self { transport: Arc::new(Transport { policy, resolver, roots }), ..self })
    }

    /// The same with another timer for the pauses between attempts.
    #[must_use]
    pub fn with_timer(self, timer: Arc<dyn Timer>) -> Self {
        Self { timer, ..self }
    }

    /// The same fetcher with nothing handed out yet: [`Policy::max_total_bytes`] is meant for one
    /// render, a fetcher may live longer.
    #[must_use]
    pub fn for_new_run(&self) -> Self {
        Self { handed_out: Arc::default(), ..self.clone() }
    }

    /// The policy that this fetcher keeps.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.transport.policy
    }

    /// The content that `request` asks for: unpacked, within the limits, with the right hash.
    ///
    /// Server errors and broken connections are tried again until the total time is over;
    /// anything else fails at once.
    ///
    /// # Errors
    ///
    /// See [`FailureKind`].
    pub async fn fetch(&self, request: &Request) -> Result<Snapshot, FetchError> {
        let fail =
            |attempts, redirected_to, kind| FetchError { url: redact(&request.url), redirected_to, attempts, kind };
        let source = Source::of(request).map_err(|kind| fail(0, None, kind))?;
        let links = Links {
            config: Arc::new(Link::new(&request.settings)),
            operator: Arc::new(Link::of_operator(&request.settings, self.environment.proxy())),
        };
        let total = request.settings.total_limit();
        let start = self.timer.elapsed();
        let since_start = || self.timer.elapsed().saturating_sub(start);
        let mut last = None;
        let mut attempts = 0;
        for pause in pauses() {
            attempts += 1;
            let left = total.saturating_sub(since_start());
            let attempt = self.attempt(&source, &links, request);
            let failed = match tokio::time::timeout(left, attempt).await {
                Ok(Ok(plain)) => {
                    self.take(plain.len()).map_err(|kind| fail(attempts, None, kind))?;
                    return Ok(Snapshot::new(plain, &request.url, (self.clock)()));
                }
                Ok(Err(failed)) => failed,
                Err(_) => {
                    let kind = FailureKind::TotalTimeout { limit: total, last };
                    return Err(fail(attempts, None, kind));
                }
            };
            let is_last = since_start().saturating_add(pause) >= total;
            if is_last || !failed.kind.is_transient() {
                return Err(fail(attempts, failed.redirected_to, failed.kind));
            }
            note_retry(&request.url, attempts, &failed.kind, pause);
            self.timer.sleep(pause).await;
            last = Some(Box::new(failed.kind));
        }
        // The pauses never end, and each of them brings the total time closer.
        let kind = FailureKind::TotalTimeout { limit: total, last };
        Err(fail(attempts, None, kind))
    }

    /// The snapshot of that key or, where there is none that can be trusted, the content that
    /// `request` asks for, which then becomes the snapshot.
    ///
    /// # Errors
    ///
    /// As for [`Fetcher::fetch`]; the size limits hold for a snapshot that is reused as well, so
    /// that it makes no difference what had been fetched before. Failures of the store do not fail
    /// the fetch; they are in [`Resolved::problems`].
    pub async fn fetch_or_reuse(
        &self,
        snapshots: &dyn Snapshots,
        key: &SnapshotKey,
        request: &Request,
    ) -> Result<Resolved, FetchError> {
        let mut problems = Vec::new();
        match snapshots.get(key) {
            Ok(Some(snapshot)) => {
                self.take_reused(snapshot.bytes().len()).map_err(|kind| unfetched(request, kind))?;
                return Ok(Resolved { snapshot, is_reused: true, problems });
            }
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
        let fetched = self.fetch(request).await?;
        let counted = fetched.bytes().len();
        let snapshot = snapshots.put(key, fetched.clone()).unwrap_or_else(|problem| {
            problems.push(problem);
            fetched
        });
        // Somebody else may have been faster, and then it is their content that is handed out.
        if let Some(more) = snapshot.bytes().len().checked_sub(counted) {
            self.take(more).map_err(|kind| unfetched(request, kind))?;
        }
        Ok(Resolved { snapshot, is_reused: false, problems })
    }

    async fn attempt(&self, source: &Source, links: &Links, request: &Request) -> Result<Vec<u8>, Failed> {
        let limit = self.policy().max_object_bytes;
        let body = match source {
            Source::Http => http_source::get(&self.transport, &links.config, request, limit).await?,
            Source::Object(object) => {
                let bucket = Bucket {
                    transport: &self.transport,
                    link: &links.config,
                    operator_link: &links.operator,
                    environment: &self.environment,
                    limit,
                };
                bucket.get(object).await?
            }
        };
        let verification = request.verification.as_ref();
        let plain = unpack_and_verify(body.into(), request.compression, verification, limit)?;
        Ok(plain)
    }

    /// Judges the size of content that was not fetched now as if it had been.
    fn take_reused(&self, size: usize) -> Result<(), FailureKind> {
        let limit = self.policy().max_object_bytes;
        if size as u64 > limit {
            return Err(FailureKind::TooLarge { limit, is_unpacked: false });
        }
        self.take(size)
    }

    /// Counts content towards the total size limit.
    fn take(&self, size: usize) -> Result<(), FailureKind> {
        let limit = self.policy().max_total_bytes;
        let size = size as u64;
        self.handed_out
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(size).filter(|sum| *sum <= limit)
            })
            .map(drop)
            .map_err(|_| FailureKind::TotalTooLarge { limit })
    }
}

impl Source {
    fn of(request: &Request) -> Result<Self, FailureKind> {
        let url = request.url.trim();
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(FailureKind::Url {
                reason: "it has no scheme; accepted are http, https, s3, gs and arn URLs".to_owned(),
            });
        };
        let scheme = scheme.to_ascii_lowercase();
        if let Some(object) = ObjectUrl::parse(url) {
            let object = object?;
            if request.compression.is_some() && !object.allows_gzip() {
                return Err(FailureKind::Compression { scheme });
            }
            if let Some((name, _)) = request.headers.first() {
                return Err(FailureKind::Header {
                    name: name.chars().take(160).collect(),
                    reason: "headers go with http and https URLs only",
                });
            }
            return Ok(Self::Object(object));
        }
        match scheme.as_str() {
            "http" | "https" => Ok(Self::Http),
            _ => Err(FailureKind::Scheme { scheme: scheme.chars().take(32).collect() }),
        }
    }
}

impl From<FailureKind> for Failed {
    fn from(kind: FailureKind) -> Self {
        Self { kind, redirected_to: None }
    }
}

/// A failure of content that was not asked for.
fn unfetched(request: &Request, kind: FailureKind) -> FetchError {
    FetchError { url: redact(&request.url), redirected_to: None, attempts: 0, kind }
}

fn note_retry(url: &str, attempt: u32, failure: &FailureKind, pause: Duration) {
    let url = redact(url);
    tracing::info!(%url, attempt, "{failure}; next attempt in {} ms", pause.as_millis());
}
