//! [`Endpoint`]: handles the requests for configs.
//!
//! A response without a config has no body, as upstream's have none; the reason is in the header `seaworthy-reason` for
//! authenticated clients; for others it is only logged.
//!
//! Every request is counted and logged once, when its response has been sent. Neither its query nor any header but
//! `User-Agent` is logged, and the path of an unauthenticated client only if it names an existing pool: a token may be
//! anywhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, RETRY_AFTER, USER_AGENT, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use seaworthy_ignition::Version;

use crate::access::{Access, Denied};
use crate::answers::{AnswerStore, EncodedBody, PoolAnswers};
use crate::metrics::{Metrics, RejectReason, RequestLabels};
use crate::rate_limits::RateLimits;
use crate::response_body::{RequestRecord, ResponseBody};
use crate::stub::is_pool_name;
use crate::version_negotiation;

/// The response header with the reason why no config is served.
pub const REASON_HEADER: HeaderName = HeaderName::from_static("seaworthy-reason");
const HEALTH_PATH: &str = "/healthz";
/// Headers have limits.
const MAX_REASON_CHARS: usize = 512;
/// Seconds after which a machine that came too early or too often should retry.
const RETRY_DELAY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Whether it has presented a certificate of the client CA.
    pub has_certificate: bool,
}

/// The Ignition endpoint, without its socket.
pub struct Endpoint {
    /// The current configs.
    pub answers: Arc<AnswerStore>,
    /// Which clients get them.
    pub access: Access,
    /// How often.
    pub rate_limits: RateLimits,
    pub metrics: Arc<Metrics>,
}

/// A response, and what is logged and counted of its request.
struct Outcome {
    response: Response<Bytes>,
    version: Option<Version>,
    rejected: Option<RejectReason>,
    /// Why the client is not admitted.
    denied: Option<Denied>,
    is_admitted: bool,
}

/// What a path refers to.
#[derive(Clone, Copy)]
enum Route<'p> {
    Health,
    /// The config of the pool of this name.
    Config(&'p str),
    NotFound,
}

impl Endpoint {
    /// Handles a request. Its body is ignored.
    pub fn answer<B>(&self, request: &Request<B>, peer: Peer, now: Instant) -> Response<ResponseBody> {
        let (route, pools) = (route(request.uri().path()), self.answers.current());
        let outcome = self.outcome(request, route, pools.as_deref(), peer, now);
        let pool = match route {
            Route::Config(pool) => pools.as_deref().filter(|pools| pools.contains_key(pool)).map(|_| pool),
            Route::Health | Route::NotFound => None,
        };
        let (status, mut response) = (outcome.response.status(), outcome.response);
        if !outcome.is_admitted {
            // Only admitted clients keep their connection.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let record = RequestRecord {
            metrics: Arc::clone(&self.metrics),
            labels: RequestLabels {
                pool: pool.unwrap_or_default().to_owned(),
                version: outcome.version.map(Version::as_str).unwrap_or_default(),
                code: status.as_u16(),
            },
            rejected: outcome.rejected,
            started: now,
            peer: peer.address,
            method: request.method().clone(),
            path: match outcome.is_admitted || pool.is_some() || matches!(route, Route::Health) {
                true => shown(request.uri().path()).to_owned(),
                false => "…".to_owned(),
            },
            agent: agent(request.headers()),
            reason: match outcome.denied.filter(|_| outcome.rejected == Some(RejectReason::Access)) {
                Some(denied) => Some(denied.to_string()),
                None => {
                    response.headers().get(REASON_HEADER).and_then(|reason| reason.to_str().ok()).map(str::to_owned)
                }
            },
            length: response.body().len(),
            // Load balancers probe every few seconds, which would only fill the log.
            is_silent: matches!(route, Route::Health) && status == StatusCode::OK,
            // A flood of unauthenticated requests must not fill the disk; the counters show it.
            is_logged: outcome.is_admitted || outcome.rejected != Some(RejectReason::RateLimit),
        };
        response.map(|body| ResponseBody::new(body, record))
    }

    /// All metrics in Prometheus' text format.
    pub fn page(&self) -> Result<String, std::fmt::Error> {
        self.metrics.page(&self.answers, tokio::time::Instant::now())
    }

    /// Whether the source of answers has been read.
    pub fn is_ready(&self) -> bool {
        self.answers.current().is_some()
    }

