//! The deletion pipeline: removes an object, or marks it until its finalizers and its grace period are over.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use seaworthy_store::{Body as Stored, Change, CommitError, Expect, Key, Record};
use serde_json::Value;

use crate::clock;
use crate::object::meta::{FOREGROUND, ORPHAN};
use crate::object::{Metadata, Object};
use crate::request::options::{DeleteOptions, Propagation};
use crate::resource::Resource;
use crate::resource::kind::Generation;
use crate::response::present;
use crate::response::status::Failure;
use crate::server::{Server, decode as decode_record};

use super::MAX_ATTEMPTS;

/// What became of an object.
pub enum Deleted {
    /// It is gone; this was its last state.
    Gone(Object),
    /// Something holds it; this is its state now.
    Held(Object),
}

/// Removes an object, or marks it to go when nothing holds it any more.
pub async fn delete_object(
    server: &Server,
    resource: &Arc<Resource>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Deleted, Failure> {
    delete_checked(server, resource, key, options, |_| Ok(())).await
}

/// Removes an object that passes a check. What is checked is what is removed: a change in between is checked again.
pub async fn delete_checked(
    server: &Server,
    resource: &Arc<Resource>,
    key: &Key,
    options: &DeleteOptions,
    mut check: impl FnMut(&Object) -> Result<(), Failure>,
) -> Result<Deleted, Failure> {
    let mut under_way: Option<String> = None;
    for attempt in 1.. {
        let found = server.store().get(key).ok_or_else(|| Failure::not_found(resource.named(), &key.name))?;
        let object = served(resource, &found);
        match &under_way {
            None => {
                check_preconditions(resource, &object, options)?;
                check(&object)?;
            }
            // Somebody else finished it, and made another one by that name: that one was not meant.
            Some(uid) if uid != object.uid() => return Err(Failure::not_found(resource.named(), &key.name)),
            Some(_) => {}
        }
        let next = marked(server, resource, &object, options);
        let is_gone = resource.may_go(&next);
        if !is_gone && next == object {
            return Ok(Deleted::Held(object));
        }
        if options.is_dry_run {
            return Ok(match (is_gone, resource.ways().is_graceful) {
                (true, true) => Deleted::Gone(next),
                (true, false) => Deleted::Gone(object),
                (false, _) => Deleted::Held(next),
            });
        }
        // What is given time is marked before it goes, even if the time is none. Everything else that goes at once is
        // last seen as it was: nobody marked it.
        let is_marked_first = is_gone && resource.ways().is_graceful && next != object;
        let is_removed = is_gone && !is_marked_first;
        let encoded = resource.encode(if is_removed { &object } else { &next });
        let body = Stored::new(encoded.bytes, encoded.hole);
        let expected = Expect::Revision(found.revision);
        let change = match is_removed {
            true => Change::Delete { key: key.clone(), expected, body },
            false => Change::Put { key: key.clone(), expected, body },
        };
        match server.commit(change).await {
            Ok(_) if is_marked_first => under_way = Some(object.uid().to_owned()),
            Ok(record) if is_removed => return Ok(Deleted::Gone(served(resource, &record))),
            Ok(record) => return Ok(Deleted::Held(served(resource, &record))),
            Err(CommitError::Conflict { found: Some(_), .. }) if attempt < MAX_ATTEMPTS => {}
            Err(CommitError::Conflict { found: None, .. }) => {
                return Err(Failure::not_found(resource.named(), &key.name));
            }
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("the object changes too fast"))
}

/// The change that deletes an object of a kind that is given no time: it goes, or it is marked if something holds it.
/// None if it is marked already.
pub fn deletion(server: &Server, resource: &Resource, record: &Record) -> Option<Change> {
    let object = served(resource, record);
    let next = marked(server, resource, &object, &DeleteOptions::default());
    let (key, expected) = (record.key.clone(), Expect::Revision(record.revision));
    let stored = |object: &Object| {
        let encoded = resource.encode(object);
        Stored::new(encoded.bytes, encoded.hole)
    };
    match resource.may_go(&next) {
        true => Some(Change::Delete { key, expected, body: stored(&object) }),
        false => (next != object).then(|| Change::Put { key, expected, body: stored(&next) }),
    }
}

fn served(resource: &Resource, record: &Record) -> Object {
    let bytes = present::in_version(resource, &record.body());
    serde_json::from_slice(&bytes).unwrap_or_else(|_| decode_record(record))
}

fn check_preconditions(resource: &Resource, object: &Object, options: &DeleteOptions) -> Result<(), Failure> {
    let failed = |what: &str, wanted: &str, found: &str| {
        let fate = if what == "UID" { "deleted and then recreated" } else { "modified" };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might \
             have been {fate}"
        );
        Err(Failure::conflict(resource.named_kind(), object.name(), &why))
    };
    match &options.preconditions.uid {
        Some(uid) if uid != object.uid() => return failed("UID", uid, object.uid()),
        _ => {}
    }
    match &options.preconditions.revision {
        Some(revision) if revision != object.revision_text() => {
            failed("ResourceVersion", revision, object.revision_text())
        }
        _ => Ok(()),
    }
}

/// The object as the deletion leaves it: marked with a time, and with the finalizer of its propagation.
fn marked(server: &Server, resource: &Resource, object: &Object, options: &DeleteOptions) -> Object {
    let mut next = object.clone();
    let wanted: Vec<&str> = match options.propagation {
        Some(Propagation::Orphan) => vec![ORPHAN],
        Some(Propagation::Foreground) => vec![FOREGROUND],
        Some(Propagation::Background) => vec![],
        // Nothing said: what holds the object already still does.
        None => object.finalizers().filter(|name| matches!(*name, ORPHAN | FOREGROUND)).collect(),
    };
    let others = object.finalizers().filter(|name| !matches!(*name, ORPHAN | FOREGROUND));
    let finalizers: Vec<Value> = others.chain(wanted.iter().copied()).map(Value::from).collect();
    match finalizers.is_empty() {
        true => next.metadata_mut().remove("finalizers"),
        false => next.metadata_mut().insert("finalizers".to_owned(), finalizers.into()),
    };
    if let Some((time, grace)) = deadline(server.world().now(), resource, object, options) {
        next.set_meta("deletionTimestamp", time);
        next.set_meta("deletionGracePeriodSeconds", grace);
    }
    if !object.is_deleting() {
        let counts = matches!(resource.ways().generation, Generation::Wishes | Generation::WishesAndLabels);
        if counts && resource.ways().counts_deletion {
            next.set_meta("generation", object.generation() + 1);
        }
        resource.begin_deletion(&mut next);
    }
    next
}

/// When an object is to be gone, and the seconds that it is given until then; none if it was told already.
fn deadline(now: Timestamp, resource: &Resource, object: &Object, options: &DeleteOptions) -> Option<(String, i64)> {
    if !object.is_deleting() {
        let grace = grace(resource, object, options);
        return Some((clock::written(later(now, grace)), grace));
    }
    // A time that was given is only ever shortened, by who says to what, and counts from when it was given.
    let before = object.metadata().get("deletionGracePeriodSeconds").and_then(Value::as_i64)?;
    let grace = options.grace_seconds.map(granted)?;
    if !resource.ways().is_graceful || grace >= before {
        return None;
    }
    let end = match object.meta_text("deletionTimestamp").parse() {
        Ok(end) if later(now, before) < Timestamp::MAX => later(end, grace - before),
        // It had all the time in the world, which does not tell when it was given.
        _ => later(now, grace),
    };
    Some((clock::written(end), grace))
}

/// So many seconds later, or as late as can be.
//
// Differs: a time that cannot be written is the last one that can, because the real server's time goes round there and
// comes out in the past.
fn later(time: Timestamp, seconds: i64) -> Timestamp {
    let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(limit)
}

/// The seconds that were asked for. Less than none is one, as for the real server.
fn granted(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// The seconds that an object is given.
fn grace(resource: &Resource, object: &Object, options: &DeleteOptions) -> i64 {
    resource.winding_up(object).map_or(0, |own| granted(options.grace_seconds.unwrap_or(own)))
}
