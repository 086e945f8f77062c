//! Random owner graphs, with cycles: any deletion ends in the state that a simple model computes.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::housekeeping::cluster::{CONFIG_MAPS, Cluster, config_map};

#[derive(Debug, Clone)]
enum Op {
    /// A new object with these owners: numbers of objects that were made before, dead or alive, and whether they wait.
    Create(Vec<(usize, bool)>),
    /// An object gets one more owner, be it itself.
    Adopt(usize, usize, bool),
    Delete(usize, Option<&'static str>),
    /// Dependents stay. Alone between two settlings: what an owner that goes at the same time makes of them is a
    /// matter of who is first, in the real one too.
    Orphan(usize),
    Settle,
}

fn op() -> impl Strategy<Value = Op> {
    let at = 0..12_usize;
    prop_oneof![
        4 => vec((at.clone(), any::<bool>()), 0..3).prop_map(Op::Create),
        4 => (at.clone(), at.clone(), any::<bool>()).prop_map(|(child, owner, blocks)| Op::Adopt(child, owner, blocks)),
        3 => (at.clone(), prop_oneof![Just(None), Just(Some("Background")), Just(Some("Foreground"))])
            .prop_map(|(at, policy)| Op::Delete(at, policy)),
        1 => at.prop_map(Op::Orphan),
        1 => Just(Op::Settle),
    ]
}

/// The rules in their simplest form: an object with owners, none of which exists, is deleted.
#[derive(Debug, Default)]
struct Model {
    objects: Vec<Modelled>,
}

#[derive(Debug)]
struct Modelled {
    is_alive: bool,
    owners: Vec<usize>,
}

impl Model {
    fn settle(&mut self) {
        loop {
            let is_lost = |object: &Modelled| {
                object.is_alive
                    && !object.owners.is_empty()
                    && object.owners.iter().all(|owner| !self.objects[*owner].is_alive)
            };
            let Some(lost) = self.objects.iter().position(is_lost) else { break };
            self.objects[lost].is_alive = false;
        }
        let alive: Vec<bool> = self.objects.iter().map(|object| object.is_alive).collect();
        for object in &mut self.objects {
            object.owners.retain(|owner| alive[*owner]);
        }
    }

    fn orphan(&mut self, at: usize) {
        self.objects[at].is_alive = false;
        for object in &mut self.objects {
            object.owners.retain(|owner| *owner != at);
        }
    }
}

fn path(at: usize) -> String {
    format!("{CONFIG_MAPS}/o{at}")
}

async fn check(cluster: &Cluster, model: &mut Model) -> Result<(), TestCaseError> {
    cluster.server.settle().await;
    model.settle();
    for (at, modelled) in model.objects.iter().enumerate() {
        let found = cluster.get(&path(at)).await;
        prop_assert_eq!(found.is_some(), modelled.is_alive, "o{}: {:?} but {:?}", at, found, model);
        let Some(found) = found else { continue };
        prop_assert_eq!(found["metadata"].get("deletionTimestamp"), None);
        let owners = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let names: Vec<String> = owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect();
        let wanted: Vec<String> = modelled.owners.iter().map(|owner| format!("o{owner}")).collect();
        prop_assert_eq!(names, wanted, "owners of o{}", at);
    }
    Ok(())
}

async fn run(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let cluster = Cluster::start().await;
    let (mut model, mut made): (Model, Vec<Value>) = (Model::default(), Vec::new());
    let reference = |object: &Value, blocks: bool| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": object["metadata"]["name"],
            "uid": object["metadata"]["uid"], "blockOwnerDeletion": blocks,
        })
    };
    for op in ops {
        match op {
            Op::Create(mut owners) => {
                owners.retain(|(owner, _)| *owner < made.len());
                owners.sort_unstable();
                owners.dedup_by_key(|(owner, _)| *owner);
                let references: Vec<Value> =
                    owners.iter().map(|(owner, blocks)| reference(&made[*owner], *blocks)).collect();
                made.push(cluster.create(CONFIG_MAPS, config_map(&format!("o{}", made.len()), &references)).await);
                let owners = owners.into_iter().map(|(owner, _)| owner).collect();
                model.objects.push(Modelled { is_alive: true, owners });
            }
            Op::Adopt(child, owner, blocks) => {
                let is_new = child < made.len() && owner < made.len() && !model.objects[child].owners.contains(&owner);
                let Some(found) = (if is_new { cluster.get(&path(child)).await } else { None }) else { continue };
                let mut references = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                references.push(reference(&made[owner], blocks));
                cluster.patch(&path(child), json!({"metadata": {"ownerReferences": references}})).await;
                model.objects[child].owners.push(owner);
            }
            Op::Delete(at, policy) => {
                if at < made.len() && cluster.get(&path(at)).await.is_some() {
                    cluster.delete(&path(at), policy).await;
                    model.objects[at].is_alive = false;
                }
            }
            Op::Orphan(at) => {
                check(&cluster, &mut model).await?;
                if at < made.len() && model.objects[at].is_alive {
                    cluster.delete(&path(at), Some("Orphan")).await;
                    model.orphan(at);
                }
                check(&cluster, &mut model).await?;
            }
            Op::Settle => check(&cluster, &mut model).await?,
        }
    }
    check(&cluster, &mut model).await
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_of_owners_ends_as_the_model_says(ops in vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(ops))?;
    }
}
