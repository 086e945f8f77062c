//! List (GET): reads the objects of a collection, page by page.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use seaworthy_store::{Key, ReadError, Record};
use serde_json::{Value, json};

use crate::object::Object;
use crate::request::Call;
use crate::request::media::{Format, Shape};
use crate::request::options::{ListOptions, RevisionMatch};
use crate::resource::Resource;
use crate::response::Answer;
use crate::response::Body;
use crate::response::present::{self, IncludeObject, TableOptions};
use crate::response::status::Failure;

/// The approximate size of response chunks: a few per thousand objects, and never the whole list at once.
const CHUNK_SIZE: usize = 64 * 1024;

/// The records that a request selects.
pub struct RecordFilter<'c> {
    resource: &'c Resource,
    options: &'c ListOptions,
    namespace: &'c str,
    name: Option<&'c str>,
}

impl<'c> RecordFilter<'c> {
    /// The filter of a call. Field selectors that the kind does not support are refused.
    pub fn new(call: &'c Call, options: &'c ListOptions) -> Result<RecordFilter<'c>, Failure> {
        let resource = &*call.resource;
        let offered = resource.selectable_labels();
        for field in options.fields.fields() {
            let known = match field {
                "metadata.name" => true,
                "metadata.namespace" => resource.behaviour().selects_namespace,
                field => offered.contains(&field),
            };
            if !known {
                return Err(Failure::bad_request(if offered.is_empty() && !resource.is_custom() {
                    let only = "only \"metadata.name\", \"metadata.namespace\"";
                    format!("{field:?} is not a known field selector: {only}")
                } else {
                    format!("field label not supported: {field}")
                }));
            }
        }
        Ok(RecordFilter::from_checked(resource, &call.path.namespace, &call.path.name, options))
    }

    /// The filter without checks, for each event of a watch: its fields were checked when it began. Namespace and name
    /// are those of the path, empty for none.
    pub fn from_checked(
        resource: &'c Resource,
        namespace: &'c str,
        name: &'c str,
        options: &'c ListOptions,
    ) -> RecordFilter<'c> {
        let name = match name {
            "" => options.fields.required("metadata.name"),
            name => Some(name),
        };
        RecordFilter { resource, options, namespace, name }
    }

    /// Whether every object of the namespace matches.
    pub fn is_all(&self) -> bool {
        self.name.is_none() && self.options.labels.is_everything() && self.options.fields.is_everything()
    }

    /// The namespace to read; none for all.
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace)
    }

    pub fn matches(&self, record: &Record) -> bool {
        (self.namespace.is_empty() || *record.key.namespace == *self.namespace)
            && self.name.is_none_or(|name| *record.key.name == *name)
            && self.options.labels.matches(|label| record.tags.label(label))
            && self.has_fields(record)
    }

    fn has_fields(&self, record: &Record) -> bool {
        let selector = &self.options.fields;
        if selector.is_everything() {
            return true;
        }
        // The index of an object that was written with an older schema may be out of date.
        let fresh: Option<Vec<(&str, String)>> =
            (self.resource.is_custom() && !self.resource.is_served_as_stored(&record.body())).then(|| {
                let object = Value::Object(present::object(self.resource, &record.body()));
                selector.fields().filter_map(|field| Some((field, self.resource.selectable(&object, field)?))).collect()
            });
        selector.matches(|field| match (field, &fresh) {
            ("metadata.name", _) => Some(&*record.key.name),
            ("metadata.namespace", _) => Some(&*record.key.namespace),
            (field, Some(fresh)) => fresh.iter().find(|(own, _)| *own == field).map(|(_, value)| value.as_str()),
            (field, None) => record.tags.field(field),
        })
    }
}

/// One page of a list.
struct ListPage {
    records: Vec<Arc<Record>>,
    revision: u64,
    next: Option<Key>,
    remaining: Option<usize>,
}

/// Answers a list.
pub fn list(call: &Call) -> Result<Answer, Failure> {
    shown(call, found(call)?)
}

/// Answers a list, with the records in it.
pub fn list_of(call: &Call) -> Result<(Answer, Vec<Arc<Record>>), Failure> {
    let found = found(call)?;
    let records = found.records.clone();
    Ok((shown(call, found)?, records))
}

