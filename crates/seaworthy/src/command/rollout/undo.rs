//! `seaworthy rollout undo`: pins a pool to an earlier rendered MachineConfig, or unpins it.

use std::io::Write as _;

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::seaworthy::annotation::PINNED_CONFIGURATION;
use seaworthy_plan::history::pin;
use seaworthy_plan::history::revision::{changes, previous, revisions};
use seaworthy_plan::rendering::targeted;
use seaworthy_runtime::objects::patch;
use serde_json::json;

use super::history::signed;
use super::read;
use crate::cli::PoolOf;
use crate::failure::{EXIT_OK, Failure};
use crate::{output, terminal};

/// Pins a pool to an earlier rendered MachineConfig: the one with this name, or the previous target.
pub async fn run(of: &PoolOf, to: Option<&str>, dry_run: bool) -> Result<u8, Failure> {
    let (client, cluster, pool) = read(of).await?;
    let name = &of.pool;
    let all = revisions(&pool, cluster.machine_configs().iter().map(|object| &**object));
    let target = targeted(&pool);
    let back = match to {
        Some(to) => all.iter().find(|revision| revision.name == to).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|revision| revision.name).collect();
            Failure::invalid(format!(
                "pool {name} has no rendered MachineConfig {to:?}; it has: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))
        })?,
        None => {
            if let Some(pinned) = pin::name(&pool) {
                return Err(Failure::invalid(format!(
                    "pool {name} is already rolled back: it is pinned to {pinned}; go further back with --to (see \
                     `seaworthy rollout history {name}`), or unpin it with --release"
                )));
            }
            previous(&pool, &all).ok_or_else(|| {
                let choice = match all.len() {
                    0 | 1 => String::new(),
                    _ => format!("; choose one from `seaworthy rollout history {name}` with --to"),
                };
                Failure::invalid(format!(
                    "nothing to roll back to: pool {name} has no rendered MachineConfig before {}{choice}",
                    target.unwrap_or("its first")
                ))
            })?
        }
    };
    if back.is_deleting() {
        return Err(Failure::invalid(format!(
            "rendered MachineConfig {} is being deleted, so pool {name} cannot be rolled back to it; \
             `seaworthy rollout history {name}` lists the others",
            back.name
        )));
    }
    if Some(back.name) == target && pin::name(&pool).is_none_or(|pinned| pinned == back.name) {
        terminal::note(&format!("pool {name} already targets {}", back.name));
        return Ok(EXIT_OK);
    }
    let current = all.iter().find(|revision| Some(revision.name) == target);
    let made = current.and_then(|current| changes(back.sources.as_ref(), current.sources.as_ref()));
    let mut out = output::plain();
    if !dry_run {
        let pinned = json!({"metadata": {"annotations": {PINNED_CONFIGURATION.as_str(): back.name}}});
        patch::<MachineConfigPool>(&client, name, &pinned).await.map_err(Failure::invalid)?;
    }
    let verb = if dry_run { "would be pinned" } else { "is pinned" };
    writeln!(out, "pool {name} {verb} to {} (current target: {})", back.name, target.unwrap_or("nothing"))?;
    match made {
        Some(list) if !list.is_empty() => writeln!(out, "changed MachineConfigs: {}", signed(&list))?,
        _ => writeln!(out, "changed MachineConfigs: not recorded")?,
    }
    writeln!(out, "after fixing them, unpin the pool: seaworthy rollout undo {name} --release")?;
    if to.is_none() {
        let passed = all.iter().skip_while(|revision| revision.name != back.name).filter(|it| it.is_unfinished);
        for passed in passed.filter(|it| it.name != back.name && Some(it.name) != target) {
            terminal::note(&format!("skipped {}: not every node ran it; select it with --to", passed.name));
        }
    }
    if pool.spec.paused == Some(true) {
        terminal::warning(&format!(
            "pool {name} is paused: no node is rolled back until `seaworthy rollout resume \
                                 {name}`"
        ));
    }
    Ok(EXIT_OK)
}

/// Removes the pin of a pool.
pub async fn release(of: &PoolOf, dry_run: bool) -> Result<u8, Failure> {
    let (client, _, pool) = read(of).await?;
    let name = &of.pool;
    let Some(pinned) = pin::name(&pool) else {
        terminal::note(&format!("pool {name} is not pinned: it follows its MachineConfigs"));
        return Ok(EXIT_OK);
    };
    if !dry_run {
        let free = json!({"metadata": {"annotations": {PINNED_CONFIGURATION.as_str(): null}}});
        patch::<MachineConfigPool>(&client, name, &free).await.map_err(Failure::invalid)?;
    }
    let verb = if dry_run { "would follow" } else { "follows" };
    writeln!(output::plain(), "pool {name} {verb} its MachineConfigs again (it was pinned to {pinned})")?;
    Ok(EXIT_OK)
}
