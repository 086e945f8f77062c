//! All recorded answers of the upstream node controller (`tests/golden`): the same nodes, the same counts, the same
//! conditions, and reasons beside them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::membership::PoolSelectors;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::reservation::Reservation;
use seaworthy_plan::status::pool_status;
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

fn set<'a>(names: &[&'a str]) -> BTreeSet<&'a str> {
    names.iter().copied().collect()
}

#[test]
fn every_case_gives_the_recorded_answer() {
    let (cases, expected) = (lines("cases.jsonl"), lines("expected.jsonl"));
    assert_eq!((cases.len(), expected.len()), (200, 200));
    let mut errors = 0;
    for (case, expected) in cases.iter().zip(&expected) {
        let id = case["name"].as_str().unwrap();
        assert_eq!(expected["name"], id);
        let pool: MachineConfigPool = serde_json::from_value(case["pool"].clone()).unwrap();
        let nodes: Vec<Node> = serde_json::from_value(case["nodes"].clone()).unwrap();
        let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
        let pools = PoolSelectors::new([PoolView::of(&pool)]);
        let assignment = pools.assign(&views);
        let members = assignment.nodes_of(pool.metadata.name.as_deref().unwrap());
        assert_eq!(members.len(), nodes.len(), "{id}");
        let (first_boot_pools, reservation) = (FirstBootPools::default(), Reservation::default());
        let decision = rollout::decide(&rollout::RolloutInputs {
            pool: PoolView::of(&pool),
            nodes: members,
            holds: &[],
            operator_nodes: &[],
            first_boot_pools: &first_boot_pools,
            partner: None,
            reservation: &reservation,
            now: Timestamp::UNIX_EPOCH,
        });

        match &decision.max_unavailable {
            Ok(max) => assert_eq!(expected["maxUnavailable"], *max, "{id}"),
            Err(error) => {
                errors += 1;
                assert!(expected.get("error").is_some(), "{id}: {error}");
            }
        }
        assert_eq!(expected.get("error").is_some(), decision.max_unavailable.is_err(), "{id}");
        assert_eq!(set(&decision.unavailable), set(&names(&expected["unavailable"])), "{id}");
        assert_eq!(set(&decision.candidates), set(&names(&expected["candidates"])), "{id}");
        assert_eq!(expected["capacity"], decision.capacity, "{id}");
        let chosen = names(&expected["chosen"]);
        if decision.candidates.len() > decision.capacity {
            assert_eq!(decision.chosen, chosen, "{id}");
        } else {
            assert_eq!(set(&decision.chosen), set(&chosen), "{id}");
        }
        let verdicts = decision.chosen.len() + decision.waiting.len() + decision.updated.len();
        assert_eq!(verdicts, nodes.len(), "{id}: every node has a verdict");

        let status = pool_status::status(&pool_status::PoolStatusInputs {
            pool: PoolView::of(&pool),
            nodes: members,
            remarks: &Default::default(),
            certificates: &[],
            now: Timestamp::UNIX_EPOCH,
        });
        let ours = serde_json::to_value(status.unwrap()).unwrap();
        let theirs = &expected["status"];
        for key in [
            "observedGeneration",
            "machineCount",
            "updatedMachineCount",
            "readyMachineCount",
            "unavailableMachineCount",
            "degradedMachineCount",
            "certExpirys",
            "poolSynchronizersStatus",
        ] {
            assert_eq!(ours[key], theirs[key], "{id}: {key}");
        }
        assert_eq!(ours["configuration"]["name"], theirs["configuration"]["name"], "{id}");
        let reported = |status: &Value| -> Vec<[Value; 3]> {
            let conditions = status["conditions"].as_array().unwrap();
            conditions.iter().map(|one| ["type", "status", "message"].map(|key| one[key].clone())).collect()
        };
        assert_eq!(reported(&ours), reported(theirs), "{id}");
        for condition in ours["conditions"].as_array().unwrap() {
            assert_ne!(condition["reason"].as_str().unwrap(), "", "{id}");
        }
    }
    assert_eq!(errors, 19);
}
