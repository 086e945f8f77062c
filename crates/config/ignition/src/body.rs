//! Bodies: the bytes of file contents that are embedded in the config itself.

use std::borrow::Cow;

use crate::data_url::{self, DataUrlError};
use crate::gzip::{self, GzipError};
use crate::node::{Node, quote};
use crate::url::quote_url;

/// Why the bytes of a body cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// There is no source: an existing file at the path keeps its content.
    #[error("there is no source")]
    NoSource,
    /// The bytes lie elsewhere.
    #[error("the content is not in the config but at {}", quote_url(url))]
    Remote {
        /// Where they lie.
        url: String,
    },
    /// The data URL cannot be decoded.
    #[error(transparent)]
    DataUrl(#[from] DataUrlError),
    /// The content cannot be unpacked.
    #[error(transparent)]
    Gzip(#[from] GzipError),
    /// The compression method is unknown.
    #[error("the compression {} is unknown; expected \"gzip\"", quote(found))]
    Compression { found: String },
}

/// The bytes that a file of spec 3.5 is written with, at most `limit` of them when they are packed.
///
/// What is appended to the file is not part of them; see [`bytes_of`] for that.
pub fn body_of<'n>(file: &'n Node<'_>, limit: u64) -> Result<Cow<'n, [u8]>, BodyError> {
    match file.get("contents") {
        Some(contents) => bytes_of(contents, limit),
        None => Err(BodyError::NoSource),
    }
}

/// The bytes of one body: `contents`, an entry of `append`, `keyFile`.
pub fn bytes_of<'n>(body: &'n Node<'_>, limit: u64) -> Result<Cow<'n, [u8]>, BodyError> {
    let source = body.str_of("source").ok_or(BodyError::NoSource)?;
    let bytes = if source.is_empty() {
        // An empty source is an empty body; older versions have no other way to say it.
        Cow::Borrowed(&[] as &[u8])
    } else if source.starts_with("data:") {
        data_url::decode(source)?
    } else {
        return Err(BodyError::Remote { url: source.to_owned() });
    };
    match body.text_of("compression") {
        "" => Ok(bytes),
        "gzip" if bytes.is_empty() => Ok(bytes),
        "gzip" => Ok(Cow::Owned(gzip::unpack(&bytes, limit)?)),
        found => Err(BodyError::Compression { found: found.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn body(contents: serde_json::Value) -> Result<Vec<u8>, BodyError> {
        let file = json!({"path": "/a", "contents": contents});
        body_of(&Node::from_json(&file), 100).map(Cow::into_owned)
    }

    #[rstest]
    #[case(json!({"source": "data:,a%20b"}), b"a b")]
    #[case(json!({"source": "data:;base64,YQ=="}), b"a")]
    #[case(json!({"source": ""}), b"")]
    #[case(json!({"source": "data:,", "compression": "gzip"}), b"")]
    #[case(json!({"source": "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==", "compression": "gzip"}), b"packed text")]
    fn bytes_of_a_data_url_are_had(#[case] contents: serde_json::Value, #[case] expected: &[u8]) {
        assert_eq!(body(contents).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_fetched_gives_the_reason() {
        assert_eq!(body(json!({})), Err(BodyError::NoSource));
        let remote = body(json!({"source": "http://h/a"})).unwrap_err();
        assert_eq!(remote.to_string(), "the content is not in the config but at \"http://h/a\"");
        let secret = body(json!({"source": "http://u:hunter2@h/a?sig=hunter2"})).unwrap_err();
        assert_eq!(secret.to_string(), "the content is not in the config but at \"http://h/a?sig=…\"");
        assert!(matches!(body(json!({"source": "data:x"})), Err(BodyError::DataUrl(_))));
        let plain = json!({"source": "data:,x", "compression": "gzip"});
        assert!(matches!(body(plain), Err(BodyError::Gzip(GzipError::Malformed(_)))));
        let unknown = json!({"source": "data:,x", "compression": "xz"});
        assert!(matches!(body(unknown), Err(BodyError::Compression { .. })));
    }
}
