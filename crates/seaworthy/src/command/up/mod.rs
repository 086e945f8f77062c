//! `seaworthy up`: a control plane, the controllers, the Ignition endpoint and a simulated fleet, in one process.

mod demo;
mod endpoint;
mod holder;
mod log;
mod objects;
mod running;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use seaworthy_fleet::Fleet;
use seaworthy_resident::take_small_pages;

use super::apiserver::stopped;
use super::contents::counted;
use crate::at_rest;
use crate::cli::Up;
use crate::failure::{Failure, OK};
use crate::{output, paint};
use running::{Places, Running};

/// Where everything is kept unless somebody says otherwise.
const DATA: &str = "seaworthy-data";
/// How many machines there are unless somebody says otherwise.
const NODES: u16 = 9;
/// How many machines the story needs.
const FEWEST: u16 = 3;
/// How many folders of stories with one process number are looked at.
const MOST_DEMOS: u32 = 1000;

/// Runs until it is told to stop, or until its story is told.
pub fn run(options: &Up) -> Result<u8, Failure> {
    take_small_pages();
    if options.demo && options.nodes.is_some_and(|nodes| nodes < FEWEST) {
        return Err(Failure::unreadable(format!(
            "--demo --nodes {}: the demo needs a master and two workers; use at least {FEWEST}, or omit --nodes",
            options.nodes.unwrap_or_default()
        )));
    }
    let data = match &options.data {
        Some(data) => Data::Kept(data.clone()),
        None if options.demo => Data::passing(&std::env::temp_dir())?,
        None => Data::Kept(DATA.into()),
    };
    let runtime = super::outlook::runtime()?;
    let result = runtime.block_on(up(options, data.path()));
    // What is still under way is nobody's any more.
    runtime.shutdown_background();
    result
}

/// The data folder, which may end with the process.
enum Data {
    Kept(PathBuf),
    Passing(PathBuf),
}

impl Data {
    /// A folder that nobody has, nor can look into.
    fn passing(parent: &Path) -> Result<Data, Failure> {
        use std::os::unix::fs::DirBuilderExt as _;
        for nth in 0..MOST_DEMOS {
            // Processes of several containers may have the same number, and the same folder for such things.
            let path = parent.join(format!("seaworthy-demo-{}-{nth}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Data::Passing(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::unreadable(format!("cannot create {}: {error}", path.display()))),
            }
        }
        Err(Failure::unreadable(format!(
            "{} has too many folders of earlier demos; remove seaworthy-demo-* there, or choose a folder with --data",
            parent.display()
        )))
    }

    fn path(&self) -> &Path {
        match self {
            Data::Kept(path) | Data::Passing(path) => path,
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Data::Passing(path) = self {
            // What cannot be removed lies in the folder for such things.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

async fn up(options: &Up, data: &Path) -> Result<u8, Failure> {
    tokio::spawn(at_rest::stay_small());
    // Before anything is there: whoever ends it now means an orderly end too.
    let mut stopped = std::pin::pin!(stopped());
    let places = Places::of(options, data);
    let running = tokio::select! {
        running = Running::start(&places, options.demo) => running?,
        () = &mut stopped => return Ok(OK),
    };
    let result = tokio::select! {
        result = live(options, data, &running) => result,
        () = &mut stopped => Ok(OK),
        failure = running.failed() => Err(failure),
    };
    running.stop().await;
    result
}

async fn live(options: &Up, data: &Path, running: &Running) -> Result<u8, Failure> {
    add_machines(options.nodes, running).await?;
    if options.demo {
        return demo::play(running).await;
    }
    tell(data, running)?;
    if running.address.ip().is_loopback() && !running.ignition.ip().is_loopback() {
        paint::warning(&format!(
            "machines that boot from {} cannot reach the API server, which listens on {} only; add --listen \
             0.0.0.0:6443",
            running.ignition, running.address
        ));
    }
    std::future::pending().await
}

/// The machines that the cluster knows come back; new ones are added up to the number that is wanted.
async fn add_machines(wanted: Option<u16>, running: &Running) -> Result<(), Failure> {
    let mut all = Fleet::known(&running.client).await.map_err(Failure::wrong)?;
    let known = all.len();
    if let Some(wanted) = wanted.filter(|wanted| usize::from(*wanted) < known) {
        let has = format!("--nodes {wanted}: the data folder has {}", counted(known, "machine"));
        if wanted == 0 {
            paint::note(&format!("{has}; none is started, and the Node objects remain"));
        } else {
            paint::note(&format!(
                "{has}; all are started. To run fewer, delete Nodes with kubectl, or use another --data"
            ));
        }
    }
    if wanted == Some(0) {
        return Ok(());
    }
    let wanted = wanted.unwrap_or(if all.is_empty() { NODES } else { 0 });
    for (name, role) in Fleet::names(wanted.into()) {
        if !all.iter().any(|(known, _)| *known == name) && all.len() < wanted.into() {
            all.push((name, role.to_owned()));
        }
    }
    let mut failures = Vec::new();
    for (name, role) in &all {
        if let Err(error) = running.fleet.add(name, role).await {
            failures.push(error.to_string());
        }
    }
    if failures.len() == all.len() && !all.is_empty() {
        return Err(Failure::wrong(format!("no machine could be started: {}", failures.join("; "))));
    }
    // One that cannot boot is no reason to take the others away.
    failures.iter().for_each(|failure| paint::warning(&format!("cannot start a machine: {failure}")));
    Ok(())
}

/// Says what there is, and what to try.
fn tell(data: &Path, running: &Running) -> Result<(), Failure> {
    let mut out = output::plain();
    let kubeconfig = std::path::absolute(&running.kubeconfig).unwrap_or_else(|_| running.kubeconfig.clone());
    let roles = running.fleet.roles();
    let said: Vec<String> = roles.iter().map(|(role, count)| counted(*count, role)).collect();
    writeln!(out, "API server: https://{}", running.address)?;
    writeln!(out, "Ignition endpoint: https://{}", running.ignition)?;
    writeln!(out, "simulated machines: {}", if said.is_empty() { "none".to_owned() } else { said.join(", ") })?;
    writeln!(out, "log: {}", data.join(running::LOG).display())?;
    writeln!(out, "kubeconfig: {}", kubeconfig.display())?;
    writeln!(out, "\nTry, in another terminal:")?;
    writeln!(out, "  export KUBECONFIG={}", kubeconfig.display())?;
    writeln!(out, "  kubectl get nodes,mcp")?;
    if !said.is_empty() {
        writeln!(out, "  seaworthy plan -f examples/50-worker-motd.yaml")?;
        writeln!(out, "  kubectl apply -f examples/50-worker-motd.yaml")?;
        writeln!(out, "  seaworthy rollout status worker --watch")?;
    }
    let (ca, token) = (data.join("pki/ca.crt"), data.join(endpoint::TOKENS).join("token"));
    let stub = format!("seaworthy ignition stub --pool worker --server {}", running.ignition);
    writeln!(out, "  {stub} --ca {} --token-file {}", ca.display(), token.display())?;
    writeln!(out, "\nPress Ctrl-C to stop. A later start on {} continues from its state.", data.display())?;
    out.flush()?;
    Ok(())
}
