//! The write pipeline: from an object that a verb proposes to the committed record, for every verb and subresource.
//!
//! The verbs decode a body and propose an object; everything behind that is here, so that no write skips a step:
//!
//! ```text
//! propose ─▶ name, namespace, revision ─▶ defaults ─▶ owners of fields ─▶ mutating admission ─▶ prepare
//!         ─▶ rules ─▶ validating admission ─▶ encode ─▶ commit ─▶ answer
//! ```

use bytes::Bytes;
use http::StatusCode;
use seaworthy_fields::discard_timestamp_change;
use seaworthy_store::{Change, CommitError, Expect, Record};
use serde_json::Value;

use crate::admission;
use crate::clock;
use crate::object::{self, Metadata, Object};
use crate::request::Call;
use crate::request::options::WriteOptions;
use crate::resource::built_in_kind::ObjectPart;
use crate::response::status::{Failure, GroupResource};
use crate::response::{Answer, present};
use crate::server::decode as decode_record;

use super::{
    assign_identity, bump_generation, check_parents, keep_identity, object_key, part, set_namespace, track_write,
    validate,
};

/// How often a write without a precondition is retried on an object that others keep changing.
pub const MAX_ATTEMPTS: usize = 64;

/// How often a name is generated before the server gives up: it takes millions of objects to need a second try.
const MAX_NAME_ATTEMPTS: usize = 8;

