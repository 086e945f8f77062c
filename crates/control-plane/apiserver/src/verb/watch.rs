//! Watch (GET with `watch`): streams the changes of a collection.
//!
//! A watch only holds a position in the store's events: with a slow client, the position falls behind until the events
//! are compacted and the watch ends with 410 Expired.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use seaworthy_store::{Event, EventKind, ReadError, Record, Watch, WatchError};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::request::Call;
use crate::request::media::{Format, NegotiatedFormat, Shape};
use crate::request::options::ListOptions;
use crate::resource::Resource;
use crate::response::Answer;
use crate::response::Body;
use crate::response::present::{self, IncludeObject, TableOptions};
use crate::response::status::Failure;
use crate::server::Server;

use super::list::RecordFilter;

/// Lines that are buffered for a client before its watch waits.
const CHANNEL_CAPACITY: usize = 64;

/// How long the buffer may stay full. A client that does not read keeps buffered events in memory, long after the store
/// has dropped them.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// How often bookmarks are sent.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest lifetime of a watch without `timeoutSeconds`. As in kube-apiserver, the lifetime is between this and
/// twice this, so that not all clients reconnect at once.
const MIN_REQUEST_TIMEOUT_SECONDS: u64 = 30 * 60;

/// Answers a stream of events.
pub fn watch(call: Call) -> Result<Answer, Failure> {
    let options = ListOptions::read(&call.query, true)?;
    RecordFilter::new(&call, &options)?;
    let include = IncludeObject::read(&call.query)?;
    let begins_with_state = match options.initial_events {
        Some(wanted) => wanted,
        None => options.revision.is_none_or(|revision| revision == 0),
    };
    let store = call.server.store();
    let newest = store.revision();
    // Taken before the response begins: every later write of the client must be an event of the watch.
    let (initial, position) = match begins_with_state {
        true => {
            let namespace = (!call.path.namespace.is_empty()).then_some(call.path.namespace.as_str());
            let snapshot = store.list(&call.resource.storage, namespace);
            (snapshot.records, snapshot.revision)
        }
        // A revision in the future: wait for it.
        false => (Vec::new(), options.revision.unwrap_or(newest).min(newest)),
    };
    let watch = match options.revision.filter(|asked| begins_with_state && *asked > newest) {
        Some(asked) => Err(Failure::revision_too_large(asked, newest)),
        None => open(&call, position),
    };

    let Call { server, resource, path, accepted, .. } = call;
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let (namespace, name) = (path.namespace, path.name);
    let mut stream =
        EventStream { server, resource, namespace, name, accepted, options, sender, include, has_columns: false };
    tokio::spawn(async move {
        // Either way it ends, the answer ends: the sender is dropped with the task.
        let _ = stream.follow((begins_with_state && watch.is_ok()).then_some(initial), position, watch).await;
    });
    Ok(Answer::ok(accepted.format, Body::stream(receiver)))
}

/// Opens a watch at a position, if it is not compacted yet.
fn open(call: &Call, position: u64) -> Result<Watch, Failure> {
    let begins = call.resource.history_begins();
    if position < begins {
        return Err(too_old(position, begins));
    }
    call.server.store().watch(&call.resource.storage, position).map_err(|error| match error {
        ReadError::Expired { oldest } => too_old(position, oldest),
        ReadError::Future { newest } => Failure::revision_too_large(position, newest),
    })
}

/// Only what the stream uses of its call, which it outlives by far: the registry, the headers and the body of the call
/// would stay in memory as long as its client listens.
struct EventStream {
    server: Server,
    resource: Arc<Resource>,
    /// Of the path, empty for all.
    namespace: String,
    /// Of the path, empty for all.
    name: String,
    accepted: NegotiatedFormat,
    options: ListOptions,
    sender: mpsc::Sender<Bytes>,
    include: IncludeObject,
    has_columns: bool,
}

/// The client disconnected or does not read.
struct StreamEnded;

impl EventStream {
    async fn follow(
        &mut self,
        initial: Option<Vec<Arc<Record>>>,
        position: u64,
        watch: Result<Watch, Failure>,
    ) -> Result<(), StreamEnded> {
        if let Some(initial) = initial {
            for record in &initial {
                if self.wanted().matches(record) {
                    let line = self.line("ADDED", record, None);
                    self.send(line).await?;
                }
            }
            if self.options.bookmarks {
                self.bookmark(position, true).await?;
            }
        }
        let mut watch = match watch {
            Ok(watch) => watch,
            Err(failure) => return self.fail(failure).await,
        };
        let end = Instant::now() + self.lifetime();
        let mut next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
        let mut reported = position;
        let server = self.server.clone();
        let mut ending = std::pin::pin!(server.ended());
        loop {
            let batch = tokio::select! {
                batch = watch.next() => batch,
                () = &mut ending => return Ok(()),
                () = self.sender.closed() => return Err(StreamEnded),
                () = sleep_until(end) => {
                    let newest = watch.progress();
                    if self.options.bookmarks && newest > reported {
                        self.bookmark(newest, false).await?;
                    }
                    return Ok(());
                }
                () = sleep_until(next_bookmark), if self.options.bookmarks => {
                    reported = watch.progress();
                    self.bookmark(reported, false).await?;
                    next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    continue;
                }
            };
            match batch {
                Ok(batch) => {
                    for event in &batch.events {
                        if self.options.revision.is_some_and(|asked| event.revision() <= asked) {
                            continue;
                        }
                        self.event(event).await?;
                        reported = event.revision();
                    }
                }
                Err(WatchError::Closed) => return Ok(()),
                Err(WatchError::Expired { oldest }) => return self.fail(too_old(position, oldest)).await,
            }
        }
    }

