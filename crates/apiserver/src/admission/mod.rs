//! What must hold of a write beyond the rules of its kind: checks that look at who writes, or at other objects.

mod escalation;

use crate::call::Call;
use crate::object::Object;
use crate::status::Failure;

/// Lets a write pass, or refuses it. `old` is the stored object, none on creation.
pub fn admit(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    escalation::check(call, object, old)
}
