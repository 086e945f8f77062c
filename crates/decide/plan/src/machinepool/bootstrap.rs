//! Bootstrap: whether the machines have bootstrap data, and whose Secret it is.
//!
//! - The Secret's name is copied from the bootstrap object once that is ready. The annotation
//!   `seaworthy.dev/bootstrap-data-secret` says what was copied from where: a name that it does not match is the user's.
//! - A name of the user stays, whatever the bootstrap object says; a copied one follows the object.

use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::cluster::{ConditionReason, MachinePoolCondition, OldMachinePoolCondition, Severity};
use seaworthy_api::vocabulary::seaworthy::annotation::BOOTSTRAP_DATA_SECRET;
use serde_json::json;

use super::condition::Fact;
use super::external::{self, Failure, Taking};
use super::field::Fields;
use super::inputs::{External, FoundObject};
use super::old_condition::OldFact;
use super::owner;
use super::provider_contract::is_ready;
use super::report::{Problem, Waiting};

/// Where the reference is.
const PATH: &str = "spec.template.spec.bootstrap.configRef";
const TYPE: MachinePoolCondition = MachinePoolCondition::BootstrapConfigReady;
const OLD_TYPE: OldMachinePoolCondition = OldMachinePoolCondition::BootstrapReady;
/// The longest name of a Secret.
const MAX_NAME_LENGTH: usize = 253;

/// What was decided about the bootstrap data.
#[derive(Debug, Default)]
pub struct Bootstrap {
    /// Whether the data is there; `None` leaves what the status says.
    pub is_created: Option<bool>,
    /// The name to copy.
    pub copy: Option<SecretCopy>,
    pub taking: Taking,
    pub failure: Failure,
    /// The old condition; `None` leaves it as it is.
    pub old_fact: Option<OldFact>,
    pub fact: Option<Fact>,
    pub problems: Vec<Problem>,
    pub waiting: Vec<Waiting>,
}

/// A name of a Secret with where it was copied from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretCopy {
    pub name: String,
    /// The value of the annotation.
    pub provenance: String,
}

impl Bootstrap {
    fn created(mut self, message: &str) -> Bootstrap {
        self.is_created = Some(true);
        self.old_fact = Some(OldFact::holds(OLD_TYPE));
        self.fact = Some(Fact::new(TYPE, ConditionStatus::True, ConditionReason::Ready, message));
        self
    }

    /// The data is not there, and it is not known whether it was.
    fn unknown(mut self, status: ConditionStatus, reason: ConditionReason, message: String) -> Bootstrap {
        self.fact = Some(Fact::new(TYPE, status, reason, message));
        self
    }
}

/// Decides about the bootstrap data of a pool that is not being deleted.
pub fn decide(pool: &MachinePool, bootstrap: External<'_>) -> Bootstrap {
    let spec = &pool.spec.template.spec.bootstrap;
    let secret = spec.data_secret_name.as_deref();
    let reference = spec.config_ref.as_ref().filter(|reference| reference.is_defined());
    let object = external::described(pool, reference);
    let mut decided = Bootstrap::default();
    if reference.is_none() {
        return match secret {
            Some("") => decided.created("the machines need no bootstrap data"),
            Some(name) => decided.created(&format!("Secret {name} was set in the pool")),
            None => {
                let problem = Problem::NoBootstrap { pool: name_of(pool) };
                let message = problem.to_string();
                decided.problems.push(problem);
                decided.unknown(ConditionStatus::False, ConditionReason::NotReady, message)
            }
        };
    }
    let is_of_user = is_of_user(pool, bootstrap);
    let found = match bootstrap {
        External::Found(found) => found,
        // Differs: what the user has set does not depend on the object, so that a missing one is no error.
        _ if is_of_user => return decided.created("a Secret was set in the pool"),
        missing => return without_object(pool, missing, object),
    };
    match external::take(pool, found, &object) {
        Ok(taking) => decided.taking = taking,
        Err(problem) => {
            let message = problem.to_string();
            decided.problems.push(problem);
            if is_of_user {
                return decided.created("a Secret was set in the pool");
            }
            let reason = ConditionReason::ControlledByAnother;
            decided.old_fact = Some(OldFact::fails(OLD_TYPE, Severity::Error, reason, Some(message.clone())));
            return decided.unknown(ConditionStatus::False, reason, message);
        }
    }
    if owner::is_deleting(found) {
        decided.waiting.push(Waiting::ObjectDeleting { object });
        return decided;
    }
    let fields = Fields::new(found.object, &object);
    match Failure::read(fields, found, &object) {
        Ok(failure) => decided.failure = failure,
        Err(error) => decided.problems.push(error.into()),
    }
    if is_of_user {
        return decided.created("a Secret was set in the pool");
    }
    match read(pool, found, fields, &object) {
        Ok(Reading::NotReady) => {
            let message = format!("{object} has no bootstrap data yet");
            decided.is_created = Some(false);
            let waiting = || OldFact::fails(OLD_TYPE, Severity::Info, ConditionReason::WaitingForDataSecret, None);
            decided.old_fact = Some(OldFact::mirrored(OLD_TYPE, fields).unwrap_or_else(waiting));
            decided.fact = Some(Fact::mirrored(TYPE, fields, false, &message));
            decided.waiting.push(Waiting::BootstrapNotReady { object });
        }
        Ok(Reading::Ready(copy)) => {
            decided.is_created = Some(true);
            decided.copy = copy;
            let holds = || OldFact::holds(OLD_TYPE);
            decided.old_fact = Some(OldFact::mirrored(OLD_TYPE, fields).unwrap_or_else(holds));
            decided.fact = Some(Fact::mirrored(TYPE, fields, true, ""));
        }
        Err(problem) => {
            let (reason, message) = (ConditionReason::InvalidProviderObject, problem.to_string());
            decided.problems.push(problem);
            decided.old_fact = Some(OldFact::fails(OLD_TYPE, Severity::Error, reason, Some(message.clone())));
            return decided.unknown(ConditionStatus::False, reason, message);
        }
    }
    decided
}