    fn outcome<B>(
        &self,
        request: &Request<B>,
        route: Route<'_>,
        pools: Option<&PoolAnswers>,
        peer: Peer,
        now: Instant,
    ) -> Outcome {
        let method = request.method();
        let mut outcome =
            Outcome { response: Response::default(), version: None, rejected: None, denied: None, is_admitted: false };
        // Health costs nothing, and load balancers take the endpoint out when it does not answer. Every other request without
        // authentication is counted before it is handled.
        let above_limit = || Outcome {
            // Not 429: Ignition gives up on that, and retries on this.
            response: retry_later("this address exceeds its rate limit"),
            version: None,
            rejected: Some(RejectReason::RateLimit),
            denied: None,
            is_admitted: false,
        };
        let is_for_all = pools.is_none() || !matches!(route, Route::Config(_)) || !is_read(method);
        let is_health = matches!(route, Route::Health) && is_read(method);
        if is_for_all && !is_health && !self.rate_limits.unauthenticated.allows(peer.address.ip(), now) {
            return above_limit();
        }
        if !is_read(method) {
            outcome.response = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed");
            outcome.response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return outcome;
        }
        let pool = match route {
            Route::Health => return Outcome { response: bare(StatusCode::OK), ..outcome },
            Route::NotFound => {
                let response = refusal(StatusCode::NOT_FOUND, "configs are at /config/<pool>");
                return Outcome { response, ..outcome };
            }
            Route::Config(pool) => pool,
        };
        // Before the token: until the source has been read, a valid one may be unknown too, and machines do not retry on 401.
        let Some(pools) = pools else {
            let response = retry_later("the pools have not been read yet");
            return Outcome { response, rejected: Some(RejectReason::Unready), ..outcome };
        };
        outcome.denied = self.access.admit(request.headers(), peer.has_certificate, Timestamp::now()).err();
        outcome.is_admitted = outcome.denied.is_none();
        let limiter =
            if outcome.is_admitted { &self.rate_limits.authenticated } else { &self.rate_limits.unauthenticated };
        if !limiter.allows(peer.address.ip(), now) {
            return Outcome { is_admitted: outcome.is_admitted, ..above_limit() };
        }
        if !outcome.is_admitted {
            let mut response = bare(StatusCode::UNAUTHORIZED);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"seaworthy\""));
            return Outcome { response, rejected: Some(RejectReason::Access), ..outcome };
        }
        let version = match version_negotiation::negotiate(&joined(request.headers(), &ACCEPT)) {
            Ok(version) => version,
            Err(error) => {
                return Outcome { response: refusal(StatusCode::BAD_REQUEST, &error.to_string()), ..outcome };
            }
        };
        // Differs: a pool that does not exist is 404, because that is what it is; upstream answers 500.
        let response = match pools.get(pool).map(|answers| (answers, answers.get(version))) {
            None => refusal(StatusCode::NOT_FOUND, &format!("there is no pool {pool}")),
            Some((answers, Err(reason))) if answers.is_missing() => refusal(StatusCode::NOT_FOUND, reason),
            Some((_, Err(reason))) => refusal(StatusCode::INTERNAL_SERVER_ERROR, reason),
            Some((_, Ok(answer))) => {
                let is_gzip = wants_gzip(request.headers());
                let encoded = if is_gzip { answer.gzip() } else { answer.plain() };
                config(encoded, is_gzip, method, request.headers())
            }
        };
        Outcome { response, version: Some(version), ..outcome }
    }
}

fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// The `User-Agent`, cut short.
fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    String::from_utf8_lossy(&agent[..agent.len().min(120)]).into_owned()
}

/// The config itself, or 304 if the client has it.
fn config(encoded: &EncodedBody, is_gzip: bool, method: &Method, headers: &HeaderMap) -> Response<Bytes> {
    let is_known = is_known(headers, &encoded.tag);
    let body = if is_known || method == Method::HEAD { Bytes::new() } else { encoded.body.clone() };
    let mut response = Response::new(body);
    let out = response.headers_mut();
    out.insert(ETAG, encoded.tag.clone());
    out.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    // It has secrets in it, and must be revalidated.
    out.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    out.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    out.insert(CONTENT_LENGTH, encoded.body.len().into());
    if is_gzip {
        out.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// The route of a path.
///
/// The pool is the last segment, whatever precedes it, as upstream has it. The rest of the path has no effect, but it must be
/// plain: a path that needs to be unescaped or resolved first is not found.
fn route(path: &str) -> Route<'_> {
    if path == HEALTH_PATH {
        return Route::Health;
    }
    // Differs: `/config/` is the pool `config` upstream, and `/config` is redirected there. A secret has one name here.
    let Some(rest) = path.strip_prefix("/config/") else { return Route::NotFound };
    match rest.split('/').all(is_pool_name) {
        true => Route::Config(rest.rsplit('/').next().unwrap_or_default()),
        false => Route::NotFound,
    }
}

fn bare(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_LENGTH, 0.into());
    response
}

fn refusal(status: StatusCode, reason: &str) -> Response<Bytes> {
    let mut response = bare(status);
    let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let reason: String = reason.chars().take(MAX_REASON_CHARS).map(plain).collect();
    if let Ok(reason) = HeaderValue::from_str(&reason) {
        response.headers_mut().insert(REASON_HEADER, reason);
    }
    response
}

fn retry_later(reason: &str) -> Response<Bytes> {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, reason);
    response.headers_mut().insert(RETRY_AFTER, RETRY_DELAY_SECONDS);
    response
}

/// The start of a path, for the log.
fn shown(path: &str) -> &str {
    let end = path.char_indices().nth(200).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

/// All values of a header as one; values that are not text are ignored.
fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

fn wants_gzip(headers: &HeaderMap) -> bool {
    let header = joined(headers, &ACCEPT_ENCODING);
    let mut encodings = header.split(',').map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
        (name, weight)
    });
    // A star does not count: a client that can decompress gzip names it.
    encodings.any(|(name, weight)| matches!(name.as_str(), "gzip" | "x-gzip") && weight > 0.0)
}

fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let header = joined(headers, &IF_NONE_MATCH);
    let tag = tag.to_str().unwrap_or_default();
    header.split(',').map(str::trim).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
