//! Daemon process under measurement: it carries out an order with many files, and is then idle.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use serde_json::{Value, json};

use super::super::apiserver::client::{Connection, Endpoint};
use crate::kube::embedded::Embedded;
use crate::process::bound_to_this_process;
use crate::workspace::stdout_of;

const GROUP: &str = "machineconfiguration.openshift.io";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// After an order: the final check of the machine is done by then.
const SETTLE_DELAY: Duration = Duration::from_secs(5);
/// The kernel's unit of processor time in /proc, on all platforms.
const TICKS_A_SECOND: f64 = 100.0;

/// What was measured of the process. Memory is in bytes.
pub struct Process {
    /// From the order to the report that it is done, in seconds.
    pub followed_in: f64,
    /// What it has resident when it has nothing to do.
    pub resident: u64,
    /// The most that it ever had.
    pub peak: u64,
    /// The part of one core that it used while it had nothing to do.
    pub idle: f64,
}

/// Has a daemon follow an order of so many files, and watches it do nothing for a while.
pub async fn measure(program: &Path, folder: &Path, count: usize, idle: Duration) -> Result<Process> {
    let server = Embedded::start(program, &folder.join("server"))?;
    let address = server.url.trim_start_matches("https://").parse().context("the server's address")?;
    let endpoint = Endpoint::new(address, &server.authority, &server.token)?;
    let mut api = Api { connection: endpoint.connect().await?, endpoint };
    prepare(program, &mut api, count).await?;

    let root = folder.join("root");
    fs::create_dir_all(&root)?;
    let mut daemon = Daemon::start(program, &root, &server.kubeconfig)?;
    api.wait_until(&mut daemon, |annotation| annotation("state") == "Done").await?;
    let start = Instant::now();
    let order = json!({"metadata": {"annotations": {format!("{GROUP}/desiredConfig"): "many"}}});
    api.send(Method::PATCH, "/api/v1/nodes/w0", MERGE, &order).await?;
    api.wait_until(&mut daemon, |annotation| annotation("currentConfig") == "many").await?;
    let followed_in = start.elapsed().as_secs_f64();
    let last = root.join(format!("etc/nmstate/openshift/{}", count - 1));
    if !last.exists() {
        bail!("the daemon reports that it is done, but {} does not exist", last.display());
    }

    tokio::time::sleep(SETTLE_DELAY).await;
    let before = daemon.ticks()?;
    tokio::time::sleep(idle).await;
    let used = (daemon.ticks()? - before) / TICKS_A_SECOND;
    let (resident, peak) = (daemon.memory("VmRSS:")?, daemon.memory("VmHWM:")?);
    drop(daemon);
    server.stop()?;
    Ok(Process { followed_in, resident, peak, idle: used / idle.as_secs_f64() })
}

/// What the daemon needs in the cluster: the definitions, two configurations, and its node, which runs the empty one.
async fn prepare(program: &Path, api: &mut Api, count: usize) -> Result<()> {
    for group in [GROUP, "operator.openshift.io"] {
        let text = stdout_of(Command::new(program).args(["crds", "--group", group, "--output", "json"]))?;
        let list: Value = serde_json::from_slice(&text).context("what `seaworthy crds` printed")?;
        for definition in list["items"].as_array().context("`seaworthy crds` printed no list")? {
            api.send(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, definition).await?;
        }
    }
    let path = format!("/apis/{GROUP}/v1/machineconfigs");
    let file = |nth: usize| {
        let source = format!("data:,{}", "x".repeat(1200));
        json!({"path": format!("/etc/nmstate/openshift/{nth}"), "mode": 0o644, "contents": {"source": source}})
    };
    for (name, files) in [("first", Vec::new()), ("many", (0..count).map(file).collect())] {
        let config = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfig", "metadata": {"name": name},
            "spec": {"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}},
        });
        // A definition that was made a moment ago may not be in force yet.
        let start = Instant::now();
        while let Err(error) = api.send(Method::POST, &path, JSON, &config).await {
            if start.elapsed() > TIMEOUT {
                return Err(error);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w0", "annotations": {
        format!("{GROUP}/currentConfig"): "first", format!("{GROUP}/desiredConfig"): "first",
    }}});
    api.send(Method::POST, "/api/v1/nodes", JSON, &node).await
}

struct Api {
    endpoint: Endpoint,
    connection: Connection,
}

impl Api {
    async fn send(&mut self, method: Method, path: &str, kind: &'static str, body: &Value) -> Result<()> {
        let request = self.endpoint.request(method, path, Some((kind, serde_json::to_vec(body)?)))?;
        self.connection.send(request).await.map(drop)
    }

    /// Waits until the node's annotations meet a condition.
    async fn wait_until(
        &mut self,
        daemon: &mut Daemon,
        condition: impl Fn(&dyn Fn(&str) -> String) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        loop {
            let request = self.endpoint.request(Method::GET, "/api/v1/nodes/w0", None)?;
            let node: Value = serde_json::from_slice(&self.connection.fetch(request).await?)?;
            let annotation = |key: &str| {
                let text = &node["metadata"]["annotations"][format!("{GROUP}/{key}")];
                text.as_str().unwrap_or_default().to_owned()
            };
            if condition(&annotation) {
                return Ok(());
            }
            if start.elapsed() > TIMEOUT || daemon.process.try_wait()?.is_some() {
                bail!("the daemon did not carry out its order: {} {}", annotation("state"), annotation("reason"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// A daemon that ends when this is dropped.
struct Daemon {
    process: Child,
}

impl Daemon {
    fn start(program: &Path, root: &Path, kubeconfig: &Path) -> Result<Daemon> {
        let mut command = bound_to_this_process(program);
        command.args(["daemon", "--node-name", "w0", "--root"]).arg(root).arg("--kubeconfig").arg(kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Daemon { process })
    }

    fn file(&self, name: &str) -> Result<String> {
        let path = PathBuf::from(format!("/proc/{}/{name}", self.process.id()));
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn memory(&self, key: &str) -> Result<u64> {
        memory(&self.file("status")?, key).with_context(|| format!("/proc does not have {key}"))
    }

    fn ticks(&self) -> Result<f64> {
        ticks(&self.file("stat")?).context("/proc does not have the time of the process")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Bytes, from the file `status` of a process.
fn memory(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Processor time for the program and for the kernel, from the file `stat` of a process. Its name may have blanks in it.
fn ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |nth: usize| fields.get(nth)?.parse::<f64>().ok();
    Some(number(11)? + number(12)?)
}

#[cfg(test)]
mod tests {
    use super::{memory, ticks};

    #[test]
    fn memory_and_time_are_read_as_the_kernel_writes_them() {
        assert_eq!(memory("Name:\ta\nVmRSS:\t   20480 kB\n", "VmRSS:"), Some(20_971_520));
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 12 5 0 0 20 0 3 0 100 0 0";
        assert_eq!(ticks(stat), Some(17.0));
    }
}
