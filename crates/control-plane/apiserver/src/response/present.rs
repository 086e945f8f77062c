//! Stored objects as the client wants to see them: in its version, whole, as metadata, or as a table.
//!
//! The common case copies nothing: the stored bytes are the answer.

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use seaworthy_store::Record;
use serde_json::{Value, json};

use crate::object::{self, Metadata, Object};
use crate::request::media::{Accepted, Format, Shape};
use crate::request::options::Query;
use crate::resource::{Origin, Resource};
use crate::response::status::Failure;
use crate::server::decode;

/// What separates the part that depends on the version from the rest. Neither versions nor kinds contain quotes.
const METADATA: &[u8] = b"\"metadata\":";
/// What stands before the revision in every stored object.
const REVISION: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";

/// The object's bytes from `"metadata":` on, which are the same in every version.
pub fn after_kind(body: &Bytes) -> Bytes {
    // Every stored object has it; one that had not would be served whole.
    let at = body.windows(METADATA.len()).position(|window| window == METADATA).unwrap_or(0);
    body.slice(at..)
}

/// The object in the version of this resource.
pub fn in_version(resource: &Resource, body: &Bytes) -> Bytes {
    if resource.is_ready(body) {
        return body.clone();
    }
    if let Origin::Custom(custom) = &resource.origin {
        // What was stored is JSON.
        let stored: Object = serde_json::from_slice(body).unwrap_or_default();
        return bytes_of(&custom.family.shown(custom.form, stored));
    }
    if let Some(kept_as) = resource.kept_as() {
        // What was stored is JSON.
        let kept: Object = serde_json::from_slice(body).unwrap_or_default();
        let shown = kept_as.shown(&kept, &resource.api_version);
        return bytes_of(&shown);
    }
    let rest = after_kind(body);
    let mut bytes = BytesMut::with_capacity(resource.prefix.len() + rest.len());
    bytes.put_slice(&resource.prefix);
    bytes.put(rest);
    bytes.freeze()
}

fn bytes_of(object: &Object) -> Bytes {
    let encoded = object::encode(object);
    let mut bytes = BytesMut::from(&encoded.bytes[..encoded.hole]);
    bytes.put_slice(object.revision_text().as_bytes());
    bytes.put_slice(&encoded.bytes[encoded.hole..]);
    bytes.freeze()
}

/// The object with another revision.
pub fn at_revision(body: &Bytes, revision: u64) -> Bytes {
    let Some(at) = body.windows(REVISION.len()).position(|window| window == REVISION) else { return body.clone() };
    let start = at + REVISION.len();
    let end = start + body[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = revision.to_string();
    let mut bytes = BytesMut::with_capacity(body.len() + digits.len());
    bytes.put_slice(&body[..start]);
    bytes.put_slice(digits.as_bytes());
    bytes.put_slice(&body[end..]);
    bytes.freeze()
}

/// `PartialObjectMetadata` of an object.
pub fn metadata_only(object: &Object, accepted: Accepted) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": accepted.meta_version(), "metadata": object.metadata()})
}

/// What each row of a table carries beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    /// The metadata.
    Metadata,
    /// Everything.
    Object,
    /// Nothing.
    None,
}

impl Include {
    /// Reads `includeObject`.
    pub fn read(query: &Query) -> Result<Include, Failure> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            "None" => Ok(Include::None),
            other => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

/// How a table is made.
#[derive(Debug, Clone, Copy)]
pub struct Tabling {
    /// What rows carry.
    pub include: Include,
    /// Which version of tables is meant.
    pub accepted: Accepted,
    /// For ages.
    pub now: Timestamp,
    /// Whether columns are defined: a watch does so once.
    pub has_columns: bool,
}

/// A table of objects.
pub fn table(resource: &Resource, objects: &[Object], list: Value, tabling: Tabling) -> Value {
    let Tabling { include, accepted, now, has_columns } = tabling;
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": resource.cells(object, now)});
            match include {
                Include::Metadata => row["object"] = metadata_only(object, accepted),
                Include::Object => row["object"] = Value::Object(object.clone()),
                Include::None => row["object"] = Value::Null,
            }
            row
        })
        .collect();
    let columns = if has_columns { Value::from(resource.columns()) } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": accepted.meta_version(), "metadata": list, "columnDefinitions": columns,
        "rows": rows,
    })
}

/// One object as the client wants it.
pub fn one(
    resource: &Resource,
    record: &Record,
    accepted: Accepted,
    query: &Query,
    now: Timestamp,
) -> Result<Bytes, Failure> {
    let served = in_version(resource, &record.body());
    if accepted.shape == Shape::Whole && accepted.format == Format::Json {
        return Ok(served);
    }
    // What was stored is JSON.
    let object: Object = serde_json::from_slice(&served).unwrap_or_else(|_| decode(record));
    shaped(resource, object, accepted, query, now)
}

/// An object that is not, or not yet, stored, as the client wants it.
pub fn shaped(
    resource: &Resource,
    object: Object,
    accepted: Accepted,
    query: &Query,
    now: Timestamp,
) -> Result<Bytes, Failure> {
    let value = match accepted.shape {
        Shape::Whole => Value::Object(object),
        Shape::Metadata => metadata_only(&object, accepted),
        Shape::MetadataList => {
            return Err(Failure::not_acceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list",
            ));
        }
        Shape::Table => {
            let list = json!({"resourceVersion": object.revision_text()});
            let include = Include::read(query)?;
            table(resource, &[object], list, Tabling { include, accepted, now, has_columns: true })
        }
    };
    Ok(text(&value, accepted.format))
}

/// A value in the client's format.
pub fn text(value: &Value, format: Format) -> Bytes {
    match format {
        Format::Json => value.to_string().into(),
        // A JSON value always has a YAML form; if the writer disagrees, JSON is YAML too.
        Format::Yaml => serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string()).into(),
    }
}
