//! Our API server in memory, and clients that reach it without a socket.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use kube::Client;
use kube::client::Body;
use seaworthy_apiserver::{Housekeeping, Identity, Keys, Place, Server, Settings, StaticTokens};
use tokio::runtime::RuntimeFlavor;

use crate::clock::Clock;
use crate::faults::{Stormy, Weather};

/// A cluster inside the test: it starts in milliseconds, and its time is the test's.
pub struct Embedded {
    server: Server,
    clock: Arc<Clock>,
    /// Garbage goes and namespaces end, as in a cluster with its controllers.
    _housekeeping: Housekeeping,
}

impl Embedded {
    /// Starts an empty cluster: what a new cluster has, and nothing else.
    ///
    /// # Panics
    ///
    /// If it does not start: a test has no use for anything less.
    pub async fn start() -> Embedded {
        let clock = Arc::new(Clock::at("2026-01-01T00:00:00Z".parse().expect("a time")));
        let keys = Keys::generate().and_then(|bytes| Keys::read(&bytes)).expect("a key");
        let settings = Settings {
            place: Place::Memory,
            world: clock.clone(),
            tokens: StaticTokens::default(),
            keys: Arc::new(keys),
        };
        let server = Server::open(settings).expect("a server in memory opens");
        server.prepare().await.expect("a server in memory takes what it needs");
        let housekeeping = server.start();
        Embedded { server, clock, _housekeeping: housekeeping }
    }

    /// The server itself. With [`Server::settle`] a test waits until housekeeping has nothing left to do.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The server's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.client_as("admin", &["system:masters"])
    }

    /// A client that may do everything, and to whom this weather happens.
    pub fn client_in(&self, weather: &Weather) -> Client {
        let identity = Identity::authenticated("admin", ["system:masters".to_owned()]);
        Client::new(Stormy { server: self.server.clone(), identity, weather: weather.clone() }, "default")
    }

    /// A client of this user, who is in these groups and in `system:authenticated`.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let identity = Identity::authenticated(user, groups.iter().map(|group| (*group).to_owned()));
        Client::new(Inside { server: self.server.clone(), identity }, "default")
    }
}

/// The way into the server for one identity.
#[derive(Clone)]
struct Inside {
    server: Server,
    identity: Identity,
}

impl tower_service::Service<Request<Body>> for Inside {
    type Response = <Server as tower_service::Service<Request<Body>>>::Response;
    type Error = <Server as tower_service::Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower_service::Service::<Request<Body>>::poll_ready(&mut self.server, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.identity.clone());
        Box::pin(in_no_time(self.server.call(request)))
    }
}

/// Waits for an answer without time passing, where a test has stopped it: tokio lets it jump whenever all tasks wait, also
/// if they wait for a thread of the server, and every time-out would be over before the answer is there.
pub(crate) async fn in_no_time<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Handle::current();
    if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
        return answer.await;
    }
    // While something blocks, time stands still. This ends with `answered`, also if nobody waits any longer.
    let (answered, wait) = std::sync::mpsc::channel::<()>();
    drop(runtime.spawn_blocking(move || wait.recv()));
    let answer = answer.await;
    drop(answered);
    answer
}
