//! Fetching from `http` and `https` URLs: headers, status codes, redirects.

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    TRAILER, TRANSFER_ENCODING, USER_AGENT,
};
use http::{Method, Response, StatusCode};
use url::Url;

use crate::body::Reply;
use crate::transport::{Link, Principal, Target, Transport, basic_authorization};
use crate::{ContentKind, FailureKind, Request, redact};

/// As many as browsers and Go's client follow before they take it for a loop.
const MAX_REDIRECTS: usize = 10;

/// A failed attempt, and where a redirect had led by then (redacted).
pub(crate) struct FailedFetch {
    pub(crate) kind: FailureKind,
    pub(crate) redirected_to: Option<String>,
}

/// One attempt to get the body behind a URL, of at most `limit` bytes.
pub(crate) async fn get(
    transport: &Transport,
    link: &Link,
    request: &Request,
    limit: u64,
) -> Result<Bytes, FailedFetch> {
    let mut redirected_to = None;
    match follow(transport, link, request, limit, &mut redirected_to).await {
        Ok(bytes) => Ok(bytes),
        Err(kind) => Err(FailedFetch { kind, redirected_to }),
    }
}

async fn follow(
    transport: &Transport,
    link: &Link,
    request: &Request,
    limit: u64,
    redirected_to: &mut Option<String>,
) -> Result<Bytes, FailureKind> {
    let mut url = Url::parse(request.url.trim()).map_err(|error| FailureKind::Url { reason: error.to_string() })?;
    let mut target = Target::from_url(&url)?;
    let mut headers = default_headers(request.accept, &request.headers);
    for (name, value) in own_headers(request)? {
        headers.append(name, value);
    }
    for _ in 0..=MAX_REDIRECTS {
        let mut sent = headers.clone();
        if !sent.contains_key(AUTHORIZATION)
            && let Some(authorization) = basic_authorization(&url)
        {
            sent.insert(AUTHORIZATION, authorization);
        }
        let response = transport.send(link, Principal::Config, &target, Method::GET, sent, Bytes::new()).await?;
        let Some(next) = redirect(&url, &response)? else {
            return accept(response, limit).await;
        };
        *redirected_to = Some(redact(next.as_str()));
        let next_target = match Target::from_url(&next) {
            Ok(target) => target,
            Err(failure) => return Err(refuse_redirect(failure.to_string())),
        };
        if target.is_https && !next_target.is_https {
            return Err(refuse_redirect(
                "it leads from https to http, where anyone on the way could change the content".to_owned(),
            ));
        }
        if !target.is_same_origin(&next_target) {
            // For good: a way back to the first origin does not make the ones between harmless.
            headers = default_headers(request.accept, &[]);
        }
        (url, target) = (next, next_target);
    }
    Err(refuse_redirect(format!("more than {MAX_REDIRECTS} in a row")))
}

fn refuse_redirect(reason: String) -> FailureKind {
    FailureKind::Redirect { reason }
}

/// The URL of a redirect, if the response is one.
fn redirect(url: &Url, response: &Response<Reply>) -> Result<Option<Url>, FailureKind> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response
        .headers()
        .get(LOCATION)
        .ok_or_else(|| refuse_redirect("the response has no Location header".to_owned()))?;
    let location = std::str::from_utf8(location.as_bytes())
        .map_err(|_| refuse_redirect("its destination is not text".to_owned()))?;
    let next = url.join(location).map_err(|error| refuse_redirect(format!("its destination is not a URL: {error}")))?;
    Ok(Some(next))
}

/// The body of a final response, if its status says that there is one.
async fn accept(response: Response<Reply>, limit: u64) -> Result<Bytes, FailureKind> {
    match response.status() {
        StatusCode::OK => response.into_body().read(limit).await,
        StatusCode::NO_CONTENT => Ok(Bytes::new()),
        StatusCode::NOT_FOUND => Err(FailureKind::NotFound),
        status => Err(FailureKind::Status { code: status.as_u16(), detail: None, is_anonymous: false }),
    }
}

/// What is sent to every origin, unless `own` headers set it.
fn default_headers(accept: ContentKind, own: &[(String, String)]) -> HeaderMap {
    let is_set = |name: &HeaderName| {
        let mut names = own.iter().map(|(own, _)| own);
        names.any(|own| own.eq_ignore_ascii_case(name.as_str()))
    };
    let agent = concat!("seaworthy/", env!("CARGO_PKG_VERSION"));
    let defaults = [
        (USER_AGENT, Some(agent)),
        (ACCEPT, accept.media_types()),
        // What is declared as gzip is unpacked by us; nothing else may change on the way.
        (ACCEPT_ENCODING, Some("identity")),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in defaults {
        if let Some(value) = value
            && !is_set(&name)
        {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    headers
}

/// The headers of the request as given, except those that describe the connection itself.
fn own_headers(request: &Request) -> Result<Vec<(HeaderName, HeaderValue)>, FailureKind> {
    // Compat: Go's client, and so Ignition, ignores these silently.
    const OF_THE_CONNECTION: [HeaderName; 4] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER];
    let mut headers = Vec::new();
    for (name, value) in &request.headers {
        let refuse = |reason| FailureKind::Header { name: name.chars().take(160).collect(), reason };
        let own = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| refuse("not a header name: expected letters, digits and -"))?;
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| refuse("its value has line breaks or other control characters"))?;
        value.set_sensitive(true);
        if !OF_THE_CONNECTION.contains(&own) {
            headers.push((own, value));
        }
    }
    Ok(headers)
}
