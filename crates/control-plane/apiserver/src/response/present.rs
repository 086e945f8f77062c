//! Presentation of stored objects: in the version of the client, whole, as metadata, or as a table.
//!
//! The common case copies nothing: the stored bytes are the answer.

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use seaworthy_store::Record;
use serde_json::{Value, json};

use crate::object::{self, Metadata, Object};
use crate::request::media::{Format, NegotiatedFormat, Shape};
use crate::request::options::Query;
use crate::resource::{Origin, Resource};
use crate::response::status::Failure;

/// The start of the version-independent part. Neither versions nor kinds contain quotes.
const METADATA_KEY: &[u8] = b"\"metadata\":";
/// The bytes before the revision in every stored object.
const REVISION_KEY: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";

/// The object's bytes from `"metadata":` on, which are the same in every version.
pub fn after_kind(body: &Bytes) -> Bytes {
    // Every stored object has it; one that had not would be served whole.
    let at = body.windows(METADATA_KEY.len()).position(|window| window == METADATA_KEY).unwrap_or(0);
    body.slice(at..)
}

/// A stored object in the version of this resource.
pub fn in_version(resource: &Resource, body: &Bytes) -> Bytes {
    if resource.is_served_as_stored(body) {
        return body.clone();
    }
    if resource.is_custom() || resource.stored_as().is_some() {
        return bytes_of(&object(resource, body));
    }
    let rest = after_kind(body);
    let mut bytes = BytesMut::with_capacity(resource.prefix.len() + rest.len());
    bytes.put_slice(&resource.prefix);
    bytes.put(rest);
    bytes.freeze()
}

/// The same, parsed.
pub fn object(resource: &Resource, body: &Bytes) -> Object {
    // Stored objects are JSON.
    let stored = serde_json::from_slice(body).unwrap_or_default();
    match resource.is_served_as_stored(body) {
        true => stored,
        false => converted(resource, stored),
    }
}

fn converted(resource: &Resource, mut stored: Object) -> Object {
    match (&resource.origin, resource.stored_as()) {
        (Origin::Custom(custom), _) => custom.versions.to_served(custom.index, stored),
        (Origin::BuiltIn(_), Some(stored_as)) => stored_as.to_served(&stored, &resource.api_version),
        (Origin::BuiltIn(_), None) => {
            stored.insert("apiVersion".to_owned(), (*resource.api_version).into());
            stored.insert("kind".to_owned(), (*resource.kind).into());
            stored
        }
    }
}

fn bytes_of(object: &Object) -> Bytes {
    let encoded = object::encode(object);
    let mut bytes = BytesMut::from(&encoded.bytes[..encoded.revision_offset]);
    bytes.put_slice(object.revision_text().as_bytes());
    bytes.put_slice(&encoded.bytes[encoded.revision_offset..]);
    bytes.freeze()
}

/// The object with another revision.
pub fn at_revision(body: &Bytes, revision: u64) -> Bytes {
    let Some(at) = body.windows(REVISION_KEY.len()).position(|window| window == REVISION_KEY) else {
        return body.clone();
    };
    let start = at + REVISION_KEY.len();
    let end = start + body[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = revision.to_string();
    let mut bytes = BytesMut::with_capacity(body.len() + digits.len());
    bytes.put_slice(&body[..start]);
    bytes.put_slice(digits.as_bytes());
    bytes.put_slice(&body[end..]);
    bytes.freeze()
}

/// `PartialObjectMetadata` of an object.
pub fn metadata_only(object: &Object, accepted: NegotiatedFormat) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": accepted.meta_version(), "metadata": object.metadata()})
}

/// `includeObject`: the object in each row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    Metadata,
    /// Everything.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Reads `includeObject`.
    pub fn read(query: &Query) -> Result<IncludeObject, Failure> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Options of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableOptions {
    pub include: IncludeObject,
    /// Decides the API version of the table.
    pub accepted: NegotiatedFormat,
    /// For ages.
    pub now: Timestamp,
    /// Whether to include column definitions: a watch does so once.
    pub has_columns: bool,
}

/// A table of objects.
pub fn table(resource: &Resource, objects: &[Object], list: Value, options: TableOptions) -> Value {
    let TableOptions { include, accepted, now, has_columns } = options;
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": resource.cells(object, now)});
            match include {
                IncludeObject::Metadata => row["object"] = metadata_only(object, accepted),
                IncludeObject::Object => row["object"] = Value::Object(object.clone()),
                IncludeObject::None => row["object"] = Value::Null,
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

/// A stored object in the negotiated representation.
pub fn one(
    resource: &Resource,
    record: &Record,
    accepted: NegotiatedFormat,
    query: &Query,
    now: Timestamp,
) -> Result<Bytes, Failure> {
    if accepted.shape == Shape::Whole && accepted.format == Format::Json {
        return Ok(in_version(resource, &record.body()));
    }
    shaped(resource, object(resource, &record.body()), accepted, query, now)
}

/// An object that is not stored, in the negotiated representation.
pub fn shaped(
    resource: &Resource,
    object: Object,
    accepted: NegotiatedFormat,
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
            let include = IncludeObject::read(query)?;
            table(resource, &[object], list, TableOptions { include, accepted, now, has_columns: true })
        }
    };
    Ok(text(&value, accepted.format))
}

/// A value serialised in the negotiated format.
pub fn text(value: &Value, format: Format) -> Bytes {
    match format {
        Format::Json => value.to_string().into(),
        // Every JSON value has a YAML form; on an error, JSON is valid YAML too.
        Format::Yaml => serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string()).into(),
    }
}
