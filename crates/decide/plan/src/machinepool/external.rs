//! External objects: what a reference of the pool leads to, in words, and taking it.

use seaworthy_api::cluster::ContractReference;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_api::vocabulary::cluster::EventReason;
use seaworthy_change::{Change, Event, ObjectRef};
use seaworthy_values::text::truncate;

use super::field::{FieldError, Fields};
use super::inputs::{FoundObject, cluster_name};
use super::owner::{self, Control};
use super::report::Problem;

/// The longest failure message that the definition of pools accepts.
const MAX_FAILURE_BYTES: usize = 10_240;

/// An object that the pool controls, or will with these changes.
#[derive(Debug, Default)]
pub struct Taking {
    /// The change of the object itself.
    pub object: Option<Change>,
    /// What a person should know about it, once.
    pub event: Option<Change>,
}

/// The object that a reference names, for messages: kind, namespace and name.
pub fn described(pool: &MachinePool, reference: Option<&ContractReference>) -> String {
    let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
    match reference {
        Some(reference) => format!("{} {namespace}/{}", reference.kind, reference.name),
        None => "no object".to_owned(),
    }
}

/// Takes a found object for the pool.
///
/// # Errors
///
/// If another object controls it.
pub fn take(pool: &MachinePool, found: FoundObject<'_>, object: &str) -> Result<Taking, Problem> {
    if let Control::Another(owner) = owner::control(pool, found) {
        let pool = pool.metadata.name.clone().unwrap_or_default();
        return Err(Problem::ControlledByAnother { object: object.to_owned(), owner, pool });
    }
    let change = owner::take(pool, cluster_name(pool).unwrap_or_default(), found);
    // With the write that takes the object, and so once.
    let event = change.as_ref().filter(|_| found.contract.is_none()).map(|_| {
        let (kind, version) = (&found.resource.kind, &found.resource.version);
        let message = format!(
            "the definition of {kind} has no label of a contract; {object} is read in {version}, the version that it stores, and \
             is ready when status.ready is true"
        );
        let reason = EventReason::NoContractLabel.as_str();
        Change::emit(ObjectRef::of(pool), Event { is_warning: true, reason, message, related: None })
    });
    Ok(Taking { object: change, event })
}

/// A failure that a provider reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub reason: Option<String>,
    pub message: Option<String>,
}

impl Failure {
    /// The failure in the status of an object.
    ///
    /// Differs: it is copied into the status and nothing else changes, as documented, because upstream fails at it and drops
    /// all that the status had for older readers.
    pub fn read(fields: Fields<'_, '_>, found: FoundObject<'_>, object: &str) -> Result<Failure, FieldError> {
        let filled = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let reason = filled(fields.text("/status/failureReason")?);
        let message = filled(fields.text("/status/failureMessage")?).map(|message| {
            let name = object.rsplit('/').next().unwrap_or_default();
            let text = format!(
                "Failure detected from referenced resource {}, Kind={} with name {name:?}: {message}",
                found.resource.api_version(),
                found.resource.kind,
            );
            truncate(&text, MAX_FAILURE_BYTES).into_owned()
        });
        Ok(Failure { reason, message })
    }
}
