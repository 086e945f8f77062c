//! Laws of the decisions, tried on many histories: providers, kubelets, users and failures in any order, with two pools in one
//! Cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use proptest::prelude::*;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_change::{Action, Change};
use seaworthy_plan::machinepool::{Decided, NodeDeletion};
use serde_json::{Value, json};

use super::world::{
    Connection, GenericBootstrapConfig, GenericInfrastructureMachinePool, Lookup, World, id, node, pool,
};

/// Something that happens beside the controller.
#[derive(Clone, Debug)]
enum Event {
    /// A provider lists these machines and reports this many, or does not say.
    List(bool, Vec<i32>, Option<i32>),
    /// A provider writes something that its contract does not allow.
    Nonsense(usize),
    /// A provider becomes ready, or stops being.
    Ready(bool, bool),
    /// A Node appears under a name with the provider ID of a machine.
    Appear(i32, i32),
    Disappear(i32),
    NodeReady(i32, bool),
    Replicas(i32),
    Bootstrap(bool),
    /// A user edits the list.
    EditList(Vec<i32>),
    Pause(bool),
    Connect(bool),
    Install(bool),
    Later(i64),
    /// A decision is performed, as a whole or up to this change.
    Decide(bool, Option<usize>),
    Delete,
}

fn event() -> impl Strategy<Value = Event> {
    let machine = 0i32..8;
    let list = prop::collection::vec(0i32..8, 0..6);
    prop_oneof![
        6 => (any::<bool>(), list.clone(), prop::option::of(0i32..6)).prop_map(|(first, list, count)| Event::List(first, list, count)),
        1 => (0usize..5).prop_map(Event::Nonsense),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(first, is_ready)| Event::Ready(first, is_ready)),
        6 => (machine.clone(), machine.clone()).prop_map(|(name, id)| Event::Appear(name, id)),
        2 => machine.clone().prop_map(Event::Disappear),
        2 => (machine, any::<bool>()).prop_map(|(name, is_ready)| Event::NodeReady(name, is_ready)),
        2 => (0i32..5).prop_map(Event::Replicas),
        1 => any::<bool>().prop_map(Event::Bootstrap),
        1 => list.prop_map(Event::EditList),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => any::<bool>().prop_map(Event::Connect),
        1 => any::<bool>().prop_map(Event::Install),
        1 => (0i64..40).prop_map(Event::Later),
        12 => (any::<bool>(), prop::option::weighted(0.3, 0usize..5)).prop_map(|(first, part)| Event::Decide(first, part)),
        1 => Just(Event::Delete),
    ]
}

const NONSENSE: [&str; 5] = [
    r#"{"status": {"replicas": "3"}}"#,
    r#"{"spec": {"providerIDList": {"a": 1}}}"#,
    r#"{"status": {"ready": "yes", "conditions": 7}}"#,
    r#"{"status": {"failureReason": 5}}"#,
    r#"{"status": {"infrastructureMachineKind": []}}"#,
];

/// Two pools of one Cluster.
fn two_pools() -> World {
    let mut world = World::bare(2);
    let mut second = pool("second", 2);
    second["spec"]["template"]["spec"]["infrastructureRef"]["name"] = json!("imp2");
    second["spec"]["template"]["spec"]["bootstrap"] = json!({"dataSecretName": "mine"});
    world.create::<MachinePool>(second);
    world.create::<GenericInfrastructureMachinePool>(json!({"metadata": {"name": "imp2"}, "status": {}}));
    world
}

fn names(first: bool) -> (&'static str, &'static str) {
    if first { ("pool", "imp") } else { ("second", "imp2") }
}

/// What a pool has ever had: machines by what it or its provider listed, Nodes by what it recorded.
#[derive(Default)]
struct Owned {
    ids: BTreeSet<String>,
    uids: BTreeSet<String>,
}

