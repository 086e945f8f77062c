//! `seaworthy rollout decide`: which nodes of a pool are updated next, from manifests.

use std::io::Write as _;

use jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfigPool, MachineConfigPoolStatus};
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_ignition::spelling;
use seaworthy_plan::fleet::membership::PoolSelectors;
use seaworthy_plan::fleet::{ARBITER_TOPOLOGY, NodeView, PoolView, control_plane_topology};
use seaworthy_plan::rollout::budget::remark;
use seaworthy_plan::rollout::waiting::Waiting;
use seaworthy_plan::rollout::{self, PoolState, Verdicts};
use seaworthy_plan::status::pool_status;
use seaworthy_values::text::counted;
use serde_json::json;

use super::super::loading;
use crate::cli::{Input, ReportFormat};
use crate::display::outlook::waiting_json;
use crate::failure::{EXIT_OK, Failure};
use crate::manifest::FleetObjects;
use crate::table::Table;
use crate::{output, terminal};

pub fn run(input: &Input, wanted: Option<&str>, format: ReportFormat) -> Result<u8, Failure> {
    let texts = loading::texts(input)?;
    let fleet = FleetObjects::read(&texts)?;
    let pool = PoolView::of(chosen_pool(&fleet, wanted)?);
    let pools = PoolSelectors::new(fleet.pools.values().map(PoolView::of));
    if let Some((name, error)) = pools.invalid.first() {
        return Err(Failure::invalid(format!("MachineConfigPool {name}: spec.nodeSelector: {error}")));
    }
    for name in &pools.matching_all {
        terminal::warning(&format!(
            "MachineConfigPool {name}: spec.nodeSelector has no labels, which would select every node, so it selects \
             none; add a label"
        ));
    }
    let now = Timestamp::now();
    let views: Vec<NodeView<'_>> =
        fleet.nodes.iter().map(|(name, node)| NodeView::of(node, fleet.progress.get(name))).collect();
    let assignment = pools.assign(&views);
    let nodes = assignment.nodes_of(pool.name);
    // Manifests without a ControllerConfig do not name the topology: then a pool for arbiters that has nodes counts.
    let topology = match fleet.controller_configs.get(CONTROLLER_CONFIG) {
        Some(found) => control_plane_topology(found),
        None => Some(ARBITER_TOPOLOGY),
    };
    let nodes_of = |pool: &str| assignment.nodes_of(pool);
    let state = PoolState::of(pool.object, fleet.pools.values(), std::iter::empty(), nodes_of, topology, now);
    let inputs = state.inputs();
    let mut decision = rollout::decide(&inputs);
    for (node, membership) in &assignment.without {
        let reason = membership.reason();
        decision.waiting.extend(reason.map(|reason| Waiting { node: node.name.to_owned(), reason }));
    }
    decision.waiting.sort_by(|a, b| a.node.cmp(&b.node));
    let remarks = Default::default();
    let status =
        pool_status::status(&pool_status::PoolStatusInputs { pool, nodes, remarks: &remarks, certificates: &[], now });
    match format {
        ReportFormat::Json => print_json(pool, &decision, status.as_ref())?,
        ReportFormat::Text => print_text(pool, &decision, nodes.len())?,
    }
    Ok(EXIT_OK)
}

/// The pool that was asked for, or the only one.
fn chosen_pool<'f>(fleet: &'f FleetObjects, wanted: Option<&str>) -> Result<&'f MachineConfigPool, Failure> {
    let known = || fleet.pools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut pools = fleet.pools.values();
    match (wanted, pools.next(), pools.next()) {
        (_, None, _) => Err(Failure::invalid("no MachineConfigPool in the input; pass the pool to decide about")),
        (Some(name), ..) => fleet.pools.get(name).ok_or_else(|| {
            let near = spelling::nearest(name, fleet.pools.keys().map(String::as_str));
            let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            Failure::invalid(format!("pool {name:?} not found in the input; available pools: {}{hint}", known()))
        }),
        (None, Some(_), Some(_)) => {
            Err(Failure::invalid(format!("several pools in the input ({}); choose one with --pool", known())))
        }
        (None, Some(pool), None) => Ok(pool),
    }
}

fn print_json(
    pool: PoolView<'_>,
    decision: &Verdicts<'_>,
    status: Option<&MachineConfigPoolStatus>,
) -> Result<(), Failure> {
    let mut json = json!({
        "pool": pool.name,
        "target": pool.target().map(|target| target.config),
        // A budget that cannot be read lets nothing move, like one of zero nodes.
        "maxUnavailable": decision.max_unavailable.as_ref().map_or(0, |max| *max),
        "unavailable": decision.unavailable,
        "candidates": decision.candidates,
        "capacity": decision.capacity,
        "chosen": decision.chosen,
        "waiting": decision.waiting.iter().map(waiting_json).collect::<Vec<_>>(),
        "status": status,
    });
    if let Err(error) = &decision.max_unavailable {
        json["error"] = error.to_string().into();
    }
    let json = seaworthy_manifest::pretty(&json);
    writeln!(output::plain(), "{json}")?;
    Ok(())
}

fn print_text(pool: PoolView<'_>, decision: &Verdicts<'_>, nodes: usize) -> Result<(), Failure> {
    let mut out = output::colored();
    let target = pool.target().map_or("no configuration yet", |target| target.config);
    writeln!(
        out,
        "pool {}, {target}: {} of {} updated, {} unavailable, {}",
        terminal::sanitized(pool.name),
        decision.updated.len(),
        counted(nodes, "node"),
        decision.unavailable.len(),
        match &decision.max_unavailable {
            Ok(max) => format!("budget {max}"),
            Err(_) => "no budget".to_owned(),
        }
    )?;
    if let Err(error) = &decision.max_unavailable {
        terminal::error(&error.to_string());
    }
    let mut table = Table::new(["NODE", "NEXT", "WHY"]);
    for node in &decision.chosen {
        table.row([terminal::sanitized(node), "moves".to_owned(), format!("to {}", terminal::sanitized(target))]);
    }
    for Waiting { node, reason } in &decision.waiting {
        table.row([terminal::sanitized(node), "waits".to_owned(), terminal::sanitized(reason)]);
    }
    if let Some(remark) = remark(pool.name, pool.max_unavailable(), nodes) {
        writeln!(out, "{}", terminal::sanitized(remark))?;
    }
    if decision.chosen.is_empty() && decision.waiting.is_empty() {
        writeln!(out, "nothing to do")?;
        return Ok(());
    }
    for line in table.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
