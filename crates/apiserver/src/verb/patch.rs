//! Changing parts of an object.

use seaworthy_fields::{PatchError, json_patch, merge_patch, strategic_patch};
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::decode;
use crate::media::{Format, PatchKind};
use crate::object::{Metadata, Object};
use crate::options::{WriteKind, WriteOptions};
use crate::status::{Failure, Named};
use crate::write::{self, Conformed};

use super::create::create_object;
use super::update::{Changed, change};

/// Applies the patch in the body.
pub async fn patch(call: &Call) -> Result<Answer, Failure> {
    let kind = PatchKind::of_body(&call.headers)?;
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Patch(kind))?;
    if kind == PatchKind::Apply {
        return apply(call, &options).await;
    }
    let patch = decode::read(&call.body, Format::Json).map_err(|_| Failure::bad_request("invalid JSON patch"))?.value;
    change(call, &options, |old| {
        let patched = patched(call, kind, old, &patch)?;
        check_kind(call, &patched)?;
        let Conformed { object, unknown } = write::conform(&call.resource, patched).map_err(as_invalid_patch)?;
        let warnings = write::judge_oddities(&call.resource, &options, &unknown, &[]).map_err(as_invalid_patch)?;
        Ok(Changed { object, is_owned: false, warnings })
    })
    .await
}

/// The formats of patches for custom resources.
const CUSTOM: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

fn patched(call: &Call, kind: PatchKind, old: &Object, patch: &Value) -> Result<Object, Failure> {
    let live = Value::Object(old.clone());
    let result = match kind {
        PatchKind::Json => json_patch(live, patch),
        PatchKind::Merge => merge_patch(live, patch.clone()),
        PatchKind::Strategic => match call.resource.schema() {
            Some(schema) if !call.resource.is_custom() => strategic_patch(live, patch.clone(), schema),
            _ => return Err(Failure::unsupported_media_type(CUSTOM)),
        },
        PatchKind::Apply => return Err(Failure::unsupported_patch()),
    };
    let result = result.map_err(|error| write::discreet(&call.resource, refused(error)))?;
    match result {
        Value::Object(object) => Ok(object),
        _ => Err(Failure::bad_request("the patch leaves no object")),
    }
}

/// The answer to a patch that cannot be applied.
fn refused(error: PatchError) -> Failure {
    match error {
        PatchError::BadRequest(why) => Failure::bad_request(why),
        PatchError::TooLarge(why) => Failure { message: why, ..Failure::too_large(0) },
        PatchError::Unprocessable(why) => Failure::unprocessable(why),
        // Differs: the real server calls it its own fault, because a patch that does not fit is the sender's.
        PatchError::Internal(why) => Failure::unprocessable(why),
    }
}

/// No patch makes another kind of an object.
fn check_kind(call: &Call, object: &Object) -> Result<(), Failure> {
    let resource = &call.resource;
    let mut causes = Vec::new();
    for (key, wanted) in [("kind", &resource.kind), ("apiVersion", &resource.api_version)] {
        let found = object.get(key).and_then(Value::as_str).unwrap_or_default();
        if *found != **wanted {
            causes.push(seaworthy_schema::Cause::invalid(key, found, &format!("must be {wanted}")));
        }
    }
    match causes.is_empty() {
        true => Ok(()),
        false if !resource.is_custom() => {
            let why = format!("the patch makes another kind of it than {} of {}", resource.kind, resource.api_version);
            let cause = seaworthy_schema::Cause::invalid("patch", seaworthy_schema::Shown::OMITTED, &why);
            Err(Failure::invalid(Named { group: "", word: "" }, "", vec![cause]))
        }
        false => Err(Failure::invalid(resource.named_kind(), &call.path.name, causes)),
    }
}

/// What a patch makes of an object is the patch's fault: 422, with the field `patch`.
fn as_invalid_patch(failure: Failure) -> Failure {
    if failure.code != 400 {
        return failure;
    }
    let why = failure
        .message
        .rsplit_once(": strict decoding error")
        .map_or(failure.message.clone(), |(_, rest)| format!("strict decoding error{rest}"));
    // Differs: the real server repeats the whole object here, because a Secret must not end up in a message.
    let cause = seaworthy_schema::Cause::invalid("patch", seaworthy_schema::Shown::OMITTED, &why);
    Failure::invalid(Named { group: "", word: "" }, "", vec![cause])
}

fn nameless(call: &Call) -> Failure {
    Failure::bad_request(format!(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        call.path.name
    ))
}

/// A configuration is about the object that the path names.
fn check_identity(call: &Call, config: &mut Object) -> Result<(), Failure> {
    match config.name() {
        "" if !config.meta_text("generateName").is_empty() => Err(nameless(call)),
        "" => {
            config.set_meta("name", call.path.name.as_str());
            Ok(())
        }
        name if name == call.path.name => Ok(()),
        name => Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.path.name
        ))),
    }
}

/// Server-side apply.
async fn apply(call: &Call, options: &WriteOptions) -> Result<Answer, Failure> {
    let decoded = decode::read(&call.body, Format::Yaml)
        .map_err(|why| Failure::bad_request(format!("error decoding YAML: {why}")))?;
    let Value::Object(mut config) = decoded.value else {
        return Err(Failure::bad_request("error decoding YAML: the configuration is no object"));
    };
    let is_named = |key: &str| config.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !is_named("kind") || !is_named("apiVersion") {
        return Err(Failure::bad_request("invalid object type: a configuration names its apiVersion and kind"));
    }
    decode::check_kind(&mut config, &call.resource)?;
    let is_nameless = config.name().is_empty();
    check_identity(call, &mut config)?;
    let Conformed { object, unknown } = write::conform(&call.resource, config)?;
    let warnings = write::judge_oddities(&call.resource, options, &unknown, &decoded.duplicates)?;
    let config = Value::Object(object);
    let key = write::own_key(call, &call.path.name);
    if call.server.store().get(&key).is_none() && call.path.subresource.is_empty() {
        if is_nameless {
            return Err(nameless(call));
        }
        let object = write::own_applied(call, None, &config, &options.manager, options.force)?;
        call.check_creation()?;
        let mut answer = create_object(call, object, options, true).await?;
        answer.warnings.extend(warnings);
        return Ok(answer);
    }
    change(call, options, |old| {
        let object = write::own_applied(call, Some(old), &config, &options.manager, options.force)?;
        Ok(Changed { object, is_owned: true, warnings: warnings.clone() })
    })
    .await
}
