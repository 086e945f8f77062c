//! Non-resource endpoints: health, version, discovery documents, OpenAPI.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::request::media::{self, Format, NegotiatedFormat};
use crate::resource::registry::Registry;
use crate::response::Body;
use crate::response::status::Failure;

use super::{openapi, swagger, version};

/// Serves a path that names no resource.
pub fn serve(registry: &Registry, method: &Method, path: &str, headers: &HeaderMap) -> Result<Response<Body>, Failure> {
    if path.starts_with("//") {
        return Ok(not_found_page());
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let found = match parts.as_slice() {
        _ if path.contains("//") => None,
        ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping"] => {
            return Ok(answered("text/plain; charset=utf-8", "ok"));
        }
        ["version"] => Some(version::version()),
        ["api"] | ["apis"] if NegotiatedFormat::choose(headers, false)?.aggregated => {
            let list = super::aggregated(registry, parts == ["api"]);
            return Ok(answered(super::AGGREGATED, list.to_string()));
        }
        ["openapi", "v2"] => {
            return Ok(match media::prefers(headers, &[swagger::PROTOBUF, swagger::PROTOBUF_LEGACY])? {
                true => answered(swagger::PROTOBUF, swagger::binary(registry)),
                false => answered(Format::Json.content_type(), swagger::document(registry)),
            });
        }
        ["openapi", "v3"] => return Ok(answered(Format::Json.content_type(), registry.openapi_index())),
        ["openapi", "v3", "api", version] => openapi::document(registry, "", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(registry, group, version),
        ["api"] => Some(super::core_versions()),
        ["apis"] => Some(super::groups(registry)),
        ["api", version] => super::resources(registry, "", version),
        ["apis", group] => super::group(registry, group),
        ["apis", group, version] => super::resources(registry, group, version),
        _ => None,
    };
    // Compat: non-resource paths are answered for every method, with these exceptions.
    let is_strict = matches!(parts.as_slice(), ["version"] | ["api", ..] | ["apis", _, _]);
    match (found, parts.as_slice()) {
        (Some(_), _) if is_strict && *method != Method::GET => Err(Failure::method_not_allowed()),
        (Some(found), _) => Ok(answered(Format::Json.content_type(), found.to_string())),
        (None, ["api", ..]) => Err(Failure::unknown_path()),
        (None, ["apis", group, ..]) if registry.has_built_in(group) => Err(Failure::unknown_path()),
        (None, _) => Ok(not_found_page()),
    }
}

/// The response outside of the served groups, where kube-apiserver answers plain text: clients without a `Status` build
/// their own, which names the requested resource.
pub fn not_found_page() -> Response<Body> {
    let mut response = answered("text/plain; charset=utf-8", "404 page not found\n");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn answered(content_type: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
