//! [`Fetcher`]: fetches content, with retries, within limits of time and size.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::body::unpack_and_verify;
use crate::http_source::{self, FailedFetch};
use crate::object_client::ObjectClient;
use crate::object_url::ObjectUrl;
use crate::timer::retry_delays;
use crate::tls::SystemRoots;
use crate::transport::{Link, Transport};
use crate::{
    Environment, FailureKind, FetchError, Policy, Request, Resolver, Retry, Snapshot, SystemResolver, Timer,
    TokioTimer, redact,
};

/// Limit of attempts in a row that reach no server: with the delays between them about three seconds.
const MAX_BRIEF_ATTEMPTS: u32 = 5;

/// How long to retry while no server can be reached: a DNS server that does not answer takes long.
const BRIEF_TIMEOUT: Duration = Duration::from_secs(10);

/// The clock for the time of snapshots.
pub type SnapshotClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Gets remote content as a [`Policy`] allows, one at a time; a [`FetchRun`](crate::FetchRun) gets many. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    transport: Arc<Transport>,
    environment: Arc<Environment>,
    timer: Arc<dyn Timer>,
    clock: SnapshotClock,
    observer: Option<Arc<dyn FetchObserver>>,
}

/// Observes the progress of fetches. Called while fetching: it must not block.
pub trait FetchObserver: Send + Sync {
    /// A fetch begins.
    fn started(&self, request: &Request);
    /// An attempt has failed, and another one follows.
    fn failed(&self, request: &Request, attempt: &FailedAttempt<'_>);
    /// A fetch has ended, well or not.
    fn ended(&self, request: &Request);
}

/// An attempt that failed and is repeated.
#[derive(Debug, Clone, Copy)]
pub struct FailedAttempt<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// What went wrong.
    pub failure: &'a FailureKind,
    /// How long the fetch is retried at most, from its beginning.
    pub limit: Duration,
}

/// The links of the requests of one fetch.
struct Links {
    config: Arc<Link>,
    operator: Arc<Link>,
}

/// The kind of source of content.
enum Source {
    Http,
    Object(ObjectUrl),
}

impl Fetcher {
    /// A fetcher that asks the system for addresses and object stores without credentials.
    #[must_use]
    pub fn new(policy: Policy, clock: SnapshotClock) -> Self {
        Self {
            transport: Arc::new(Transport { policy, resolver: Arc::new(SystemResolver), roots: Arc::default() }),
            environment: Arc::default(),
            timer: Arc::new(TokioTimer::default()),
            clock,
            observer: None,
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
    pub fn with_authorities(self, bundles: &[impl AsRef<[u8]>]) -> Result<Self, FailureKind> {
        let roots = Arc::new(SystemRoots::with(bundles)?);
        let (policy, resolver) = (self.transport.policy.clone(), self.transport.resolver.clone());
        Ok(Self { transport: Arc::new(Transport { policy, resolver, roots }), ..self })
    }

    /// The same with another timer for the delays between attempts.
    #[must_use]
    pub fn with_timer(self, timer: Arc<dyn Timer>) -> Self {
        Self { timer, ..self }
    }

    /// The same with an observer of its progress.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn FetchObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The policy of this fetcher.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.transport.policy
    }

    /// The content that `request` asks for: unpacked, within the limits, with the right hash.
    ///
    /// Server errors, timeouts and broken connections are retried until the total timeout; while no server can be reached,
    /// there are five attempts; anything else fails at once.
    ///
    /// # Errors
    ///
    /// See [`FailureKind`].
    pub async fn fetch(&self, request: &Request) -> Result<Snapshot, FetchError> {
        if let Some(observer) = &self.observer {
            observer.started(request);
        }
        let outcome = self.repeat(request).await;
        if let Some(observer) = &self.observer {
            observer.ended(request);
        }
        outcome
    }

    async fn repeat(&self, request: &Request) -> Result<Snapshot, FetchError> {
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
        // How many attempts in a row have reached no server.
        let mut unreachable_attempts = 0;
        for delay in retry_delays() {
            attempts += 1;
            let left = total.saturating_sub(since_start());
            let attempt = self.attempt(&source, &links, request);
            let failed = match tokio::time::timeout(left, attempt).await {
                Ok(Ok(plain)) => return Ok(Snapshot::new(plain, &request.url, (self.clock)())),
                Ok(Err(failed)) => failed,
                Err(_) => {
                    let kind = FailureKind::TotalTimeout { limit: total, last };
                    return Err(fail(attempts, None, kind));
                }
            };
            let limit = match failed.kind.retry() {
                Retry::Never => Duration::ZERO,
                Retry::Briefly => {
                    unreachable_attempts += 1;
                    if unreachable_attempts < MAX_BRIEF_ATTEMPTS { total.min(BRIEF_TIMEOUT) } else { Duration::ZERO }
                }
                Retry::UntilTimeout => {
                    unreachable_attempts = 0;
                    total
                }
            };
            if since_start().saturating_add(delay) >= limit {
                return Err(fail(attempts, failed.redirected_to, failed.kind));
            }
            if let Some(observer) = &self.observer {
                observer.failed(request, &FailedAttempt { number: attempts, failure: &failed.kind, limit });
            }
            self.timer.sleep(delay).await;
            last = Some(Box::new(failed.kind));
        }
        // The delays never end, and each of them brings the total timeout closer.
        let kind = FailureKind::TotalTimeout { limit: total, last };
        Err(fail(attempts, None, kind))
    }

    async fn attempt(&self, source: &Source, links: &Links, request: &Request) -> Result<Vec<u8>, FailedFetch> {
        let limit = self.policy().max_object_bytes;
        let body = match source {
            Source::Http => http_source::get(&self.transport, &links.config, request, limit).await?,
            Source::Object(object) => {
                let bucket = ObjectClient {
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
}

impl Source {
    fn of(request: &Request) -> Result<Self, FailureKind> {
        let url = request.url.trim();
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(FailureKind::Url {
                reason: "it has no scheme; expected an http, https, s3, gs or arn URL".to_owned(),
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

impl From<FailureKind> for FailedFetch {
    fn from(kind: FailureKind) -> Self {
        Self { kind, redirected_to: None }
    }
}