    fn wanted(&self) -> RecordFilter<'_> {
        RecordFilter::from_checked(&self.resource, &self.namespace, &self.name, &self.options)
    }

    fn lifetime(&self) -> Duration {
        let seconds = self.options.timeout_seconds.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            self.server.clock().entropy(&mut bytes);
            MIN_REQUEST_TIMEOUT_SECONDS + u64::from_be_bytes(bytes) % MIN_REQUEST_TIMEOUT_SECONDS
        });
        Duration::from_secs(seconds)
    }

    /// Sends what an event means to this client: an object may come into its view or leave it without being created
    /// or deleted.
    async fn event(&mut self, event: &Event) -> Result<(), StreamEnded> {
        let wanted = self.wanted();
        let is_wanted = event.kind != EventKind::Deleted && wanted.matches(&event.record);
        let was_wanted = event.previous.as_ref().is_some_and(|previous| wanted.matches(previous));
        let line = match (was_wanted, is_wanted) {
            (false, false) => return Ok(()),
            (false, true) => self.line("ADDED", &event.record, Some(event)),
            (true, true) => self.line("MODIFIED", &event.record, Some(event)),
            (true, false) if event.kind == EventKind::Deleted => self.line("DELETED", &event.record, Some(event)),
            // It no longer matches: the client gets its previous state, at the revision of the change.
            (true, false) => match &event.previous {
                Some(previous) => {
                    let body = present::in_version(&self.resource, &previous.body());
                    let body = present::at_revision(&body, event.record.revision);
                    self.encoded("DELETED", &body)
                }
                None => return Ok(()),
            },
        };
        self.send(line).await
    }

    /// A line for a record. The common form is encoded once for all watches.
    fn line(&mut self, kind: &'static str, record: &Arc<Record>, event: Option<&Event>) -> Bytes {
        let is_plain = self.accepted.shape == Shape::Whole && self.accepted.format == Format::Json;
        let is_own_kind = event.is_some_and(|event| kind == own_kind(event.kind));
        match event {
            Some(event) if is_plain && is_own_kind => {
                let line = event.line(|event| plain_line(kind, &event.record.body()));
                // The line contains the body, so it is not decompressed again.
                let body = line.slice(LINE_START.len() + kind.len() + LINE_MIDDLE.len()..line.len() - LINE_END.len());
                if self.resource.is_served_as_stored(&body) { line } else { self.encoded(kind, &body) }
            }
            _ => self.encoded(kind, &record.body()),
        }
    }

    fn encoded(&mut self, kind: &str, body: &Bytes) -> Bytes {
        if self.accepted.shape == Shape::Whole && self.accepted.format == Format::Json {
            return plain_line(kind, &present::in_version(&self.resource, body));
        }
        let object = present::object(&self.resource, body);
        let shaped = match self.accepted.shape {
            Shape::Whole => Value::Object(object),
            Shape::Metadata | Shape::MetadataList => present::metadata_only(&object, self.accepted),
            Shape::Table => {
                let list = json!({"resourceVersion": crate::object::Metadata::revision_text(&object)});
                let tabling = TableOptions {
                    include: self.include,
                    accepted: self.accepted,
                    now: self.server.clock().now(),
                    has_columns: !std::mem::replace(&mut self.has_columns, true),
                };
                present::table(&self.resource, &[object], list, tabling)
            }
        };
        self.wrapped(kind, &shaped)
    }

    fn wrapped(&self, kind: &str, object: &Value) -> Bytes {
        let event = json!({"type": kind, "object": object});
        match self.accepted.format {
            Format::Json => format!("{event}\n").into(),
            Format::Yaml => {
                let mut text = b"---\n".to_vec();
                text.extend_from_slice(&present::text(&event, Format::Yaml));
                text.into()
            }
        }
    }

    async fn bookmark(&mut self, revision: u64, ends_initial_state: bool) -> Result<(), StreamEnded> {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial_state {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &self.resource;
        let object = match self.accepted.shape {
            Shape::Metadata | Shape::MetadataList => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": self.accepted.meta_version(), "metadata": metadata})
            }
            _ => json!({"kind": *resource.kind, "apiVersion": *resource.api_version, "metadata": metadata}),
        };
        let line = self.wrapped("BOOKMARK", &object);
        self.send(line).await
    }

    async fn fail(&mut self, failure: Failure) -> Result<(), StreamEnded> {
        let line = self.wrapped("ERROR", &failure.to_json());
        self.send(line).await
    }

    async fn send(&self, line: Bytes) -> Result<(), StreamEnded> {
        match timeout(SEND_TIMEOUT, self.sender.send(line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(StreamEnded),
        }
    }
}

fn own_kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Created => "ADDED",
        EventKind::Updated => "MODIFIED",
        EventKind::Deleted => "DELETED",
    }
}

// The parts of a line around type and object.
const LINE_START: &[u8] = b"{\"type\":\"";
const LINE_MIDDLE: &[u8] = b"\",\"object\":";
const LINE_END: &[u8] = b"}\n";

fn plain_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line =
        BytesMut::with_capacity(LINE_START.len() + kind.len() + LINE_MIDDLE.len() + object.len() + LINE_END.len());
    line.put_slice(LINE_START);
    line.put_slice(kind.as_bytes());
    line.put_slice(LINE_MIDDLE);
    line.put_slice(object);
    line.put_slice(LINE_END);
    line.freeze()
}

fn too_old(asked: u64, oldest: u64) -> Failure {
    Failure::expired(format!("too old resource version: {asked} ({oldest})"))
}
