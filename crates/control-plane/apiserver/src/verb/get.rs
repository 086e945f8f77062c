//! Reading one object.

use crate::request::Call;
use crate::response::Answer;
use crate::response::present;
use crate::response::status::Failure;
use crate::server::key;

/// Answers the object.
pub fn get(call: &Call) -> Result<Answer, Failure> {
    let Call { server, resource, path, accepted, query, .. } = call;
    // A revision that is no number asks for nothing that could be waited for.
    let asked = query.get("resourceVersion").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let newest = server.store().revision();
    if asked > newest {
        return Err(Failure::revision_too_large(asked, newest));
    }
    let record = server.store().get(&key(resource, &path.namespace, &path.name));
    let record = record.ok_or_else(|| Failure::not_found(resource.named(), &path.name))?;
    let body = present::one(resource, &record, *accepted, query, server.world().now())?;
    Ok(Answer::ok(accepted.format, body))
}
