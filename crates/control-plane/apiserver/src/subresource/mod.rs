//! Subresources that are more than a part of the object: binding, eviction, token, scale.

mod binding;
mod eviction;
mod scale;
mod token;

use http::StatusCode;
use serde_json::{Value, json};

use crate::object::Object;
use crate::request::Call;
use crate::request::Verb;
use crate::request::decode;
use crate::request::media::Format;
use crate::resource::built_in_kind::SubresourceAction;
use crate::response::Answer;
use crate::response::present;
use crate::response::status::Failure;

/// The action of the subresource that a call names; none if it only reads and writes a part of the object.
pub fn action(call: &Call) -> Option<SubresourceAction> {
    call.subresource
        .as_ref()
        .map(|subresource| &subresource.action)
        .filter(|action| **action != SubresourceAction::ReadWrite)
        .cloned()
}

/// Executes the action of a subresource.
pub async fn execute(call: &Call, verb: Verb, action: &SubresourceAction) -> Result<Answer, Failure> {
    match (action, verb) {
        (SubresourceAction::Bind, Verb::Create) => binding::bind(call).await,
        (SubresourceAction::Evict, Verb::Create) => eviction::evict(call).await,
        (SubresourceAction::CreateToken, Verb::Create) => token::request(call),
        (SubresourceAction::Scale(paths), Verb::Get) => scale::get(call, paths),
        (SubresourceAction::Scale(paths), Verb::Update) => scale::update(call, paths).await,
        (SubresourceAction::Scale(paths), Verb::Patch) => scale::patch(call, paths).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// The object in the body, of another kind than the resource's.
fn sent(call: &Call, kind: &str, api_versions: &[&str]) -> Result<Object, Failure> {
    let format = Format::of_body(&call.headers)?;
    let unreadable = |why: String| {
        Failure::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let decoded = decode::read(&call.body, format).map_err(unreadable)?;
    let Value::Object(object) = decoded.value else { return Err(unreadable("not an object".to_owned())) };
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_kind = matches!(text("kind"), "") || text("kind") == kind;
    let is_version = text("apiVersion").is_empty() || api_versions.contains(&text("apiVersion"));
    if !is_kind || !is_version {
        let found = text("kind");
        return Err(Failure::bad_request(format!(
            "{found} in version {:?} cannot be handled as a {kind}: expected {kind} of {}",
            text("apiVersion"),
            api_versions.join(" or ")
        )));
    }
    Ok(object)
}

/// The answer of an action without a result.
fn done(call: &Call) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let format = call.accepted.format;
    Answer { status: StatusCode::CREATED, ..Answer::ok(format, present::text(&status, format)) }
}

/// Sets a condition in a status, with the time of its last change.
fn set_condition(object: &mut Object, condition: Value, now: &str) {
    use crate::object::Metadata as _;
    use crate::object::field_access::FieldAccess as _;
    // Only a status with `observedGeneration` has it in its conditions.
    let generation = object.number("status.observedGeneration").filter(|seen| *seen > 0).map(|_| object.generation());
    let status = object.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    let mut condition = condition;
    condition["lastTransitionTime"] = now.into();
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    match list.iter_mut().find(|own| own.text("type") == condition.text("type")) {
        Some(own) => {
            if own.text("status") == condition.text("status") {
                condition["lastTransitionTime"] = own["lastTransitionTime"].clone();
            }
            *own = condition;
        }
        None => list.push(condition),
    }
}
