//! Base MachineConfigs of the platform: which of them a pool selects, and what happens to a pool that loses them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::meta::{Selection, is_owner};
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, RenderReason, annotation, label};
use seaworthy_api::vocabulary::seaworthy::annotation::BASE;
use seaworthy_generate::base::{ROLES, names};

use super::targeted;
use crate::rendering::condition::RenderFailure;

/// The MachineConfigs of the platform's base that a pool selects.
pub(super) fn base_names(pool: &MachineConfigPool) -> impl Iterator<Item = String> {
    let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
    let selects = move |role: &&str| {
        let labels = BTreeMap::from([(label::ROLE.as_str().to_owned(), (*role).to_owned())]);
        selection.as_ref().is_some_and(|selection| selection.matches(Some(&labels)))
    };
    ROLES.into_iter().filter(selects).flat_map(names)
}

/// Why a pool must not be rendered because the platform's base is going, or gone, with the ControllerConfig. Nodes that run
/// it would lose their kubelet. A cluster that never had a base is rendered as it is, and so is one whose users have
/// MachineConfigs of their own in the base's place.
pub fn lost_base(
    pool: &MachineConfigPool,
    controller_config: Option<&ControllerConfig>,
    pools: &[Arc<MachineConfigPool>],
    find: impl Fn(&str) -> Option<Arc<MachineConfig>>,
) -> Option<RenderFailure> {
    if controller_config.is_some_and(|found| found.metadata.deletion_timestamp.is_none()) {
        return None;
    }
    let is_going = |found: Arc<MachineConfig>| is_owned_by_controller_config(&found);
    let lost: Vec<String> = base_names(pool).filter(|name| find(name).is_none_or(is_going)).collect();
    let had_base = |pool: &Arc<MachineConfigPool>| has_base(pool, targeted(pool).and_then(&find).as_deref());
    if lost.is_empty() || !pools.iter().any(had_base) {
        return None;
    }
    let what = if controller_config.is_some() { "is being deleted" } else { "is missing" };
    let message = format!(
        "ControllerConfig {CONTROLLER_CONFIG} {what}, and with it the base MachineConfigs of the platform ({}); without them \
         nodes would lose their kubelet, so the pool keeps what it has. Create the ControllerConfig again (`kubectl apply -f` \
         the manifest that it was made from; examples/controller-config.yaml shows one)",
        lost.join(", ")
    );
    Some(RenderFailure { reason: RenderReason::ControllerConfigMissing, message })
}

/// Whether what a pool targets was made with the platform's base.
fn has_base(pool: &MachineConfigPool, rendered: Option<&MachineConfig>) -> bool {
    if let Some(reported) = rendered.and_then(|rendered| BASE.of(&rendered.metadata)) {
        return !reported.is_empty();
    }
    // Rendered by an older build, or by the upstream: by what it was made of.
    let sources = pool.spec.configuration.iter().flat_map(|found| found.source.iter().flatten());
    let sources: BTreeSet<&str> = sources.filter_map(|source| source.name.as_deref()).collect();
    ROLES.into_iter().any(|role| names(role).all(|name| sources.contains(name.as_str())))
}

/// Whether a MachineConfig was generated from the ControllerConfig.
pub fn is_owned_by_controller_config(object: &MachineConfig) -> bool {
    object.metadata.owner_references.iter().flatten().any(is_owner::<ControllerConfig>)
}

/// The ControllerConfig whose base is among the inputs; empty where none is.
pub fn base_in(inputs: &[Arc<MachineConfig>]) -> &'static str {
    let is_base = |input: &Arc<MachineConfig>| {
        let made_by = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&input.metadata).unwrap_or_default();
        let is_named = ROLES.into_iter().flat_map(names).any(|name| Some(&name) == input.metadata.name.as_ref());
        is_named && (is_owned_by_controller_config(input) || !made_by.is_empty())
    };
    if inputs.iter().any(is_base) { CONTROLLER_CONFIG } else { "" }
}

