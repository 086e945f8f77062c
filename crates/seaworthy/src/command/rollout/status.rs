//! `seaworthy rollout status`: the progress of pools, once or until they are complete.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_change::ObjectRef;
use seaworthy_generate::base::Templates;
use seaworthy_ignition::Severity;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::pending::pending;
use seaworthy_machineconfig::preview::{outlook, unassigned_nodes};
use seaworthy_plan::duration::short;
use seaworthy_preview::{PreviewPart, PreviewProblem};
use seaworthy_runtime::build;
use seaworthy_runtime::cluster::Client;
use serde_json::json;

use super::pool_of;
use crate::cli::{PoolsOf, ReportFormat};
use crate::cluster::{client, no_pool};
use crate::display::outlook::{problem_json, to_json, waiting_json};
use crate::display::pool_status::{failures, is_done, write_status};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::{output, preview, terminal};

/// How often `status --watch` reads the cluster.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long `status --watch` retries while the API server is unavailable.
const UNAVAILABLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Shows the progress of one pool, or of all; with `watch` until every node runs its pool's target.
pub async fn run(of: &PoolsOf, watch: bool, timeout: Option<Duration>, format: ReportFormat) -> Result<u8, Failure> {
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
    let parts = preview::parts(Templates::default());
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

/// Whether a pool cannot have the nodes that it is meant for, as it is written.
fn is_fault_of(problem: &PreviewProblem, pool: &str) -> bool {
    let pool = ObjectRef::named::<MachineConfigPool>(pool);
    problem.severity == Severity::Error && problem.object.as_ref() == Some(&pool)
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
