//! Fixtures: servers, certificates, and a fetcher without clock and DNS server.

pub mod certificates;
pub mod cloud;
pub mod proxy;
pub mod server;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use seaworthy_fetch::{
    Environment, FailureKind, FetchError, FetchOutcome, FetchRun, Fetcher, Policy, Request, Resolver, SnapshotKey,
    Snapshots, Timer,
};

/// A fetcher that may reach all of loopback.
pub fn fetcher() -> Fetcher {
    fetcher_with(policy(&["127.0.0.0/8", "::1"]))
}

/// A fetcher that keeps `policy`, knows the names that end in `.test`, and does not wait.
pub fn fetcher_with(policy: Policy) -> Fetcher {
    Fetcher::new(policy, Arc::new(|| SystemTime::UNIX_EPOCH))
        .with_resolver(Arc::new(Names::default()))
        .with_timer(Arc::new(Pauses::default()))
}

pub fn policy(allow: &[&str]) -> Policy {
    Policy::allowing(allow.iter().map(|pattern| pattern.parse().unwrap()))
}

pub fn environment(variables: &[(&str, &str)]) -> Environment {
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    variables.iter().map(owned).collect()
}

/// Fetches and expects to fail.
pub async fn failure(fetcher: &Fetcher, request: &Request) -> FetchError {
    match fetcher.fetch(request).await {
        Ok(snapshot) => panic!("fetched {snapshot:?}"),
        Err(error) => error,
    }
}

/// Fetches a URL and expects to fail.
pub async fn failure_of(fetcher: &Fetcher, url: &str) -> FailureKind {
    failure(fetcher, &Request::resource(url)).await.kind
}

/// Obtains one content in a run of its own.
pub async fn obtain(
    fetcher: Fetcher,
    snapshots: &Arc<dyn Snapshots>,
    key: &SnapshotKey,
    request: &Request,
) -> FetchOutcome {
    FetchRun::new(fetcher, snapshots.clone()).obtain(&[(*key, request.clone())]).await.remove(0)
}

/// Ends pauses at once, counts them as time passed, and remembers them.
pub struct Pauses {
    start: Instant,
    taken: Mutex<Vec<Duration>>,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { start: Instant::now(), taken: Mutex::default() }
    }
}

impl Pauses {
    pub fn taken(&self) -> Vec<Duration> {
        self.taken.lock().unwrap().clone()
    }
}

impl Timer for Pauses {
    fn elapsed(&self) -> Duration {
        self.start.elapsed() + self.taken().iter().sum::<Duration>()
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.taken.lock().unwrap().push(pause);
        Box::pin(std::future::ready(()))
    }
}

/// Resolves `*.test` to 127.0.0.1, other names as configured; counts the queries.
#[derive(Default)]
pub struct Names {
    pub answers: BTreeMap<String, Vec<Vec<&'static str>>>,
    pub asked: Mutex<BTreeMap<String, usize>>,
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(name.to_owned()).or_default();
        *count += 1;
        // One answer after the other, the last one again and again.
        let answer = match self.answers.get(name) {
            Some(answers) => Some(answers[(*count - 1).min(answers.len() - 1)].clone()),
            None if name.ends_with(".test") => Some(vec!["127.0.0.1"]),
            None => None,
        };
        let result = match answer {
            Some(addresses) => Ok(addresses.iter().map(|address| address.parse().unwrap()).collect()),
            None => Err(io::Error::other("no such name")),
        };
        Box::pin(std::future::ready(result))
    }
}