fn happen(world: &mut World, event: &Event) {
    match event {
        Event::List(first, machines, count) => {
            let ids: Vec<String> = machines.iter().map(|number| id(*number)).collect();
            let (_, object) = names(*first);
            let patch = json!({"spec": {"providerIDList": ids}, "status": {"ready": true, "replicas": count}});
            if world.json::<GenericInfrastructureMachinePool>(object).is_some() {
                world.patch::<GenericInfrastructureMachinePool>(object, patch);
            }
        }
        Event::Nonsense(at) => {
            if world.json::<GenericInfrastructureMachinePool>("imp").is_some() {
                world.patch::<GenericInfrastructureMachinePool>("imp", serde_json::from_str(NONSENSE[*at]).unwrap());
            }
        }
        Event::Ready(first, is_ready) => {
            let (_, object) = names(*first);
            if world.json::<GenericInfrastructureMachinePool>(object).is_some() {
                world.patch::<GenericInfrastructureMachinePool>(object, json!({"status": {"ready": is_ready}}));
            }
        }
        Event::Appear(name, number) => world.create::<Node>(node(&format!("node-{name}"), &id(*number))),
        Event::Disappear(name) => {
            if world.json::<Node>(&format!("node-{name}")).is_some() {
                world.delete::<Node>(&format!("node-{name}"));
            }
        }
        Event::NodeReady(name, is_ready) => {
            if world.json::<Node>(&format!("node-{name}")).is_some() {
                world.node_ready(*name, *is_ready, Some(world.now));
            }
        }
        Event::Bootstrap(is_ready) => {
            if world.json::<GenericBootstrapConfig>("bc").is_some() {
                let status = json!({"status": {"ready": is_ready, "dataSecretName": "data"}});
                world.patch::<GenericBootstrapConfig>("bc", status);
            }
        }
        Event::Connect(is_up) => {
            world.connection = if *is_up { Connection::Up } else { Connection::Down { since: world.now } };
        }
        Event::Install(is_installed) => {
            world.infrastructure = if *is_installed { Lookup::AsFound } else { Lookup::NotInstalled };
        }
        Event::Later(seconds) => world.later(*seconds),
        Event::Replicas(_) | Event::EditList(_) | Event::Pause(_) | Event::Delete if !world.exists() => {}
        Event::Replicas(replicas) => world.edit(json!({"spec": {"replicas": replicas}})),
        Event::EditList(machines) => {
            let ids: Vec<String> = machines.iter().map(|number| id(*number)).collect();
            world.edit(json!({"spec": {"providerIDList": ids}}));
        }
        Event::Pause(is_paused) => {
            let value = is_paused.then_some("");
            world.edit(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}}));
        }
        Event::Delete => {
            let is_held = world.pool()["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
            if is_held {
                world.delete_pool();
            } else {
                world.delete::<MachinePool>("pool");
            }
        }
        Event::Decide(..) => {}
    }
}

/// The first changes of a decision, as a controller that is stopped in the middle makes them.
fn cut(decided: &Decided, length: usize) -> Decided {
    let mut part = decided.clone();
    let mut left = length;
    for stage in &mut part.workload.stages {
        stage.changes.truncate(left);
        left -= stage.changes.len();
    }
    for stage in &mut part.management.stages {
        stage.changes.truncate(left);
        left -= stage.changes.len();
    }
    part
}

fn lists(world: &World) -> BTreeMap<String, BTreeSet<String>> {
    let of_pool = |pool: &std::sync::Arc<MachinePool>| {
        (pool.name_any(), pool.spec.provider_id_list.iter().flatten().cloned().collect())
    };
    world.management.of::<MachinePool>().iter().map(of_pool).collect()
}

fn remember(world: &World, owned: &mut BTreeMap<&'static str, Owned>) {
    for pool in world.management.of::<MachinePool>() {
        let (name, object) = names(pool.name_any() == "pool");
        let owned = owned.entry(name).or_default();
        owned.ids.extend(pool.spec.provider_id_list.iter().flatten().cloned());
        let refs = pool.status.iter().flat_map(|status| status.node_refs.iter().flatten());
        owned.uids.extend(refs.filter_map(|found| found.uid.clone()));
        let provider = world.json::<GenericInfrastructureMachinePool>(object).unwrap_or_default();
        let ids = provider["spec"]["providerIDList"].as_array().cloned().unwrap_or_default();
        owned.ids.extend(ids.iter().filter_map(Value::as_str).map(str::to_owned));
    }
}

