//! Patch (PATCH): changes parts of an object by one of the three patch formats, or by server-side apply.

use seaworthy_fields::{PatchError, json_patch, merge_patch, strategic_patch};
use serde_json::Value;

use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::decode;
use crate::request::media::{Format, PatchKind};
use crate::request::options::{WriteKind, WriteOptions};
use crate::response::Answer;
use crate::response::status::{ALREADY_EXISTS, Failure, GroupResource};
use crate::write::{self, Conformed, Proposal};

/// Applies the patch in the body.
pub async fn patch(call: &Call) -> Result<Answer, Failure> {
    let kind = PatchKind::of_body(&call.headers)?;
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Patch(kind))?;
    if kind == PatchKind::Apply {
        return apply(call, &options).await;
    }
    let patch = decode::read(&call.body, Format::Json).map_err(|_| Failure::bad_request("invalid JSON patch"))?;
    let odd = oddities(kind, &patch);
    let mut reported = Vec::new();
    let changed = write::change(call, &options, |old| {
        let patched = patched(call, kind, old, &patch.value)?;
        let patched = with_kind(call, kind, patched)?;
        let Conformed { object, unknown } = write::conform(&call.resource, patched).map_err(as_invalid_patch)?;
        let warnings =
            write::field_validation_warnings(&call.resource, &options, &unknown, &odd).map_err(as_invalid_patch)?;
        reported.clone_from(&warnings);
        Ok(Proposal { object, has_managers: false, warnings })
    })
    .await;
    changed.map_err(|failure| failure.with_warnings(&reported))
}

/// Warnings about the patch itself: duplicate keys, and unknown keys of operations.
fn oddities(kind: PatchKind, patch: &decode::Decoded) -> Vec<String> {
    if kind != PatchKind::Json {
        return patch.duplicates.clone();
    }
    let twice = patch.duplicates.iter().map(|duplicate| format!("json patch {duplicate}"));
    let operations = patch.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let unknown = operations.iter().enumerate().flat_map(|(at, operation)| {
        let keys = operation.as_object().into_iter().flat_map(Object::keys);
        let unknown = keys.filter(|key| !matches!(key.as_str(), "op" | "path" | "from" | "value"));
        unknown.map(move |key| format!("json patch {}", seaworthy_schema::unknown_field(&format!("[{at}].{key}"))))
    });
    twice.chain(unknown).collect()
}

/// The formats of patches for custom resources.
const CUSTOM: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

fn patched(call: &Call, kind: PatchKind, old: &Value, patch: &Value) -> Result<Object, Failure> {
    let live = old.clone();
    let result = match kind {
        PatchKind::Json => json_patch(live, patch),
        PatchKind::Merge => merge_patch(live, patch.clone()),
        PatchKind::Strategic => match call.resource.schema() {
            Some(schema) if !call.resource.is_custom() => strategic_patch(live, patch.clone(), schema),
            _ => return Err(Failure::unsupported_media_type(CUSTOM)),
        },
        PatchKind::Apply => return Err(Failure::unsupported_patch()),
    };
    let result = result.map_err(|error| write::redact_secret(&call.resource, refused(error)))?;
    match result {
        Value::Object(object) => Ok(object),
        _ => Err(as_invalid_patch(Failure::bad_request("the patched value is not an object"))),
    }
}

/// The answer to a patch that cannot be applied.
pub fn refused(error: PatchError) -> Failure {
    match error {
        PatchError::BadRequest(why) => Failure::bad_request(why),
        PatchError::TooLarge(why) => Failure { message: why, ..Failure::too_large(0) },
        // Details are omitted, as in the real server.
        PatchError::Unprocessable(_) => {
            Failure::unprocessable("the server rejected our request due to an error in our request")
        }
        PatchError::Internal(why) => Failure::unexplained(why),
    }
}

