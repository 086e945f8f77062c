//! Infrastructure: whether the provider's pool is ready, which machines it has, and how many.

use std::collections::HashSet;

use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::cluster::{
    ConditionReason, FailureReason, MachinePoolCondition, OldMachinePoolCondition, Severity,
};
use seaworthy_values::text::counted;

use super::condition::Fact;
use super::external::{self, Failure, Taking};
use super::field::{FieldError, Fields};
use super::inputs::{External, FoundObject};
use super::old_condition::OldFact;
use super::owner;
use super::phase::desired_replicas;
use super::provider_contract::is_ready;
use super::report::{Problem, Waiting};

/// Where the reference is.
const PATH: &str = "spec.template.spec.infrastructureRef";
const TYPE: MachinePoolCondition = MachinePoolCondition::InfrastructureReady;
const OLD_TYPE: OldMachinePoolCondition = OldMachinePoolCondition::InfrastructureReady;
/// How many provider IDs a pool can list, and how long each can be: what its definition accepts.
const MAX_IDS: usize = 10_000;
const MAX_ID_CHARS: usize = 512;

/// What was decided about the provider's pool.
#[derive(Debug, Default)]
pub struct Infrastructure<'a> {
    /// Whether the object was read and is not being deleted: the counters that rest on it are updated.
    pub is_fetched: bool,
    /// Whether it is ready; `None` leaves what the status says.
    pub is_provisioned: Option<bool>,
    /// The machines that it lists, each once, and how many it reports; `None` leaves what the pool says.
    pub machines: Option<ListedMachines<'a>>,
    /// The kind of its machines, if each is to have a Machine.
    pub machine_kind: Option<&'a str>,
    pub taking: Taking,
    pub failure: Failure,
    /// The old condition; `None` leaves it as it is.
    pub old_fact: Option<OldFact>,
    pub fact: Option<Fact>,
    pub problems: Vec<Problem>,
    pub waiting: Vec<Waiting>,
}

/// The machines of a ready pool of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMachines<'a> {
    /// The provider IDs in the provider's order, without empty and repeated ones.
    pub ids: Vec<&'a str>,
    pub replicas: i32,
    /// Whether the list has as many machines as there are: only then is a machine that it does not have gone.
    ///
    /// Differs: upstream deletes the Node of any machine that is not listed, also while a provider lists some of its machines
    /// only.
    pub is_complete: bool,
}

/// Decides about the provider's pool of a pool that is not being deleted.
pub fn decide<'a>(pool: &MachinePool, infrastructure: External<'a>) -> Infrastructure<'a> {
    let reference = Some(&pool.spec.template.spec.infrastructure_ref).filter(|reference| reference.is_defined());
    let object = external::described(pool, reference);
    let found = match (infrastructure, reference) {
        (External::Found(found), Some(_)) => found,
        (missing, _) => return without_object(pool, missing, object),
    };
    let mut decided = Infrastructure::default();
    match external::take(pool, found, &object) {
        Ok(taking) => decided.taking = taking,
        Err(problem) => return failed(decided, problem, ConditionReason::ControlledByAnother),
    }
    if owner::is_deleting(found) {
        // Differs: all of the status is kept, because nothing says yet that the machines are gone; upstream drops the
        // versions and copies counters.
        decided.waiting.push(Waiting::ObjectDeleting { object });
        return decided;
    }
    let fields = Fields::new(found.object, &object);
    match Failure::read(fields, found, &object) {
        Ok(failure) => decided.failure = failure,
        Err(error) => decided.problems.push(error.into()),
    }
    match read(pool, found, fields, &object, &mut decided) {
        Ok(()) => decided,
        // Differs: nothing is overwritten, and a condition names the field; upstream resets counters beside the error.
        Err(problem) => failed(decided, problem, ConditionReason::InvalidProviderObject),
    }
}

/// The kind of the provider's machines, if each is to have a Machine.
///
/// Differs: an empty kind is none, because there is nothing to list; upstream fails at it in each pass.
pub fn machine_kind(found: FoundObject<'_>) -> Result<Option<&str>, FieldError> {
    let fields = Fields::new(found.object, &found.resource.kind);
    Ok(fields.text("/status/infrastructureMachineKind")?.filter(|kind| !kind.is_empty()))
}

fn read<'a>(
    pool: &MachinePool,
    found: FoundObject<'a>,
    fields: Fields<'a, '_>,
    object: &str,
    decided: &mut Infrastructure<'a>,
) -> Result<(), Problem> {
    let is_ready = is_ready(fields, found.contract, "provisioned")?;
    decided.is_provisioned = Some(is_ready);
    decided.machine_kind = machine_kind(found)?;
    let replicas = fields.count("/status/replicas")?;
    let machines = is_ready.then(|| listed(pool, fields, replicas, object)).transpose()?;
    decided.is_fetched = true;
    if let Some(machines) = machines {
        let desired = desired_replicas(pool);
        if machines.replicas != desired {
            let (object, replicas) = (object.to_owned(), machines.replicas);
            decided.waiting.push(Waiting::ProviderReplicas { object, replicas, desired });
        }
        // A provider may lose sight of its machines for a moment: the list is kept.
        if machines.ids.is_empty() && machines.replicas != 0 {
            let (object, replicas) = (object.to_owned(), machines.replicas);
            decided.waiting.push(Waiting::ProviderIdsWithheld { object, replicas });
        } else {
            decided.machines = Some(machines);
        }
    } else {
        decided.waiting.push(Waiting::InfrastructureNotReady { object: object.to_owned() });
    }
    let message = format!("{object} is not ready");
    let fallback = || match is_ready {
        true => OldFact::holds(OLD_TYPE),
        false => OldFact::fails(OLD_TYPE, Severity::Info, ConditionReason::WaitingForInfrastructure, None),
    };
    decided.old_fact = Some(OldFact::mirrored(OLD_TYPE, fields).unwrap_or_else(fallback));
    decided.fact = Some(Fact::mirrored(TYPE, fields, is_ready, &message));
    Ok(())
}

