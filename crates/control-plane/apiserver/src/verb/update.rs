//! Update (PUT): replaces an object by the one in the body.

use crate::object::Metadata;
use crate::request::Call;
use crate::request::decode;
use crate::request::media::Format;
use crate::request::options::{WriteKind, WriteOptions};
use crate::response::Answer;
use crate::response::status::{ALREADY_EXISTS, Failure};
use crate::write::{self, Conformed, Proposal};

/// Replaces the object by the one in the body.
pub async fn update(call: &Call) -> Result<Answer, Failure> {
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Update)?;
    let format = Format::of_body(&call.headers)?;
    let (object, duplicates) = decode::object(&call.body, format, &call.resource)?;
    let Conformed { object, unknown } = write::conform(&call.resource, object)?;
    let warnings = write::field_validation_warnings(&call.resource, &options, &unknown, &duplicates)?;
    write::check_name(call, &object)?;
    let key = write::object_key(call, &call.path.name);
    if call.server.store().get(&key).is_none() && call.resource.behaviour().creates_on_update {
        call.check_creation()?;
        // A uid names an existing object, never a new one.
        check_uid(call, &object, "")?;
        let mut fresh = object.clone();
        fresh.metadata_mut().remove("resourceVersion");
        match write::create_object(call, fresh, &options, false).await {
            // Created concurrently: update that object.
            Err(failure) if failure.reason == ALREADY_EXISTS => {}
            Err(failure) => return Err(failure.with_warnings(&warnings)),
            Ok(answer) => return Ok(answer.with_warnings(warnings)),
        }
    }
    let changed = write::change(call, &options, |old| {
        check_uid(call, &object, old.uid())?;
        Ok(Proposal { object: object.clone(), has_managers: false, warnings: warnings.clone() })
    });
    changed.await.map_err(|failure| failure.with_warnings(&warnings))
}

/// A whole object that carries a uid replaces the object with that uid only.
fn check_uid(call: &Call, object: &impl Metadata, found: &str) -> Result<(), Failure> {
    let wanted = object.uid();
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
    Err(Failure::conflict(call.resource.group_resource(), &call.path.name, &why))
}
