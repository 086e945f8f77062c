//! What must hold of a write beyond the rules of its kind: checks that look at who writes, or at other objects.

mod escalation;

use crate::builtin::namespace::IMMORTAL;
use crate::call::Call;
use crate::object::Object;
use crate::status::Failure;

/// Lets a write pass, or refuses it. `old` is the stored object, none on creation.
pub fn admit(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    escalation::check(call, object, old)
}

/// Lets a deletion pass, or refuses it: some namespaces are there as long as the server is.
pub fn admit_deletion(call: &Call) -> Result<(), Failure> {
    let is_namespace = &*call.resource.storage == "core/namespaces";
    if is_namespace && IMMORTAL.contains(&call.path.name.as_str()) {
        let why = "this namespace may not be deleted";
        return Err(Failure::forbidden(call.resource.named(), &call.path.name, why));
    }
    Ok(())
}
