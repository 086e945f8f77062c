//! Adding an object.

use http::StatusCode;
use seaworthy_store::{Body as Stored, Change, CommitError, Expect, Record};

use crate::admission;
use crate::builtin::review;
use crate::call::{Answer, Call};
use crate::clock;
use crate::decode;
use crate::kind::Part;
use crate::media::Format;
use crate::object::{self, Metadata, Object};
use crate::options::{WriteKind, WriteOptions};
use crate::present;
use crate::server::decode as decode_record;
use crate::status::Failure;
use crate::write::{self, Conformed};

/// How often a name is made up before the server gives up: it takes millions of objects to need a second try.
const NAME_TRIES: usize = 8;

/// Adds the object in the body.
pub async fn create(call: &Call) -> Result<Answer, Failure> {
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Create)?;
    let format = Format::of_body(&call.headers)?;
    let (object, duplicates) = decode::object(&call.body, format, &call.resource)?;
    let Conformed { object, unknown } = write::conform(&call.resource, object)?;
    let warnings = write::judge_oddities(&call.resource, &options, &unknown, &duplicates)?;
    if let Some(how) = call.resource.review() {
        let mut warnings = warnings;
        warnings.extend(admission::review(call, &object, None)?);
        let review = review::answer(call, object, how, &options.manager)?;
        let body = present::shaped(&call.resource, review, call.accepted, &call.query, call.server.world().now())?;
        let format = call.accepted.format;
        return Ok(Answer { status: StatusCode::CREATED, format, body: body.into(), warnings });
    }
    let created = create_object(call, object, &options, false).await;
    let mut answer = created.map_err(|failure| failure.warned(&warnings))?;
    answer.warnings.splice(0..0, warnings);
    Ok(answer)
}

/// Adds an object that has the form of its kind. `is_owned` says whether field owners are settled already, as after an
/// apply.
pub async fn create_object(
    call: &Call,
    object: Object,
    options: &WriteOptions,
    is_owned: bool,
) -> Result<Answer, Failure> {
    let resource = &*call.resource;
    let wants_name = object.name().is_empty() && !object.meta_text("generateName").is_empty();
    for attempt in 1.. {
        let mut object = object.clone();
        if wants_name {
            let name = format!("{}{}", object.meta_text("generateName"), clock::suffix(call.server.world()));
            object.set_meta("name", name);
        }
        let name = object.name().to_owned();
        write::check_place(call, &name)?;
        write::identify(call, &mut object)?;
        resource.fill_defaults(&mut object, is_owned);
        // Before the kind has its way with the object: what the server sets is owned by nobody.
        if !is_owned {
            object = write::own_written(call, None, object, &options.manager);
        }
        admission::complete(call, &mut object, None)?;
        resource.prepare(&mut object, None, Part::Main);
        admission::admit(call, &object, None)?;
        let mut warnings = write::judge(resource, &object, None, Part::Main)?;
        warnings.extend(admission::review(call, &object, None)?);

        let key = write::own_key(call, &name);
        let taken = |found: &Record| match decode_record(found).is_deleting() {
            true => Failure::already_exists_deleting(resource.named(), &name),
            false if !object.meta_text("generateName").is_empty() => Failure::no_unique_name(resource.named(), &name),
            false => Failure::already_exists(resource.named(), &name),
        };
        let now = call.server.world().now();
        if options.is_dry_run {
            if let Some(found) = call.server.store().get(&key) {
                return Err(taken(&found));
            }
            let object = resource.as_if_stored(object);
            let body = present::shaped(resource, object, call.accepted, &call.query, now)?;
            return Ok(Answer { status: StatusCode::CREATED, warnings, ..Answer::ok(call.accepted.format, body) });
        }
        let encoded = resource.encode(&object);
        let body = Stored::new(encoded.bytes, encoded.hole);
        match call.server.commit(Change::Put { key, expected: Expect::Absent, body }).await {
            Ok(record) => {
                // Its place may have begun to go since it was looked at, and whoever clears it away may not have seen
                // the object any more.
                if let Err(failure) = write::check_place(call, &name) {
                    undo(call, &record).await;
                    return Err(failure);
                }
                let body = present::one(resource, &record, call.accepted, &call.query, now)?;
                return Ok(Answer { status: StatusCode::CREATED, warnings, ..Answer::ok(call.accepted.format, body) });
            }
            Err(CommitError::Conflict { found: Some(_), .. }) if wants_name && attempt < NAME_TRIES => {}
            Err(CommitError::Conflict { found: Some(found), .. }) => return Err(taken(&found)),
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("no name could be made up"))
}

/// Takes back an object that was just created, unless somebody has changed it: then it is not only ours any more.
async fn undo(call: &Call, record: &Record) {
    let encoded = object::encode(&decode_record(record));
    let body = Stored::new(encoded.bytes, encoded.hole);
    let change = Change::Delete { key: record.key.clone(), expected: Expect::Revision(record.revision), body };
    if let Err(error) = call.server.commit(change).await {
        tracing::warn!(key = %record.key, %error, "an object stays although its place is on the way out");
    }
}
