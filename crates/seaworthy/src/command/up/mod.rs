//! `seaworthy up`: a control plane, the controllers, the Ignition endpoint and a simulated fleet, in one process.

mod demo;
mod endpoint;
mod holder;
mod objects;
mod running;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use seaworthy_fleet::Fleet;

use super::apiserver::stopped;
use super::contents::counted;
use crate::cli::Up;
use crate::failure::{Failure, OK};
use crate::output;
use running::{Places, Running};

/// Where everything is kept unless somebody says otherwise.
const DATA: &str = "seaworthy-data";
/// How many machines there are unless somebody says otherwise.
const NODES: u16 = 9;
/// How many machines the story needs.
const FEWEST: u16 = 3;

/// Runs until it is told to stop, or until its story is told.
pub fn run(options: &Up) -> Result<u8, Failure> {
    if options.demo && options.nodes.is_some_and(|nodes| nodes < FEWEST) {
        return Err(Failure::unreadable(format!(
            "--demo --nodes {}: the story needs two workers beside a master; give {FEWEST} and more, or leave --nodes away",
            options.nodes.unwrap_or_default()
        )));
    }
    let data = match &options.data {
        Some(data) => Data::Kept(data.clone()),
        None if options.demo => {
            Data::Passing(std::env::temp_dir().join(format!("seaworthy-demo-{}", std::process::id())))
        }
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
    std::future::pending().await
}

/// The machines that the cluster knows come back; new ones are added up to the number that is wanted.
async fn add_machines(wanted: Option<u16>, running: &Running) -> Result<(), Failure> {
    if wanted == Some(0) {
        return Ok(());
    }
    let mut all = Fleet::known(&running.client).await.map_err(Failure::wrong)?;
    let wanted = wanted.unwrap_or(if all.is_empty() { NODES } else { 0 });
    for (name, role) in Fleet::names(wanted.into()) {
        if !all.iter().any(|(known, _)| *known == name) && all.len() < wanted.into() {
            all.push((name, role.to_owned()));
        }
    }
    for (name, role) in &all {
        running.fleet.add(name, role).await.map_err(Failure::wrong)?;
    }
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
    writeln!(out, "\nCtrl-C ends it. Started again on {}, it goes on where it stopped.", data.display())?;
    out.flush()?;
    Ok(())
}

/// Everything that is logged goes to a file of the data folder, which begins anew with each start.
fn log(path: &Path) -> Result<(), Failure> {
    let file = std::fs::File::create(path)
        .map_err(|error| Failure::unreadable(format!("cannot write the log {}: {error}", path.display())))?;
    // A second logger would be a mistake of this program's; there is none.
    let _ = tracing_subscriber::fmt().with_writer(Mutex::new(file)).with_ansi(false).with_target(false).try_init();
    Ok(())
}
