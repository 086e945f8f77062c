//! Admission: checks of a write beyond its kind's validation, which depend on the user or on other objects.

mod admission_request;
mod binding;
mod environment;
mod escalation;
mod matching;
mod policies;
mod policy;
mod program;
mod redaction;

pub use policies::{AdmissionPolicies, GROUP};
pub use policy::AdmissionPolicy;

use crate::builtin::core::namespace::PROTECTED_NAMESPACES;
use crate::builtin::scheduling::priority_class::SYSTEM_PREFIX;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::options::DeleteOptions;
use crate::resource::Origin;
use crate::response::status::Failure;

use admission_request::{AdmissionRequest, Operation};

/// Mutating admission: sets fields that depend on other objects. `old` is the stored object, none on creation.
pub fn mutate(call: &Call, object: &mut Object, old: Option<&Object>) -> Result<(), Failure> {
    match &call.resource.origin {
        Origin::BuiltIn(kind) if call.path.subresource.is_empty() => (kind.mutate)(call, object, old),
        _ => Ok(()),
    }
}

/// Validating admission that is built in. `old` is the stored object, none on creation.
pub fn admit(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), Failure> {
    escalation::check(call, object, old)
}

/// Evaluates the admission policies on a write in its final form. Returns warnings for the client.
pub fn review(call: &Call, object: &Object, old: Option<&Object>) -> Result<Vec<String>, Failure> {
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let name = if call.path.name.is_empty() { object.name() } else { call.path.name.as_str() };
    call.server.admission().validate(call, || AdmissionRequest::new(call, operation, name, Some(object), old))
}

/// Evaluates the admission policies on the action of a subresource, such as an eviction.
pub fn review_subresource(call: &Call, sent: &Object, is_dry_run: bool) -> Result<Vec<String>, Failure> {
    let write =
        || AdmissionRequest::new(call, Operation::Create, &call.path.name, Some(sent), None).with_dry_run(is_dry_run);
    call.server.admission().validate(call, write)
}

/// Evaluates the admission policies on a deletion.
///
/// Differs: policies see the name of every object of a collection, because a rule about a name must not be evaded by
/// removing many at once.
pub fn review_deletion(call: &Call, old: &Object, options: &DeleteOptions) -> Result<Vec<String>, Failure> {
    if &*call.resource.storage == "core/namespaces" && PROTECTED_NAMESPACES.contains(&old.name()) {
        return Err(Failure::forbidden(
            call.resource.group_resource(),
            old.name(),
            "this namespace may not be deleted",
        ));
    }
    if &*call.resource.storage == "scheduling.k8s.io/priorityclasses" && old.name().starts_with(SYSTEM_PREFIX) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Failure::forbidden(call.resource.group_resource(), old.name(), why));
    }
    let write =
        || AdmissionRequest::new(call, Operation::Delete, old.name(), None, Some(old)).with_dry_run(options.is_dry_run);
    call.server.admission().validate(call, write)
}
