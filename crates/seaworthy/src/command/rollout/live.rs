//! `seaworthy rollout status|pause|resume|undo|history`: the roll-out of a pool in a cluster.

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::seaworthy::annotation::PINNED_CONFIGURATION;
use seaworthy_change::ObjectRef;
use seaworthy_generate::base::Templates;
use seaworthy_ignition::Severity;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::pending::pending;
use seaworthy_machineconfig::preview::{Outlook, UnassignedNodes, outlook, unassigned_nodes};
use seaworthy_plan::duration::short;
use seaworthy_plan::history::pin;
use seaworthy_plan::history::revision::{Revision, SourceChange, changes, previous, revisions};
use seaworthy_plan::rendering::targeted;
use seaworthy_preview::{PreviewPart, PreviewProblem};
use seaworthy_runtime::build;
use seaworthy_runtime::cluster::Client;
use seaworthy_runtime::objects::patch;
use seaworthy_values::text::counted;
use serde_json::json;

use super::super::outlook::{
    self as shown, client, each, no_pool, problem_json, runtime, to_json, waiting_json, write_waiting,
    write_without_pool,
};
use super::super::plan::preview_parts;
use crate::cli::{PoolOf, PoolsOf, ReportFormat, Rollout};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::table::Table;
use crate::{output, terminal};

/// How often `status --watch` reads the cluster.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long `status --watch` retries while the API server is unavailable.
const UNAVAILABLE_TIMEOUT: Duration = Duration::from_secs(120);
const BAR_WIDTH: usize = 30;

pub fn run(command: &Rollout) -> Result<u8, Failure> {
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        match command {
            Rollout::Decide { .. } => Ok(EXIT_OK),
            Rollout::Status { of, watch, timeout, output } => status(of, *watch, *timeout, *output).await,
            Rollout::Pause(of) => pause(of, true).await,
            Rollout::Resume(of) => pause(of, false).await,
            Rollout::Undo { of, release: true, dry_run, .. } => release(of, *dry_run).await,
            Rollout::Undo { of, to, dry_run, .. } => undo(of, to.as_deref(), *dry_run).await,
            Rollout::History { of, output } => history(of, *output).await,
        }
    });
    runtime.shutdown_background();
    result
}

async fn read(of: &PoolOf) -> Result<(Client, ClusterState, Arc<MachineConfigPool>), Failure> {
    let client = client(&of.cluster).await?;
    let cluster = ClusterState::read(&client, ReadScope::Own).await.map_err(Failure::invalid)?;
    let pool = pool_of(&cluster, &of.pool)?;
    Ok((client, cluster, pool))
}

fn pool_of(cluster: &ClusterState, name: &str) -> Result<Arc<MachineConfigPool>, Failure> {
    let known = || cluster.pools().iter().filter_map(|pool| pool.metadata.name.clone()).collect::<Vec<_>>();
    cluster.pool(name).cloned().ok_or_else(|| no_pool(name, &known()))
}

async fn status(of: &PoolsOf, watch: bool, timeout: Option<Duration>, format: ReportFormat) -> Result<u8, Failure> {
    let Some(timeout) = timeout else { return follow(of, watch, format).await };
    match tokio::time::timeout(timeout, follow(of, watch, format)).await {
        Ok(ended) => ended,
        Err(_) => {
            let limit = short(i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX));
            terminal::note(&format!(
                "timed out after {limit}; the roll-out continues, and the reasons for waiting are \
                                  listed above"
            ));
            Ok(EXIT_FAILED)
        }
    }
}

async fn follow(of: &PoolsOf, watch: bool, format: ReportFormat) -> Result<u8, Failure> {
    let client = client(&of.cluster).await?;
    let parts = preview_parts(Templates::default());
    let mut cluster = ClusterState::read(&client, ReadScope::Pending(&parts)).await.map_err(Failure::invalid)?;
    cluster.unreadable().for_each(|problem| terminal::warning(&problem.message));
    let is_live = watch && std::io::stdout().is_terminal() && format == ReportFormat::Text;
    let mut last = String::new();
    loop {
        let (text, is_done) = status_of(&cluster, &parts, of.pool.as_deref(), format)?;
        if text != last {
            let mut out = output::colored();
            if is_live && !last.is_empty() {
                // Overwrites the lines that were printed before.
                write!(out, "\u{1b}[{}A\u{1b}[J", last.lines().count())?;
            } else if !last.is_empty() && format == ReportFormat::Text {
                writeln!(out)?;
            }
            out.write_all(text.as_bytes())?;
            out.flush()?;
            last = text;
        }
        if !watch || is_done {
            return Ok(if is_done { EXIT_OK } else { EXIT_FAILED });
        }
        cluster = read_again(&client, &parts).await?;
    }
}

