//! Plan as text: findings about the manifests first, then pool by pool.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};

use seaworthy_change::ObjectRef;
use seaworthy_ignition::Severity;
use seaworthy_machineconfig::preview::PoolPreview;
use seaworthy_manifest::EntryPart;
use seaworthy_plan::duration::short;
use seaworthy_plan::rollout::waiting::{Reason, Waiting};
use seaworthy_preview::PreviewProblem;

use super::report::{PlanReport, code, comparison, part_of};
use crate::display::outlook;
use crate::failure::Failure;
use crate::{output, terminal};

/// Prints a plan. In a summary files are named, and their lines only counted.
pub fn print(report: &PlanReport<'_>, is_summary: bool) -> Result<(), Failure> {
    let mut out = output::colored();
    let preview = &report.preview;
    let messages = messages(report);
    for message in &messages {
        message.write(&mut out)?;
    }
    if !messages.is_empty() {
        writeln!(out)?;
    }
    for (nth, pool) in preview.pools.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        write_pool(&mut out, report, pool, is_summary)?;
    }
    if !preview.without_pool.is_empty() {
        writeln!(out)?;
        outlook::write_without_pool(&mut out, &preview.without_pool)?;
        for (pool, nodes) in grouped(preview.newly_unassigned.iter().map(|(node, pool)| (pool, node))) {
            let leave = if nodes.len() == 1 { "leaves" } else { "leave" };
            let (who, pool) = (outlook::names(nodes), terminal::sanitized(pool));
            writeln!(out, "because of these manifests: {who} {leave} pool {pool}; the running configuration stays")?;
        }
    }
    Ok(())
}

fn write_pool(out: &mut dyn Write, report: &PlanReport<'_>, pool: &PoolPreview, is_summary: bool) -> io::Result<()> {
    let (outlook, name) = (&pool.outlook, terminal::sanitized(&pool.name));
    let is_changed = comparison(pool).write(out, is_summary)?;
    if let Some(failure) = &pool.failure {
        let style = terminal::style(Severity::Error);
        let reason = failure.reason.as_str();
        let what = if outlook.target.is_some() { "keeps its current configuration" } else { "gets no configuration" };
        writeln!(out, "{style}pool {name} {what}{style:#} ({reason}): {}", terminal::sanitized(&failure.message))?;
    } else if !is_changed {
        let target = outlook.target.as_deref().unwrap_or("nothing");
        writeln!(out, "pool {name}: no change (target {target})")?;
    }
    if let Some(pinned) = &outlook.pinned {
        writeln!(
            out,
            "pinned to {pinned}: its MachineConfigs have no effect until `seaworthy rollout undo {name} --release`"
        )?;
    }
    for finding in pool.findings.iter().filter(|finding| is_changed || finding.severity == Severity::Error) {
        let text = format!("{}{finding}", report.place_of(finding));
        write_finding(out, finding.severity, finding.code, text)?;
    }
    if outlook.target.is_none() && !outlook.nodes.is_empty() {
        let nodes = outlook::names(outlook.nodes.iter().map(|node| node.name.as_str()));
        writeln!(out, "its nodes are not updated until it has one: {nodes}")?;
    }
    // Those that wait for their turn are in the waves.
    let forecast = &outlook.forecast;
    let behind = forecast.behind.iter().filter(|_| !forecast.blocked.is_empty());
    let in_waves: BTreeSet<&String> = forecast.waves.iter().flat_map(|wave| &wave.nodes).chain(behind).collect();
    let is_stuck = |waiting: &&Waiting| {
        !matches!(waiting.reason, Reason::NoConfiguration { .. }) && !in_waves.contains(&waiting.node)
    };
    let stuck: Vec<_> = outlook.waiting.iter().filter(is_stuck).cloned().collect();
    let to_move: usize = outlook.forecast.waves.iter().map(|wave| wave.nodes.len()).sum();
    let is_caused = |node: &str| pool.moved_nodes.contains_key(node);
    let (caused, other): (Vec<_>, Vec<_>) =
        outlook::moving(outlook).into_iter().partition(|node| is_caused(&node.name));
    // If the pool changes, its difference is printed above; without a cluster nothing is pending.
    let separates_causes = !is_changed && report.is_on_cluster;
    let mut because = Vec::new();
    write_origins(&mut because, pool)?;
    outlook::write_disruptions(&mut because, &caused)?;
    if separates_causes && !because.is_empty() {
        writeln!(out, "because of these manifests:")?;
    }
    out.write_all(&because)?;
    let is_left = !other.is_empty() || stuck.iter().any(|waiting| !is_caused(&waiting.node));
    if separates_causes && is_left {
        writeln!(out, "already pending, not because of these manifests:")?;
    }
    outlook::write_disruptions(out, &other)?;
    if to_move > 0 {
        let budget = outlook.max_unavailable.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        let (each, all) = (outlook::each(outlook), short(outlook.forecast.seconds));
        let but = if forecast.blocked.is_empty() { "" } else { ", if pods can be evicted" };
        let both = if separates_causes && !caused.is_empty() && !other.is_empty() { "all of it: " } else { "" };
        writeln!(out, "{both}budget {budget}, {each}: done in about {all}{but}")?;
    } else if outlook.nodes.is_empty() && is_changed {
        writeln!(out, "no node belongs to it")?;
    }
    outlook::write_remark(out, outlook)?;
    outlook::write_waves(out, outlook)?;
    outlook::write_waiting(out, &stuck)
}