/// Every Node that a decision touches is the pool's, and no other pool's.
fn check_nodes(world: &World, name: &str, decided: &Decided, owned: &Owned) -> Result<(), TestCaseError> {
    let others: BTreeSet<String> =
        lists(world).into_iter().filter(|(other, _)| other != name).flat_map(|(_, ids)| ids).collect();
    for Change { object, action } in decided.workload.changes() {
        let found = world.json::<Node>(&object.name).unwrap();
        let uid = found["metadata"]["uid"].as_str().unwrap();
        let provider_id = found["spec"]["providerID"].as_str().unwrap();
        prop_assert_eq!(object.uid.as_deref(), Some(uid));
        let is_own = owned.uids.contains(uid) || owned.ids.contains(provider_id);
        prop_assert!(is_own, "{name}: {action:?} of {object}, which it never had");
        match action {
            Action::Delete => prop_assert!(!others.contains(provider_id), "{name} deletes {object} of another pool"),
            Action::Patch(_) if others.contains(provider_id) => {
                let owner = &found["metadata"]["annotations"]["cluster.x-k8s.io/owner-name"];
                let is_shared = owned.ids.contains(provider_id);
                prop_assert!(is_shared && (owner.is_null() || owner == name), "{name} marks {object} of another pool");
            }
            Action::Patch(_) => {}
            other => prop_assert!(false, "{other:?} of a Node"),
        }
    }
    Ok(())
}

/// While the pool is not being deleted, only Nodes that it has recorded are deleted, whose machines it does not list.
fn check_retirement(world: &World, name: &str, decided: &Decided) -> Result<(), TestCaseError> {
    let all = world.management.of::<MachinePool>();
    let pool = all.iter().find(|pool| pool.name_any() == name).unwrap();
    if pool.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let refs: BTreeSet<&str> = pool
        .status
        .iter()
        .flat_map(|status| status.node_refs.iter().flatten())
        .filter_map(|found| found.uid.as_deref())
        .collect();
    for change in decided.workload.changes().filter(|change| change.action == Action::Delete) {
        prop_assert!(
            refs.contains(change.object.uid.as_deref().unwrap_or_default()),
            "{} was not recorded",
            change.object
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nodes_of_others_are_never_touched_and_every_history_comes_to_rest(
        events in prop::collection::vec(event(), 1..60),
        is_failing in any::<bool>(),
    ) {
        let mut world = two_pools();
        world.node_deletion = if is_failing { NodeDeletion::Failed("forbidden") } else { NodeDeletion::NotTried };
        let mut owned: BTreeMap<&'static str, Owned> = BTreeMap::new();
        for event in &events {
            happen(&mut world, event);
            remember(&world, &mut owned);
            let Event::Decide(first, part) = event else { continue };
            let (name, _) = names(*first);
            if world.management.of::<MachinePool>().iter().all(|pool| pool.name_any() != name) {
                continue;
            }
            let decided = world.decide_about(name);
            check_nodes(&world, name, &decided, &owned[name])?;
            check_retirement(&world, name, &decided)?;
            match part {
                Some(length) => world.perform(&cut(&decided, *length)),
                None => world.perform(&decided),
            }
            remember(&world, &mut owned);
        }
        // Convergence: both pools come to rest, whatever happened.
        let mut rounds = 0;
        loop {
            let pools: Vec<String> = world.management.of::<MachinePool>().iter().map(|pool| pool.name_any()).collect();
            let mut is_at_rest = true;
            for name in &pools {
                let decided = world.decide_about(name);
                let owned = &owned[names(name == "pool").0];
                check_nodes(&world, name, &decided, owned)?;
                is_at_rest &= decided.is_empty();
                world.perform(&decided);
            }
            if is_at_rest {
                break;
            }
            rounds += 1;
            prop_assert!(rounds < 12, "not at rest: {:#?}", pools.iter().map(|name| world.decide_about(name)).collect::<Vec<_>>());
            remember(&world, &mut owned);
        }
    }

    #[test]
    fn counters_are_never_negative_and_add_up(
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut world = two_pools();
        for event in &events {
            happen(&mut world, event);
            if !world.exists() {
                return Ok(());
            }
            let decided = world.decide();
            world.perform(&decided);
            if !world.exists() {
                return Ok(());
            }
            let status = world.status();
            let old = &status["deprecated"]["v1beta1"];
            let number = |value: &Value| value.as_i64().unwrap_or_default();
            for key in ["readyReplicas", "availableReplicas", "unavailableReplicas"] {
                prop_assert!(number(&old[key]) >= 0);
            }
            prop_assert!(number(&old["availableReplicas"]) <= number(&old["readyReplicas"]));
            // Compat: where the provider is not ready, a phase may stay although nothing supports it any more.
            let is_decided = status["initialization"]["infrastructureProvisioned"] == true;
            if is_decided && status["phase"] == "Running" && decided.management.report.is_workload_known {
                prop_assert_eq!(number(&old["readyReplicas"]), i64::from(decided.management.report.desired));
            }
        }
    }
}
