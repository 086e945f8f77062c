//! Fault injection: a client service in front of the embedded server that delays, drops and fails requests at random.
//!
//! The randomness is seeded: the same seed and the same requests in the same order fail in the same way.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use kube::client::Body;
use seaworthy_apiserver::{Body as Content, Identity, Server};
use tokio::sync::mpsc;
use tower_service::Service;

use crate::embedded::with_time_stopped;

/// After this, a proxy between client and server ends a request whose answer is lost.
const LOST_ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// A pseudo-random sequence that its seed determines.
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// A number below this one, or zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }
}

/// Rates of faults, in thousandths of all requests of the sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// A write is refused with a conflict.
    pub conflict: u64,
    /// A request gets a server error, and nothing is done.
    pub error: u64,
    /// A write is done, and its response is an error.
    pub answer_lost: u64,
    /// A request is delayed. Its sender may have ended by then, and it is done all the same.
    pub late: u64,
    /// A request gets no response until its sender gives up.
    pub hang: u64,
    /// A watch ends after a few chunks.
    pub watch_dropped: u64,
    /// A watch delays its events.
    pub watch_late: u64,
}

impl FaultRates {
    /// Some of every fault.
    pub fn all() -> FaultRates {
        FaultRates { conflict: 40, error: 60, answer_lost: 40, late: 60, hang: 5, watch_dropped: 300, watch_late: 500 }
    }
}

/// Counts of the faults that were injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// All requests.
    pub requests: u64,
    /// See [`FaultRates::conflict`].
    pub conflicts: u64,
    /// See [`FaultRates::error`].
    pub errors: u64,
    /// See [`FaultRates::answer_lost`].
    pub answers_lost: u64,
    /// See [`FaultRates::late`].
    pub late: u64,
    /// See [`FaultRates::hang`].
    pub hung: u64,
    /// See [`FaultRates::watch_dropped`].
    pub watches_dropped: u64,
    /// See [`FaultRates::watch_late`].
    pub watches_late: u64,
}

/// Decides which requests fail, and counts the faults. Cloning shares it.
#[derive(Clone, Debug)]
pub struct FaultInjector {
    state: Arc<Mutex<(FaultRates, SeededRandom, FaultCounts)>>,
}

impl FaultInjector {
    pub fn new(rates: FaultRates, seed: u64) -> FaultInjector {
        FaultInjector { state: Arc::new(Mutex::new((rates, SeededRandom::new(seed), FaultCounts::default()))) }
    }

    pub fn set_rates(&self, rates: FaultRates) {
        self.with(|(now, ..)| *now = rates);
    }

    /// Whether no faults are injected now.
    pub fn is_off(&self) -> bool {
        self.with(|(now, ..)| *now == FaultRates::default())
    }

    /// The faults injected so far.
    pub fn injected(&self) -> FaultCounts {
        self.with(|(.., injected)| *injected)
    }

    fn with<T>(&self, with: impl FnOnce(&mut (FaultRates, SeededRandom, FaultCounts)) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn next_fault(&self, is_write: bool, is_watch: bool) -> RequestFault {
        self.with(|(rates, random, injected)| {
            injected.requests += 1;
            let mut happens = |rate: u64| random.below(1000) < rate;
            if is_watch {
                let drops = happens(rates.watch_dropped);
                let waits = happens(rates.watch_late);
                let chunks = drops.then(|| random.below(6));
                let delay = if waits { Duration::from_millis(random.below(8000)) } else { Duration::ZERO };
                injected.watches_dropped += u64::from(drops);
                injected.watches_late += u64::from(waits);
                return RequestFault::Watch { chunks, delay };
            }
            if is_write && happens(rates.conflict) {
                injected.conflicts += 1;
                return RequestFault::Conflict;
            }
            if happens(rates.error) {
                injected.errors += 1;
                return RequestFault::Error;
            }
            if is_write && happens(rates.answer_lost) {
                injected.answers_lost += 1;
                return RequestFault::AnswerLost;
            }
            if happens(rates.hang) {
                injected.hung += 1;
                return RequestFault::Hang;
            }
            if happens(rates.late) {
                injected.late += 1;
                return RequestFault::Late(Duration::from_millis(random.below(20_000)));
            }
            RequestFault::None
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum RequestFault {
    None,
    Conflict,
    Error,
    AnswerLost,
    Late(Duration),
    Hang,
    Watch { chunks: Option<u64>, delay: Duration },
}

/// Calls the server directly for one identity, with injected faults.
#[derive(Clone)]
pub(crate) struct FaultyService {
    pub(crate) server: Server,
    pub(crate) identity: Identity,
    pub(crate) injector: FaultInjector,
}

type Answer = Response<Content>;

impl Service<Request<Body>> for FaultyService {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.identity.clone());
        let is_watch =
            request.uri().query().is_some_and(|query| query.contains("watch=true") || query.contains("watch=1"));
        let is_write = request.method() != Method::GET;
        let fault = self.injector.next_fault(is_write, is_watch);
        let (server, injector) = (self.server.clone(), self.injector.clone());
        let response = async move { call(server, request).await };
        Box::pin(async move {
            Ok(match fault {
                RequestFault::None => response.await,
                RequestFault::Conflict => refusal(StatusCode::CONFLICT, "Conflict"),
                RequestFault::Error => refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
                RequestFault::AnswerLost => {
                    drop(response.await);
                    refusal(StatusCode::GATEWAY_TIMEOUT, "Timeout")
                }
                RequestFault::Late(delay) => {
                    // A task of its own: what was sent arrives even if the sender ends.
                    let delayed = tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        response.await
                    });
                    delayed.await.unwrap_or_else(|_| refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"))
                }
                RequestFault::Hang if is_write => std::future::pending().await,
                RequestFault::Hang => {
                    tokio::time::sleep(LOST_ANSWER_TIMEOUT).await;
                    refusal(StatusCode::GATEWAY_TIMEOUT, "Timeout")
                }
                RequestFault::Watch { chunks, delay } => faulty_watch(response.await, chunks, delay, injector),
            })
        })
    }
}

async fn call(mut server: Server, request: Request<Body>) -> Answer {
    let Ok(answer) = with_time_stopped(Service::<Request<Body>>::call(&mut server, request)).await;
    answer
}

/// A watch that delays each chunk while faults are injected, and ends after so many.
fn faulty_watch(answer: Answer, chunks: Option<u64>, delay: Duration, injector: FaultInjector) -> Answer {
    answer.map(|mut body| {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut left = chunks;
            while left != Some(0) {
                left = left.map(|left| left - 1);
                let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
                let frame = tokio::select! {
                    frame = next => frame,
                    () = sender.closed() => return,
                };
                let Some(Ok(frame)) = frame else { return };
                if !injector.is_off() {
                    tokio::time::sleep(delay).await;
                }
                if let Ok(data) = frame.into_data()
                    && sender.send(data).await.is_err()
                {
                    return;
                }
            }
        });
        Content::stream(receiver)
    })
}

fn refusal(code: StatusCode, reason: &str) -> Answer {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "injected fault", "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(Content::from(status.to_string()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    answer
}
