//! `seaworthy up`: a control plane, the controllers, the Ignition endpoint and a simulated fleet, in one process.

mod demo;
mod endpoint;
mod local_cluster;
mod log;
mod objects;
mod port_owner;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use seaworthy_fleet::Fleet;
use seaworthy_resident::disable_huge_pages;
use seaworthy_values::text::counted;

use crate::cli::Up;
use crate::failure::{EXIT_OK, Failure};
use crate::process::{block_on, shutdown_signal};
use crate::{idle_memory, output, terminal};
use local_cluster::{LocalCluster, StartOptions};

/// The data folder unless --data names another.
const DEFAULT_DATA_FOLDER: &str = "seaworthy-data";
/// The number of machines unless --nodes gives another.
const DEFAULT_MACHINES: u16 = 9;
/// How many machines the demo needs.
const MIN_DEMO_MACHINES: u16 = 3;
/// How many folder names of demos with the same process id are tried.
const MAX_DEMO_FOLDERS: u32 = 1000;

/// Runs until it receives a stop signal, or until the demo is finished.
pub fn run(options: &Up) -> Result<u8, Failure> {
    disable_huge_pages();
    if options.demo && options.nodes.is_some_and(|nodes| nodes < MIN_DEMO_MACHINES) {
        return Err(Failure::invalid(format!(
            "--demo --nodes {}: the demo needs a master and two workers; use at least {MIN_DEMO_MACHINES}, or omit --nodes",
            options.nodes.unwrap_or_default()
        )));
    }
    let data = match &options.data {
        Some(data) => DataLocation::Kept(data.clone()),
        None if options.demo => DataLocation::temporary(&std::env::temp_dir())?,
        None => DataLocation::Kept(DEFAULT_DATA_FOLDER.into()),
    };
    block_on(up(options, data.path()))
}

/// The data folder; a temporary one is removed at the end.
enum DataLocation {
    Kept(PathBuf),
    Temporary(PathBuf),
}

