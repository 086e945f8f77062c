//! An API server that fails: the way into the embedded server, with faults by chance.
//!
//! Chance is seeded: the same seed and the same requests in the same order fail in the same way.

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

use crate::embedded::in_no_time;

/// Numbers that look like chance and repeat themselves.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Chance from a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
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

/// How often what goes wrong, in thousandths of all requests of the sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A write is refused as if somebody had been quicker.
    pub conflict: u64,
    /// A request is answered with an error of the server, and nothing is done.
    pub error: u64,
    /// A write is made, and its answer is an error.
    pub answer_lost: u64,
    /// A request waits before it is made; who sent it may have ended by then, and it is made all the same.
    pub late: u64,
    /// A request is never answered until its sender gives up.
    pub hang: u64,
    /// A watch ends after a few pieces of it.
    pub watch_dropped: u64,
    /// A watch tells nothing for a while.
    pub watch_late: u64,
}

impl Faults {
    /// Some of everything.
    pub fn all() -> Faults {
        Faults { conflict: 40, error: 60, answer_lost: 40, late: 60, hang: 5, watch_dropped: 300, watch_late: 500 }
    }
}

/// How often what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// All requests.
    pub requests: u64,
    /// See [`Faults::conflict`].
    pub conflicts: u64,
    /// See [`Faults::error`].
    pub errors: u64,
    /// See [`Faults::answer_lost`].
    pub answers_lost: u64,
    /// See [`Faults::late`].
    pub late: u64,
    /// See [`Faults::hang`].
    pub hung: u64,
    /// See [`Faults::watch_dropped`].
    pub watches_dropped: u64,
    /// See [`Faults::watch_late`].
    pub watches_late: u64,
}

/// Decides about every request. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Weather {
    state: Arc<Mutex<(Faults, Chance, Injected)>>,
}

impl Weather {
    /// These faults, by chance from this seed.
    pub fn new(faults: Faults, seed: u64) -> Weather {
        Weather { state: Arc::new(Mutex::new((faults, Chance::new(seed), Injected::default()))) }
    }

    /// From now on there are these faults.
    pub fn becomes(&self, faults: Faults) {
        self.with(|(now, ..)| *now = faults);
    }

    /// Whether nothing goes wrong now.
    pub fn is_calm(&self) -> bool {
        self.with(|(now, ..)| *now == Faults::default())
    }

    /// What went wrong so far.
    pub fn injected(&self) -> Injected {
        self.with(|(.., injected)| *injected)
    }

    fn with<T>(&self, with: impl FnOnce(&mut (Faults, Chance, Injected)) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn fate(&self, is_write: bool, is_watch: bool) -> Fate {
        self.with(|(faults, chance, injected)| {
            injected.requests += 1;
            let mut falls = |share: u64| chance.below(1000) < share;
            if is_watch {
                let drops = falls(faults.watch_dropped);
                let waits = falls(faults.watch_late);
                let pieces = drops.then(|| chance.below(6));
                let wait = if waits { Duration::from_millis(chance.below(8000)) } else { Duration::ZERO };
                injected.watches_dropped += u64::from(drops);
                injected.watches_late += u64::from(waits);
                return Fate::Watch { pieces, wait };
            }
            if is_write && falls(faults.conflict) {
                injected.conflicts += 1;
                return Fate::Conflict;
            }
            if falls(faults.error) {
                injected.errors += 1;
                return Fate::Error;
            }
            if is_write && falls(faults.answer_lost) {
                injected.answers_lost += 1;
                return Fate::AnswerLost;
            }
            if falls(faults.hang) {
                injected.hung += 1;
                return Fate::Hang;
            }
            if falls(faults.late) {
                injected.late += 1;
                return Fate::Late(Duration::from_millis(chance.below(20_000)));
            }
            Fate::Well
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Well,
    Conflict,
    Error,
    AnswerLost,
    Late(Duration),
    Hang,
    Watch { pieces: Option<u64>, wait: Duration },
}

/// The way into the server for one identity, through the weather.
#[derive(Clone)]
pub(crate) struct Stormy {
    pub(crate) server: Server,
    pub(crate) identity: Identity,
    pub(crate) weather: Weather,
}

type Answer = Response<Content>;

impl Service<Request<Body>> for Stormy {
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
        let fate = self.weather.fate(is_write, is_watch);
        let (server, weather) = (self.server.clone(), self.weather.clone());
        let made = async move { pass(server, request).await };
        Box::pin(async move {
            Ok(match fate {
                Fate::Well => made.await,
                Fate::Conflict => refusal(StatusCode::CONFLICT, "Conflict"),
                Fate::Error => refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
                Fate::AnswerLost => {
                    drop(made.await);
                    refusal(StatusCode::GATEWAY_TIMEOUT, "Timeout")
                }
                Fate::Late(wait) => {
                    // A task of its own: what was sent arrives, whatever becomes of the sender.
                    let arriving = tokio::spawn(async move {
                        tokio::time::sleep(wait).await;
                        made.await
                    });
                    arriving.await.unwrap_or_else(|_| refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"))
                }
                Fate::Hang if is_write => std::future::pending().await,
                // Somebody between client and server gives up.
                Fate::Hang => {
                    tokio::time::sleep(Duration::from_secs(120)).await;
                    refusal(StatusCode::GATEWAY_TIMEOUT, "Timeout")
                }
                Fate::Watch { pieces, wait } => troubled(made.await, pieces, wait, weather),
            })
        })
    }
}

async fn pass(mut server: Server, request: Request<Body>) -> Answer {
    let Ok(answer) = in_no_time(Service::<Request<Body>>::call(&mut server, request)).await;
    answer
}

/// A watch that waits before each piece of it while the weather is bad, and ends early.
fn troubled(answer: Answer, pieces: Option<u64>, wait: Duration, weather: Weather) -> Answer {
    answer.map(|mut body| {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut left = pieces;
            while left != Some(0) {
                left = left.map(|left| left - 1);
                let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
                let frame = tokio::select! {
                    frame = next => frame,
                    () = sender.closed() => return,
                };
                let Some(Ok(frame)) = frame else { return };
                if !weather.is_calm() {
                    tokio::time::sleep(wait).await;
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
        "message": "the weather is bad", "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(Content::from(status.to_string()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    answer
}
