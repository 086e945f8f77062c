//! Pending renders: what a pool's target does not contain yet, so that a status right after a change does not report success.

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::machineconfiguration::annotation::GENERATED_BY_CONTROLLER_VERSION;
use seaworthy_plan::history::revision::{SourceChange, SourceChangeKind, changes, revisions};
use seaworthy_plan::rendering::choice::{self, Choice, ChoiceInputs};
use seaworthy_plan::rendering::condition;
use seaworthy_plan::rendering::targeted;
use seaworthy_preview::{self as preview, PreviewPart};

use crate::cluster_state::ClusterState;
use crate::render::render_pool::digests;

/// Why a pool's target is not yet what it is going to be, as a message. `None` for a pool that is being deleted, or whose
/// condition reports why it cannot be rendered. Contents are compared only where `build` rendered the target.
pub fn pending(
    cluster: &ClusterState,
    pool: &MachineConfigPool,
    parts: &[Box<dyn PreviewPart>],
    build: &str,
) -> Option<String> {
    if condition::reason(pool).is_some() {
        return None;
    }
    let choice = choice::choose(&ChoiceInputs {
        pool,
        objects: &cluster.choice_objects(),
        build,
        is_cluster: true,
        // That the controllers are of another build than this program is not pending.
        accepts_other_builds: true,
    });
    // What a pinned or deleted pool would be made of is no matter.
    if let Choice::Render(_) = &choice
        && let Some(message) = preview::pending(parts, cluster.objects(), &pool.name_any())
    {
        return Some(message);
    }
    let target = targeted(pool)?;
    let inputs = match choice {
        Choice::Render(inputs) => inputs,
        Choice::Wait(missing) => return Some(missing.what),
        // The pool's condition is about to report it.
        Choice::Refused(failure) => return Some(failure.message),
        Choice::Pinned(object) if object.name_any() != target => {
            return Some(format!("the pool is pinned to {}, which is not its target yet", object.name_any()));
        }
        Choice::Deleted | Choice::Pinned(_) => return None,
    };
    let Some(rendered) = cluster.machine_config(target) else {
        return Some(format!("MachineConfig {target} is missing and is being created again"));
    };
    let made_of = revisions(pool, [&**rendered]).into_iter().find_map(|revision| revision.sources)?;
    let names: Vec<String> = inputs.iter().map(|input| input.name_any()).collect();
    // Another build may serialize the same content differently.
    let is_comparable = GENERATED_BY_CONTROLLER_VERSION.of(&rendered.metadata) == Some(build);
    let changed = changes(Some(&made_of), Some(&digests(&inputs, &names)))?;
    let changed = changed.into_iter().filter(|change| is_comparable || change.what != SourceChangeKind::Changed);
    let shown = |SourceChange { name, what }: SourceChange| match what {
        SourceChangeKind::Added => format!("{name} (new)"),
        SourceChangeKind::Removed => format!("{name} (gone)"),
        SourceChangeKind::Changed => format!("{name} (changed)"),
    };
    let changed: Vec<String> = changed.map(shown).collect();
    (!changed.is_empty()).then(|| format!("{target} is older than MachineConfig {}", changed.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::core::ObjectMeta;
    use rstest::rstest;
    use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig};
    use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, RenderReason};
    use seaworthy_api::vocabulary::seaworthy::annotation::{BASE, PINNED_CONFIGURATION};
    use seaworthy_change::Tables;
    use seaworthy_preview::PreviewRound;
    use serde_json::{Value, json};

    use super::*;

    const GROUP: &str = "machineconfiguration.openshift.io/v1";

    fn config(name: &str, motd: &str) -> Arc<MachineConfig> {
        let object = json!({
            "apiVersion": GROUP, "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "infra"}},
            "spec": {"kernelArguments": [motd]},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn cluster(made_of: &[Arc<MachineConfig>], there: &[Arc<MachineConfig>], condition: Value) -> ClusterState {
        let names: Vec<String> = made_of.iter().map(|object| object.name_any()).collect();
        let sources = serde_json::to_string(&digests(made_of, &names)).unwrap();
        let rendered = json!({
            "apiVersion": GROUP, "kind": "MachineConfig",
            "metadata": {
                "name": "rendered-infra-1",
                "annotations": {"seaworthy.dev/sources": sources, GENERATED_BY_CONTROLLER_VERSION.as_str(): "b1"},
                "ownerReferences": [{"apiVersion": GROUP, "kind": "MachineConfigPool", "name": "infra", "uid": "u"}],
            },
            "spec": {},
        });
        let pool = json!({
            "apiVersion": GROUP, "kind": "MachineConfigPool", "metadata": {"name": "infra", "uid": "u"},
            "spec": {
                "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "infra"}},
                "configuration": {"name": "rendered-infra-1"},
            },
            "status": {"conditions": [condition]},
        });
        let mut machine_configs = there.to_vec();
        machine_configs.push(Arc::new(serde_json::from_value(rendered).unwrap()));
        let pools: Vec<Arc<MachineConfigPool>> = vec![Arc::new(serde_json::from_value(pool).unwrap())];
        ClusterState::of(Tables::default().with_objects(pools).with_objects(machine_configs)).unwrap()
    }

    #[rstest]
    #[case::the_same(&[("50-a", "x")], "b1", None)]
    #[case::added(&[("50-a", "x"), ("60-b", "y")], "b1", Some("60-b (new)"))]
    #[case::removed(&[], "b1", Some("50-a (gone)"))]
    #[case::changed(&[("50-a", "y")], "b1", Some("50-a (changed)"))]
    #[case::changed_as_another_build_sees_it(&[("50-a", "y")], "b2", None)]
    #[case::added_whichever_build_asks(&[("50-a", "y"), ("60-b", "y")], "b2", Some("60-b (new)"))]
    fn target_is_pending_when_its_sources_have_changed(
        #[case] there: &[(&str, &str)],
        #[case] build: &str,
        #[case] expected: Option<&str>,
    ) {
        let there: Vec<_> = there.iter().map(|(name, motd)| config(name, motd)).collect();
        let cluster = cluster(&[config("50-a", "x")], &there, json!({"type": "Updated", "status": "True"}));
        let expected = expected.map(|names| format!("rendered-infra-1 is older than MachineConfig {names}"));
        assert_eq!(pending(&cluster, &cluster.pools()[0], &[], build), expected);
    }

    #[test]
    fn pool_is_pending_while_a_built_in_pool_is_missing() {
        let mut cluster = cluster(&[], &[], json!({"type": "Updated", "status": "True"}));
        let metadata = ObjectMeta { name: Some(CONTROLLER_CONFIG.to_owned()), ..ObjectMeta::default() };
        let found = ControllerConfig { metadata, status: Some(Default::default()), ..ControllerConfig::default() };
        cluster.objects_mut().of_mut::<ControllerConfig>().push(Arc::new(found));
        let message = pending(&cluster, &cluster.pools()[0], &[], "b1").unwrap();
        assert_eq!(message, "MachineConfigPool master is missing and is being created again");
    }

    #[test]
    fn pool_is_pending_until_it_targets_what_it_is_pinned_to() {
        let mut cluster = cluster(&[], &[], json!({"type": "Updated", "status": "True"}));
        let mut earlier = MachineConfig::clone(&cluster.machine_configs()[0]);
        earlier.metadata.name = Some("rendered-infra-0".to_owned());
        cluster.objects_mut().of_mut::<MachineConfig>().push(Arc::new(earlier));
        let pool = Arc::make_mut(&mut cluster.objects_mut().of_mut::<MachineConfigPool>()[0]);
        pool.annotations_mut().insert(PINNED_CONFIGURATION.as_str().to_owned(), "rendered-infra-0".to_owned());
        let message = pending(&cluster, &cluster.pools()[0], &[], "b1").unwrap();
        assert_eq!(message, "the pool is pinned to rendered-infra-0, which is not its target yet");
        let target = Arc::make_mut(&mut cluster.objects_mut().of_mut::<MachineConfigPool>()[0])
            .spec
            .configuration
            .as_mut()
            .unwrap();
        target.name = Some("rendered-infra-0".to_owned());
        assert_eq!(pending(&cluster, &cluster.pools()[0], &[], "b1"), None);
    }

    /// A part to which every pool is pending.
    struct Pending;

    impl PreviewPart for Pending {
        fn tables(&self) -> Tables {
            Tables::default()
        }

        fn reconcile(&self, _: &mut PreviewRound<'_>) {}

        fn pending(&self, _: &Tables, pool: &str) -> Option<String> {
            Some(format!("a profile of {pool} is not a MachineConfig yet"))
        }
    }

    #[test]
    fn preview_parts_are_asked_about_pools_that_are_rendered_only() {
        let parts: [Box<dyn PreviewPart>; 1] = [Box::new(Pending)];
        let mut cluster = cluster(&[], &[], json!({"type": "Updated", "status": "True"}));
        let pending_in = |cluster: &ClusterState| pending(cluster, &cluster.pools()[0], &parts, "b1");
        assert_eq!(pending_in(&cluster).as_deref(), Some("a profile of infra is not a MachineConfig yet"));
        let edit = |cluster: &mut ClusterState, edit: fn(&mut MachineConfigPool)| {
            edit(Arc::make_mut(&mut cluster.objects_mut().of_mut::<MachineConfigPool>()[0]));
        };
        edit(&mut cluster, |pool| {
            pool.annotations_mut().insert(PINNED_CONFIGURATION.as_str().to_owned(), "rendered-infra-1".to_owned());
        });
        assert_eq!(pending_in(&cluster), None, "it is pinned");
        edit(&mut cluster, |pool| {
            pool.annotations_mut().clear();
            pool.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        });
        assert_eq!(pending_in(&cluster), None, "it is being deleted");
    }

    #[test]
    fn pool_that_has_lost_its_base_is_pending_although_the_rest_is_unchanged() {
        let mut cluster = cluster(&[], &[], json!({"type": "Updated", "status": "True"}));
        let selector = json!({"matchExpressions": [
            {"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", "infra"]},
        ]});
        Arc::make_mut(&mut cluster.objects_mut().of_mut::<MachineConfigPool>()[0]).spec.machine_config_selector =
            Some(serde_json::from_value(selector).unwrap());
        let rendered = Arc::make_mut(&mut cluster.objects_mut().of_mut::<MachineConfig>()[0]);
        rendered.annotations_mut().insert(BASE.into(), CONTROLLER_CONFIG.to_owned());
        let message = pending(&cluster, &cluster.pools()[0], &[], "b1").unwrap();
        assert!(message.starts_with("ControllerConfig machine-config-controller is missing"), "{message}");
    }

    #[test]
    fn pool_whose_condition_reports_a_failure_is_not_pending() {
        let reason = RenderReason::InvalidMachineConfig.as_str();
        let failed = json!({"type": "RenderDegraded", "status": "True", "reason": reason, "message": "why"});
        let cluster = cluster(&[config("50-a", "x")], &[config("50-a", "y")], failed);
        assert_eq!(pending(&cluster, &cluster.pools()[0], &[], "b1"), None);
    }
}
