//! Roll-out outlook of a pool: waves, disruption and waiting nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use seaworthy_machineconfig::preview::{NodeOutlook, Outlook};
use seaworthy_plan::disruption::Disruption;
use seaworthy_plan::duration::short;
use seaworthy_plan::rollout::forecast::Forecast;
use seaworthy_plan::rollout::waiting::{Reason, Waiting};
use seaworthy_preview::PreviewProblem;
use seaworthy_values::list::listed;
use seaworthy_values::text::counted;
use serde_json::{Value, json};

use crate::terminal;

/// How many nodes are listed by name.
const MAX_LISTED_NODES: usize = 8;
/// How many waves are listed one by one.
const MAX_LISTED_WAVES: usize = 6;

/// Names, the first of many.
pub fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    terminal::sanitized(listed(names, MAX_LISTED_NODES))
}

/// Writes which nodes wait, grouped by the reason.
pub fn write_waiting(out: &mut dyn Write, waiting: &[Waiting]) -> io::Result<()> {
    write_grouped(out, "waits", waiting)
}

/// Writes which nodes take their configuration from no pool, grouped by the reason.
pub fn write_without_pool(out: &mut dyn Write, nodes: &[Waiting]) -> io::Result<()> {
    write_grouped(out, "in no pool", nodes)
}

fn write_grouped(out: &mut dyn Write, what: &str, waiting: &[Waiting]) -> io::Result<()> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Waiting { node, reason } in waiting {
        groups.entry(reason.to_string()).or_default().push(node);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    for (reason, nodes) in groups {
        writeln!(out, "{what}: {}: {}", names(nodes), terminal::sanitized(reason))?;
    }
    Ok(())
}

pub fn write_waves(out: &mut dyn Write, outlook: &Outlook) -> io::Result<()> {
    let waves = &outlook.forecast.waves;
    for (nth, wave) in waves.iter().take(MAX_LISTED_WAVES).enumerate() {
        let when = if wave.starts == 0 { "now".to_owned() } else { format!("in {}", short(wave.starts)) };
        writeln!(out, "wave {} ({when}): {}", nth + 1, names(wave.nodes.iter().map(String::as_str)))?;
    }
    if waves.len() > MAX_LISTED_WAVES {
        writeln!(out, "… {}", counted(waves.len() - MAX_LISTED_WAVES, "more wave"))?;
    }
    let Forecast { blocked, behind, .. } = &outlook.forecast;
    let all = |list: &[String]| names(list.iter().map(String::as_str));
    if !blocked.is_empty() {
        let whose = if blocked.len() == 1 { "its pods" } else { "their pods" };
        writeln!(out, "no wave: {}: started in turn, but not completed until {whose} can be evicted", all(blocked))?;
    }
    if !blocked.is_empty() && !behind.is_empty() {
        writeln!(out, "no wave: {}: {} uses the budget until then", all(behind), all(blocked))?;
    }
    Ok(())
}

/// Writes the remark on the budget, if there is one.
pub fn write_remark(out: &mut dyn Write, outlook: &Outlook) -> io::Result<()> {
    outlook.budget_remark.as_ref().map_or(Ok(()), |remark| writeln!(out, "{}", terminal::sanitized(remark)))
}

/// The duration of a node's update, and what it is based on.
pub fn each(outlook: &Outlook) -> String {
    let each = outlook.forecast.each;
    let basis = match each.samples {
        0 => "estimated, no history yet".to_owned(),
        samples => format!("based on {}", counted(samples, "node")),
    };
    format!("{} per node ({basis})", short(each.seconds))
}

/// The nodes that something is done to.
pub fn moving(outlook: &Outlook) -> Vec<&NodeOutlook> {
    // Without a daemon nothing happens to a node.
    let mute = outlook.waiting.iter().filter(|waiting| waiting.reason == Reason::NoNodeDaemon);
    let mute: BTreeSet<&str> = mute.map(|waiting| waiting.node.as_str()).collect();
    let is_mute = |node: &NodeOutlook| mute.contains(node.name.as_str());
    // Nor does anything without a target.
    let is_moving = |node: &&NodeOutlook| outlook.target.is_some() && node.from != outlook.target && !is_mute(node);
    outlook.nodes.iter().filter(is_moving).collect()
}

