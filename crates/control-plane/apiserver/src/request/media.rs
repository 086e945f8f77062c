//! Content negotiation: the format that a client accepts and the format of its body.
//!
//! JSON and YAML are read and written. Protobuf is read, because clients that send it do not retry with JSON, but never
//! written. CBOR is refused in the way that makes clients fall back to JSON.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::response::status::Failure;

/// The media types of responses, for messages.
pub const RESPONSE_MEDIA_TYPES: &str = "application/json, application/yaml";

/// The media types of request bodies, for messages.
const REQUEST_MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The serialisation of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// The representation of an object in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The object as it is.
    Whole,
    /// Rows and columns, as `kubectl get` prints them.
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
}

/// The result of content negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegotiatedFormat {
    pub format: Format,
    pub shape: Shape,
    /// Whether aggregated discovery is accepted.
    pub aggregated: bool,
    /// Whether `v1beta1` of tables and metadata is requested.
    pub is_beta: bool,
}

/// Whether the client prefers one of these types to the formats that the server has for everything.
pub fn prefers(headers: &HeaderMap, types: &[&str]) -> Result<bool, Failure> {
    let ranges = ranges(headers);
    let best = ranges.iter().find(|range| types.contains(&range.media) || range.accepted(false).is_some());
    match best {
        Some(range) => Ok(types.contains(&range.media)),
        None => NegotiatedFormat::choose(headers, false).map(|_| false),
    }
}

/// The accepted media ranges, the preferred first.
fn ranges(headers: &HeaderMap) -> Vec<Range<'_>> {
    let mut ranges = Vec::new();
    for value in headers.get_all(ACCEPT) {
        // A header that is not text names no known format.
        ranges.extend(value.to_str().unwrap_or_default().split(',').filter_map(Range::parse));
    }
    // Equal weights keep the client's order.
    ranges.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    ranges
}

impl NegotiatedFormat {
    /// The API version of tables and partial metadata.
    pub fn meta_version(&self) -> &'static str {
        if self.is_beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
    }

    /// Plain JSON.
    pub const JSON: NegotiatedFormat =
        NegotiatedFormat { format: Format::Json, shape: Shape::Whole, aggregated: false, is_beta: false };

    /// Chooses from the accepted media types. `shapes`: whether tables and partial metadata are available here.
    pub fn choose(headers: &HeaderMap, shapes: bool) -> Result<NegotiatedFormat, Failure> {
        let ranges = ranges(headers);
        if ranges.is_empty() {
            return Ok(NegotiatedFormat::JSON);
        }
        if let Some(accepted) = ranges.iter().find_map(|range| range.accepted(shapes)) {
            return Ok(accepted);
        }
        if ranges.iter().any(|range| range.format().is_some()) {
            return Err(Failure::not_acceptable(format!(
                "only the following media types are accepted: {RESPONSE_MEDIA_TYPES}"
            )));
        }
        let mut failure = Failure::not_acceptable(format!(
            "406: Not Acceptable\n\nAvailable representations: {RESPONSE_MEDIA_TYPES}"
        ));
        failure.details = Some(Box::default());
        Err(failure)
    }
}

impl Format {
    /// The header's value.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        }
    }

    /// The format of a request's body; JSON without a content type.
    pub fn of_body(headers: &HeaderMap) -> Result<BodyFormat, Failure> {
        match media_type(headers).as_deref() {
            None | Some("" | "application/json") => Ok(BodyFormat::Json),
            Some("application/yaml") => Ok(BodyFormat::Yaml),
            Some("application/vnd.kubernetes.protobuf") => Ok(BodyFormat::Protobuf),
            Some(_) => Err(Failure::unsupported_media_type(REQUEST_MEDIA_TYPES)),
        }
    }
}

/// The format of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, for built-in kinds.
    Protobuf,
}

impl From<Format> for BodyFormat {
    fn from(format: Format) -> BodyFormat {
        match format {
            Format::Json => BodyFormat::Json,
            Format::Yaml => BodyFormat::Yaml,
        }
    }
}

/// The format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// Merging by the schema's keys.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// The kind of patch that a request's body is.
    pub fn of_body(headers: &HeaderMap) -> Result<PatchKind, Failure> {
        match media_type(headers).as_deref() {
            Some("application/json-patch+json") => Ok(PatchKind::Json),
            Some("application/merge-patch+json") => Ok(PatchKind::Merge),
            Some("application/strategic-merge-patch+json") => Ok(PatchKind::Strategic),
            Some("application/apply-patch+yaml") => Ok(PatchKind::Apply),
            _ => Err(Failure::unsupported_patch()),
        }
    }
}