/// The status text of one pool, or of all, and whether every node runs its pool's target.
fn status_of(
    cluster: &ClusterState,
    parts: &[Box<dyn PreviewPart>],
    wanted: Option<&str>,
    format: ReportFormat,
) -> Result<(String, bool), Failure> {
    let pools: Vec<Arc<MachineConfigPool>> = match wanted {
        Some(name) => vec![pool_of(cluster, name)?],
        None if cluster.pools().is_empty() => {
            return Err(Failure::invalid(
                "the cluster has no MachineConfigPool; a ControllerConfig creates the pools master and worker \
                 (examples/controller-config.yaml); create any other as a MachineConfigPool",
            ));
        }
        None => cluster.pools().to_vec(),
    };
    let mut unassigned = unassigned_nodes(cluster);
    // Nodes without a pool are listed once, after the last pool; problems of a pool are listed with it.
    let (without_pool, last) = (std::mem::take(&mut unassigned.nodes), pools.len() - 1);
    let (mut text, mut values, mut is_all_done) = (Vec::new(), Vec::new(), true);
    for (nth, pool) in pools.iter().enumerate() {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let Some(found) = outlook(cluster, name, Timestamp::now()) else { return Err(no_pool(name, &[])) };
        let faults: Vec<&PreviewProblem> =
            unassigned.problems.iter().filter(|problem| is_fault_of(problem, name)).collect();
        let pending = pending(cluster, pool, parts, &build());
        let is_done = is_done(pool, &found) && faults.is_empty() && pending.is_none();
        is_all_done &= is_done;
        match format {
            ReportFormat::Text => {
                if nth > 0 {
                    writeln!(text)?;
                }
                if nth == last {
                    unassigned.nodes.clone_from(&without_pool);
                }
                write_status(&mut text, name, pool, &found, &unassigned)?;
                if let Some(pending) = &pending {
                    let pending = terminal::sanitized(pending);
                    writeln!(
                        text,
                        "pending: {pending}; if this persists, check that the controllers are \
                                    running"
                    )?;
                }
            }
            ReportFormat::Json => {
                let mut value = to_json(name, &found);
                let failure =
                    |(condition, message): (String, String)| json!({"condition": condition, "message": message});
                value["done"] = is_done.into();
                value["failures"] = failures(pool).into_iter().map(failure).collect();
                value["pending"] = json!(pending);
                value["problems"] = faults.iter().map(|problem| problem_json(problem)).collect();
                value["withoutPool"] = without_pool.iter().map(waiting_json).collect();
                values.push(value);
            }
        }
    }
    if format == ReportFormat::Json {
        let value = match (wanted, values.pop()) {
            (Some(_), Some(only)) => only,
            (_, last) => values.into_iter().chain(last).collect(),
        };
        writeln!(text, "{}", seaworthy_manifest::pretty(&value))?;
    }
    Ok((String::from_utf8_lossy(&text).into_owned(), is_all_done))
}

/// Reads the cluster again after the poll interval. While the server is unavailable, as during a restart, it is retried.
async fn read_again(client: &Client, parts: &[Box<dyn PreviewPart>]) -> Result<ClusterState, Failure> {
    let mut is_reported = false;
    let begun = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match ClusterState::read(client, ReadScope::Pending(parts)).await {
            Ok(cluster) => return Ok(cluster),
            Err(error) if begun.elapsed() > UNAVAILABLE_TIMEOUT => return Err(Failure::invalid(error)),
            Err(error) if !is_reported => {
                terminal::note(&format!("{error}; retrying for {} min", UNAVAILABLE_TIMEOUT.as_secs() / 60));
                is_reported = true;
            }
            Err(_) => {}
        }
    }
}

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

/// Whether a pool cannot have the nodes that it is meant for, as it is written.
fn is_fault_of(problem: &PreviewProblem, pool: &str) -> bool {
    let pool = ObjectRef::named::<MachineConfigPool>(pool);
    problem.severity == Severity::Error && problem.object.as_ref() == Some(&pool)
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
) -> Result<(), Failure> {
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
            writeln!(out, "budget {max}, {}: about {} left", each(found), short(found.forecast.seconds))?;
            shown::write_remark(out, found)?;
        }
        Ok(_) => {}
    }
    let is_waiting = |node: &&String| found.waiting.iter().any(|waiting| waiting.node == **node);
    let next: Vec<&str> = found.chosen.iter().filter(|node| !is_waiting(node)).map(String::as_str).collect();
    if !next.is_empty() {
        writeln!(out, "next: {}", shown::names(next))?;
    }
    write_waiting(out, &found.waiting)?;
    for (node, what) in &found.unsettled {
        writeln!(out, "not ready: {}: {}", terminal::sanitized(node), terminal::sanitized(what))?;
    }
    // They may be meant for this pool.
    write_without_pool(out, &unassigned.nodes)?;
    let about = format!("MachineConfigPool {name}:");
    for problem in unassigned.problems.iter().filter(|problem| problem.message.starts_with(&about)) {
        writeln!(out, "{}", terminal::sanitized(&problem.message))?;
    }
    Ok(())
}

