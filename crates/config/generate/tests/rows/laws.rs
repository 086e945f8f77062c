//! Laws: what holds for every history of objects, pools and users' edits in between.

use proptest::prelude::*;
use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig};
use seaworthy_api::vocabulary::machineconfiguration::annotation;
use seaworthy_generate::PoolOutcome;
use serde_json::{Value, json};

use crate::support::{Cluster, Kind, pools};

/// Something that a user does.
#[derive(Debug, Clone)]
enum Act {
    Create { object: usize, pools: Vec<usize>, value: i64 },
    Edit { object: usize, value: i64 },
    Select { object: usize, pools: Vec<usize> },
    Delete { object: usize },
    Forget { machine_config: usize },
    Tamper { machine_config: usize },
    Upgrade,
    Sync { object: usize },
    Settle,
}

const OBJECTS: usize = 5;
const POOLS: [&str; 3] = ["a", "b", "c"];

fn act() -> impl Strategy<Value = Act> {
    let some = || proptest::collection::vec(0..POOLS.len(), 0..=3);
    prop_oneof![
        4 => (0..OBJECTS, some(), 0..40i64).prop_map(|(object, pools, value)| Act::Create { object, pools, value }),
        2 => (0..OBJECTS, 0..40i64).prop_map(|(object, value)| Act::Edit { object, value }),
        2 => (0..OBJECTS, some()).prop_map(|(object, pools)| Act::Select { object, pools }),
        1 => (0..OBJECTS).prop_map(|object| Act::Delete { object }),
        1 => (0..10usize).prop_map(|machine_config| Act::Forget { machine_config }),
        1 => (0..10usize).prop_map(|machine_config| Act::Tamper { machine_config }),
        1 => Just(Act::Upgrade),
        4 => (0..OBJECTS).prop_map(|object| Act::Sync { object }),
        1 => Just(Act::Settle),
    ]
}

trait Changeable: Kind {
    /// A spec; some values are refused.
    fn spec(value: i64) -> Value;
    fn set(&mut self, value: i64);
    fn select(&mut self, selector: Value);
}

impl Changeable for KubeletConfig {
    fn spec(value: i64) -> Value {
        json!({"kubeletConfig": if value < 5 { json!({"cgroupDriver": "x"}) } else { json!({"maxPods": value}) }})
    }

    fn set(&mut self, value: i64) {
        self.spec.kubelet_config = Some(Self::spec(value)["kubeletConfig"].clone());
    }

    fn select(&mut self, selector: Value) {
        self.spec.machine_config_pool_selector = Some(serde_json::from_value(selector).unwrap());
    }
}

impl Changeable for ContainerRuntimeConfig {
    fn spec(value: i64) -> Value {
        // Below 20 a limit is refused.
        let storage = if value % 2 == 0 { json!("1G") } else { json!("0") };
        json!({"pidsLimit": value, "overlaySize": storage})
    }

    fn set(&mut self, value: i64) {
        self.spec.container_runtime_config = serde_json::from_value(Self::spec(value)).unwrap();
    }

    fn select(&mut self, selector: Value) {
        self.spec.machine_config_pool_selector = Some(serde_json::from_value(selector).unwrap());
    }
}

fn selector(chosen: &[usize]) -> Value {
    if chosen.is_empty() { json!({}) } else { pools(&chosen.iter().map(|nth| POOLS[*nth]).collect::<Vec<_>>()) }
}

fn cluster<K: Changeable>() -> Cluster<K> {
    let mut cluster = Cluster::new();
    for pool in POOLS {
        cluster.pool(pool);
    }
    cluster
}

