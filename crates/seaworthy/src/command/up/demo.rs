//! `seaworthy up --demo`: a change and its plan, its roll-out, a bad change, and the rollback.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anstyle::Style;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::machineconfiguration::{WORKER, node as annotation};
use seaworthy_controllers::operators;
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::preview::{Outlook, outlook, preview_changes, unassigned_nodes};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_machineconfig::render::snapshots::ContentSnapshots;
use seaworthy_runtime::{NAMESPACE, objects};
use seaworthy_values::text::counted;
use serde_json::{Value, json};

use super::super::plan::{PlanReport, print_text};
use super::local_cluster::LocalCluster;
use crate::display::pool_status::{failures, is_done, write_status};
use crate::failure::{EXIT_OK, Failure};
use crate::{output, preview};

/// Limit of the demo, which takes about ten seconds.
const TIMEOUT: Duration = Duration::from_secs(240);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the demo; fails if a step does not have the expected result.
pub async fn run(cluster: &LocalCluster) -> Result<u8, Failure> {
    let workers = cluster.fleet.hosts(WORKER).len();
    if workers < 2 {
        return Err(Failure::invalid(format!(
            "the demo needs two workers, and the data folder has {workers}; add machines with --nodes 3, or use \
             another --data"
        )));
    }
    match tokio::time::timeout(TIMEOUT, Demo { cluster, last: String::new() }.run()).await {
        Ok(result) => result.map(|()| EXIT_OK),
        Err(_) => Err(Failure::failed(format!("the demo did not finish within {} s", TIMEOUT.as_secs()))),
    }
}

/// A MachineConfig for workers with one file.
fn machine_config(name: &str, path: &str, text: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": WORKER}},
        "spec": {"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [{
            "path": path, "mode": 0o644,
            "contents": {"source": seaworthy_ignition::data_url::encode(text.as_bytes())},
        }]}}},
    })
}

struct Demo<'r> {
    cluster: &'r LocalCluster,
    /// The roll-out status that was printed last.
    last: String,
}

/// The state of the cluster and of the worker pool at one point in time.
struct PoolState {
    state: ClusterState,
    pool: Arc<MachineConfigPool>,
    outlook: Outlook,
}

impl PoolState {
    fn is_done(&self) -> bool {
        is_done(&self.pool, &self.outlook)
    }

    fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.state.nodes().iter().filter_map(|node| Some((node.metadata.name.as_deref()?, &**node)))
    }

    fn degraded(&self) -> Vec<(String, String)> {
        let is_bad = |node: &Node| annotation::STATE.of(&node.metadata) == Some("Degraded");
        let reason = |node: &Node| annotation::REASON.of(&node.metadata).unwrap_or_default().to_owned();
        self.nodes().filter(|(_, node)| is_bad(node)).map(|(name, node)| (name.to_owned(), reason(node))).collect()
    }

    /// The desired configuration of each worker.
    fn orders(&self) -> BTreeMap<String, String> {
        let of = self.outlook.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>();
        let order = |node: &Node| annotation::DESIRED_CONFIG.of(&node.metadata).unwrap_or_default().to_owned();
        self.nodes().filter(|(name, _)| of.contains(name)).map(|(name, node)| (name.to_owned(), order(node))).collect()
    }
}

