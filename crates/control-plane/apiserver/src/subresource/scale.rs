//! `/scale`: reads and sets the number of replicas, with one schema for all scalable kinds.

use seaworthy_fields::{json_patch, merge_patch};
use seaworthy_schema::Cause;
use serde_json::{Map, Value, json};

use crate::admission;
use crate::builtin::apps::workload::selector_text;
use crate::object::field_access::FieldAccess;
use crate::object::{self, Metadata, Object};
use crate::request::Call;
use crate::request::decode;
use crate::request::media::{Format, PatchKind};
use crate::request::options::{WriteKind, WriteOptions};
use crate::resource::built_in_kind::ScalePaths;
use crate::response::Answer;
use crate::response::present;
use crate::response::status::{Failure, GroupResource};
use crate::verb::{as_invalid_patch, refused};
use crate::write::{self, Conformed, Outcome, Proposal, ScaleWrite};

use super::sent;

/// The object as a `Scale`.
fn shown(object: &(impl Metadata + FieldAccess), paths: &ScalePaths) -> Value {
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.metadata().get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut spec = json!({});
    // Zero is omitted.
    if let Some(wanted) = object.number(&paths.spec_replicas).filter(|wanted| *wanted != 0) {
        spec["replicas"] = wanted.into();
    }
    let mut status = json!({"replicas": object.number(&paths.status_replicas).unwrap_or(0)});
    let selector = match object.at(&paths.selector) {
        Some(Value::String(text)) => text.clone(),
        Some(selector @ Value::Object(_)) => selector_text(selector),
        _ => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// Answers the scale.
pub fn get(call: &Call, paths: &ScalePaths) -> Result<Answer, Failure> {
    let found = call.server.store().get(&write::object_key(call, &call.path.name));
    let found = found.ok_or_else(|| Failure::not_found(call.resource.group_resource(), &call.path.name))?;
    let scale = shown(&present::object(&call.resource, &found.body()), paths);
    let format = call.accepted.format;
    Ok(Answer::ok(format, present::text(&scale, format)))
}

/// Replaces the scale.
pub async fn update(call: &Call, paths: &ScalePaths) -> Result<Answer, Failure> {
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Update)?;
    let sent = sent(call, "Scale", &["autoscaling/v1"])?;
    let Conformed { object: scale, unknown } = write::conform_scale(sent)?;
    let warnings = write::field_validation_warnings_of("Scale", "v1", &options, &unknown, &[])?;
    check_name(call, &scale)?;
    set(call, paths, &options, |old| {
        let (uid, own) = (scale.text("metadata.uid"), old.text("metadata.uid"));
        if !uid.is_empty() && uid != own {
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
            return Err(Failure::conflict(call.resource.group_resource(), &call.path.name, &why));
        }
        Ok((ScaleWrite::Written(scale.clone()), warnings.clone()))
    })
    .await
}

/// Checks name and namespace of a scale against the path.
fn check_name(call: &Call, scale: &Value) -> Result<(), Failure> {
    let (name, namespace) = (scale.name(), scale.namespace());
    if name.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.path.name
        )));
    }
    if name != call.path.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.path.name
        )));
    }
    if !namespace.is_empty() && namespace != call.path.namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(why));
    }
    Ok(())
}

/// Patches the scale.
pub async fn patch(call: &Call, paths: &ScalePaths) -> Result<Answer, Failure> {
    let kind = PatchKind::of_body(&call.headers)?;
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Patch(kind))?;
    if kind == PatchKind::Strategic && call.resource.is_custom() {
        return Err(Failure::unsupported_patch());
    }
    let format = if kind == PatchKind::Apply { Format::Yaml } else { Format::Json };
    let patch = decode::read(&call.body, format).map_err(|_| Failure::bad_request("invalid JSON patch"))?.value;
    set(call, paths, &options, |old| {
        let patched = match kind {
            PatchKind::Apply => return Ok((ScaleWrite::Applied(&patch, options.force), Vec::new())),
            PatchKind::Json => json_patch(old, &patch),
            PatchKind::Merge | PatchKind::Strategic => merge_patch(old, patch.clone()),
        };
        let Value::Object(patched) = patched.map_err(refused)? else {
            return Err(as_invalid_patch(Failure::bad_request("the patched value is not an object")));
        };
        let Conformed { object, unknown } = write::conform_scale(patched).map_err(as_invalid_patch)?;
        let warnings =
            write::field_validation_warnings_of("Scale", "v1", &options, &unknown, &[]).map_err(as_invalid_patch)?;
        check_name(call, &object)?;
        Ok((ScaleWrite::Written(object), warnings))
    })
    .await
}

