//! A request in, a response out.
//!
//! An answer that is no config has no body, as upstream's have none; why is said in the header `seaworthy-reason`, and
//! only to whoever may have the config.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    RETRY_AFTER, USER_AGENT, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use tracing::info;

use crate::accept;
use crate::access::Access;
use crate::answers::{Encoded, Shelf};
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
}

/// What a path means.
enum Place<'p> {
    Health,
    Config(&'p str),
    Nothing,
}

impl Endpoint {
    /// Answers a request. Its body is not looked at.
    pub fn answer<B>(&self, request: &Request<B>, visitor: Visitor, now: Instant) -> Response<Full<Bytes>> {
        let response = self.respond(request, visitor, now);
        if request.uri().path() == HEALTH && response.status() == StatusCode::OK {
            // Every few seconds, and nobody wants to read it.
            return response;
        }
        let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let agent = String::from_utf8_lossy(&agent[..agent.len().min(120)]);
        // Neither the query nor any other header: either may hold a secret.
        info!(
            peer = %visitor.address,
            method = %request.method(),
            path = shown(request.uri().path()),
            status = response.status().as_u16(),
            agent = ?agent,
            "asked"
        );
        response
    }

    fn respond<B>(&self, request: &Request<B>, visitor: Visitor, now: Instant) -> Response<Full<Bytes>> {
        let method = request.method();
        if method != Method::GET && method != Method::HEAD {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let pool = match place(request.uri().path()) {
            Place::Health => return bare(StatusCode::OK),
            Place::Nothing => return refusal(StatusCode::NOT_FOUND, "configs are at /config/<pool>"),
            Place::Config(pool) => pool,
        };
        // Before the token: until everything is known, a right one may be unknown too, and no is no.
        let Some(pools) = self.shelf.take() else {
            return later("the pools are not known yet");
        };
        let is_admitted = self.access.admits(request.headers(), visitor.has_certificate, Timestamp::now());
        let rate = if is_admitted { &self.rates.known } else { &self.rates.strangers };
        if !rate.allows(visitor.address.ip(), now) {
            // Not 429: Ignition gives up on that, and tries again on this.
            return later("this address asks too often");
        }
        if !is_admitted {
            let mut response = bare(StatusCode::UNAUTHORIZED);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"seaworthy\""));
            return response;
        }
        let version = match accept::negotiate(&joined(request.headers(), &ACCEPT)) {
            Ok(version) => version,
            Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        // Differs: a pool that does not exist is not found, because that is what it is; upstream says that it has failed.
        let Some(answers) = pools.get(pool) else {
            return refusal(StatusCode::NOT_FOUND, &format!("there is no pool {pool}"));
        };
        match answers.get(version) {
            Err(reason) => refusal(StatusCode::INTERNAL_SERVER_ERROR, reason),
            Ok(answer) => {
                let is_packed = wants_gzip(request.headers());
                let encoded = if is_packed { answer.packed() } else { answer.plain() };
                config(encoded, is_packed, method, request.headers())
            }
        }
    }
}

/// The config itself, or that it has not changed.
fn config(encoded: &Encoded, is_packed: bool, method: &Method, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let is_known = is_known(headers, &encoded.tag);
    let body = if is_known || method == Method::HEAD { Bytes::new() } else { encoded.body.clone() };
    let mut response = Response::new(Full::new(body));
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
    let Some(rest) = path.strip_prefix("/config/") else { return Place::Nothing };
    match rest.split('/').all(is_pool_name) {
        true => Place::Config(rest.rsplit('/').next().unwrap_or_default()),
        false => Place::Nothing,
    }
}

fn bare(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_LENGTH, 0.into());
    response
}

fn refusal(status: StatusCode, reason: &str) -> Response<Full<Bytes>> {
    let mut response = bare(status);
    let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let reason: String = reason.chars().take(LONGEST_REASON).map(plain).collect();
    if let Ok(reason) = HeaderValue::from_str(&reason) {
        response.headers_mut().insert(REASON, reason);
    }
    response
}

fn later(reason: &str) -> Response<Full<Bytes>> {
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