fn found(call: &Call) -> Result<ListPage, Failure> {
    let options = ListOptions::read(&call.query, false)?;
    let wanted = RecordFilter::new(call, &options)?;
    find(call, &options, &wanted)
}

fn shown(call: &Call, found: ListPage) -> Result<Answer, Failure> {
    let mut metadata = json!({"resourceVersion": found.revision.to_string()});
    if let Some(next) = &found.next {
        let token = ContinueToken { revision: Some(found.revision), after: next.clone() };
        metadata["continue"] = token.written(&call.path.namespace).into();
    }
    if let Some(remaining) = found.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    present(call, found.records, metadata)
}

fn find(call: &Call, options: &ListOptions, wanted: &RecordFilter<'_>) -> Result<ListPage, Failure> {
    let store = call.server.store();
    let newest = store.revision();
    let (at, after) = match (&options.continue_token, options.revision, options.revision_match) {
        (Some(_), Some(asked), _) if asked != 0 => {
            let why = "specifying resource version is not allowed when using continue";
            return Err(Failure::bad_request(why));
        }
        (Some(token), _, _) => {
            let token = ContinueToken::parse(token, &call.resource.storage, &call.path.namespace)
                .ok_or_else(|| Failure::bad_request("invalid continue token: continue key is not valid"))?;
            (token.revision, Some(token.after))
        }
        (None, Some(asked), Some(RevisionMatch::Exact)) => (Some(asked), None),
        // The pages of a list must have the same revision.
        (None, Some(asked), None) if asked != 0 && options.limit.is_some() => (Some(asked), None),
        (None, Some(asked), _) if asked > newest => return Err(Failure::revision_too_large(asked, newest)),
        _ => (None, None),
    };
    if at.is_none() && options.limit.is_none() {
        let snapshot = store.list(&call.resource.storage, wanted.namespace());
        let mut records = snapshot.records;
        if !wanted.is_all() {
            records.retain(|record| wanted.matches(record));
        }
        return Ok(ListPage { records, revision: snapshot.revision, next: None, remaining: None });
    }
    let revision = at.unwrap_or(newest);
    let limit = options.limit.unwrap_or(usize::MAX);
    // With selectors all remaining records must be filtered: once, because each partial read would count the rest.
    let most = if wanted.is_all() { limit } else { usize::MAX };
    let page = store
        .list_at(&call.resource.storage, wanted.namespace(), revision, after.as_ref(), most)
        .map_err(|error| read_failure(call, error, revision, after.as_ref()))?;
    let mut taken = page.records.into_iter().filter(|record| wanted.matches(record));
    let records: Vec<Arc<Record>> = taken.by_ref().take(limit).collect();
    let is_more = page.remaining > 0 || taken.next().is_some();
    let next = records.last().filter(|_| is_more).map(|record| record.key.clone());
    // Only without selectors, the number of remaining keys is that of the list.
    let remaining = Some(page.remaining).filter(|remaining| *remaining > 0);
    Ok(ListPage { records, revision, next, remaining })
}

fn read_failure(call: &Call, error: ReadError, asked: u64, after: Option<&Key>) -> Failure {
    match (error, after) {
        (ReadError::Expired { .. }, None) => Failure::expired("The resourceVersion for the provided list is too old."),
        (ReadError::Expired { .. }, Some(after)) => {
            let token = ContinueToken { revision: None, after: after.clone() }.written(&call.path.namespace);
            let why = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to \
                       retrieve the remainder of the results. Continuing with the provided token results in an \
                       inconsistent list - objects that were created, modified, or deleted between the time the \
                       first chunk was returned and now may show up in the list.";
            Failure { continue_token: Some(token), ..Failure::expired(why) }
        }
        (ReadError::Future { newest }, _) => Failure::revision_too_large(asked, newest),
    }
}