/// The state that a verb proposes for an object.
pub struct Proposal {
    pub object: Value,
    /// Whether `managedFields` are final already, as after an apply.
    pub has_managers: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Checks that the object has the name of the path.
pub fn check_name(call: &Call, object: &impl Metadata) -> Result<(), Failure> {
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

/// Changes the stored object, and answers it. Preconditions are checked against the very state that is replaced: after
/// a concurrent write, `propose` is called again.
pub async fn change(
    call: &Call,
    options: &WriteOptions,
    propose: impl FnMut(&Value) -> Result<Proposal, Failure>,
) -> Result<Answer, Failure> {
    change_and_present(call, options, propose, |outcome| {
        let now = call.server.clock().now();
        match outcome {
            Outcome::Stored(record) => present::one(&call.resource, record, call.accepted, &call.query, now),
            Outcome::Unstored(object) => present::shaped(&call.resource, object, call.accepted, &call.query, now),
        }
    })
    .await
}

/// The result of a write.
pub enum Outcome<'r> {
    /// The stored object.
    Stored(&'r Record),
    /// An object that is not stored: a dry run, or a removed object.
    Unstored(Object),
}

/// Changes the stored object, and answers the body that `show` renders of the result.
pub async fn change_and_present(
    call: &Call,
    options: &WriteOptions,
    mut propose: impl FnMut(&Value) -> Result<Proposal, Failure>,
    show: impl Fn(Outcome<'_>) -> Result<Bytes, Failure>,
) -> Result<Answer, Failure> {
    let resource = &*call.resource;
    let key = object_key(call, &call.path.name);
    for attempt in 1.. {
        let found = call.server.store().get(&key);
        let found = found.ok_or_else(|| Failure::not_found(resource.group_resource(), &call.path.name))?;
        // A value, as field ownership and schemas need it: converting it there would copy it on every write.
        let old = Value::Object(present::object(resource, &found.body()));
        let mut proposal = propose(&old)?;
        let is_unconditional =
            proposal.object.revision_text() == old.revision_text() || proposal.object.revision_text().is_empty();
        let (next, is_same, warnings) = next_state(call, options, &old, proposal.object, proposal.has_managers)?;
        proposal.warnings.extend(warnings);
        let is_same = resource.is_stored_already(&next, &found).unwrap_or(is_same);
        // The action of a subresource is reviewed where it is executed.
        if matches!(call.path.subresource.as_str(), "" | "status" | "finalize") {
            proposal.warnings.extend(admission::review(call, &next, Some(object::fields(&old)))?);
        }
        let answer = |record: &Record| -> Result<Answer, Failure> {
            let body = show(Outcome::Stored(record))?;
            let warnings = proposal.warnings.clone();
            Ok(Answer { status: StatusCode::OK, format: call.accepted.format, body: body.into(), warnings })
        };
        if is_same {
            return answer(&found);
        }
        let is_released = next.is_deleting() && resource.is_removable(&next);
        if options.is_dry_run {
            let body = show(Outcome::Unstored(resource.as_if_stored(next)))?;
            let warnings = proposal.warnings;
            return Ok(Answer { status: StatusCode::OK, format: call.accepted.format, body: body.into(), warnings });
        }
        let body = resource.encode(&next);
        let expected = Expect::Revision(found.revision);
        let step = match is_released {
            true => Change::Delete { key: key.clone(), expected, body },
            false => Change::Put { key: key.clone(), expected, body },
        };
        match call.server.commit(step).await {
            // The write that removes the last finalizer answers the last state, at the revision that it had.
            Ok(_) if is_released => {
                let body = show(Outcome::Unstored(next))?;
                let warnings = proposal.warnings;
                return Ok(Answer {
                    status: StatusCode::OK,
                    format: call.accepted.format,
                    body: body.into(),
                    warnings,
                });
            }
            Ok(record) => return answer(&record),
            Err(CommitError::Conflict { .. }) if is_unconditional && attempt < MAX_ATTEMPTS => {}
            Err(CommitError::Conflict { .. }) => {
                return Err(Failure::modified(resource.group_resource(), &call.path.name));
            }
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("too many concurrent changes to the object"))
}

/// The state after a change, whether it equals the one before, and warnings for the client. `live` is the object
/// before.
fn next_state(
    call: &Call,
    options: &WriteOptions,
    live: &Value,
    object: Value,
    has_managers: bool,
) -> Result<(Object, bool, Vec<String>), Failure> {
    let (old, mut object) = (object::fields(live), object::into_fields(object));
    let resource = &*call.resource;
    check_name(call, &object)?;
    set_namespace(call, &mut object)?;
    let sent = object.revision_text().to_owned();
    if sent.is_empty() && !resource.behaviour().updates_unconditionally {
        let cause = seaworthy_schema::Cause::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let named = GroupResource { group: &resource.group, resource: &resource.plural };
        return Err(Failure::invalid(named, &call.path.name, vec![cause]));
    }
    if !sent.is_empty() && sent != old.revision_text() {
        return Err(Failure::modified(resource.group_resource(), &call.path.name));
    }
    let part = part(call);
    keep_identity(&mut object, old);
    resource.fill_defaults(&mut object, has_managers);
    object.set_meta("resourceVersion", old.revision_text());
    if !has_managers {
        object = track_write(call, Some(live), object, &options.manager);
    }
    admission::mutate(call, &mut object, Some(old))?;
    resource.prepare(&mut object, Some(old), part);
    bump_generation(resource, &mut object, old);
    admission::admit(call, &object, Some(old))?;
    let mut object = Value::Object(object);
    let is_same = discard_timestamp_change(live, &mut object);
    let warnings = validate(resource, &object, Some(live), part)?;
    Ok((object::into_fields(object), is_same, warnings))
}

/// Creates an object that has the form of its kind. `has_managers` says whether `managedFields` are final already, as
/// after an apply.
pub async fn create_object(
    call: &Call,
    object: Value,
    options: &WriteOptions,
    has_managers: bool,
) -> Result<Answer, Failure> {
    let resource = &*call.resource;
    let object = object::into_fields(object);
    let is_name_generated = object.name().is_empty() && !object.meta_text("generateName").is_empty();
    for attempt in 1.. {
        let mut object = object.clone();
        if is_name_generated {
            let name = format!("{}{}", object.meta_text("generateName"), clock::name_suffix(call.server.clock()));
            object.set_meta("name", name);
        }
        let name = object.name().to_owned();
        check_parents(call, &name)?;
        assign_identity(call, &mut object)?;
        resource.fill_defaults(&mut object, has_managers);
        // Before the kind prepares the object: what the server sets has no manager.
        if !has_managers {
            object = track_write(call, None, object, &options.manager);
        }
        admission::mutate(call, &mut object, None)?;
        resource.prepare(&mut object, None, ObjectPart::Main);
        admission::admit(call, &object, None)?;
        let object = Value::Object(object);
        let mut warnings = validate(resource, &object, None, ObjectPart::Main)?;
        let object = object::into_fields(object);
        warnings.extend(admission::review(call, &object, None)?);

        let key = object_key(call, &name);
        let taken = |found: &Record| match decode_record(found).is_deleting() {
            true => Failure::already_exists_deleting(resource.group_resource(), &name),
            false if !object.meta_text("generateName").is_empty() => {
                Failure::no_unique_name(resource.group_resource(), &name)
            }
            false => Failure::already_exists(resource.group_resource(), &name),
        };
        let now = call.server.clock().now();
        if options.is_dry_run {
            if let Some(found) = call.server.store().get(&key) {
                return Err(taken(&found));
            }
            let object = resource.as_if_stored(object);
            let body = present::shaped(resource, object, call.accepted, &call.query, now)?;
            return Ok(Answer { status: StatusCode::CREATED, warnings, ..Answer::ok(call.accepted.format, body) });
        }
        let body = resource.encode(&object);
        match call.server.commit(Change::Put { key, expected: Expect::Absent, body }).await {
            Ok(record) => {
                // The namespace or definition may have begun to terminate since the check, and its deletion may have
                // missed the object.
                if let Err(failure) = check_parents(call, &name) {
                    undo(call, &record).await;
                    return Err(failure);
                }
                let body = present::one(resource, &record, call.accepted, &call.query, now)?;
                return Ok(Answer { status: StatusCode::CREATED, warnings, ..Answer::ok(call.accepted.format, body) });
            }
            Err(CommitError::Conflict { found: Some(_), .. }) if is_name_generated && attempt < MAX_NAME_ATTEMPTS => {}
            Err(CommitError::Conflict { found: Some(found), .. }) => return Err(taken(&found)),
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("no unique name could be generated"))
}

/// Removes an object that was just created, unless another writer has changed it since.
async fn undo(call: &Call, record: &Record) {
    let body = object::encode(&decode_record(record));
    let change = Change::Delete { key: record.key.clone(), expected: Expect::Revision(record.revision), body };
    if let Err(error) = call.server.commit(change).await {
        tracing::warn!(key = %record.key, %error, "cannot delete an object that was created in a terminating namespace or definition");
    }
}
