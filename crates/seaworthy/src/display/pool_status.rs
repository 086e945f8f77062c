//! Status of a pool in a cluster: its progress, what has failed, and whether its roll-out is complete.

use std::io::{self, Write};

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::meta::ConditionStatus;
use seaworthy_machineconfig::preview::{Outlook, UnassignedNodes};
use seaworthy_plan::duration::short;
use seaworthy_values::text::counted;

use super::outlook;
use crate::terminal;

const BAR_WIDTH: usize = 30;

/// The failed conditions of a pool. `Degraded` is among them only where it is not the sum of others.
pub fn failures(pool: &MachineConfigPool) -> Vec<(String, String)> {
    let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failed = conditions.filter(|condition| {
        let type_ = condition.type_.as_deref().unwrap_or_default();
        type_.ends_with("Degraded") && condition.status.as_deref() == Some(ConditionStatus::True.as_str())
    });
    let mut failed: Vec<(String, String)> = failed
        .map(|condition| (condition.type_.clone().unwrap_or_default(), condition.message.clone().unwrap_or_default()))
        .collect();
    if failed.len() > 1 {
        failed.retain(|(type_, _)| type_ != "Degraded");
    }
    failed
}

/// Whether every node runs the pool's target and can be relied on, and nothing has failed: then the pool is `Updated`.
pub fn is_done(pool: &MachineConfigPool, found: &Outlook) -> bool {
    let is_everywhere = found.target.is_some() && found.updated.len() == found.nodes.len();
    is_everywhere && found.unsettled.is_empty() && failures(pool).is_empty()
}

/// Writes a pool's progress, the estimated duration, and why nodes wait.
pub fn write_status(
    out: &mut dyn Write,
    name: &str,
    pool: &MachineConfigPool,
    found: &Outlook,
    unassigned: &UnassignedNodes,
) -> io::Result<()> {
    let (done, all) = (found.updated.len(), found.nodes.len());
    let full = (BAR_WIDTH * done).checked_div(all).unwrap_or(BAR_WIDTH);
    let percent = (100 * done).checked_div(all).unwrap_or(100);
    let target = found.target.as_deref().unwrap_or("nothing yet");
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(BAR_WIDTH - full));
    writeln!(out, "pool {name} to {target}")?;
    let but = match found.unsettled.len() {
        0 => String::new(),
        count => format!(", {count} of them not ready"),
    };
    writeln!(out, "[{bar}] {percent} %: {done} of {} updated{but}", counted(all, "node"))?;
    if let Some(pinned) = &found.pinned {
        writeln!(out, "pinned to {pinned}; unpin with `seaworthy rollout undo {name} --release`")?;
    }
    if found.is_paused {
        writeln!(out, "paused; resume with `seaworthy rollout resume {name}`")?;
    }
    for (type_, message) in failures(pool) {
        writeln!(out, "{type_}: {}", terminal::sanitized(message))?;
    }
    match &found.max_unavailable {
        Err(error) => writeln!(out, "{}", terminal::sanitized(error))?,
        Ok(max) if found.forecast.seconds > 0 && !found.is_paused => {
            writeln!(out, "budget {max}, {}: about {} left", outlook::each(found), short(found.forecast.seconds))?;
            outlook::write_remark(out, found)?;
        }
        Ok(_) => {}
    }
    let is_waiting = |node: &&String| found.waiting.iter().any(|waiting| waiting.node == **node);
    let next: Vec<&str> = found.chosen.iter().filter(|node| !is_waiting(node)).map(String::as_str).collect();
    if !next.is_empty() {
        writeln!(out, "next: {}", outlook::names(next))?;
    }
    outlook::write_waiting(out, &found.waiting)?;
    for (node, what) in &found.unsettled {
        writeln!(out, "not ready: {}: {}", terminal::sanitized(node), terminal::sanitized(what))?;
    }
    // They may be meant for this pool.
    outlook::write_without_pool(out, &unassigned.nodes)?;
    let about = format!("MachineConfigPool {name}:");
    for problem in unassigned.problems.iter().filter(|problem| problem.message.starts_with(&about)) {
        writeln!(out, "{}", terminal::sanitized(&problem.message))?;
    }
    Ok(())
}