#[cfg(test)]
mod tests {
    use seaworthy_api::machineconfiguration::API_VERSION;
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, sources: &[&str]) -> Arc<MachineConfigPool> {
        let sources: Vec<Value> = sources.iter().map(|name| json!({"name": name})).collect();
        let target = json!({"name": format!("rendered-{name}-1"), "source": sources});
        let selector = json!({"matchLabels": {label::ROLE.as_str(): name}});
        let spec = json!({"machineConfigSelector": selector, "configuration": target});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
    }

    fn machine_config(name: &str, metadata: Value) -> Arc<MachineConfig> {
        let mut object: MachineConfig = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        object.metadata.name = Some(name.to_owned());
        Arc::new(object)
    }

    fn controller_config(metadata: Value) -> ControllerConfig {
        ControllerConfig { metadata: serde_json::from_value(metadata).unwrap(), ..ControllerConfig::default() }
    }

    fn reason(
        pool: &MachineConfigPool,
        controller_config: Option<&ControllerConfig>,
        all: &[Arc<MachineConfig>],
    ) -> Option<String> {
        let find = |name: &str| all.iter().find(|found| found.metadata.name.as_deref() == Some(name)).cloned();
        let pools = [Arc::new(pool.clone())];
        lost_base(pool, controller_config, &pools, find).map(|failure| {
            assert_eq!(failure.reason, RenderReason::ControllerConfigMissing);
            failure.message
        })
    }

    const BASE_OF_WORKER: [&str; 3] = ["00-worker", "01-worker-container-runtime", "01-worker-kubelet"];

    #[test]
    fn pool_that_has_the_base_is_not_rendered_without_it() {
        let pool = pool("worker", &BASE_OF_WORKER);
        let rendered = machine_config("rendered-worker-1", json!({"annotations": {BASE.as_str(): CONTROLLER_CONFIG}}));
        let there = controller_config(json!({}));
        assert_eq!(reason(&pool, Some(&there), std::slice::from_ref(&rendered)), None, "it is created again");
        let message = reason(&pool, None, std::slice::from_ref(&rendered)).unwrap();
        assert!(message.contains("ControllerConfig machine-config-controller is missing"), "{message}");
        assert!(message.contains("01-worker-kubelet") && message.contains("kubectl apply"), "{message}");
        let going = controller_config(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let message = reason(&pool, Some(&going), &[rendered]).unwrap();
        assert!(message.contains("is being deleted"), "{message}");
        assert!(reason(&pool, None, &[]).is_some(), "what was rendered by others is known by its sources");
    }

    #[test]
    fn base_that_is_about_to_be_collected_is_as_good_as_gone() {
        let owner =
            json!({"apiVersion": API_VERSION, "kind": "ControllerConfig", "name": CONTROLLER_CONFIG, "uid": "1"});
        let base = |metadata: &Value| BASE_OF_WORKER.map(|name| machine_config(name, metadata.clone()));
        let pool = pool("worker", &BASE_OF_WORKER);
        assert!(reason(&pool, None, &base(&json!({"ownerReferences": [owner]}))).is_some());
        assert_eq!(reason(&pool, None, &base(&json!({}))), None, "users' own are in its place");
    }

    #[test]
    fn cluster_without_a_controller_config_is_rendered_as_it_is() {
        let named = pool("worker", &["00-worker", "50-own"]);
        assert_eq!(reason(&named, None, &[]), None);
        let own = machine_config("rendered-worker-1", json!({"annotations": {BASE.as_str(): ""}}));
        assert_eq!(reason(&pool("worker", &BASE_OF_WORKER), None, &[own]), None, "they were users' own");
        let based = machine_config("rendered-infra-1", json!({"annotations": {BASE.as_str(): CONTROLLER_CONFIG}}));
        assert_eq!(reason(&pool("infra", &BASE_OF_WORKER), None, &[based]), None, "it selects nothing of the base");
    }
}
