//! A request in, a response out.
//!
//! An answer that is no config has no body, as upstream's have none; why is said in the header `seaworthy-reason`, and
//! only to whoever may have the config; of a stranger it is said in the log alone.
//!
//! Every request is counted and logged once, when its answer has been sent. Neither its query nor any header but the
//! agent's name is written down, and of a stranger's path only what names something of ours: a token may stand anywhere.

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

use crate::accept;
use crate::access::{Access, Denied};
use crate::answers::{Encoded, Pools, Shelf};
use crate::metrics::{Metrics, Refused, RequestLabels};
use crate::parcel::{Parcel, Receipt};
use crate::rate::Rates;
use crate::stub::is_pool_name;

/// Why there is no config.
pub const REASON: HeaderName = HeaderName::from_static("seaworthy-reason");
/// Where it is asked whether we are well.
const HEALTH: &str = "/healthz";
/// No reason is longer: headers have limits.
const LONGEST_REASON: usize = 512;
/// After how many seconds a machine that came too early or too often should come again.
const LATER: HeaderValue = HeaderValue::from_static("5");

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Visitor {
    /// From where.
    pub address: SocketAddr,
    /// Whether it has shown a certificate that we know.
    pub has_certificate: bool,
}

/// What is behind the door.
pub struct Endpoint {
    /// What is given out.
    pub shelf: Arc<Shelf>,
    /// To whom.
    pub access: Access,
    /// How often.
    pub rates: Rates,
    /// What is counted of it.
    pub metrics: Arc<Metrics>,
}

/// An answer, and what is known of the request by then.
struct Outcome {
    response: Response<Bytes>,
    version: Option<Version>,
    refused: Option<Refused>,
    /// Why the visitor may not have it.
    denied: Option<Denied>,
    is_admitted: bool,
}

/// What a path means.
#[derive(Clone, Copy)]
enum Place<'p> {
    Health,
    Config(&'p str),
    Nothing,
}

impl Endpoint {
    /// Answers a request. Its body is not looked at.
    pub fn answer<B>(&self, request: &Request<B>, visitor: Visitor, now: Instant) -> Response<Parcel> {
        let (place, pools) = (place(request.uri().path()), self.shelf.take());
        let outcome = self.outcome(request, place, pools.as_deref(), visitor, now);
        let pool = match place {
            Place::Config(pool) => pools.as_deref().filter(|pools| pools.contains_key(pool)).map(|_| pool),
            Place::Health | Place::Nothing => None,
        };
        let (status, mut response) = (outcome.response.status(), outcome.response);
        if !outcome.is_admitted {
            // A place for as long as somebody asks is for those who may have something.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let receipt = Receipt {
            metrics: Arc::clone(&self.metrics),
            labels: RequestLabels {
                pool: pool.unwrap_or_default().to_owned(),
                version: outcome.version.map(Version::as_str).unwrap_or_default(),
                code: status.as_u16(),
            },
            refused: outcome.refused,
            begun: now,
            peer: visitor.address,
            method: request.method().clone(),
            path: match outcome.is_admitted || pool.is_some() || matches!(place, Place::Health) {
                true => shown(request.uri().path()).to_owned(),
                false => "…".to_owned(),
            },
            agent: agent(request.headers()),
            reason: match outcome.denied.filter(|_| outcome.refused == Some(Refused::Access)) {
                Some(denied) => Some(denied.to_string()),
                None => response.headers().get(REASON).and_then(|reason| reason.to_str().ok()).map(str::to_owned),
            },
            length: response.body().len(),
            // Asked every few seconds, and nobody wants to read it.
            is_silent: matches!(place, Place::Health) && status == StatusCode::OK,
            // A stranger who asks without end must not fill the disk too; what is counted shows it.
            is_logged: outcome.is_admitted || outcome.refused != Some(Refused::Rate),
        };
        response.map(|body| Parcel::new(body, receipt))
    }

    /// All that was counted, in Prometheus' text format.
    pub fn page(&self) -> Result<String, std::fmt::Error> {
        self.metrics.page(&self.shelf, tokio::time::Instant::now())
    }

    /// Whether everything is known that has to be.
    pub fn is_ready(&self) -> bool {
        self.shelf.take().is_some()
    }

