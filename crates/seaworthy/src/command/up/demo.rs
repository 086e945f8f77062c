//! The story of `seaworthy up --demo`: a change and its plan, its roll-out, a bad change, and the way back.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anstyle::Style;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::machineconfiguration::{WORKER, node as annotation};
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_machineconfig::objects;
use seaworthy_machineconfig::operator::NAMESPACE;
use seaworthy_machineconfig::preview::{Admission, Outlook, foresee, outlook, strays};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_machineconfig::render::snapshots::ClusterSnapshots;
use seaworthy_machineconfig::world::World;
use serde_json::{Value, json};

use super::super::contents::counted;
use super::super::plan;
use super::super::rollout::live::{failures, is_done, write_status};
use super::running::Running;
use crate::failure::{Failure, OK};
use crate::output;

/// How long the story may take; it takes about ten seconds.
const LIMIT: Duration = Duration::from_secs(240);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(100);

/// Plays it, and says whether it came out as told.
pub async fn play(running: &Running) -> Result<u8, Failure> {
    let workers = running.fleet.hosts(WORKER).len();
    if workers < 2 {
        return Err(Failure::unreadable(format!(
            "the demo needs two workers, and the data folder has {workers}; add machines with --nodes 3, or use \
             another --data"
        )));
    }
    match tokio::time::timeout(LIMIT, Story { running, last: String::new() }.play()).await {
        Ok(told) => told.map(|()| OK),
        Err(_) => Err(Failure::wrong(format!("the demo did not finish within {} s", LIMIT.as_secs()))),
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

struct Story<'r> {
    running: &'r Running,
    /// What was told last of a roll-out.
    last: String,
}

/// A pool at a moment.
struct Moment {
    world: World,
    pool: Arc<MachineConfigPool>,
    outlook: Outlook,
}

impl Moment {
    fn is_done(&self) -> bool {
        is_done(&self.pool, &self.outlook)
    }

    fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.world.nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, &**node)))
    }

    fn degraded(&self) -> Vec<(String, String)> {
        let is_bad = |node: &Node| annotation::STATE.of(&node.metadata) == Some("Degraded");
        let reason = |node: &Node| annotation::REASON.of(&node.metadata).unwrap_or_default().to_owned();
        self.nodes().filter(|(_, node)| is_bad(node)).map(|(name, node)| (name.to_owned(), reason(node))).collect()
    }

    /// What each worker is told to run.
    fn orders(&self) -> BTreeMap<String, String> {
        let of = self.outlook.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>();
        let order = |node: &Node| annotation::DESIRED_CONFIG.of(&node.metadata).unwrap_or_default().to_owned();
        self.nodes().filter(|(name, _)| of.contains(name)).map(|(name, node)| (name.to_owned(), order(node))).collect()
    }
}