fn listed<'a>(
    pool: &MachinePool,
    fields: Fields<'a, '_>,
    replicas: Option<i32>,
    object: &str,
) -> Result<ListedMachines<'a>, Problem> {
    let ids = distinct(fields.texts("/spec/providerIDList")?);
    let invalid =
        |found: String, accepted: String| Problem::InvalidProviderIds { object: object.to_owned(), found, accepted };
    if ids.len() > MAX_IDS {
        return Err(invalid(counted(ids.len(), "different ID"), MAX_IDS.to_string()));
    }
    // Characters are never more than bytes, which cost nothing to count.
    if let Some(long) = ids.iter().find(|id| id.len() > MAX_ID_CHARS && id.chars().count() > MAX_ID_CHARS) {
        let found = format!("an ID of {} characters", long.chars().count());
        return Err(invalid(found, format!("{MAX_ID_CHARS} characters each")));
    }
    // At most MAX_IDS, so it fits.
    let length = i32::try_from(ids.len()).unwrap_or(i32::MAX);
    // Differs: a provider that reports no count has as many machines as it lists, because the seed contract does not require
    // one; upstream never gets such a pool to Running. Whether the list is complete can then only be seen by what is desired.
    let is_complete = length >= replicas.unwrap_or_else(|| desired_replicas(pool));
    Ok(ListedMachines { ids, replicas: replicas.unwrap_or(length), is_complete })
}

/// Provider IDs without empty and repeated ones, in their order.
pub fn distinct<'a>(ids: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    ids.into_iter().filter(|id| !id.is_empty() && seen.insert(*id)).collect()
}

/// The list that a pool should have, if it should have another one. The provider's order counts only where the machines differ.
///
/// Differs: lists are compared as sets, because the order means nothing to a provider; upstream resets counters when it
/// changes, and for an absent list in place of an empty one.
pub fn changed_list(pool: &MachinePool, ids: &[&str]) -> Option<Vec<String>> {
    let stored: HashSet<&str> =
        pool.spec.provider_id_list.iter().flatten().map(String::as_str).filter(|id| !id.is_empty()).collect();
    let is_same = stored.len() == ids.len() && ids.iter().all(|id| stored.contains(id));
    (!is_same).then(|| ids.iter().map(|id| (*id).to_owned()).collect())
}

fn failed<'a>(mut decided: Infrastructure<'a>, problem: Problem, reason: ConditionReason) -> Infrastructure<'a> {
    let message = problem.to_string();
    decided.problems.push(problem);
    decided.old_fact = Some(OldFact::fails(OLD_TYPE, Severity::Error, reason, Some(message.clone())));
    decided.fact = Some(Fact::new(TYPE, ConditionStatus::False, reason, message));
    decided
}

/// What follows from a reference that leads to no object.
fn without_object<'a>(pool: &MachinePool, infrastructure: External<'a>, object: String) -> Infrastructure<'a> {
    let mut decided = Infrastructure::default();
    let name = pool.metadata.name.clone().unwrap_or_default();
    let (severity, status, reason, message) = match infrastructure {
        External::KindNotInstalled { definition } => {
            let waiting = Waiting::ProviderNotInstalled { object, definition: definition.to_owned() };
            let message = waiting.to_string();
            decided.waiting.push(waiting);
            (Severity::Warning, ConditionStatus::False, ConditionReason::ProviderNotInstalled, message)
        }
        External::Unreadable { reason } => {
            let problem = Problem::Unreadable { object, reason: reason.to_owned() };
            let message = problem.to_string();
            decided.problems.push(problem);
            (Severity::Warning, ConditionStatus::Unknown, ConditionReason::ReadFailed, message)
        }
        missing => {
            let initialization = pool.status.as_ref().and_then(|status| status.initialization.as_ref());
            let was_ready = initialization.and_then(|found| found.infrastructure_provisioned) == Some(true);
            if was_ready && matches!(missing, External::NotFound) {
                decided.failure = Failure {
                    reason: Some(FailureReason::InvalidConfiguration.as_str().to_owned()),
                    message: Some(format!("{object} was deleted after it had been ready")),
                };
            }
            let problem = match missing {
                External::NotFound => Problem::ObjectMissing { pool: name, path: PATH, object },
                _ => Problem::NoReference { pool: name, path: PATH },
            };
            let message = problem.to_string();
            decided.problems.push(problem);
            let fact = Fact::new(TYPE, ConditionStatus::False, ConditionReason::ObjectDoesNotExist, message.clone());
            let reason = ConditionReason::IncorrectExternalRef;
            decided.old_fact = Some(OldFact::fails(OLD_TYPE, Severity::Error, reason, Some(message)));
            decided.fact = Some(fact);
            return decided;
        }
    };
    decided.old_fact = Some(OldFact::fails(OLD_TYPE, severity, reason, Some(message.clone())));
    decided.fact = Some(Fact::new(TYPE, status, reason, message));
    decided
}
