//! What lives below an object and is more than a part of it: binding, eviction, tokens, scale.

mod binding;
mod eviction;
mod scale;
mod token;

use http::StatusCode;
use seaworthy_store::{Body as Stored, Change, CommitError, Expect, Key};
use serde_json::{Value, json};

use crate::call::{Answer, Call};
use crate::decode;
use crate::kind::Deed;
use crate::media::Format;
use crate::object::Object;
use crate::present;
use crate::request::Verb;
use crate::resource::Resource;
use crate::server::{Server, decode as decode_record};
use crate::status::Failure;

/// How often a change is tried on an object that others keep changing.
const TRIES: usize = 64;

/// What the subresource of a call does; none if it only reads and writes a part of the object.
pub fn deed(call: &Call) -> Option<Deed> {
    if call.path.subresource.is_empty() {
        return None;
    }
    let below = call.resource.below().into_iter().find(|below| below.name == call.path.subresource)?;
    (below.deed != Deed::Part).then_some(below.deed)
}

/// Does it.
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

/// Changes a stored object, as often as it takes. The change sees the very state that it replaces; what it refuses is
/// refused, and a state that it leaves as it is costs nothing.
async fn amend(
    server: &Server,
    resource: &Resource,
    key: &Key,
    mut make: impl FnMut(&mut Object) -> Result<(), Failure>,
) -> Result<Object, Failure> {
    for attempt in 1.. {
        let found = server.store().get(key).ok_or_else(|| Failure::not_found(resource.named(), &key.name))?;
        let old = decode_record(&found);
        let mut next = old.clone();
        make(&mut next)?;
        if next == old {
            return Ok(old);
        }
        let encoded = resource.encode(&next);
        let body = Stored::new(encoded.bytes, encoded.hole);
        let change = Change::Put { key: key.clone(), expected: Expect::Revision(found.revision), body };
        match server.commit(change).await {
            Ok(record) => return Ok(decode_record(&record)),
            Err(CommitError::Conflict { .. }) if attempt < TRIES => {}
            Err(CommitError::Conflict { .. }) => return Err(Failure::modified(resource.named(), &key.name)),
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("the object changes too fast"))
}

/// Sets a condition in a status, with the time of its last change.
fn set_condition(object: &mut Object, condition: Value, now: &str) {
    use crate::object::Metadata as _;
    use crate::reach::Reach as _;
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
