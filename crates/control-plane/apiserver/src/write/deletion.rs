//! The deletion pipeline: removes an object, or marks it until its finalizers and its grace period are over.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use seaworthy_store::{Change, CommitError, Expect, Key, Record};
use serde_json::Value;

use crate::clock;
use crate::object::meta::{FOREGROUND, ORPHAN};
use crate::object::{Metadata, Object};
use crate::request::options::{DeleteOptions, Propagation};
use crate::resource::Resource;
use crate::resource::built_in_kind::GenerationPolicy;
use crate::response::present;
use crate::response::status::Failure;
use crate::server::Server;

use super::MAX_ATTEMPTS;

/// The result of a deletion.
pub enum Deletion {
    /// The object was removed; its last state.
    Removed(Object),
    /// The object was marked and still exists; its present state.
    Pending(Object),
}

/// Removes an object, or marks it for removal once its finalizers and grace period are over.
pub async fn delete_object(
    server: &Server,
    resource: &Arc<Resource>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Deletion, Failure> {
    delete_checked(server, resource, key, options, |_| Ok(())).await
}

/// Deletes an object that passes a check. After a concurrent change the check runs again.
pub async fn delete_checked(
    server: &Server,
    resource: &Arc<Resource>,
    key: &Key,
    options: &DeleteOptions,
    mut check: impl FnMut(&Object) -> Result<(), Failure>,
) -> Result<Deletion, Failure> {
    let mut under_way: Option<String> = None;
    for attempt in 1.. {
        let found = server.store().get(key).ok_or_else(|| Failure::not_found(resource.group_resource(), &key.name))?;
        let object = present::object(resource, &found.body());
        match &under_way {
            None => {
                check_preconditions(resource, &object, options)?;
                check(&object)?;
            }
            // Another client deleted it and created a new object with the same name: keep that one.
            Some(uid) if uid != object.uid() => return Err(Failure::not_found(resource.group_resource(), &key.name)),
            Some(_) => {}
        }
        let next = mark_deleted(server, resource, &object, options);
        let is_gone = resource.is_removable(&next);
        if !is_gone && next == object {
            return Ok(Deletion::Pending(object));
        }
        if options.is_dry_run {
            return Ok(match (is_gone, resource.behaviour().is_graceful) {
                (true, true) => Deletion::Removed(next),
                (true, false) => Deletion::Removed(object),
                (false, _) => Deletion::Pending(next),
            });
        }
        // Kinds with graceful deletion are marked before they are removed, even with a grace period of 0. Other objects
        // are removed without a mark, so that their last state is the stored one.
        let is_marked_first = is_gone && resource.behaviour().is_graceful && next != object;
        let is_removed = is_gone && !is_marked_first;
        let body = resource.encode(if is_removed { &object } else { &next });
        let expected = Expect::Revision(found.revision);
        let change = match is_removed {
            true => Change::Delete { key: key.clone(), expected, body },
            false => Change::Put { key: key.clone(), expected, body },
        };
        match server.commit(change).await {
            Ok(_) if is_marked_first => under_way = Some(object.uid().to_owned()),
            Ok(record) if is_removed => return Ok(Deletion::Removed(present::object(resource, &record.body()))),
            Ok(record) => return Ok(Deletion::Pending(present::object(resource, &record.body()))),
            Err(CommitError::Conflict { found: Some(_), .. }) if attempt < MAX_ATTEMPTS => {}
            Err(CommitError::Conflict { found: None, .. }) => {
                return Err(Failure::not_found(resource.group_resource(), &key.name));
            }
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("too many concurrent changes to the object"))
}

/// The change that deletes an object of a kind without graceful deletion: removes it, or marks it if it has finalizers.
/// None if it is marked already.
pub fn deletion(server: &Server, resource: &Resource, record: &Record) -> Option<Change> {
    let object = present::object(resource, &record.body());
    let next = mark_deleted(server, resource, &object, &DeleteOptions::default());
    let (key, expected) = (record.key.clone(), Expect::Revision(record.revision));
    match resource.is_removable(&next) {
        true => Some(Change::Delete { key, expected, body: resource.encode(&object) }),
        false => (next != object).then(|| Change::Put { key, expected, body: resource.encode(&next) }),
    }
}

fn check_preconditions(resource: &Resource, object: &Object, options: &DeleteOptions) -> Result<(), Failure> {
    let failed = |what: &str, wanted: &str, found: &str| {
        let fate = if what == "UID" { "deleted and then recreated" } else { "modified" };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might \
             have been {fate}"
        );
        Err(Failure::conflict(resource.group_kind(), object.name(), &why))
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

/// The object after a deletion request: with a deletion time and the finalizer of the propagation policy.
fn mark_deleted(server: &Server, resource: &Resource, object: &Object, options: &DeleteOptions) -> Object {
    let mut next = object.clone();
    let wanted: Vec<&str> = match options.propagation {
        Some(Propagation::Orphan) => vec![ORPHAN],
        Some(Propagation::Foreground) => vec![FOREGROUND],
        Some(Propagation::Background) => vec![],
        // Without a policy the present deletion finalizers stay.
        None => object.finalizers().filter(|name| matches!(*name, ORPHAN | FOREGROUND)).collect(),
    };
    let others = object.finalizers().filter(|name| !matches!(*name, ORPHAN | FOREGROUND));
    let finalizers: Vec<Value> = others.chain(wanted.iter().copied()).map(Value::from).collect();
    match finalizers.is_empty() {
        true => next.metadata_mut().remove("finalizers"),
        false => next.metadata_mut().insert("finalizers".to_owned(), finalizers.into()),
    };
    if let Some((time, grace)) = deadline(server.clock().now(), resource, object, options) {
        next.set_meta("deletionTimestamp", time);
        next.set_meta("deletionGracePeriodSeconds", grace);
    }
    if !object.is_deleting() {
        let counts = matches!(
            resource.behaviour().generation,
            GenerationPolicy::SpecChanges | GenerationPolicy::SpecAndLabelChanges
        );
        if counts && resource.behaviour().counts_deletion {
            next.set_meta("generation", object.generation() + 1);
        }
        resource.begin_deletion(&mut next);
    }
    next
}

/// The deletion time of an object and its grace period in seconds; none if they stay as they are.
fn deadline(now: Timestamp, resource: &Resource, object: &Object, options: &DeleteOptions) -> Option<(String, i64)> {
    if !object.is_deleting() {
        let grace = grace(resource, object, options);
        return Some((clock::rfc3339(later(now, grace)), grace));
    }
    // A grace period can only be shortened, and counts from the first deletion request.
    let before = object.metadata().get("deletionGracePeriodSeconds").and_then(Value::as_i64)?;
    let grace = options.grace_seconds.map(granted)?;
    if !resource.behaviour().is_graceful || grace >= before {
        return None;
    }
    let end = match object.meta_text("deletionTimestamp").parse() {
        Ok(end) if later(now, before) < Timestamp::MAX => later(end, grace - before),
        // The earlier grace period reaches beyond the range of times, so its start is unknown.
        _ => later(now, grace),
    };
    Some((clock::rfc3339(end), grace))
}

/// A time so many seconds later, limited to the range of times.
//
// Differs: a time out of range becomes the last valid one, because the real server's time overflows and ends up in the
// past.
fn later(time: Timestamp, seconds: i64) -> Timestamp {
    let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(limit)
}

/// The requested seconds. A negative number is 1, as in the real server.
fn granted(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// The grace period of an object, in seconds.
fn grace(resource: &Resource, object: &Object, options: &DeleteOptions) -> i64 {
    resource.default_grace_seconds(object).map_or(0, |own| granted(options.grace_seconds.unwrap_or(own)))
}