impl DataLocation {
    /// A new folder that only this user can read.
    fn temporary(parent: &Path) -> Result<DataLocation, Failure> {
        use std::os::unix::fs::DirBuilderExt as _;
        for nth in 0..MAX_DEMO_FOLDERS {
            // Processes of several containers may have the same id and share the temporary folder.
            let path = parent.join(format!("seaworthy-demo-{}-{nth}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(DataLocation::Temporary(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::invalid(format!("cannot create {}: {error}", path.display()))),
            }
        }
        Err(Failure::invalid(format!(
            "{} has too many folders of earlier demos; remove seaworthy-demo-* there, or choose a folder with --data",
            parent.display()
        )))
    }

    fn path(&self) -> &Path {
        match self {
            DataLocation::Kept(path) | DataLocation::Temporary(path) => path,
        }
    }
}

impl Drop for DataLocation {
    fn drop(&mut self) {
        if let DataLocation::Temporary(path) = self {
            // What cannot be removed stays in the temporary folder.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

async fn up(options: &Up, data: &Path) -> Result<u8, Failure> {
    tokio::spawn(idle_memory::release_periodically());
    // Before anything starts: a signal during the start expects an orderly shutdown too.
    let mut stopped = std::pin::pin!(shutdown_signal());
    let start_options = StartOptions::of(options, data);
    let cluster = tokio::select! {
        cluster = LocalCluster::start(&start_options, options.demo) => cluster?,
        () = &mut stopped => return Ok(EXIT_OK),
    };
    let result = tokio::select! {
        result = run_until_stopped(options, data, &cluster) => result,
        () = &mut stopped => Ok(EXIT_OK),
        failure = cluster.failed() => Err(failure),
    };
    cluster.stop().await;
    result
}

async fn run_until_stopped(options: &Up, data: &Path, cluster: &LocalCluster) -> Result<u8, Failure> {
    add_machines(options.nodes, cluster).await?;
    if options.demo {
        return demo::run(cluster).await;
    }
    print_instructions(data, cluster)?;
    if cluster.address.ip().is_loopback() && !cluster.ignition.ip().is_loopback() {
        terminal::warning(&format!(
            "machines that boot from {} cannot reach the API server, which listens on {} only; add --listen \
             0.0.0.0:6443",
            cluster.ignition, cluster.address
        ));
    }
    std::future::pending().await
}

/// The machines that the cluster knows come back; new ones are added up to the number that is wanted.
async fn add_machines(wanted: Option<u16>, cluster: &LocalCluster) -> Result<(), Failure> {
    let mut all = Fleet::existing(&cluster.client).await.map_err(Failure::failed)?;
    let known = all.len();
    if let Some(wanted) = wanted.filter(|wanted| usize::from(*wanted) < known) {
        let has = format!("--nodes {wanted}: the data folder has {}", counted(known, "machine"));
        if wanted == 0 {
            terminal::note(&format!("{has}; none is started, and the Node objects remain"));
        } else {
            terminal::note(&format!(
                "{has}; all are started. To run fewer, delete Nodes with kubectl, or use another --data"
            ));
        }
    }
    if wanted == Some(0) {
        return Ok(());
    }
    let wanted = wanted.unwrap_or(if all.is_empty() { DEFAULT_MACHINES } else { 0 });
    for (name, role) in Fleet::names(wanted.into()) {
        if !all.iter().any(|(known, _)| *known == name) && all.len() < wanted.into() {
            all.push((name, role.to_owned()));
        }
    }
    let mut failures = Vec::new();
    for (name, role) in &all {
        if let Err(error) = cluster.fleet.add(name, role).await {
            failures.push(error.to_string());
        }
    }
    if failures.len() == all.len() && !all.is_empty() {
        return Err(Failure::failed(format!("no machine could be started: {}", failures.join("; "))));
    }
    // One that cannot boot does not stop the others.
    failures.iter().for_each(|failure| terminal::warning(&format!("cannot start a machine: {failure}")));
    Ok(())
}

/// Prints addresses, paths, and commands to try.
fn print_instructions(data: &Path, cluster: &LocalCluster) -> Result<(), Failure> {
    let mut out = output::plain();
    let kubeconfig = std::path::absolute(&cluster.kubeconfig).unwrap_or_else(|_| cluster.kubeconfig.clone());
    let roles = cluster.fleet.roles();
    let machines: Vec<String> = roles.iter().map(|(role, count)| counted(*count, role)).collect();
    writeln!(out, "API server: https://{}", cluster.address)?;
    writeln!(out, "Ignition endpoint: https://{}", cluster.ignition)?;
    writeln!(out, "simulated machines: {}", if machines.is_empty() { "none".to_owned() } else { machines.join(", ") })?;
    writeln!(out, "log: {}", data.join(local_cluster::LOG_FILE).display())?;
    writeln!(out, "kubeconfig: {}", kubeconfig.display())?;
    writeln!(out, "\nTry, in another terminal:")?;
    writeln!(out, "  export KUBECONFIG={}", kubeconfig.display())?;
    writeln!(out, "  kubectl get nodes,mcp")?;
    if !machines.is_empty() {
        writeln!(out, "  seaworthy plan -f examples/50-worker-motd.yaml")?;
        writeln!(out, "  kubectl apply -f examples/50-worker-motd.yaml")?;
        writeln!(out, "  seaworthy rollout status worker --watch")?;
    }
    let (ca, token) = (data.join("pki/ca.crt"), data.join(endpoint::TOKEN_FOLDER).join("token"));
    let stub = format!("seaworthy ignition stub --pool worker --server {}", cluster.ignition);
    writeln!(out, "  {stub} --ca {} --token-file {}", ca.display(), token.display())?;
    writeln!(out, "\nPress Ctrl-C to stop. Starting again with {} continues from its state.", data.display())?;
    out.flush()?;
    Ok(())
}