async fn set<'p>(
    call: &Call,
    paths: &ScalePaths,
    options: &WriteOptions,
    make: impl Fn(Value) -> Result<(ScaleWrite<'p>, Vec<String>), Failure>,
) -> Result<Answer, Failure> {
    let change = |old: &Value| {
        let before = shown(old, paths);
        let (write, mut warnings) = make(before.clone())?;
        let (scale, owners) = write::track_scale_write(call, old, &before, write, &options.manager)?;
        let wanted = scale.number("spec.replicas").unwrap_or(0);
        if wanted < 0 {
            return Err(negative(call, paths, wanted));
        }
        let mut object = object::fields(old).clone();
        match scale.text("metadata.resourceVersion") {
            "" => object.metadata_mut().remove("resourceVersion"),
            revision => object.metadata_mut().insert("resourceVersion".to_owned(), revision.into()),
        };
        if object.revision_text().is_empty() {
            // Without a revision the present object is scaled.
            object.set_meta("resourceVersion", old.revision_text());
        }
        put(&mut object, &paths.spec_replicas, wanted.into());
        match owners {
            Value::Null => object.metadata_mut().remove("managedFields"),
            owners => object.metadata_mut().insert("managedFields".to_owned(), owners),
        };
        warnings.extend(admission::review(call, object::fields(&scale), Some(object::fields(&before)))?);
        Ok(Proposal { object: Value::Object(object), has_managers: true, warnings })
    };
    write::change_and_present(call, options, change, |outcome| {
        let object = match outcome {
            Outcome::Stored(record) => present::object(&call.resource, &record.body()),
            Outcome::Unstored(object) => object,
        };
        Ok(present::text(&shown(&object, paths), call.accepted.format))
    })
    .await
}

/// The failure for a negative number: of the scale, or of the object for custom resources.
fn negative(call: &Call, paths: &ScalePaths, wanted: i64) -> Failure {
    let (named, cause) = match call.resource.is_custom() {
        true => (
            call.resource.group_kind(),
            Cause::invalid(format!(".{}", paths.spec_replicas), wanted, "should be a non-negative integer"),
        ),
        false => (
            GroupResource { group: "autoscaling", resource: "Scale" },
            Cause::invalid("spec.replicas", wanted, "must be greater than or equal to 0"),
        ),
    };
    Failure::invalid(named, &call.path.name, vec![cause])
}

/// Sets the value at a path, creating missing maps.
fn put(object: &mut Object, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let below = object.entry(first).or_insert_with(|| json!({}));
            if let Some(below) = below.as_object_mut() {
                put(below, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployment_is_shown_by_its_numbers_and_its_selector() {
        let object = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"replicas": 2,
            "selector": {"matchLabels": {"app": "a"}}}, "status": {"replicas": 1}});
        let paths = ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: "spec.selector".into(),
        };
        let scale = shown(object.as_object().unwrap(), &paths);
        assert_eq!(scale["metadata"], json!({"name": "a"}));
        assert_eq!(scale["spec"], json!({"replicas": 2}));
        assert_eq!(scale["status"], json!({"replicas": 1, "selector": "app=a"}));
    }

    #[test]
    fn number_is_put_where_the_path_leads() {
        let mut object = Object::new();
        put(&mut object, "spec.size.wanted", 3.into());
        assert_eq!(Value::Object(object), json!({"spec": {"size": {"wanted": 3}}}));
    }
}