/// Nodes grouped by disruption, the most severe first.
fn disruptions<'o>(moving: &[&'o NodeOutlook]) -> Vec<(Option<&'o Disruption>, Vec<&'o NodeOutlook>)> {
    let mut groups: Vec<(Option<&Disruption>, Vec<&NodeOutlook>)> = Vec::new();
    for node in moving {
        let found = node.disruption.as_deref();
        match groups.iter_mut().find(|(known, _)| *known == found) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((found, vec![node])),
        }
    }
    groups.sort_by_key(|(found, _)| std::cmp::Reverse(found.map(|found| found.level)));
    groups
}

/// Writes the disruption of nodes, and the rules that decide it.
pub fn write_disruptions(out: &mut dyn Write, moving: &[&NodeOutlook]) -> io::Result<()> {
    for (found, nodes) in disruptions(moving) {
        let who = names(nodes.iter().map(|node| node.name.as_str()));
        let Some(found) = found else {
            writeln!(out, "{who}: reboot assumed, because the running configuration is unknown")?;
            continue;
        };
        let actions: Vec<String> = found.actions.iter().map(ToString::to_string).collect();
        let actions = if actions.is_empty() { found.level.to_string() } else { actions.join(", ") };
        writeln!(out, "{who}: {}", terminal::sanitized(actions))?;
        // A rule is printed once, with everything that it applies to.
        let mut rules: Vec<(String, Vec<&str>)> = Vec::new();
        for cause in found.decisive() {
            let rule = cause.rule.to_string();
            match rules.iter_mut().find(|(known, _)| *known == rule) {
                Some((_, causes)) => causes.push(&cause.what),
                None => rules.push((rule, vec![&cause.what])),
            }
        }
        for (rule, causes) in rules {
            writeln!(out, "    because of {}: {}", names(causes), terminal::sanitized(rule))?;
        }
    }
    for node in moving {
        if let Some(found) = node.evictions.as_ref().filter(|found| !found.is_feasible()) {
            writeln!(
                out,
                "blocked: {}: its pods cannot be evicted: {}",
                terminal::sanitized(&node.name),
                terminal::sanitized(found.summary())
            )?;
        }
    }
    Ok(())
}

/// A waiting node and its reason as JSON.
pub fn waiting_json(waiting: &Waiting) -> Value {
    json!({"node": waiting.node, "reason": waiting.reason.code(), "message": waiting.reason.to_string()})
}

/// A problem that concerns no single pool, as JSON.
pub fn problem_json(problem: &PreviewProblem) -> Value {
    json!({
        "code": problem.code,
        "severity": problem.severity.to_string(),
        "object": problem.object.as_ref().map(ToString::to_string),
        "message": problem.message,
        "leavesPreviewIncomplete": problem.leaves_preview_incomplete,
    })
}

/// An outlook as JSON.
pub fn to_json(pool: &str, outlook: &Outlook) -> Value {
    let node = |node: &NodeOutlook| {
        let blockers = node.evictions.as_ref().map(|found| &found.blockers);
        json!({"node": node.name, "from": node.from, "disruption": node.disruption.as_deref(), "blockers": blockers})
    };
    let unsettled = |(node, what): &(String, String)| json!({"node": node, "message": what});
    let mut value = json!({
        "pool": pool,
        "target": outlook.target,
        "maxUnavailable": outlook.max_unavailable.as_ref().ok(),
        "budgetRemark": outlook.budget_remark,
        "paused": outlook.is_paused,
        "pinned": outlook.pinned,
        "updated": outlook.updated,
        "chosen": outlook.chosen,
        "waiting": outlook.waiting.iter().map(waiting_json).collect::<Vec<_>>(),
        "unsettled": outlook.unsettled.iter().map(unsettled).collect::<Vec<_>>(),
        "nodes": outlook.nodes.iter().map(node).collect::<Vec<_>>(),
        "forecast": outlook.forecast,
    });
    if let Err(error) = &outlook.max_unavailable {
        value["error"] = error.as_str().into();
    }
    value
}