/// What a bootstrap object says.
enum Reading {
    NotReady,
    /// Its data is there. Without a copy the pool has the name already.
    Ready(Option<SecretCopy>),
}

fn read(pool: &MachinePool, found: FoundObject<'_>, fields: Fields<'_, '_>, object: &str) -> Result<Reading, Problem> {
    const PATH: &str = "/status/dataSecretName";
    if !is_ready(fields, found.contract, "dataSecretCreated")? {
        return Ok(Reading::NotReady);
    }
    let missing = |found: &'static str| Problem::NoSecretName { object: object.to_owned(), found };
    let name = match fields.text(PATH)? {
        None => return Err(missing("absent")),
        // Differs: an empty name would mean that no data is needed, so it is refused here; upstream copies it.
        Some("") => return Err(missing("empty")),
        Some(name) if name.len() > MAX_NAME_LENGTH => {
            return Err(fields.error(PATH, &json!(name), "the name of a Secret, of at most 253 characters").into());
        }
        Some(name) => name,
    };
    let copy = SecretCopy { name: name.to_owned(), provenance: provenance(found, name) };
    let is_copied = pool.spec.template.spec.bootstrap.data_secret_name.as_deref() == Some(name)
        && BOOTSTRAP_DATA_SECRET.of(&pool.metadata) == Some(copy.provenance.as_str());
    Ok(Reading::Ready((!is_copied).then_some(copy)))
}

fn provenance(found: FoundObject<'_>, secret: &str) -> String {
    format!("{}/{}:{secret}", found.resource.kind, owner::object_ref(found).name)
}

/// Whether the name of the Secret in the pool was set by a user.
///
/// Differs: such a name stays, because the seed contract lets users override the provider; upstream overwrites it as soon as
/// the bootstrap object is ready. What was copied is known by the annotation, so that a copied name still follows its object.
fn is_of_user(pool: &MachinePool, bootstrap: External<'_>) -> bool {
    let secret = pool.spec.template.spec.bootstrap.data_secret_name.as_deref();
    let Some(secret) = secret.filter(|secret| !secret.is_empty()) else { return false };
    let recorded = BOOTSTRAP_DATA_SECRET.of(&pool.metadata).and_then(|text| text.rsplit_once(':'));
    if recorded.is_some_and(|(_, name)| name == secret) {
        return false;
    }
    // A pool that another controller has served carries no record: the object's own name is adopted.
    let published = match bootstrap {
        External::Found(found) => Fields::new(found.object, "").text("/status/dataSecretName").ok().flatten(),
        _ => None,
    };
    published != Some(secret)
}

/// What follows from a reference that leads to no object.
fn without_object(pool: &MachinePool, bootstrap: External<'_>, object: String) -> Bootstrap {
    let mut decided = Bootstrap::default();
    let (status, reason, message) = match bootstrap {
        External::KindNotInstalled { definition } => {
            // Differs: a provider that is not there is waited for, because trying again does not install it; upstream's error
            // repeats without end.
            let waiting = Waiting::ProviderNotInstalled { object, definition: definition.to_owned() };
            let (reason, message) = (ConditionReason::ProviderNotInstalled, waiting.to_string());
            decided.old_fact = Some(OldFact::fails(OLD_TYPE, Severity::Warning, reason, Some(message.clone())));
            decided.waiting.push(waiting);
            (ConditionStatus::False, reason, message)
        }
        External::Unreadable { reason } => {
            let problem = Problem::Unreadable { object, reason: reason.to_owned() };
            let message = problem.to_string();
            decided.problems.push(problem);
            (ConditionStatus::Unknown, ConditionReason::ReadFailed, message)
        }
        // Compat: the old condition is left as it is.
        _ => {
            let problem = Problem::ObjectMissing { pool: name_of(pool), path: PATH, object };
            let message = problem.to_string();
            decided.problems.push(problem);
            (ConditionStatus::False, ConditionReason::ObjectDoesNotExist, message)
        }
    };
    decided.unknown(status, reason, message)
}

fn name_of(pool: &MachinePool) -> String {
    pool.metadata.name.clone().unwrap_or_default()
}