impl Demo<'_> {
    async fn run(mut self) -> Result<(), Failure> {
        let motd = machine_config("50-worker-motd", "/etc/motd", "Keep calm.\n");
        let banner = machine_config("60-worker-banner", "/usr/share/banner", "Welcome aboard.\n");
        let workers = self.cluster.fleet.hosts(WORKER).len();
        let client = &self.cluster.client;

        let begin = self.wait_until(|now| now.outlook.nodes.len() == workers && now.is_done(), false).await?;
        for name in ["50-worker-motd", "60-worker-banner"] {
            if begin.state.machine_config(name).is_some() {
                return Err(Failure::invalid(format!(
                    "MachineConfig {name} of the demo already exists; delete it, or use another --data"
                )));
            }
        }
        self.heading(&format!("A fleet: {}", counted(begin.state.nodes().len(), "node")))?;
        self.print_status(&begin)?;

        self.heading("Preview: a message of the day on the workers (seaworthy plan -f 50-worker-motd.yaml)")?;
        self.plan(&motd).await?;

        self.heading("Apply it, and roll it out node by node (kubectl apply, seaworthy rollout status worker)")?;
        let before = begin.outlook.target.clone();
        objects::apply(client, &motd).await.map_err(Failure::failed)?;
        self.wait_until(|now| now.outlook.target != before, false).await?;
        let good = self.wait_until(PoolState::is_done, true).await?;
        self.expect(self.count_with_file("/etc/motd") == workers, "every worker has /etc/motd")?;
        self.line(&format!("every worker now has /etc/motd and was rebooted for it ({workers} reboots)"))?;

        self.heading("A bad change: a file in /usr, which is read-only on image-based machines")?;
        let orders = good.orders();
        objects::apply(client, &banner).await.map_err(Failure::failed)?;
        self.wait_until(|now| now.outlook.target != good.outlook.target, false).await?;
        let bad = self.wait_until(|now| !now.degraded().is_empty() && !failures(&now.pool).is_empty(), true).await?;
        let failed = bad.degraded();
        let [(name, reason)] = failed.as_slice() else {
            return Err(Failure::failed(format!("{} failed, expected one", counted(failed.len(), "node"))));
        };
        let others = bad.orders().into_iter().filter(|(node, _)| node != name);
        let untouched = others.filter(|(node, order)| orders.get(node) == Some(order)).count();
        self.expect(untouched == workers - 1, "no other node is updated to the bad change")?;
        self.expect(reason.contains("/usr/share/banner"), "the reason names the file")?;
        self.line(&format!("{name} uses up the budget, so the other {untouched} were not updated"))?;

        self.heading(&format!("Roll back both changes: every worker is updated, {name} first"))?;
        let orders = bad.orders();
        objects::delete(client, &banner).await.map_err(Failure::failed)?;
        objects::delete(client, &motd).await.map_err(Failure::failed)?;
        let moved = |now: &PoolState| -> Vec<String> {
            let all = now.orders().into_iter();
            all.filter(|(node, order)| orders.get(node) != Some(order)).map(|(node, _)| node).collect()
        };
        let first = moved(&self.wait_until(|now| !moved(now).is_empty(), false).await?);
        self.expect(first == [name.clone()], &format!("{name} is rolled back first: {first:?}"))?;
        let end = self.wait_until(|now| now.outlook.target == before && now.is_done(), true).await?;
        self.expect(end.degraded().is_empty(), "no node is degraded")?;
        self.expect(self.count_with_file("/etc/motd") == 0, "no worker has /etc/motd")?;
        self.heading("Done. To try it yourself: seaworthy up")
    }

    fn heading(&mut self, title: &str) -> Result<(), Failure> {
        self.last.clear();
        let bold = Style::new().bold();
        writeln!(output::colored(), "\n{bold}* {title}{bold:#}")?;
        Ok(())
    }

    fn line(&self, text: &str) -> Result<(), Failure> {
        writeln!(output::colored(), "{text}")?;
        Ok(())
    }

    fn expect(&self, is_so: bool, what: &str) -> Result<(), Failure> {
        if is_so { Ok(()) } else { Err(Failure::failed(format!("the demo failed; expected: {what}"))) }
    }

    /// How many workers have a file.
    fn count_with_file(&self, path: &str) -> usize {
        self.cluster.fleet.hosts(WORKER).values().filter(|host| host.text(path).is_some()).count()
    }

    async fn plan(&self, manifest: &Value) -> Result<(), Failure> {
        let now = Timestamp::now();
        let client = &self.cluster.client;
        let parts = preview::parts(Templates::default());
        let before = ClusterState::read(client, ReadScope::Preview(&parts)).await.map_err(Failure::failed)?;
        let mut after = before.clone();
        let (namespace, admission) = (client.default_namespace(), operators::admission().for_changes());
        let refused = after.apply(manifest, namespace, &admission, now).err().unwrap_or_default();
        let snapshots = ContentSnapshots::load(client, NAMESPACE).await.map_err(Failure::failed)?;
        let remote = Remote { policy: Policy::default(), snapshots: Arc::new(snapshots), is_offline: true };
        let mut preview = preview_changes(&before, after, &preview::inputs(remote, parts, now, true)).await;
        preview.pools.retain(|pool| pool.name == WORKER);
        let given = before.object_of(manifest, namespace).into_iter().collect();
        print_text(&PlanReport::of_cluster(preview, refused, &given), false)
    }

    async fn read_state(&self) -> Result<Option<PoolState>, Failure> {
        let state = ClusterState::read(&self.cluster.client, ReadScope::Own).await.map_err(Failure::failed)?;
        let found = outlook(&state, WORKER, Timestamp::now());
        let pool = state.pool(WORKER).cloned();
        Ok(pool.zip(found).map(|(pool, outlook)| PoolState { state, pool, outlook }))
    }

    /// Waits until a condition holds; prints the roll-out status meanwhile if `prints_status`.
    async fn wait_until(
        &mut self,
        condition: impl Fn(&PoolState) -> bool,
        prints_status: bool,
    ) -> Result<PoolState, Failure> {
        loop {
            if let Some(now) = self.read_state().await? {
                let is_met = condition(&now);
                if prints_status {
                    self.print_status(&now)?;
                }
                if is_met {
                    return Ok(now);
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Prints the roll-out status: on a terminal over the previous one, elsewhere only new lines.
    fn print_status(&mut self, now: &PoolState) -> Result<(), Failure> {
        let mut text = Vec::new();
        write_status(&mut text, WORKER, &now.pool, &now.outlook, &unassigned_nodes(&now.state))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_live = std::io::stdout().is_terminal();
        let is_progress = |line: &&str| line.starts_with('[') || line.contains("Degraded: ");
        let new_lines: Vec<&str> = text
            .lines()
            .filter(is_progress)
            .filter(|line| !self.last.lines().any(|printed| printed == *line))
            .collect();
        if text == self.last || (!is_live && new_lines.is_empty()) {
            return Ok(());
        }
        let mut out = output::colored();
        if is_live && !self.last.is_empty() {
            write!(out, "\u{1b}[{}A\u{1b}[J", self.last.lines().count())?;
        }
        if is_live || self.last.is_empty() {
            out.write_all(text.as_bytes())?;
        } else {
            new_lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        out.flush()?;
        self.last = text;
        Ok(())
    }
}
