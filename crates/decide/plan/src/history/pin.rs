//! Pins: a pool that targets one rendered MachineConfig whatever its MachineConfigs are, as `seaworthy rollout undo` sets it.
//!
//! - The pin is an annotation with a name. While it is there, the pool is not rendered: it targets that name.
//! - Taking it away is all it takes to follow the MachineConfigs again.
//! - Only a rendered MachineConfig of the same pool is accepted; with any other the pool keeps the target that it has and says
//!   why, because to fall back on the MachineConfigs would roll out what a user has just undone.

use std::fmt;

use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::is_owner;
use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_api::vocabulary::seaworthy::IN_USE;
use seaworthy_api::vocabulary::seaworthy::annotation::PINNED_CONFIGURATION;

/// What a pool is pinned to.
#[derive(Clone, Debug, PartialEq)]
pub enum Pin<'a> {
    /// It follows its MachineConfigs.
    Free,
    /// It targets this one.
    To(&'a MachineConfig),
    /// It is pinned to something that it cannot target.
    Invalid(PinError<'a>),
}

/// Why a pool cannot target what it is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinError<'a> {
    /// The name that was found.
    pub name: &'a str,
    /// What is wrong with it.
    pub fault: PinFault,
}

/// What is wrong with the name of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinFault {
    /// There is no such MachineConfig, or it is being deleted and nothing holds it.
    NotFound,
    /// It is not the result of rendering, or of another pool.
    NotOfPool,
}

impl fmt::Display for PinError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            PinFault::NotFound => "MachineConfig not found",
            PinFault::NotOfPool => "not a rendered MachineConfig of this pool",
        };
        write!(
            f,
            "annotation {PINNED_CONFIGURATION} names {:?}: {what}; name another one, or remove the annotation to follow the \
             pool's MachineConfigs again",
            self.name
        )
    }
}

/// The name that a pool is pinned to.
pub fn name(pool: &MachineConfigPool) -> Option<&str> {
    PINNED_CONFIGURATION.of(&pool.metadata).filter(|name| !name.is_empty())
}

/// What a pool is pinned to; `find` looks a MachineConfig up by name.
pub fn of<'a>(pool: &'a MachineConfigPool, find: impl FnOnce(&str) -> Option<&'a MachineConfig>) -> Pin<'a> {
    let Some(name) = name(pool) else { return Pin::Free };
    // What is pinned is in use, so what was deleted and is held stays as long as the pin.
    let stays = |found: &&MachineConfig| found.metadata.deletion_timestamp.is_none() || IN_USE.is_on(&found.metadata);
    match find(name).filter(stays) {
        None => Pin::Invalid(PinError { name, fault: PinFault::NotFound }),
        Some(found) if is_of_pool(found, pool) => Pin::To(found),
        Some(_) => Pin::Invalid(PinError { name, fault: PinFault::NotOfPool }),
    }
}

/// Whether a MachineConfig is a rendered one of a pool. One that no pool owns is for a moment without the pool in its name,
/// which is made again.
pub fn is_of_pool(object: &MachineConfig, pool: &MachineConfigPool) -> bool {
    let Some(made_for) = object.metadata.name.as_deref().and_then(pool_in) else { return false };
    let owners = object.metadata.owner_references.iter().flatten();
    let mut owners =
        owners.filter(|owner| is_owner::<MachineConfigPool>(owner)).map(|owner| owner.name.as_str()).peekable();
    let is_its = |name: &str| Some(name) == pool.metadata.name.as_deref();
    if owners.peek().is_none() { is_its(made_for) } else { owners.any(is_its) }
}

/// The pool in the name of a rendered MachineConfig.
pub fn pool_in(name: &str) -> Option<&str> {
    Some(name.strip_prefix(RENDERED_PREFIX)?.rsplit_once('-')?.0)
}

#[cfg(test)]
mod tests {
    use seaworthy_api::machineconfiguration::API_VERSION;
    use serde_json::json;

    use super::*;

    fn pool(pin: Option<&str>) -> MachineConfigPool {
        let mut pool = MachineConfigPool::default();
        pool.metadata.name = Some("worker".to_owned());
        if let Some(pin) = pin {
            pool.metadata.annotations = Some([(PINNED_CONFIGURATION.into(), pin.to_owned())].into());
        }
        pool
    }

    fn rendered(name: &str, pool: &str) -> MachineConfig {
        let owner = json!({"apiVersion": API_VERSION, "kind": "MachineConfigPool", "name": pool, "uid": "1"});
        serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {}})).unwrap()
    }

    #[test]
    fn pool_targets_what_it_is_pinned_to() {
        let object = rendered("rendered-worker-a", "worker");
        assert_eq!(of(&pool(None), |_| Some(&object)), Pin::Free);
        assert_eq!(of(&pool(Some("")), |_| Some(&object)), Pin::Free);
        assert_eq!(of(&pool(Some("rendered-worker-a")), |_| Some(&object)), Pin::To(&object));
    }

    #[test]
    fn what_lost_its_pool_for_a_moment_belongs_to_the_pool_in_its_name() {
        let mut orphan = rendered("rendered-worker-0123", "worker");
        orphan.metadata.owner_references = None;
        let pinned = pool(Some("rendered-worker-0123"));
        assert_eq!(of(&pinned, |_| Some(&orphan)), Pin::To(&orphan));
        orphan.metadata.name = Some("rendered-worker-edge-0123".to_owned());
        assert!(!is_of_pool(&orphan, &pinned));
        assert_eq!(pool_in("rendered-a-b-0123"), Some("a-b"));
        assert_eq!(pool_in("99-worker"), None);
    }

    #[test]
    fn pin_to_what_the_pool_cannot_target_gives_the_reason() {
        let fault = |pin: &Pin<'_>| match pin {
            Pin::Invalid(unusable) => Some(unusable.fault),
            _ => None,
        };
        let pinned = pool(Some("rendered-worker-a"));
        assert_eq!(fault(&of(&pinned, |_| None)), Some(PinFault::NotFound));
        let other = rendered("rendered-worker-a", "infra");
        assert_eq!(fault(&of(&pinned, |_| Some(&other))), Some(PinFault::NotOfPool));
        let source = rendered("99-worker", "worker");
        assert_eq!(fault(&of(&pinned, |_| Some(&source))), Some(PinFault::NotOfPool));
        let mut leaving = rendered("rendered-worker-a", "worker");
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let pin = of(&pinned, |_| Some(&leaving));
        assert_eq!(fault(&pin), Some(PinFault::NotFound));
        let Pin::Invalid(unusable) = pin else { panic!("it is unusable") };
        assert!(unusable.to_string().contains("remove the annotation"), "{unusable}");
        leaving.metadata.finalizers = Some(vec![IN_USE.into()]);
        assert_eq!(
            of(&pinned, |_| Some(&leaving)),
            Pin::To(&leaving),
            "it is held for as long as the pool is pinned to it"
        );
    }
}