impl Story<'_> {
    async fn play(mut self) -> Result<(), Failure> {
        let motd = machine_config("50-worker-motd", "/etc/motd", "Keep calm.\n");
        let banner = machine_config("60-worker-banner", "/usr/share/banner", "Welcome aboard.\n");
        let workers = self.running.fleet.hosts(WORKER).len();
        let client = &self.running.client;

        let begin = self.until(|now| now.outlook.nodes.len() == workers && now.is_done(), false).await?;
        for name in ["50-worker-motd", "60-worker-banner"] {
            if begin.world.machine_config(name).is_some() {
                return Err(Failure::unreadable(format!(
                    "MachineConfig {name} of the demo already exists; delete it, or use another --data"
                )));
            }
        }
        self.chapter(&format!("A fleet: {}", counted(begin.world.nodes.len(), "node")))?;
        self.follow(&begin)?;

        self.chapter("Preview: a message of the day on the workers (seaworthy plan -f 50-worker-motd.yaml)")?;
        self.plan(&motd).await?;

        self.chapter("Apply it, and roll it out node by node (kubectl apply, seaworthy rollout status worker)")?;
        let before = begin.outlook.target.clone();
        objects::apply(client, &motd).await.map_err(Failure::wrong)?;
        self.until(|now| now.outlook.target != before, false).await?;
        let good = self.until(Moment::is_done, true).await?;
        self.must(self.have("/etc/motd") == workers, "every worker has /etc/motd")?;
        self.line(&format!("every worker now has /etc/motd and was rebooted for it ({workers} reboots)"))?;

        self.chapter("A bad change: a file in /usr, which is read-only on image-based machines")?;
        let orders = good.orders();
        objects::apply(client, &banner).await.map_err(Failure::wrong)?;
        self.until(|now| now.outlook.target != good.outlook.target, false).await?;
        let bad = self.until(|now| !now.degraded().is_empty() && !failures(&now.pool).is_empty(), true).await?;
        let failed = bad.degraded();
        let [(name, reason)] = failed.as_slice() else {
            return Err(Failure::wrong(format!("{} failed, expected one", counted(failed.len(), "node"))));
        };
        let others = bad.orders().into_iter().filter(|(node, _)| node != name);
        let untouched = others.filter(|(node, order)| orders.get(node) == Some(order)).count();
        self.must(untouched == workers - 1, "no other node is updated to the bad change")?;
        self.must(reason.contains("/usr/share/banner"), "the reason names the file")?;
        self.line(&format!("{name} uses up the budget, so the other {untouched} were not updated"))?;

        self.chapter(&format!("Roll back both changes: every worker is updated, {name} first"))?;
        let orders = bad.orders();
        objects::delete(client, &banner).await.map_err(Failure::wrong)?;
        objects::delete(client, &motd).await.map_err(Failure::wrong)?;
        let moved = |now: &Moment| -> Vec<String> {
            let all = now.orders().into_iter();
            all.filter(|(node, order)| orders.get(node) != Some(order)).map(|(node, _)| node).collect()
        };
        let first = moved(&self.until(|now| !moved(now).is_empty(), false).await?);
        self.must(first == [name.clone()], &format!("{name} is rolled back first: {first:?}"))?;
        let end = self.until(|now| now.outlook.target == before && now.is_done(), true).await?;
        self.must(end.degraded().is_empty(), "no node is degraded")?;
        self.must(self.have("/etc/motd") == 0, "no worker has /etc/motd")?;
        self.chapter("Done. To try it yourself: seaworthy up")
    }

    fn chapter(&mut self, title: &str) -> Result<(), Failure> {
        self.last.clear();
        let bold = Style::new().bold();
        writeln!(output::painted(), "\n{bold}* {title}{bold:#}")?;
        Ok(())
    }

    fn line(&self, text: &str) -> Result<(), Failure> {
        writeln!(output::painted(), "{text}")?;
        Ok(())
    }

    fn must(&self, is_so: bool, what: &str) -> Result<(), Failure> {
        if is_so { Ok(()) } else { Err(Failure::wrong(format!("the demo failed; expected: {what}"))) }
    }

    /// How many workers have a file.
    fn have(&self, path: &str) -> usize {
        self.running.fleet.hosts(WORKER).values().filter(|host| host.text(path).is_some()).count()
    }

    async fn plan(&self, manifest: &Value) -> Result<(), Failure> {
        let now = Timestamp::now();
        let client = &self.running.client;
        let before = World::read(client, true).await.map_err(Failure::wrong)?;
        let mut after = before.clone();
        let refused = after.apply(manifest, &Admission::of_changes(), now).err().unwrap_or_default();
        let snapshots = ClusterSnapshots::load(client, NAMESPACE).await.map_err(Failure::wrong)?;
        let remote = Remote { policy: Policy::default(), snapshots: Arc::new(snapshots), is_offline: true };
        let mut foresight = foresee(&before, after, &plan::means(remote, Templates::default(), now, true)).await;
        foresight.pools.retain(|pool| pool.name == WORKER);
        plan::print_text(&plan::Report::of_cluster(foresight, refused, std::slice::from_ref(manifest)), false)
    }

    async fn look(&self) -> Result<Option<Moment>, Failure> {
        let world = World::read(&self.running.client, false).await.map_err(Failure::wrong)?;
        let found = outlook(&world, WORKER, Timestamp::now());
        let pool = world.pool(WORKER).cloned();
        Ok(pool.zip(found).map(|(pool, outlook)| Moment { world, pool, outlook }))
    }

    /// Waits for a moment, and tells what happens until then.
    async fn until(&mut self, is_it: impl Fn(&Moment) -> bool, is_told: bool) -> Result<Moment, Failure> {
        loop {
            if let Some(now) = self.look().await? {
                let is_it = is_it(&now);
                if is_told {
                    self.follow(&now)?;
                }
                if is_it {
                    return Ok(now);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Tells how far a roll-out is: over what was told before on a terminal, elsewhere what is new whenever it is a node further.
    fn follow(&mut self, now: &Moment) -> Result<(), Failure> {
        let mut text = Vec::new();
        write_status(&mut text, WORKER, &now.pool, &now.outlook, &strays(&now.world))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_live = std::io::stdout().is_terminal();
        let is_news = |line: &&str| line.starts_with('[') || line.contains("Degraded: ");
        let news: Vec<&str> =
            text.lines().filter(is_news).filter(|line| !self.last.lines().any(|told| told == *line)).collect();
        if text == self.last || (!is_live && news.is_empty()) {
            return Ok(());
        }
        let mut out = output::painted();
        if is_live && !self.last.is_empty() {
            write!(out, "\u{1b}[{}A\u{1b}[J", self.last.lines().count())?;
        }
        if is_live || self.last.is_empty() {
            out.write_all(text.as_bytes())?;
        } else {
            news.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        out.flush()?;
        self.last = text;
        Ok(())
    }
}