fn play<K: Changeable>(cluster: &mut Cluster<K>, act: &Act) {
    let nth = |cluster: &Cluster<K>, nth: usize| {
        let generated = cluster.generated();
        (!generated.is_empty()).then(|| generated[nth % generated.len()].to_owned())
    };
    let live = |cluster: &Cluster<K>, object: &usize| {
        let name = format!("o{object}");
        cluster.objects.get(&name).is_some_and(|object| object.meta().deletion_timestamp.is_none()).then_some(name)
    };
    match act {
        Act::Create { object, pools, value } => {
            let name = format!("o{object}");
            if !cluster.objects.contains_key(&name) {
                cluster.create(&name, selector(pools), K::spec(*value));
            }
        }
        Act::Edit { object, value } => {
            if let Some(name) = live(cluster, object) {
                cluster.edit(&name, |object| object.set(*value));
            }
        }
        Act::Select { object, pools } => {
            if let Some(name) = live(cluster, object) {
                cluster.edit(&name, |object| object.select(selector(pools)));
            }
        }
        Act::Delete { object } => {
            if let Some(name) = live(cluster, object) {
                cluster.delete(&name);
            }
        }
        Act::Forget { machine_config } => {
            if let Some(name) = nth(cluster, *machine_config) {
                cluster.machine_configs.remove(&name);
            }
        }
        Act::Tamper { machine_config } => {
            if let Some(name) = nth(cluster, *machine_config) {
                let mut edited = cluster.machine_configs[&name].as_ref().clone();
                edited.spec.kernel_arguments = Some(vec!["quiet".into()]);
                cluster.put(edited);
            }
        }
        Act::Upgrade => cluster.build.push('x'),
        Act::Sync { object } => {
            let name = format!("o{object}");
            if cluster.objects.contains_key(&name) {
                // That a decision carried out leaves nothing to do is checked there.
                cluster.sync(&name);
            }
        }
        Act::Settle => cluster.settle(),
    }
}

/// What holds when all objects have been looked at.
fn check<K: Changeable>(cluster: &Cluster<K>) -> Result<(), TestCaseError> {
    let mut owned = Vec::new();
    for (name, object) in &cluster.objects {
        let decision = cluster.decide(name);
        let finalizers = cluster.finalizers(name);
        for pool in &decision.report.pools {
            if matches!(pool.outcome, PoolOutcome::Unchanged) {
                let made = pool.machine_config.clone().unwrap();
                prop_assert!(finalizers.contains(&made), "{} has no finalizer on {}", made, name);
                let owners = cluster.machine_configs[&made].metadata.owner_references.clone().unwrap();
                prop_assert_eq!(Some(&owners[0].uid), object.meta().uid.as_ref());
                owned.push(made);
            }
        }
        if decision.report.refused.is_none() {
            let suffix = annotation::MC_NAME_SUFFIX.of(object.meta());
            prop_assert!(decision.report.pools.is_empty() || suffix.is_some());
        }
    }
    let count = owned.len();
    owned.sort();
    owned.dedup();
    prop_assert_eq!(owned.len(), count, "a MachineConfig belongs to one object");
    for generated in cluster.generated() {
        let is_claimed = cluster.objects.keys().any(|name| cluster.finalizers(name).iter().any(|own| own == generated));
        prop_assert!(is_claimed, "{} belongs to no object", generated);
    }
    Ok(())
}

fn converges<K: Changeable>(acts: &[Act]) -> Result<(), TestCaseError> {
    let mut cluster = cluster::<K>();
    let untouched = cluster.machine_configs.clone();
    for act in acts {
        play(&mut cluster, act);
    }
    cluster.settle();
    check(&cluster)?;
    for name in cluster.objects.keys().cloned().collect::<Vec<_>>() {
        cluster.delete(&name);
    }
    cluster.settle();
    prop_assert!(cluster.objects.is_empty());
    prop_assert_eq!(cluster.machine_configs, untouched, "deletion restores exactly");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kubelet_configs_converge_and_leave_nothing_behind(acts in proptest::collection::vec(act(), 1..25)) {
        converges::<KubeletConfig>(&acts)?;
    }

    #[test]
    fn container_runtime_configs_converge_and_leave_nothing_behind(acts in proptest::collection::vec(act(), 1..25)) {
        converges::<ContainerRuntimeConfig>(&acts)?;
    }

    /// Precedence is the order of creation, whichever object is decided first.
    #[test]
    fn numbers_follow_the_order_of_creation(order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle()) {
        let mut cluster = cluster::<ContainerRuntimeConfig>();
        for nth in 0..8 {
            cluster.create(&format!("o{}", 7 - nth), pools(&["a"]), json!({"pidsLimit": 100 + nth}));
        }
        for nth in order {
            cluster.sync(&format!("o{nth}"));
        }
        let suffixes: Vec<&str> = (0..8).rev().map(|nth| cluster.suffix(&format!("o{nth}")).unwrap()).collect();
        prop_assert_eq!(suffixes, ["", "1", "2", "3", "4", "5", "6", "7"]);
    }
}
