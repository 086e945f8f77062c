//! `seaworthy daemon`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seaworthy_host::{FolderHost, Host, LinuxHost};
use seaworthy_machineconfig::cluster;
use seaworthy_node::difference::differences;
use seaworthy_node::first_boot::{FirstBoot, first_boot};
use seaworthy_node::{Agent, Daemon as Follower, Rhythm, Settings, paths, recovery};
use seaworthy_resident::take_small_pages;

use super::apiserver::stopped;
use crate::at_rest;
use crate::cli::Daemon;
use crate::failure::{Failure, OK, WRONG};
use crate::machine_lock::MachineLock;
use crate::{output, paint};

/// Where a kubelet keeps the credentials of its node.
const CREDENTIALS: &str = "var/lib/kubelet/kubeconfig";

/// How often they are looked at: a kubelet renews its certificate long before the old one ends.
const LOOK: Duration = Duration::from_secs(60);

/// Follows orders until it is told to stop.
pub fn run(options: &Daemon) -> Result<u8, Failure> {
    super::controllers::log(options.log_format);
    take_small_pages();
    let host = open(&options.root)?;
    if options.diff {
        return show_differences(&host);
    }
    let Some(name) = options.node_name.as_deref().filter(|_| !options.first_boot) else {
        // Whatever is to be completed here, a daemon that runs completes; the kubelet, which may be among what it starts, does not
        // wait for its end.
        return match MachineLock::try_take(&options.root)? {
            Ok(_alone) => complete(&*host),
            Err(held) => {
                paint::note(&format!("{held}; nothing to do"));
                Ok(OK)
            }
        };
    };
    let _alone = MachineLock::take(&options.root)?;
    if host.is_running()
        && let Err(error) = install(&*host)
    {
        // It is for the next boot: this one goes on without it.
        tracing::warn!(
            "cannot install {}: {error}; a power cut may leave the machine without its kubelet",
            recovery::UNIT
        );
    }
    // Never an administrator's: a node that is taken over is worth no more than itself.
    let credentials = options.kubeconfig.clone().unwrap_or_else(|| options.root.join(CREDENTIALS));
    // One thread beside the one that touches the machine: it waits nearly always, and a thread for each core would be memory that
    // the node is not there for.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unreadable(format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        tokio::spawn(at_rest::stay_small());
        let mut known = cluster::written(&credentials);
        let client = cluster::connect(Some(&credentials), None).await.map_err(Failure::unreadable)?;
        let settings = Settings { is_repairing: options.repair };
        let mut daemon = Follower::new(client, name, Arc::clone(&host), settings, Rhythm::default());
        let mut stopped = pin!(stopped());
        println!("{name}");
        loop {
            tokio::select! {
                () = daemon.follow() => {}
                () = renewed(&credentials, &known) => {
                    let now = cluster::written(&credentials);
                    match cluster::connect(Some(&credentials), None).await {
                        Ok(client) => {
                            tracing::info!("reloaded the credentials");
                            daemon.reconnect(client);
                        }
                        // They may be half written; when they are whole, they have changed again.
                        Err(error) => tracing::warn!("cannot reload the credentials, using the previous ones: {error}"),
                    }
                    known = now;
                }
                () = &mut stopped => break,
            }
        }
        daemon.quiet().await;
        Ok(OK)
    });
    runtime.shutdown_background();
    result
}

/// Done when the credentials are others than those that are known.
async fn renewed(credentials: &Path, known: &[(PathBuf, Option<SystemTime>)]) {
    loop {
        tokio::time::sleep(LOOK).await;
        if cluster::written(credentials) != known {
            return;
        }
    }
}

fn open(root: &Path) -> Result<Arc<dyn Host>, Failure> {
    let is_ours = root.canonicalize().is_ok_and(|root| root == Path::new("/"));
    if is_ours {
        let host = LinuxHost::open().map_err(Failure::unreadable)?;
        return Ok(Arc::new(host));
    }
    let host = FolderHost::open(root).map_err(Failure::unreadable)?;
    paint::note(&format!("{} is a folder: no service is restarted and no machine is rebooted", root.display()));
    Ok(Arc::new(host))
}

/// Has the machine call this program before its kubelet.
fn install(host: &dyn Host) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    recovery::install(host, &program.to_string_lossy()).map_err(|error| error.to_string())
}

/// Puts back what was cut off, and completes the first boot.
fn complete(host: &dyn Host) -> Result<u8, Failure> {
    if let Some(config) = recovery::put_back(host).map_err(Failure::wrong)? {
        paint::note(&format!("the update to {config} was interrupted; its changes were rolled back"));
    }
    match first_boot(host).map_err(Failure::wrong)? {
        FirstBoot::Complete => println!("complete"),
        FirstBoot::Rebooting => println!("rebooting"),
    }
    Ok(OK)
}

/// Prints how the machine differs from the configuration that stands on its disk. Nobody is asked, and nothing is changed.
fn show_differences(host: &Arc<dyn Host>) -> Result<u8, Failure> {
    let agent = Agent::new(Arc::clone(host), Settings::default());
    let Some(target) = agent.on_disk_config().map_err(Failure::unreadable)? else {
        return Err(Failure::unreadable(format!("{} not found: no daemon has run here yet", paths::CURRENT_CONFIG)));
    };
    if host.exists(paths::JOURNAL).map_err(Failure::unreadable)? {
        paint::note(&format!("an update is in progress, so some differences from {} are expected", target.name));
    }
    let found = differences(&**host, &target).map_err(Failure::unreadable)?;
    let mut out = output::plain();
    for difference in &found {
        write!(out, "{difference}")?;
    }
    out.flush()?;
    Ok(if found.is_empty() { OK } else { WRONG })
}
