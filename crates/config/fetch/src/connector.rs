//! [`Connector`]: makes the object store library use our [`Transport`], so that policy, limits, proxy
//! and trust are the same for every scheme.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, HeaderName, HeaderValue, LAST_MODIFIED};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use crate::FailureKind;
use crate::transport::{Link, Principal, Target, Transport};

/// Answers of token services are a few kilobytes.
const MAX_CREDENTIALS_BYTES: u64 = 1 << 20;

/// Enough of an error answer to find its code.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// The response header with the region of a bucket.
const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");

/// What the requests of one attempt have in common.
pub(crate) struct Exchange {
    pub(crate) transport: Arc<Transport>,
    pub(crate) link: Arc<Link>,
    /// The origin of the objects; every other origin is a token service.
    pub(crate) data: Target,
    /// Endpoints for credentials that the operator's environment names.
    pub(crate) operator: Vec<Target>,
    /// The largest object.
    pub(crate) limit: u64,
    last: Mutex<Option<LastResponse>>,
}

/// How the last request ended, which the libraries report as text only.
#[derive(Debug, Clone)]
pub(crate) struct LastResponse {
    pub(crate) is_for_credentials: bool,
    pub(crate) answer: Result<Answer, FailureKind>,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// The error code in the answer, if it has one.
    pub(crate) detail: Option<String>,
    /// The region that the answer names.
    pub(crate) region: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Connector(pub(crate) Arc<Exchange>);

#[derive(Debug)]
struct Client(Arc<Exchange>);

// === impl Exchange ===

impl Exchange {
    pub(crate) fn new(
        transport: Arc<Transport>,
        link: Arc<Link>,
        data: Target,
        operator: Vec<Target>,
        limit: u64,
    ) -> Arc<Self> {
        Arc::new(Self { transport, link, data, operator, limit, last: Mutex::default() })
    }

    /// How the last request ended.
    pub(crate) fn last(&self) -> Option<LastResponse> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    fn record(&self, is_for_credentials: bool, answer: Result<Answer, FailureKind>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(LastResponse { is_for_credentials, answer });
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, FailureKind> {
        let (parts, body) = request.into_parts();
        let target = Target::from_uri(&parts.uri)?;
        let is_for_credentials = !target.is_same_origin(&self.data);
        let is_operators = |own: &Target| own.is_same_origin(&target);
        let behalf = if is_for_credentials && self.operator.iter().any(is_operators) {
            Principal::Operator
        } else {
            Principal::Config
        };
        let body = body.collect().await.map_err(|error| broken(&error))?;
        let response =
            self.transport.send(&self.link, behalf, &target, parts.method, parts.headers, body.to_bytes()).await?;
        let (mut parts, reply) = response.into_parts();
        let region = parts.headers.get(BUCKET_REGION);
        let region = region.and_then(|region| region.to_str().ok());
        let mut answer = Answer { code: parts.status.as_u16(), detail: None, region: region.map(str::to_owned) };
        let bytes = if parts.status.is_success() {
            let limit = if is_for_credentials { MAX_CREDENTIALS_BYTES } else { self.limit };
            reply.read(limit).await?
        } else {
            let beginning = reply.beginning(MAX_ERROR_BYTES).await;
            answer.detail = error_code(&beginning);
            Bytes::from(beginning)
        };
        self.record(is_for_credentials, Ok(answer));
        // The libraries insist on these, although nothing here depends on them; a server may
        // leave them out.
        let length = HeaderValue::from(bytes.len());
        parts.headers.insert(CONTENT_LENGTH, length);
        for (name, value) in [(ETAG, "\"\""), (LAST_MODIFIED, "Thu, 01 Jan 1970 00:00:00 GMT")] {
            let value = HeaderValue::from_static(value);
            parts.headers.entry(name).or_insert(value);
        }
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("data", &self.data).finish_non_exhaustive()
    }
}

/// The code in an XML error answer; nothing that could carry a secret.
fn error_code(beginning: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(beginning);
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_code.then(|| code.to_owned())
}

fn broken(error: &HttpError) -> FailureKind {
    FailureKind::Transport { reason: error.to_string() }
}

// === impl Connector ===

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Client(self.0.clone())))
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_for_credentials = match Target::from_uri(request.uri()) {
            Ok(target) => !target.is_same_origin(&self.0.data),
            Err(_) => false,
        };
        self.0.send(request).await.map_err(|failure| {
            let error = HttpError::new(HttpErrorKind::Unknown, failure.clone());
            self.0.record(is_for_credentials, Err(failure));
            error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_code_is_taken_from_an_error_answer() {
        let code = |text: &str| error_code(text.as_bytes());
        let xml = "<Error><Code>AccessDenied</Code><Message>x</Message></Error>";
        assert_eq!(code(xml).as_deref(), Some("AccessDenied"));
        assert_eq!(code("<Code>a secret: b</Code>"), None);
        assert_eq!(code("<Code>cut off"), None);
        assert_eq!(code("{}"), None);
    }
}
