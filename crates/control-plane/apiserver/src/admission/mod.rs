//! What must hold of a write beyond the rules of its kind: checks that look at who writes, or at other objects.

mod attempt;
mod binding;
mod discretion;
mod environment;
mod escalation;
mod matching;
mod policies;
mod policy;
mod program;

pub use policies::{GROUP, Policies};
pub use policy::Policy as AdmissionPolicy;

use crate::builtin::core::namespace::IMMORTAL;
use crate::builtin::scheduling::priority_class::SYSTEM;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::options::DeleteOptions;
use crate::resource::Origin;
use crate::response::status::Failure;

use attempt::{Attempt, Operation};

/// Adds what follows from other objects to an object that is written. `old` is the stored one, none on creation.
pub fn complete(call: &Call, object: &mut Object, old: Option<&Object>) -> Result<(), Failure> {
    match &call.resource.origin {
        Origin::BuiltIn(kind) if call.path.subresource.is_empty() => (kind.complete)(call, object, old),
        _ => Ok(()),
    }
}

/// Lets a write pass, or refuses it. `old` is the stored object, none on creation.
pub fn admit(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    escalation::check(call, object, old)
}

/// Asks the policies about a write that is as it would be stored. The answer is what the client should know beside.
pub fn review(call: &Call, object: &Object, old: Option<&Object>) -> Result<Vec<String>, Failure> {
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let name = if call.path.name.is_empty() { object.name() } else { call.path.name.as_str() };
    call.server.admission().judge(call, || Attempt::new(call, operation, name, Some(object), old))
}

/// Asks the policies about a deed on an object, such as an eviction.
pub fn review_deed(call: &Call, sent: &Object, is_dry_run: bool) -> Result<Vec<String>, Failure> {
    let attempt = || Attempt::new(call, Operation::Create, &call.path.name, Some(sent), None).dry(is_dry_run);
    call.server.admission().judge(call, attempt)
}

/// Asks whether an object may go, before it does.
///
/// Differs: policies see the name of every object of a collection, because a rule about a name must not be evaded by
/// removing many at once.
pub fn review_deletion(call: &Call, old: &Object, options: &DeleteOptions) -> Result<Vec<String>, Failure> {
    if &*call.resource.storage == "core/namespaces" && IMMORTAL.contains(&old.name()) {
        return Err(Failure::forbidden(call.resource.named(), old.name(), "this namespace may not be deleted"));
    }
    if &*call.resource.storage == "scheduling.k8s.io/priorityclasses" && old.name().starts_with(SYSTEM) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Failure::forbidden(call.resource.named(), old.name(), why));
    }
    let attempt = || Attempt::new(call, Operation::Delete, old.name(), None, Some(old)).dry(options.is_dry_run);
    call.server.admission().judge(call, attempt)
}