    fn outcome<B>(
        &self,
        request: &Request<B>,
        place: Place<'_>,
        pools: Option<&Pools>,
        visitor: Visitor,
        now: Instant,
    ) -> Outcome {
        let method = request.method();
        let mut outcome =
            Outcome { response: Response::default(), version: None, refused: None, denied: None, is_admitted: false };
        // Health costs nothing and is asked for by balancers, who take us for gone when we do not answer. Everything else that
        // needs no key is counted before it is looked at.
        let too_often = || Outcome {
            // Not 429: Ignition gives up on that, and tries again on this.
            response: later("this address asks too often"),
            version: None,
            refused: Some(Refused::Rate),
            denied: None,
            is_admitted: false,
        };
        let is_for_all = pools.is_none() || !matches!(place, Place::Config(_)) || !is_read(method);
        let is_health = matches!(place, Place::Health) && is_read(method);
        if is_for_all && !is_health && !self.rates.strangers.allows(visitor.address.ip(), now) {
            return too_often();
        }
        if !is_read(method) {
            outcome.response = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered");
            outcome.response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return outcome;
        }
        let pool = match place {
            Place::Health => return Outcome { response: bare(StatusCode::OK), ..outcome },
            Place::Nothing => {
                let response = refusal(StatusCode::NOT_FOUND, "configs are at /config/<pool>");
                return Outcome { response, ..outcome };
            }
            Place::Config(pool) => pool,
        };
        // Before the token: until everything is known, a right one may be unknown too, and no is no.
        let Some(pools) = pools else {
            let response = later("the pools are not known yet");
            return Outcome { response, refused: Some(Refused::Unready), ..outcome };
        };
        outcome.denied = self.access.admit(request.headers(), visitor.has_certificate, Timestamp::now()).err();
        outcome.is_admitted = outcome.denied.is_none();
        let rate = if outcome.is_admitted { &self.rates.known } else { &self.rates.strangers };
        if !rate.allows(visitor.address.ip(), now) {
            return Outcome { is_admitted: outcome.is_admitted, ..too_often() };
        }
        if !outcome.is_admitted {
            let mut response = bare(StatusCode::UNAUTHORIZED);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"seaworthy\""));
            return Outcome { response, refused: Some(Refused::Access), ..outcome };
        }
        let version = match accept::negotiate(&joined(request.headers(), &ACCEPT)) {
            Ok(version) => version,
            Err(error) => {
                return Outcome { response: refusal(StatusCode::BAD_REQUEST, &error.to_string()), ..outcome };
            }
        };
        // Differs: a pool that does not exist is not found, because that is what it is; upstream says that it has failed.
        let response = match pools.get(pool).map(|answers| (answers, answers.get(version))) {
            None => refusal(StatusCode::NOT_FOUND, &format!("there is no pool {pool}")),
            Some((answers, Err(reason))) if answers.is_missing() => refusal(StatusCode::NOT_FOUND, reason),
            Some((_, Err(reason))) => refusal(StatusCode::INTERNAL_SERVER_ERROR, reason),
            Some((_, Ok(answer))) => {
                let is_packed = wants_gzip(request.headers());
                let encoded = if is_packed { answer.packed() } else { answer.plain() };
                config(encoded, is_packed, method, request.headers())
            }
        };
        Outcome { response, version: Some(version), ..outcome }
    }
}

fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// The name of the program that asks, as it says, cut short.
fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    String::from_utf8_lossy(&agent[..agent.len().min(120)]).into_owned()
}

/// The config itself, or that it has not changed.
fn config(encoded: &Encoded, is_packed: bool, method: &Method, headers: &HeaderMap) -> Response<Bytes> {
    let is_known = is_known(headers, &encoded.tag);
    let body = if is_known || method == Method::HEAD { Bytes::new() } else { encoded.body.clone() };
    let mut response = Response::new(body);
    let out = response.headers_mut();
    out.insert(ETAG, encoded.tag.clone());
    out.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    // It has secrets in it, and is asked for again rather than taken for true.
    out.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    out.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    out.insert(CONTENT_LENGTH, encoded.body.len().into());
    if is_packed {
        out.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// What a path means.
///
/// The pool is what stands behind the last slash, whatever stands before it, as upstream has it. Nothing hangs on the rest
/// of the path, but it has to be plain: what needs to be unescaped or resolved first means nothing here.
fn place(path: &str) -> Place<'_> {
    if path == HEALTH {
        return Place::Health;
    }
    // Differs: `/config/` is the pool `config` upstream, and `/config` is redirected there. A secret has one name here.
    let Some(rest) = path.strip_prefix("/config/") else { return Place::Nothing };
    match rest.split('/').all(is_pool_name) {
        true => Place::Config(rest.rsplit('/').next().unwrap_or_default()),
        false => Place::Nothing,
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
    let reason: String = reason.chars().take(LONGEST_REASON).map(plain).collect();
    if let Ok(reason) = HeaderValue::from_str(&reason) {
        response.headers_mut().insert(REASON, reason);
    }
    response
}

fn later(reason: &str) -> Response<Bytes> {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, reason);
    response.headers_mut().insert(RETRY_AFTER, LATER);
    response
}

/// The start of a path, for the log.
fn shown(path: &str) -> &str {
    let end = path.char_indices().nth(200).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

/// All values of a header as one; what is no text is passed over.
fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

fn wants_gzip(headers: &HeaderMap) -> bool {
    let header = joined(headers, &ACCEPT_ENCODING);
    let mut asked = header.split(',').map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
        (name, weight)
    });
    // A star is no wish for it: whoever can unpack it names it.
    asked.any(|(name, weight)| matches!(name.as_str(), "gzip" | "x-gzip") && weight > 0.0)
}

fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let header = joined(headers, &IF_NONE_MATCH);
    let tag = tag.to_str().unwrap_or_default();
    header.split(',').map(str::trim).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