fn present(call: &Call, records: Vec<Arc<Record>>, metadata: Value) -> Result<Answer, Failure> {
    let Call { resource, accepted, server, .. } = call;
    if (accepted.shape, accepted.format) == (Shape::Whole, Format::Json) {
        return Ok(Answer::ok(Format::Json, list_chunks(resource, records, &metadata)));
    }
    let objects: Vec<Object> = records.iter().map(|record| present::object(resource, &record.body())).collect();
    let value = match accepted.shape {
        Shape::Table => {
            let include = IncludeObject::read(&call.query)?;
            let now = server.clock().now();
            let tabling = TableOptions { include, accepted: *accepted, now, has_columns: true };
            present::table(resource, &objects, metadata, tabling)
        }
        Shape::MetadataList => {
            let items: Vec<Value> = objects.iter().map(|object| present::metadata_only(object, *accepted)).collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": accepted.meta_version(), "metadata": metadata,
                "items": items,
            })
        }
        Shape::Metadata => {
            return Err(Failure::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                resource.list_kind
            )));
        }
        Shape::Whole => {
            let strip = |mut object: Object| {
                if !resource.is_custom() {
                    object.remove("kind");
                    object.remove("apiVersion");
                }
                Value::Object(object)
            };
            let items: Vec<Value> = objects.into_iter().map(strip).collect();
            json!({"kind": *resource.list_kind, "apiVersion": *resource.api_version, "metadata": metadata, "items": items})
        }
    };
    Ok(Answer::ok(accepted.format, present::text(&value, accepted.format)))
}

/// The JSON of a list, joined from the stored bytes in chunks. Items of built-in kinds have no kind.
fn list_chunks(resource: &Arc<Resource>, records: Vec<Arc<Record>>, metadata: &Value) -> Body {
    let list_kind = Value::from(&*resource.list_kind);
    let api_version = Value::from(&*resource.api_version);
    let head = format!("{{\"kind\":{list_kind},\"apiVersion\":{api_version},\"metadata\":{metadata},\"items\":[");
    let size: usize = records.iter().map(|record| record.size()).sum();
    let pieces =
        ListChunks { resource: resource.clone(), records: records.into_iter(), head: Some(head), is_over: false };
    // A list that fits into one chunk has a content length.
    if size < CHUNK_SIZE / 2 { Body::pieces(pieces) } else { Body::lazy(pieces) }
}

/// The chunks of a list that are not sent yet.
struct ListChunks {
    resource: Arc<Resource>,
    records: std::vec::IntoIter<Arc<Record>>,
    head: Option<String>,
    is_over: bool,
}

impl Iterator for ListChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut piece = BytesMut::with_capacity(CHUNK_SIZE);
        let mut is_first = false;
        if let Some(head) = self.head.take() {
            piece.put_slice(head.as_bytes());
            is_first = true;
        }
        while piece.len() < CHUNK_SIZE {
            let Some(record) = self.records.next() else {
                piece.put_slice(b"]}\n");
                self.is_over = true;
                break;
            };
            if !std::mem::take(&mut is_first) {
                piece.put_u8(b',');
            }
            let rest = present::after_kind(&present::in_version(&self.resource, &record.body()));
            if self.resource.is_custom() {
                piece.put_slice(&self.resource.prefix);
            } else {
                piece.put_u8(b'{');
            }
            piece.put(rest);
        }
        Some(piece.freeze())
    }
}

/// The continue token of a list: revision and last key, in the format of kube-apiserver.
struct ContinueToken {
    /// None for the newest revision, which makes the list inconsistent.
    revision: Option<u64>,
    after: Key,
}

/// The format version of tokens.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl ContinueToken {
    /// The token for a list of this namespace, or of all.
    fn written(&self, namespace: &str) -> String {
        let Key { namespace: own, name, .. } = &self.after;
        let is_across = namespace.is_empty() && !own.is_empty();
        let start = if is_across { format!("{own}/{name}\0") } else { format!("{name}\0") };
        let revision = self.revision.map_or(Value::from(-1), Value::from);
        URL_SAFE_NO_PAD.encode(json!({"v": TOKEN_VERSION, "rv": revision, "start": start}).to_string())
    }

    fn parse(text: &str, storage: &Arc<str>, namespace: &str) -> Option<ContinueToken> {
        let json: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let start = json.get("start")?.as_str()?.trim_end_matches('\0');
        let (own, name) = start.split_once('/').unwrap_or((namespace, start));
        let is_known = json.get("v")?.as_str()? == TOKEN_VERSION && (namespace.is_empty() || own == namespace);
        let revision = match json.get("rv")?.as_i64()? {
            -1 => None,
            number => Some(u64::try_from(number).ok()?),
        };
        is_known.then(|| ContinueToken { revision, after: Key::new(storage.clone(), own, name) })
    }
}
