//! Delete (DELETE): removes one object, or a collection.

use serde_json::{Value, json};

use crate::admission;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::decode;
use crate::request::media::Format;
use crate::request::options::DeleteOptions;
use crate::resource::Resource;
use crate::response::status::Failure;
use crate::response::{Answer, present};
use crate::write::{self, Deletion};

use super::list::list_of;

/// Removes the object.
pub async fn delete(call: &Call) -> Result<Answer, Failure> {
    let options = read_options(call)?;
    let key = write::object_key(call, &call.path.name);
    let mut warnings = Vec::new();
    let deleted = write::delete_checked(&call.server, &call.resource, &key, &options, |object| {
        warnings = admission::review_deletion(call, object, &options)?;
        Ok(())
    })
    .await?;
    let now = call.server.clock().now();
    let object = match deleted {
        Deletion::Removed(object) if !call.resource.behaviour().answers_deleted => {
            let body = present::text(&success(&call.resource, &object), call.accepted.format);
            return Ok(Answer { warnings, ..Answer::ok(call.accepted.format, body) });
        }
        Deletion::Removed(object) | Deletion::Pending(object) => object,
    };
    let body = present::shaped(&call.resource, object, call.accepted, &call.query, now)?;
    Ok(Answer { warnings, ..Answer::ok(call.accepted.format, body) })
}

/// Removes everything that a list with the same options shows, and answers that list.
pub async fn delete_collection(call: &Call) -> Result<Answer, Failure> {
    let options = read_options(call)?;
    let (mut answer, records) = list_of(call)?;
    for record in records {
        let check = |object: &Object| {
            answer.warnings.extend(admission::review_deletion(call, object, &options)?);
            Ok(())
        };
        match write::delete_checked(&call.server, &call.resource, &record.key, &options, check).await {
            Ok(_) => {}
            // Another client deleted it.
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(answer)
}

fn read_options(call: &Call) -> Result<DeleteOptions, Failure> {
    if call.body.is_empty() {
        return DeleteOptions::read(&call.query, None);
    }
    let format = Format::of_body(&call.headers)?;
    let decoded = decode::read(&call.body, format)
        .map_err(|why| Failure::bad_request(format!("cannot read the DeleteOptions: {why}")))?;
    let options = decode::into_typed_object(decoded.value)
        .map_err(|why| Failure::bad_request(format!("couldn't get version/kind; json parse error: {why}")))?;
    // Any other kind in the body is a mistake. The version does not matter: every group has DeleteOptions.
    let text = |key: &str| options.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    if !kind.is_empty() && kind != "DeleteOptions" {
        let version = text("apiVersion");
        let why = format!("no kind {kind:?} is registered for version {version:?} in the body of a deletion");
        return Err(Failure::bad_request(format!("{why}; send DeleteOptions or no body")));
    }
    DeleteOptions::read(&call.query, Some(&Value::Object(options)))
}

fn success(resource: &Resource, object: &Object) -> Value {
    let mut details = json!({"name": object.name(), "kind": *resource.plural, "uid": object.uid()});
    if !resource.group.is_empty() {
        details["group"] = (*resource.group).into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