/// The patched object with its kind and version. A patch cannot change them.
fn with_kind(call: &Call, kind: PatchKind, mut object: Object) -> Result<Object, Failure> {
    let resource = &call.resource;
    let text = |object: &Object, key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (found, version) = (text(&object, "kind"), text(&object, "apiVersion"));
    if resource.is_custom() {
        if let Some(missing) = [("Kind", &found), ("apiVersion", &version)].iter().find(|(_, text)| text.is_empty()) {
            return Err(as_invalid_patch(Failure::bad_request(format!("Object '{}' is missing", missing.0))));
        }
        decode::check_custom_kind(&object, resource)?;
        return Ok(object);
    }
    let is_own =
        (found.is_empty() || *found == *resource.kind) && (version.is_empty() || *version == *resource.api_version);
    // A strategic merge patch ignores kind and version.
    if !is_own && kind != PatchKind::Strategic {
        let why = format!("no kind {found:?} is registered for version {version:?}");
        return Err(as_invalid_patch(Failure::bad_request(why)));
    }
    object.insert("kind".to_owned(), (*resource.kind).into());
    object.insert("apiVersion".to_owned(), (*resource.api_version).into());
    Ok(object)
}

/// Turns a 400 for a patched object into 422 with the field `patch`.
pub fn as_invalid_patch(failure: Failure) -> Failure {
    if failure.code != 400 {
        return failure;
    }
    let why = failure
        .message
        .rsplit_once(": strict decoding error")
        .map_or(failure.message.clone(), |(_, rest)| format!("strict decoding error{rest}"));
    // Differs: the real server repeats the whole object here, because a Secret must not end up in a message.
    let cause = seaworthy_schema::Cause::invalid("patch", seaworthy_schema::ShownValue::OMITTED, &why);
    Failure::invalid(GroupResource { group: "", resource: "" }, "", vec![cause])
}

/// Checks the name in a configuration against the path. It may be missing if the object exists.
fn check_identity(call: &Call, config: &mut Value, exists: bool) -> Result<(), Failure> {
    match config.name() {
        "" if exists && config.meta_text("generateName").is_empty() => {
            config.set_meta("name", call.path.name.as_str());
            Ok(())
        }
        "" => Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.path.name
        ))),
        name if name == call.path.name => Ok(()),
        name => Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.path.name
        ))),
    }
}

/// The configuration in the body of an apply, of the kind that the path names.
fn configuration(call: &Call) -> Result<(Value, Vec<String>), Failure> {
    let decoded = decode::read(&call.body, Format::Yaml)
        .map_err(|why| Failure::bad_request(format!("error decoding patch: error converting YAML to JSON: {why}")))?;
    let config = match decoded.value {
        config @ Value::Object(_) => config,
        // An empty body is an empty object.
        Value::Null => Value::Object(Object::new()),
        other => {
            let why = format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                decode::json_type(&other)
            );
            let before = "error decoding patch: error unmarshaling JSON: while decoding JSON";
            return Err(Failure::bad_request(format!("{before}: {why}")));
        }
    };
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if *kind != *call.resource.kind || *version != *call.resource.api_version {
        let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return Err(Failure::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    Ok((config, decoded.duplicates))
}

/// Server-side apply.
async fn apply(call: &Call, options: &WriteOptions) -> Result<Answer, Failure> {
    let (mut config, duplicates) = configuration(call)?;
    write::check_applied(call, &config)?;
    let key = write::object_key(call, &call.path.name);
    let exists = call.server.store().get(&key).is_some();
    check_identity(call, &mut config, exists || !call.path.subresource.is_empty())?;
    let Conformed { object: config, unknown } = write::conform(&call.resource, config)?;
    let warnings = write::field_validation_warnings(&call.resource, options, &unknown, &duplicates)?;
    if !exists && call.path.subresource.is_empty() {
        match apply_to_nothing(call, options, &config, &warnings).await {
            // Created concurrently: apply to that object.
            Err(failure) if failure.reason == ALREADY_EXISTS => {}
            created => return created.map_err(|failure| failure.with_warnings(&warnings)),
        }
    }
    let changed = write::change(call, options, |old| {
        let object = write::apply_config(call, Some(old), &config, &options.manager, options.force)?;
        Ok(Proposal { object, has_managers: true, warnings: warnings.clone() })
    });
    changed.await.map_err(|failure| failure.with_warnings(&warnings))
}

/// Creates an object by applying to nothing.
async fn apply_to_nothing(
    call: &Call,
    options: &WriteOptions,
    config: &Value,
    warnings: &[String],
) -> Result<Answer, Failure> {
    let mut object = write::apply_config(call, None, config, &options.manager, options.force)?;
    call.check_creation()?;
    write::check_no_uid(call, &object)?;
    object.metadata_mut().remove("resourceVersion");
    let mut answer = write::create_object(call, object, options, true).await?;
    answer.warnings.extend_from_slice(warnings);
    Ok(answer)
}
