//! Changing an object: by replacing it or by a patch, the rest is the same.

use bytes::Bytes;
use http::StatusCode;
use seaworthy_store::{Body as Stored, Change, CommitError, Expect, Record};
use serde_json::Value;

use crate::admission;
use crate::call::{Answer, Call};
use crate::decode;
use crate::media::Format;
use crate::object::{Metadata, Object};
use crate::options::{WriteKind, WriteOptions};
use crate::present;
use crate::server::decode as decode_record;
use crate::status::{ALREADY_EXISTS, Failure, Named};
use crate::write::{self, Conformed};

use super::create::create_object;

/// How often a change that expects no revision is tried on an object that others keep changing.
const TRIES: usize = 64;

/// What a change makes of an object.
pub struct Changed {
    /// The new state, in the form of its kind.
    pub object: Object,
    /// Whether field owners are settled already, as after an apply.
    pub is_owned: bool,
    /// What the client should know beside.
    pub warnings: Vec<String>,
}

/// Replaces the object by the one in the body.
pub async fn update(call: &Call) -> Result<Answer, Failure> {
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Update)?;
    let format = Format::of_body(&call.headers)?;
    let (object, duplicates) = decode::object(&call.body, format, &call.resource)?;
    let Conformed { object, unknown } = write::conform(&call.resource, object)?;
    let warnings = write::judge_oddities(&call.resource, &options, &unknown, &duplicates)?;
    check_name(call, &object)?;
    let key = write::own_key(call, &call.path.name);
    if call.server.store().get(&key).is_none() && call.resource.ways().creates_on_update {
        call.check_creation()?;
        // Whoever knows an identity does not mean a new object.
        check_uid(call, &object, "")?;
        let mut fresh = object.clone();
        fresh.metadata_mut().remove("resourceVersion");
        match create_object(call, fresh, &options, false).await {
            // Somebody else was faster: then there is something to update.
            Err(failure) if failure.reason == ALREADY_EXISTS => {}
            Err(failure) => return Err(failure.warned(&warnings)),
            Ok(answer) => return Ok(answer.warning(warnings)),
        }
    }
    let changed = change(call, &options, |old| {
        check_uid(call, &object, old.uid())?;
        Ok(Changed { object: object.clone(), is_owned: false, warnings: warnings.clone() })
    });
    changed.await.map_err(|failure| failure.warned(&warnings))
}

/// Whoever sends a whole object with its uid means that one and no other.
fn check_uid(call: &Call, object: &Object, found: &str) -> Result<(), Failure> {
    let wanted = object.uid();
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
    Err(Failure::conflict(call.resource.named(), &call.path.name, &why))
}

/// Whether the object is the one that the path names.
fn check_name(call: &Call, object: &Object) -> Result<(), Failure> {
    if object.name().is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.path.name
        )));
    }
    if object.name() != call.path.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object.name(),
            call.path.name
        )));
    }
    Ok(())
}

/// Changes the stored object. What the change expects is checked against the very state that it replaces: if somebody
/// else was faster, it is made again.
pub async fn change(
    call: &Call,
    options: &WriteOptions,
    make: impl FnMut(&Object) -> Result<Changed, Failure>,
) -> Result<Answer, Failure> {
    change_and_show(call, options, make, |outcome| {
        let now = call.server.world().now();
        match outcome {
            Outcome::Stored(record) => present::one(&call.resource, record, call.accepted, &call.query, now),
            Outcome::Unstored(object) => present::shaped(&call.resource, object, call.accepted, &call.query, now),
        }
    })
    .await
}

/// What a change comes to.
pub enum Outcome<'r> {
    /// The stored object.
    Stored(&'r Record),
    /// An object that is not, or no longer, stored.
    Unstored(Object),
}