/// Writes which pools nodes come from that were in another pool before. For a new node its disruption is enough.
fn write_origins(out: &mut dyn Write, pool: &PoolPreview) -> io::Result<()> {
    let from = pool.moved_nodes.iter().filter_map(|(node, from)| Some((from.as_ref()?, node)));
    for (from, nodes) in grouped(from.filter(|(from, _)| **from != pool.name)) {
        let come = if nodes.len() == 1 { "comes" } else { "come" };
        writeln!(out, "{} {come} from pool {}", outlook::names(nodes), terminal::sanitized(from))?;
    }
    Ok(())
}

/// Nodes by their pool.
fn grouped<'n>(nodes: impl Iterator<Item = (&'n String, &'n String)>) -> BTreeMap<&'n str, Vec<&'n str>> {
    let mut pools: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    nodes.for_each(|(pool, node)| pools.entry(pool).or_default().push(node));
    pools
}

/// An error, warning or other finding about a manifest.
struct Message {
    severity: Severity,
    code: &'static str,
    place: String,
    text: String,
}

impl Message {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_finding(out, self.severity, self.code, format!("{}{}", self.place, self.text))
    }
}

fn write_finding(out: &mut dyn Write, severity: Severity, code: &str, text: impl Display) -> io::Result<()> {
    let style = terminal::style(severity);
    writeln!(out, "{style}{severity}[{code}]{style:#}: {}", terminal::sanitized(text))
}

/// Errors, warnings and other findings about the manifests, the most severe first.
fn messages(report: &PlanReport<'_>) -> Vec<Message> {
    let mut all = Vec::new();
    for objection in &report.objections {
        let place = report.place(&objection.object, &objection.path, part_of(objection));
        // kubectl's strict validation refuses it, also a field that the API would drop.
        all.push(Message { severity: Severity::Error, code: code(objection), place, text: objection.to_string() });
    }
    for problem in &report.preview.problems {
        let place = |object: &ObjectRef| report.place(object, &problem.path, EntryPart::Value);
        let place = problem.object.as_ref().map(place).unwrap_or_default();
        let PreviewProblem { severity, code, message, .. } = problem;
        all.push(Message { severity: *severity, code, place, text: message.clone() });
    }
    for finding in &report.preview.unselected {
        let (severity, code, text) = (finding.severity, finding.code, finding.to_string());
        all.push(Message { severity, code, place: report.place_of(finding), text });
    }
    all.sort_by_key(|message: &Message| std::cmp::Reverse(message.severity));
    all
}
