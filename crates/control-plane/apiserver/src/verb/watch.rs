//! Following changes.
//!
//! A watch holds a position in the store's events and nothing else: a client that reads slowly makes its own position
//! fall behind, until the events it has not seen are gone and it is told to start over.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use seaworthy_store::{Event, EventKind, ReadError, Record, Watch, WatchError};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::object::Object;
use crate::request::Call;
use crate::request::media::{Format, Shape};
use crate::request::options::ListOptions;
use crate::response::Answer;
use crate::response::Body;
use crate::response::present::{self, Include, Tabling};
use crate::response::status::Failure;

use super::list::Wanted;

/// Lines that may wait for a client before its watch waits for it. The position in the events stays where it is.
const WAITING: usize = 64;

/// How long a client may take to make room for one more line. A client that takes nothing holds on to everything that
/// it has not got yet, long after the store has forgotten it.
const STALLED: Duration = Duration::from_secs(60);

/// How often a client that asked for bookmarks gets one.
const BOOKMARK: Duration = Duration::from_secs(60);

/// The shortest time after which a watch without a wish ends. The real one takes between this and twice this, so that
/// not all clients come back at once.
const SHORTEST: u64 = 30 * 60;

/// Answers a stream of events.
pub fn watch(call: Call) -> Result<Answer, Failure> {
    let options = ListOptions::read(&call.query, true)?;
    Wanted::new(&call, &options)?;
    let include = Include::read(&call.query)?;
    let begins_with_state = match options.initial_events {
        Some(wanted) => wanted,
        None => options.revision.is_none_or(|revision| revision == 0),
    };
    let store = call.server.store();
    let newest = store.revision();
    // Taken before the answer begins: whatever the client writes once it has seen the answer is an event to it.
    let (initial, position) = match begins_with_state {
        true => {
            let namespace = (!call.path.namespace.is_empty()).then_some(call.path.namespace.as_str());
            let snapshot = store.list(&call.resource.storage, namespace);
            (snapshot.records, snapshot.revision)
        }
        // Who asks for what is yet to come waits for it.
        false => (Vec::new(), options.revision.unwrap_or(newest).min(newest)),
    };
    let watch = match options.revision.filter(|asked| begins_with_state && *asked > newest) {
        Some(asked) => Err(Failure::revision_too_large(asked, newest)),
        None => open(&call, position),
    };

    let format = call.accepted.format;
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut stream = Stream { call, options, sender, include, has_columns: false };
    tokio::spawn(async move {
        // Either way it ends, the answer ends: the sender is dropped with the task.
        let _ = stream.follow((begins_with_state && watch.is_ok()).then_some(initial), position, watch).await;
    });
    Ok(Answer::ok(format, Body::stream(receiver)))
}

/// The position in the events, if they still go back that far.
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

struct Stream {
    call: Call,
    options: ListOptions,
    sender: mpsc::Sender<Bytes>,
    include: Include,
    has_columns: bool,
}

/// The client is gone, or told that it is over.
struct Ended;

impl Stream {
    async fn follow(
        &mut self,
        initial: Option<Vec<Arc<Record>>>,
        position: u64,
        watch: Result<Watch, Failure>,
    ) -> Result<(), Ended> {
        if let Some(initial) = initial {
            for record in &initial {
                if self.wanted().takes(record) {
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
        let mut next_bookmark = Instant::now() + BOOKMARK;
        let mut told = position;
        let server = self.call.server.clone();
        let mut ending = std::pin::pin!(server.ended());
        loop {
            let batch = tokio::select! {
                batch = watch.next() => batch,
                () = &mut ending => return Ok(()),
                () = self.sender.closed() => return Err(Ended),
                () = sleep_until(end) => {
                    let newest = watch.progress();
                    if self.options.bookmarks && newest > told {
                        self.bookmark(newest, false).await?;
                    }
                    return Ok(());
                }
                () = sleep_until(next_bookmark), if self.options.bookmarks => {
                    told = watch.progress();
                    self.bookmark(told, false).await?;
                    next_bookmark = Instant::now() + BOOKMARK;
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
                        told = event.revision();
                    }
                }
                Err(WatchError::Closed) => return Ok(()),
                Err(WatchError::Expired { oldest }) => return self.fail(too_old(position, oldest)).await,
            }
        }
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted::checked(&self.call, &self.options)
    }

    fn lifetime(&self) -> Duration {
        let seconds = self.options.timeout_seconds.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            self.call.server.world().entropy(&mut bytes);
            SHORTEST + u64::from_be_bytes(bytes) % SHORTEST
        });
        Duration::from_secs(seconds)
    }

