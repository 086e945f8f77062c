//! `seaworthy daemon`: the node daemon as a process, first boot, and `--diff`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seaworthy_host::{FolderHost, Host, LinuxHost};
use seaworthy_node::difference::differences;
use seaworthy_node::first_boot::{FirstBoot, first_boot};
use seaworthy_node::{Agent, AgentOptions, Daemon as NodeDaemon, DaemonIntervals, paths, recovery};
use seaworthy_resident::disable_huge_pages;
use seaworthy_runtime::cluster;

use crate::cli::Daemon;
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::idle_memory;
use crate::machine_lock::MachineLock;
use crate::process::{shutdown_signal, start_log};
use crate::{output, terminal};

/// The kubelet's kubeconfig below the root.
const KUBELET_KUBECONFIG: &str = "var/lib/kubelet/kubeconfig";

/// How often the kubeconfig is checked for changes: a kubelet renews its certificate long before the old one expires.
const CREDENTIALS_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Runs until it receives a stop signal.
pub fn run(options: &Daemon) -> Result<u8, Failure> {
    start_log(options.log_format);
    disable_huge_pages();
    let host = open(&options.root)?;
    if options.diff {
        return show_differences(&host);
    }
    let Some(name) = options.node_name.as_deref().filter(|_| !options.first_boot) else {
        // A running daemon completes whatever there is to complete; the kubelet, which it may be about to start, does not wait
        // for it.
        return match MachineLock::try_take(&options.root)? {
            Ok(_alone) => complete(&*host),
            Err(held) => {
                terminal::note(&format!("{held}; nothing to do"));
                Ok(EXIT_OK)
            }
        };
    };
    let _alone = MachineLock::take(&options.root)?;
    if host.is_running()
        && let Err(error) = install(&*host)
    {
        // The unit is for the next boot, so this one continues without it.
        tracing::warn!(
            "cannot install {}: {error}; a power cut may leave the machine without its kubelet",
            recovery::UNIT
        );
    }
    // Never an administrator's: a compromised node must have no more rights than its own.
    let credentials = options.kubeconfig.clone().unwrap_or_else(|| options.root.join(KUBELET_KUBECONFIG));
    // One thread beside the one that works on the machine: the daemon is mostly idle, and a thread for each core would cost
    // memory that belongs to the node's workloads.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::invalid(format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        tokio::spawn(idle_memory::release_periodically());
        let mut known = cluster::modification_times(&credentials);
        let client = cluster::connect(Some(&credentials), None).await.map_err(Failure::invalid)?;
        let agent = AgentOptions { is_repairing: options.repair };
        let mut daemon = NodeDaemon::new(client, name, Arc::clone(&host), agent, DaemonIntervals::default());
        let mut stopped = pin!(shutdown_signal());
        println!("{name}");
        loop {
            tokio::select! {
                () = daemon.follow() => {}
                () = renewed(&credentials, &known) => {
                    let now = cluster::modification_times(&credentials);
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
        daemon.wait_idle().await;
        Ok(EXIT_OK)
    });
    runtime.shutdown_background();
    result
}

/// Completes when the kubeconfig, or a file that it names, has changed.
async fn renewed(credentials: &Path, known: &[(PathBuf, Option<SystemTime>)]) {
    loop {
        tokio::time::sleep(CREDENTIALS_CHECK_INTERVAL).await;
        if cluster::modification_times(credentials) != known {
            return;
        }
    }
}

fn open(root: &Path) -> Result<Arc<dyn Host>, Failure> {
    let is_ours = root.canonicalize().is_ok_and(|root| root == Path::new("/"));
    if is_ours {
        let host = LinuxHost::open().map_err(Failure::invalid)?;
        return Ok(Arc::new(host));
    }
    let host = FolderHost::open(root).map_err(Failure::invalid)?;
    terminal::note(&format!("{} is a folder: no service is restarted and no machine is rebooted", root.display()));
    Ok(Arc::new(host))
}

/// Installs the unit that runs this program before the kubelet.
fn install(host: &dyn Host) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    recovery::install(host, &program.to_string_lossy()).map_err(|error| error.to_string())
}

/// Rolls back an interrupted update, and completes the first boot.
fn complete(host: &dyn Host) -> Result<u8, Failure> {
    if let Some(config) = recovery::restore_files(host).map_err(Failure::failed)? {
        terminal::note(&format!("the update to {config} was interrupted; its changes were rolled back"));
    }
    match first_boot(host).map_err(Failure::failed)? {
        FirstBoot::Complete => println!("complete"),
        FirstBoot::Rebooting => println!("rebooting"),
    }
    Ok(EXIT_OK)
}

/// Prints how the machine differs from its current configuration. No API call is made, and nothing is changed.
fn show_differences(host: &Arc<dyn Host>) -> Result<u8, Failure> {
    let agent = Agent::new(Arc::clone(host), AgentOptions::default());
    let Some(target) = agent.on_disk_config().map_err(Failure::invalid)? else {
        return Err(Failure::invalid(format!("{} not found: no daemon has run here yet", paths::CURRENT_CONFIG)));
    };
    if host.exists(paths::JOURNAL).map_err(Failure::invalid)? {
        terminal::note(&format!("an update is in progress, so some differences from {} are expected", target.name));
    }
    let found = differences(&**host, &target).map_err(Failure::invalid)?;
    let mut out = output::plain();
    for difference in &found {
        write!(out, "{difference}")?;
    }
    out.flush()?;
    Ok(if found.is_empty() { EXIT_OK } else { EXIT_FAILED })
}