async fn pause(of: &PoolOf, paused: bool) -> Result<u8, Failure> {
    let (client, _, pool) = read(of).await?;
    let name = &of.pool;
    if (pool.spec.paused == Some(true)) == paused {
        terminal::note(&format!("pool {name} is {}", if paused { "already paused" } else { "not paused" }));
        return Ok(EXIT_OK);
    }
    patch::<MachineConfigPool>(&client, name, &json!({"spec": {"paused": paused}})).await.map_err(Failure::invalid)?;
    let outcome = if paused { "paused: no further node updates start until it is resumed" } else { "resumed" };
    writeln!(output::plain(), "pool {name} {outcome}")?;
    Ok(EXIT_OK)
}

async fn undo(of: &PoolOf, to: Option<&str>, dry_run: bool) -> Result<u8, Failure> {
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

async fn release(of: &PoolOf, dry_run: bool) -> Result<u8, Failure> {
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

fn signed(changes: &[SourceChange]) -> String {
    let entries: Vec<String> =
        changes.iter().map(|change| format!("{}{}", change.what.sign(), terminal::sanitized(&change.name))).collect();
    entries.join(", ")
}

async fn history(of: &PoolOf, format: ReportFormat) -> Result<u8, Failure> {
    let (_, cluster, pool) = read(of).await?;
    let all = revisions(&pool, cluster.machine_configs().iter().map(|object| &**object));
    let target = targeted(&pool);
    let finished = pool.status.as_ref().and_then(|status| status.configuration.as_ref()?.name.as_deref());
    let word = |name: &str| match (target == Some(name), finished == Some(name)) {
        (true, _) if pin::name(&pool) == Some(name) => "target, pinned",
        (true, true) => "target, complete",
        (true, false) => "target",
        (false, true) => "last completed",
        (false, false) => "",
    };
    let state = |revision: &Revision<'_>| match (word(revision.name), revision.is_deleting()) {
        (word, false) => word.to_owned(),
        ("", true) => "being deleted".to_owned(),
        (word, true) => format!("{word}, being deleted"),
    };
    if format == ReportFormat::Json {
        let list: Vec<_> = all
            .iter()
            .map(|revision| {
                json!({
                    "name": revision.name,
                    "created": revision.created.map(|time| time.to_string()),
                    "targeted": revision.targeted.map(|time| time.to_string()),
                    "isGoing": revision.is_deleting(),
                    "sources": revision.sources.as_ref().map(|found| found.keys().collect::<Vec<_>>()),
                    "changes": revision.changes,
                    "isTarget": target == Some(revision.name),
                    "isFinished": finished == Some(revision.name),
                })
            })
            .collect();
        writeln!(output::plain(), "{}", seaworthy_manifest::pretty(&json!(list)))?;
        return Ok(EXIT_OK);
    }
    if all.is_empty() {
        terminal::note(&format!("pool {} has no rendered MachineConfig yet", of.pool));
        return Ok(EXIT_OK);
    }
    let now = Timestamp::now();
    let mut table = Table::new(["NAME", "AGE", "CHANGED", "STATE"]);
    for (nth, revision) in all.iter().enumerate() {
        let age = revision.since().map_or_else(String::new, |time| short(now.duration_since(time).as_secs()));
        let changed = match (&revision.changes, &revision.sources) {
            (Some(list), _) if list.is_empty() => "no MachineConfig".to_owned(),
            (Some(list), _) => signed(list),
            (None, Some(sources)) => {
                let of = counted(sources.len(), "MachineConfig");
                if nth == 0 { format!("first on record, from {of}") } else { format!("not recorded, from {of}") }
            }
            (None, None) => "not recorded".to_owned(),
        };
        table.row([terminal::sanitized(revision.name), age, changed, state(revision)]);
    }
    let mut out = output::plain();
    for line in table.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(EXIT_OK)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use seaworthy_api::machineconfiguration::MachineConfig;
    use seaworthy_change::Tables;
    use serde_json::Value;

    use super::*;

    fn pool(name: &str, selector: Value, degraded: &[&str]) -> Arc<MachineConfigPool> {
        let condition = |type_: &&str| json!({"type": type_, "status": "True", "message": format!("why {type_}")});
        let conditions: Vec<Value> = degraded.iter().map(condition).collect();
        let object = json!({
            "metadata": {"name": name},
            "spec": {"nodeSelector": selector, "configuration": {"name": format!("rendered-{name}-1")}},
            "status": {"conditions": conditions},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    /// What the pools of a cluster target.
    fn rendered(names: &[&str]) -> Vec<Arc<MachineConfig>> {
        let object = |name: &&str| json!({"metadata": {"name": format!("rendered-{name}-1")}, "spec": {}});
        names.iter().map(|name| Arc::new(serde_json::from_value(object(name)).unwrap())).collect()
    }

    /// A cluster with these pools and what they target.
    fn cluster<const N: usize>(pools: [Arc<MachineConfigPool>; N], targets: &[&str]) -> ClusterState {
        ClusterState::of(Tables::default().with_objects(pools.to_vec()).with_objects(rendered(targets))).unwrap()
    }

    fn label(name: &str) -> Value {
        json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}})
    }

    #[test]
    fn status_of_all_pools_lists_problems_with_their_pool_and_nodes_without_pool_once() {
        let near = json!({"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]});
        let unassigned = Arc::new(serde_json::from_value(json!({"metadata": {"name": "w9"}})).unwrap());
        let pools = [("edge", near), ("master", label("master")), ("worker", label("worker"))];
        let mut cluster =
            cluster(pools.map(|(name, selector)| pool(name, selector, &[])), &["edge", "master", "worker"]);
        cluster.objects_mut().of_mut::<Node>().push(unassigned);
        let (text, is_done) = status_of(&cluster, &[], None, ReportFormat::Text).unwrap();
        let of_pools: Vec<&str> = text.split("\n\n").collect();
        let [edge, master, worker] = of_pools.as_slice() else { panic!("{text}") };
        assert!(edge.contains("MachineConfigPool edge: spec.nodeSelector") && edge.contains("Near"), "{text}");
        assert!(!master.contains("MachineConfigPool edge") && !worker.contains("MachineConfigPool edge"), "{text}");
        assert!(worker.contains("w9") && text.matches("w9").count() == 1, "{text}");
        assert!(!is_done, "a pool that cannot have nodes has failed");
        assert_eq!(status_of(&cluster, &[], Some("edge"), ReportFormat::Text).unwrap().1, is_done);
        assert!(status_of(&cluster, &[], Some("worker"), ReportFormat::Text).unwrap().1);
        let (text, _) = status_of(&cluster, &[], None, ReportFormat::Json).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 3);
        assert_eq!(json[2]["withoutPool"][0]["node"], "w9");
        assert_eq!((&json[0]["done"], &json[2]["done"]), (&json!(false), &json!(true)));
        assert!(json[0]["problems"][0].to_string().contains("Near"), "{text}");

        cluster.objects_mut().of_mut::<MachineConfigPool>().remove(0);
        assert!(status_of(&cluster, &[], None, ReportFormat::Text).unwrap().1);
        cluster.objects_mut().of_mut::<MachineConfigPool>().clear();
        assert!(status_of(&cluster, &[], None, ReportFormat::Text).is_err());
    }

    #[test]
    fn pool_whose_target_is_not_rendered_yet_is_not_done() {
        let mut cluster = cluster([pool("worker", label("worker"), &[])], &[]);
        let (text, is_done) = status_of(&cluster, &[], Some("worker"), ReportFormat::Text).unwrap();
        assert!(text.contains("\npending: MachineConfig rendered-worker-1 is missing") && !is_done, "{text}");
        *cluster.objects_mut().of_mut() = rendered(&["worker"]);
        let (text, is_done) = status_of(&cluster, &[], Some("worker"), ReportFormat::Text).unwrap();
        assert!(!text.contains("pending") && is_done, "{text}");
    }

    #[test]
    fn degraded_condition_counts_as_a_failure_where_it_is_the_only_one() {
        let failures = |degraded: &[&str]| {
            let failed = failures(&pool("worker", label("worker"), degraded));
            failed.into_iter().map(|(type_, _)| type_).collect::<Vec<_>>()
        };
        assert_eq!(failures(&[]), [""; 0]);
        assert_eq!(failures(&["Degraded"]), ["Degraded"]);
        assert_eq!(failures(&["Degraded", "RenderDegraded"]), ["RenderDegraded"], "the sum is not listed twice");
        assert_eq!(failures(&["Degraded", "NodeDegraded", "RenderDegraded"]), ["NodeDegraded", "RenderDegraded"]);
        let cluster = cluster([pool("worker", label("worker"), &["Degraded"])], &[]);
        let (text, is_done) = status_of(&cluster, &[], None, ReportFormat::Text).unwrap();
        assert!(text.contains("\nDegraded: why Degraded\n") && !is_done, "{text}");
        let (text, _) = status_of(&cluster, &[], Some("worker"), ReportFormat::Json).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["failures"], json!([{"condition": "Degraded", "message": "why Degraded"}]));
        assert_eq!(json["done"], false);
    }
}
