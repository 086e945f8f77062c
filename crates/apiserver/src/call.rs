//! A request that has found its resource: everything that a verb may look at.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::access::Identity;
use crate::body::Body;
use crate::media::{Accepted, Format};
use crate::options::Query;
use crate::request::ResourcePath;
use crate::resource::Resource;
use crate::server::Server;
use crate::status::Failure;

/// A request on a resource.
pub struct Call {
    /// The server.
    pub server: Server,
    /// What it is about.
    pub resource: Arc<Resource>,
    /// Where exactly.
    pub path: ResourcePath,
    /// The query.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// Who asks.
    pub identity: Identity,
    /// How the answer is wanted.
    pub accepted: Accepted,
    /// The body, empty for none.
    pub body: Bytes,
}

/// An answer that went well.
pub struct Answer {
    /// 200 or 201.
    pub status: StatusCode,
    /// Its text form.
    pub format: Format,
    /// What it says.
    pub body: Body,
    /// What the client should know beside.
    pub warnings: Vec<String>,
}

impl Answer {
    /// 200 with this body.
    pub fn ok(format: Format, body: impl Into<Body>) -> Answer {
        Answer { status: StatusCode::OK, format, body: body.into(), warnings: Vec::new() }
    }

    /// As HTTP has it.
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let content_type = HeaderValue::from_static(self.format.content_type());
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        add_warnings(response.headers_mut(), &self.warnings);
        response
    }
}

impl Failure {
    /// As HTTP has it.
    pub fn into_response(self, warnings: &[String]) -> Response<Body> {
        let mut response = Response::new(Body::from(self.to_json().to_string()));
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(Format::Json.content_type()));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        add_warnings(headers, warnings);
        response
    }
}

fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings {
        let quoted: String = warning
            .chars()
            .flat_map(|letter| match letter {
                '"' | '\\' => vec!['\\', letter],
                control if control.is_control() => vec![' '],
                plain => vec![plain],
            })
            .collect();
        // Text without control characters is a header value; what still is none is not worth failing for.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(WARNING, value);
        }
    }
}
