//! Get (GET): reads one object.

use crate::request::Call;
use crate::response::Answer;
use crate::response::present;
use crate::response::status::Failure;
use crate::server::key;

/// Answers the object.
pub fn get(call: &Call) -> Result<Answer, Failure> {
    let Call { server, resource, path, accepted, query, .. } = call;
    // A revision that is not a number is ignored.
    let asked = query.get("resourceVersion").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let newest = server.store().revision();
    if asked > newest {
        return Err(Failure::revision_too_large(asked, newest));
    }
    let record = server.store().get(&key(resource, &path.namespace, &path.name));
    let record = record.ok_or_else(|| Failure::not_found(resource.group_resource(), &path.name))?;
    let body = present::one(resource, &record, *accepted, query, server.clock().now())?;
    Ok(Answer::ok(accepted.format, body))
}
