//! What lives below an object and is more than a part of it: binding, eviction, tokens, scale.

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
use crate::resource::kind::Deed;
use crate::response::Answer;
use crate::response::present;
use crate::response::status::Failure;

/// The action of the subresource that a call names; none if it only reads and writes a part of the object.
pub fn deed(call: &Call) -> Option<Deed> {
    call.below.as_ref().map(|below| &below.deed).filter(|deed| **deed != Deed::Part).cloned()
}

/// Executes it.
pub async fn act(call: &Call, verb: Verb, deed: &Deed) -> Result<Answer, Failure> {
    match (deed, verb) {
        (Deed::Bind, Verb::Create) => binding::bind(call).await,
        (Deed::Evict, Verb::Create) => eviction::evict(call).await,
        (Deed::Token, Verb::Create) => token::request(call),
        (Deed::Scale(paths), Verb::Get) => scale::get(call, paths),
        (Deed::Scale(paths), Verb::Update) => scale::update(call, paths).await,
        (Deed::Scale(paths), Verb::Patch) => scale::patch(call, paths).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// The object that was sent, of a kind that is not the resource's own.
fn sent(call: &Call, kind: &str, api_versions: &[&str]) -> Result<Object, Failure> {
    let format = Format::of_body(&call.headers)?;
    let unreadable = |why: String| {
        Failure::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let decoded = decode::read(&call.body, format).map_err(unreadable)?;
    let Value::Object(object) = decoded.value else { return Err(unreadable("it is no object".to_owned())) };
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

/// The answer to a deed that leaves nothing to show.
fn done(call: &Call) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let format = call.accepted.format;
    Answer { status: StatusCode::CREATED, ..Answer::ok(format, present::text(&status, format)) }
}

/// Sets a condition in a status, with the time of its last change.
fn set_condition(object: &mut Object, condition: Value, now: &str) {
    use crate::object::Metadata as _;
    use crate::object::reach::Reach as _;
    // Only who reports on generations at all says which one a condition is about.
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