/// Changes the stored object, and shows what came of it in another way.
pub async fn change_and_show(
    call: &Call,
    options: &WriteOptions,
    mut make: impl FnMut(&Object) -> Result<Changed, Failure>,
    show: impl Fn(Outcome<'_>) -> Result<Bytes, Failure>,
) -> Result<Answer, Failure> {
    let resource = &*call.resource;
    let key = write::own_key(call, &call.path.name);
    for attempt in 1.. {
        let found = call.server.store().get(&key);
        let found = found.ok_or_else(|| Failure::not_found(resource.named(), &call.path.name))?;
        let old = in_version(call, &found);
        let mut changed = make(&old)?;
        let is_unconditional =
            changed.object.revision_text() == old.revision_text() || changed.object.revision_text().is_empty();
        let old = Value::Object(old);
        let (next, is_same, said) = next_state(call, options, &old, changed.object, changed.is_owned)?;
        changed.warnings.extend(said);
        let is_same = resource.is_stored_already(&next, &found).unwrap_or(is_same);
        // A deed on an object is reviewed where it is done.
        if matches!(call.path.subresource.as_str(), "" | "status" | "finalize") {
            changed.warnings.extend(admission::review(call, &next, old.as_object())?);
        }
        let answer = |record: &Record| -> Result<Answer, Failure> {
            let body = show(Outcome::Stored(record))?;
            let warnings = changed.warnings.clone();
            Ok(Answer { status: StatusCode::OK, format: call.accepted.format, body: body.into(), warnings })
        };
        if is_same {
            return answer(&found);
        }
        let is_released = next.is_deleting() && resource.may_go(&next);
        if options.is_dry_run {
            let body = show(Outcome::Unstored(resource.as_if_stored(next)))?;
            let warnings = changed.warnings;
            return Ok(Answer { status: StatusCode::OK, format: call.accepted.format, body: body.into(), warnings });
        }
        let encoded = resource.encode(&next);
        let body = Stored::new(encoded.bytes, encoded.hole);
        let expected = Expect::Revision(found.revision);
        let step = match is_released {
            true => Change::Delete { key: key.clone(), expected, body },
            false => Change::Put { key: key.clone(), expected, body },
        };
        match call.server.commit(step).await {
            // The write that lets an object go answers its last state at the revision that it had.
            Ok(_) if is_released => {
                let body = show(Outcome::Unstored(next))?;
                let warnings = changed.warnings;
                return Ok(Answer {
                    status: StatusCode::OK,
                    format: call.accepted.format,
                    body: body.into(),
                    warnings,
                });
            }
            Ok(record) => return answer(&record),
            Err(CommitError::Conflict { .. }) if is_unconditional && attempt < TRIES => {}
            Err(CommitError::Conflict { .. }) => return Err(Failure::modified(resource.named(), &call.path.name)),
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("the object changes too fast"))
}

/// The stored object in the version of the call.
pub fn in_version(call: &Call, record: &Record) -> Object {
    let served = present::in_version(&call.resource, &record.body());
    serde_json::from_slice(&served).unwrap_or_else(|_| decode_record(record))
}

/// The state after a change, whether it is the one before, and what the client should know. `live` is the object
/// before, not copied for the sake of its type: every write comes through here.
fn next_state(
    call: &Call,
    options: &WriteOptions,
    live: &Value,
    mut object: Object,
    is_owned: bool,
) -> Result<(Object, bool, Vec<String>), Failure> {
    let Value::Object(old) = live else { return Err(Failure::internal("what is stored is no object")) };
    let resource = &*call.resource;
    check_name(call, &object)?;
    write::place(call, &mut object)?;
    let sent = object.revision_text().to_owned();
    if sent.is_empty() && !resource.ways().updates_unconditionally {
        let cause = seaworthy_schema::Cause::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let named = Named { group: &resource.group, word: &resource.plural };
        return Err(Failure::invalid(named, &call.path.name, vec![cause]));
    }
    if !sent.is_empty() && sent != old.revision_text() {
        return Err(Failure::modified(resource.named(), &call.path.name));
    }
    let part = write::part(call);
    write::keep_identity(&mut object, old);
    resource.fill_defaults(&mut object, is_owned);
    object.set_meta("resourceVersion", old.revision_text());
    if !is_owned {
        object = write::own_written(call, Some(live), object, &options.manager);
    }
    admission::complete(call, &mut object, Some(old))?;
    resource.prepare(&mut object, Some(old), part);
    write::count_wish(resource, &mut object, old);
    let (object, is_same) = write::settled(live, object);
    admission::admit(call, &object, Some(old))?;
    let said = write::judge(resource, &object, Some(old), part)?;
    Ok((object, is_same, said))
}
