//! Create (POST): adds the object in the body.

use http::StatusCode;

use crate::admission;
use crate::builtin::rbac::review;
use crate::object;
use crate::request::Call;
use crate::request::decode;
use crate::request::media::Format;
use crate::request::options::{WriteKind, WriteOptions};
use crate::response::status::Failure;
use crate::response::{Answer, present};
use crate::write::{self, Conformed};

/// Adds the object in the body.
pub async fn create(call: &Call) -> Result<Answer, Failure> {
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Create)?;
    let format = Format::of_body(&call.headers)?;
    let (object, duplicates) = decode::object(&call.body, format, &call.resource)?;
    let Conformed { object, unknown } = write::conform(&call.resource, object)?;
    let warnings = write::field_validation_warnings(&call.resource, &options, &unknown, &duplicates)?;
    if let Some(how) = call.resource.review() {
        let mut warnings = warnings;
        let object = object::into_fields(object);
        warnings.extend(admission::review(call, &object, None)?);
        let review = review::answer(call, object, how, &options.manager)?;
        let body = present::shaped(&call.resource, review, call.accepted, &call.query, call.server.clock().now())?;
        let format = call.accepted.format;
        return Ok(Answer { status: StatusCode::CREATED, format, body: body.into(), warnings });
    }
    let created = write::create_object(call, object, &options, false).await;
    let mut answer = created.map_err(|failure| failure.with_warnings(&warnings))?;
    answer.warnings.splice(0..0, warnings);
    Ok(answer)
}
