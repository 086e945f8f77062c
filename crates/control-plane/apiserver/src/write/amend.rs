//! Amendments: writes of the server itself to a stored object, such as the binding of a pod.
//!
//! They are not writes of a user: they skip validation, admission and field ownership.

use seaworthy_store::{Change, CommitError, Expect, Key};

use crate::object::Object;
use crate::resource::Resource;
use crate::response::status::Failure;
use crate::server::{Server, decode as decode_record};

use super::MAX_ATTEMPTS;

/// Changes a stored object; concurrent writes are retried. `make` sees the very state that it replaces; its refusal is
/// the result, and a state that it leaves unchanged is not written.
pub async fn amend(
    server: &Server,
    resource: &Resource,
    key: &Key,
    mut make: impl FnMut(&mut Object) -> Result<(), Failure>,
) -> Result<Object, Failure> {
    for attempt in 1.. {
        let found = server.store().get(key).ok_or_else(|| Failure::not_found(resource.group_resource(), &key.name))?;
        let old = decode_record(&found);
        let mut next = old.clone();
        make(&mut next)?;
        if next == old {
            return Ok(old);
        }
        let body = resource.encode(&next);
        let change = Change::Put { key: key.clone(), expected: Expect::Revision(found.revision), body };
        match server.commit(change).await {
            Ok(record) => return Ok(decode_record(&record)),
            Err(CommitError::Conflict { .. }) if attempt < MAX_ATTEMPTS => {}
            Err(CommitError::Conflict { .. }) => return Err(Failure::modified(resource.group_resource(), &key.name)),
            Err(error) => return Err(Failure::of_commit(&error)),
        }
    }
    // The loop above ends by returning.
    Err(Failure::internal("too many concurrent changes to the object"))
}