    /// Sends what an event means to this client: an object may come into its view or leave it without being created
    /// or deleted.
    async fn event(&mut self, event: &Event) -> Result<(), Ended> {
        let wanted = self.wanted();
        let is_wanted = event.kind != EventKind::Deleted && wanted.takes(&event.record);
        let was_wanted = event.previous.as_ref().is_some_and(|previous| wanted.takes(previous));
        let line = match (was_wanted, is_wanted) {
            (false, false) => return Ok(()),
            (false, true) => self.line("ADDED", &event.record, Some(event)),
            (true, true) => self.line("MODIFIED", &event.record, Some(event)),
            (true, false) if event.kind == EventKind::Deleted => self.line("DELETED", &event.record, Some(event)),
            // It left the view: the client gets what it last saw, at the revision at which it went.
            (true, false) => match &event.previous {
                Some(previous) => {
                    let body = present::in_version(&self.call.resource, &previous.body());
                    let body = present::at_revision(&body, event.record.revision);
                    self.encoded("DELETED", &body)
                }
                None => return Ok(()),
            },
        };
        self.send(line).await
    }

    /// A line for a record. The form that most clients ask for is made once for all of them.
    fn line(&mut self, kind: &'static str, record: &Arc<Record>, event: Option<&Event>) -> Bytes {
        let is_plain = self.call.accepted.shape == Shape::Whole && self.call.accepted.format == Format::Json;
        let is_own_kind = event.is_some_and(|event| kind == own_kind(event.kind));
        match event {
            Some(event) if is_plain && is_own_kind => {
                let line = event.line(|event| plain_line(kind, &event.record.body()));
                // The line has the body in it, so that nobody unpacks it again.
                let body = line.slice(OPEN.len() + kind.len() + MIDDLE.len()..line.len() - CLOSE.len());
                if self.call.resource.is_ready(&body) { line } else { self.encoded(kind, &body) }
            }
            _ => self.encoded(kind, &record.body()),
        }
    }

    fn encoded(&mut self, kind: &str, body: &Bytes) -> Bytes {
        let served = present::in_version(&self.call.resource, body);
        if self.call.accepted.shape == Shape::Whole && self.call.accepted.format == Format::Json {
            return plain_line(kind, &served);
        }
        // What was stored is JSON.
        let object: Object = serde_json::from_slice(&served).unwrap_or_default();
        let shaped = match self.call.accepted.shape {
            Shape::Whole => Value::Object(object),
            Shape::Metadata | Shape::MetadataList => present::metadata_only(&object, self.call.accepted),
            Shape::Table => {
                let list = json!({"resourceVersion": crate::object::Metadata::revision_text(&object)});
                let tabling = Tabling {
                    include: self.include,
                    accepted: self.call.accepted,
                    now: self.call.server.world().now(),
                    has_columns: !std::mem::replace(&mut self.has_columns, true),
                };
                present::table(&self.call.resource, &[object], list, tabling)
            }
        };
        self.wrapped(kind, &shaped)
    }

    fn wrapped(&self, kind: &str, object: &Value) -> Bytes {
        let event = json!({"type": kind, "object": object});
        match self.call.accepted.format {
            Format::Json => format!("{event}\n").into(),
            Format::Yaml => {
                let mut text = b"---\n".to_vec();
                text.extend_from_slice(&present::text(&event, Format::Yaml));
                text.into()
            }
        }
    }

    async fn bookmark(&mut self, revision: u64, ends_initial_state: bool) -> Result<(), Ended> {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial_state {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &self.call.resource;
        let object = match self.call.accepted.shape {
            Shape::Metadata | Shape::MetadataList => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": self.call.accepted.meta_version(), "metadata": metadata})
            }
            _ => json!({"kind": *resource.kind, "apiVersion": *resource.api_version, "metadata": metadata}),
        };
        let line = self.wrapped("BOOKMARK", &object);
        self.send(line).await
    }

    async fn fail(&mut self, failure: Failure) -> Result<(), Ended> {
        let line = self.wrapped("ERROR", &failure.to_json());
        self.send(line).await
    }

    async fn send(&self, line: Bytes) -> Result<(), Ended> {
        match timeout(STALLED, self.sender.send(line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Ended),
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

// What is around kind and object in a line.
const OPEN: &[u8] = b"{\"type\":\"";
const MIDDLE: &[u8] = b"\",\"object\":";
const CLOSE: &[u8] = b"}\n";

fn plain_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(OPEN.len() + kind.len() + MIDDLE.len() + object.len() + CLOSE.len());
    line.put_slice(OPEN);
    line.put_slice(kind.as_bytes());
    line.put_slice(MIDDLE);
    line.put_slice(object);
    line.put_slice(CLOSE);
    line.freeze()
}

fn too_old(asked: u64, oldest: u64) -> Failure {
    Failure::expired(format!("too old resource version: {asked} ({oldest})"))
}