/// The content type without parameters, in lower case.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// One entry of an `Accept` header.
struct Range<'h> {
    media: &'h str,
    weight: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Range<'h> {
    fn parse(text: &'h str) -> Option<Range<'h>> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().filter(|media| !media.is_empty())?;
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let weight = parameters.iter().find(|(key, _)| *key == "q").map_or(Some(1.0), |(_, q)| q.parse().ok());
        Some(Range { media, weight: weight.filter(|q: &f32| q.is_finite()).unwrap_or(0.0), parameters })
    }

    fn format(&self) -> Option<Format> {
        match self.media {
            "application/json" | "*/*" | "application/*" => Some(Format::Json),
            "application/yaml" => Some(Format::Yaml),
            _ => None,
        }
    }

    fn parameter(&self, key: &str) -> Option<&'h str> {
        self.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    fn accepted(&self, shapes: bool) -> Option<NegotiatedFormat> {
        let format = self.format()?;
        let (group, version) = (self.parameter("g"), self.parameter("v"));
        let plain = NegotiatedFormat { format, shape: Shape::Whole, aggregated: false, is_beta: false };
        match self.parameter("as") {
            None => Some(plain),
            Some("APIGroupDiscoveryList") => {
                let known = group == Some("apidiscovery.k8s.io") && version == Some("v2");
                known.then_some(NegotiatedFormat { aggregated: true, ..plain })
            }
            Some(word) => {
                let known = shapes && group == Some("meta.k8s.io") && matches!(version, Some("v1" | "v1beta1"));
                let shape = match word {
                    "Table" => Shape::Table,
                    "PartialObjectMetadata" => Shape::Metadata,
                    "PartialObjectMetadataList" => Shape::MetadataList,
                    _ => return None,
                };
                known.then_some(NegotiatedFormat { shape, is_beta: version == Some("v1beta1"), ..plain })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn accept(value: &str) -> HeaderMap {
        [(ACCEPT, value.parse().unwrap())].into_iter().collect()
    }

    #[rstest]
    #[case("*/*", Format::Json, Shape::Whole)]
    #[case("text/html, application/json;q=0.5", Format::Json, Shape::Whole)]
    #[case("application/json;q=0.1, application/yaml", Format::Yaml, Shape::Whole)]
    #[case("application/vnd.kubernetes.protobuf,application/json", Format::Json, Shape::Whole)]
    #[case("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Format::Json, Shape::Table)]
    #[case("application/cbor;as=Table;v=v1;g=meta.k8s.io,application/json", Format::Json, Shape::Whole)]
    fn best_format_that_we_have_is_chosen(#[case] header: &str, #[case] format: Format, #[case] shape: Shape) {
        let accepted = NegotiatedFormat::choose(&accept(header), true).unwrap();
        assert_eq!((accepted.format, accepted.shape), (format, shape));
    }

    #[rstest]
    #[case("text/html")]
    #[case("application/vnd.kubernetes.protobuf")]
    #[case("application/json;as=Unknown;g=meta.k8s.io;v=v1")]
    fn client_that_takes_nothing_of_ours_gets_406(#[case] header: &str) {
        assert_eq!(NegotiatedFormat::choose(&accept(header), true).unwrap_err().code, 406);
    }

    #[rstest]
    #[case("a/pb", Some(true))]
    #[case("a/pb, application/json", Some(true))]
    #[case("application/json, a/pb", Some(false))]
    #[case("application/json;q=0.5, a/pb", Some(true))]
    #[case("*/*", Some(false))]
    #[case("text/html", None)]
    fn special_type_is_chosen_where_it_is_liked_best(#[case] header: &str, #[case] wanted: Option<bool>) {
        assert_eq!(prefers(&accept(header), &["a/pb"]).ok(), wanted);
    }

    #[test]
    fn charset_of_a_body_does_not_matter() {
        let headers = [(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap())].into_iter().collect();
        assert_eq!(Format::of_body(&headers).unwrap(), BodyFormat::Json);
    }

    #[test]
    fn protobuf_is_read_and_never_written() {
        let media = "application/vnd.kubernetes.protobuf";
        let headers = [(CONTENT_TYPE, media.parse().unwrap())].into_iter().collect();
        assert_eq!(Format::of_body(&headers).unwrap(), BodyFormat::Protobuf);
        assert_eq!(NegotiatedFormat::choose(&accept(media), false).unwrap_err().code, 406);
        assert_eq!(PatchKind::of_body(&headers).unwrap_err().code, 415);
    }

    #[rstest]
    #[case("application/cbor")]
    #[case("text/plain")]
    fn body_in_another_format_gets_415(#[case] value: &str) {
        let headers = [(CONTENT_TYPE, value.parse().unwrap())].into_iter().collect();
        assert_eq!(Format::of_body(&headers).unwrap_err().code, 415);
    }
}
