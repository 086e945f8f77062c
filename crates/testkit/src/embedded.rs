//! Embedded cluster: our API server in memory, with clients that call it without a socket.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use kube::Client;
use kube::client::Body;
use seaworthy_apiserver::{Housekeeping, Identity, Server, ServerOptions, SigningKey, StaticTokens, StorageLocation};
use tokio::runtime::RuntimeFlavor;

use crate::clock::TestClock;
use crate::fault_injector::{FaultInjector, FaultyService};

/// A cluster inside the test process: it starts in milliseconds, and its clock is the test's.
pub struct Embedded {
    server: Server,
    clock: Arc<TestClock>,
    /// Collects garbage and deletes namespaces, as the controllers of a cluster do.
    _housekeeping: Housekeeping,
}

impl Embedded {
    /// Starts an empty cluster: what a new cluster has, and nothing else.
    ///
    /// # Panics
    ///
    /// If it does not start: a test has no use for anything less.
    pub async fn start() -> Embedded {
        let clock = Arc::new(TestClock::at("2026-01-01T00:00:00Z".parse().expect("a time")));
        let signing_key = SigningKey::generate().and_then(|bytes| SigningKey::read(&bytes)).expect("a key");
        let settings = ServerOptions {
            storage: StorageLocation::Memory,
            clock: clock.clone(),
            tokens: StaticTokens::default(),
            signing_key: Arc::new(signing_key),
        };
        let server = Server::open(settings).expect("a server in memory opens");
        server.prepare().await.expect("a server in memory takes what it needs");
        let housekeeping = server.start();
        Embedded { server, clock, _housekeeping: housekeeping }
    }

    /// The server itself. [`Server::settle`] waits until housekeeping has nothing left to do.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The server's clock.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.client_as("admin", &["system:masters"])
    }

    /// A client that may do everything, with the faults of this injector.
    pub fn client_with_faults(&self, injector: &FaultInjector) -> Client {
        let identity = Identity::authenticated("admin", ["system:masters".to_owned()]);
        Client::new(FaultyService { server: self.server.clone(), identity, injector: injector.clone() }, "default")
    }

    /// A client of this user, who is in these groups and in `system:authenticated`.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        client_as(&self.server, user, groups)
    }
}

pub(crate) fn client_as(server: &Server, user: &str, groups: &[&str]) -> Client {
    let identity = Identity::authenticated(user, groups.iter().map(|group| (*group).to_owned()));
    Client::new(DirectService { server: server.clone(), identity }, "default")
}

/// Calls the server directly for one identity.
#[derive(Clone)]
struct DirectService {
    server: Server,
    identity: Identity,
}

impl tower_service::Service<Request<Body>> for DirectService {
    type Response = <Server as tower_service::Service<Request<Body>>>::Response;
    type Error = <Server as tower_service::Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower_service::Service::<Request<Body>>::poll_ready(&mut self.server, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.identity.clone());
        Box::pin(with_time_stopped(self.server.call(request)))
    }
}

/// Waits for an answer without time passing, in a test that has paused the clock: tokio advances it whenever all tasks wait,
/// even for a thread of the server, and every timeout would be over before the answer is there.
pub(crate) async fn with_time_stopped<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Handle::current();
    if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
        return answer.await;
    }
    // Tokio does not advance a paused clock while something blocks. This ends with `answered`, even if that is dropped.
    let (answered, wait) = std::sync::mpsc::channel::<()>();
    drop(runtime.spawn_blocking(move || wait.recv()));
    let answer = answer.await;
    drop(answered);
    answer
}
