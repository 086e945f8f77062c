//! Responses: answers and failures as HTTP, and stored objects in the form that the client asked for.

mod body;
pub mod present;
pub mod status;
pub mod table;

pub use body::Body;

use std::collections::HashSet;

use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::request::media::Format;
use crate::response::status::Failure;

/// The answer to a request that succeeded.
pub struct Answer {
    /// 200 or 201.
    pub status: StatusCode,
    pub format: Format,
    pub body: Body,
    pub warnings: Vec<String>,
}

impl Answer {
    /// 200 with this body.
    pub fn ok(format: Format, body: impl Into<Body>) -> Answer {
        Answer { status: StatusCode::OK, format, body: body.into(), warnings: Vec::new() }
    }

    /// The answer with additional warnings.
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Answer {
        self.warnings.extend(warnings);
        self
    }

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

/// The most characters of all warnings of a response, and the length to which each is cut beyond that: clients limit
/// headers. The numbers are the real server's.
const MAX_WARNINGS_LENGTH: usize = 4096;
const MAX_WARNING_LENGTH: usize = 256;

fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let mut known = HashSet::new();
    let warnings: Vec<&String> = warnings.iter().filter(|warning| known.insert(*warning)).collect();
    let letters = |text: &str| text.chars().count();
    let is_too_much = warnings.iter().map(|warning| letters(warning)).sum::<usize>() > MAX_WARNINGS_LENGTH;
    let mut room = MAX_WARNINGS_LENGTH;
    for warning in warnings {
        let length = if is_too_much { MAX_WARNING_LENGTH.min(letters(warning)) } else { letters(warning) };
        let Some(left) = room.checked_sub(length) else { break };
        room = left;
        let warning: String = warning.chars().take(length).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn warning_headers(warnings: &[String]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, warnings);
        headers.get_all(WARNING).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn warning_is_sent_once() {
        assert_eq!(
            warning_headers(&["a".to_owned(), "b \"c\"".to_owned(), "a".to_owned()]),
            ["299 - \"a\"", "299 - \"b \\\"c\\\"\"",]
        );
    }

    #[test]
    fn warnings_take_no_more_room_than_clients_have() {
        let long: Vec<String> = (0..100_000).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
        let headers = warning_headers(&long);
        assert_eq!(headers.len(), 16);
        assert!(headers.iter().all(|warning| warning.len() == "299 - \"\"".len() + MAX_WARNING_LENGTH));
    }
}
