//! The recorded scenarios: what the operator makes of them must be what Cluster API's own controller made.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use serde_json::Value;

use crate::api::text;
use crate::comparison::differences;
use crate::player::{Changes, Player};
use crate::world::{World, golden};

/// How many are played at a time. They wait, mostly.
const CONCURRENT_SCENARIOS: usize = 13;
/// Plays those whose name contains this.
const ONLY: &str = "MACHINEPOOL_ONLY";

fn read(folder: &str) -> Vec<Value> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let mut files: Vec<_> =
        std::fs::read_dir(golden().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.file_name().unwrap().to_string_lossy().contains(&only));
    files.iter().map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_end_as_with_cluster_api() {
    let (scenarios, expected) = (read("scenarios"), read("expected"));
    assert_eq!(scenarios.len(), expected.len());
    let world = World::start().await;
    let mut kinds: Vec<String> = scenarios
        .iter()
        .flat_map(|scenario| scenario["kinds"].as_array().unwrap())
        .map(|kind| kind.as_str().unwrap().to_owned())
        .collect();
    kinds.sort();
    kinds.dedup();
    let changes = Arc::<Changes>::default();
    let _watches = changes.watch(&world, &kinds).await;
    let (world, changes) = (&world, &*changes);
    let played = futures::stream::iter(scenarios.iter().zip(&expected).enumerate()).map(
        |(nth, (scenario, expected))| async move {
            // Letters that no name in a scenario has in this order.
            let id = format!("qzx{nth:03}");
            let begun = Instant::now();
            let found = Player::new(world, changes, scenario, id).play().await;
            let mut lines = Vec::new();
            differences(&expected["answers"], &found["answers"], "", &mut lines);
            let name = text(scenario, "name");
            let result = if lines.is_empty() { "ok" } else { "FAILED" };
            println!("{result:6} {name} ({:.1} s)", begun.elapsed().as_secs_f64());
            lines.iter().map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
        },
    );
    let failed: Vec<String> = played.buffer_unordered(CONCURRENT_SCENARIOS).concat().await;
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n"));
}
