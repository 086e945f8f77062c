//! `seaworthy daemon`.

use std::path::Path;
use std::sync::Arc;

use seaworthy_controllers::cluster;
use seaworthy_host::{FolderHost, Host, LinuxHost};
use seaworthy_node::first_boot::{FirstBoot, first_boot};
use seaworthy_node::{Daemon as Follower, Rhythm, Settings};

use super::apiserver::stopped;
use crate::cli::Daemon;
use crate::failure::{Failure, OK};
use crate::paint;

/// Where a kubelet keeps the credentials of its node.
const CREDENTIALS: &str = "var/lib/kubelet/kubeconfig";

/// Follows orders until it is told to stop.
pub fn run(options: &Daemon) -> Result<u8, Failure> {
    let host = open(&options.root)?;
    super::controllers::log(options.log_format);
    let Some(name) = options.node_name.as_deref().filter(|_| !options.first_boot) else {
        return complete(&*host);
    };
    // Never an administrator's: a node that is taken over is worth no more than itself.
    let credentials = options.kubeconfig.clone().unwrap_or_else(|| options.root.join(CREDENTIALS));
    let runtime = super::outlook::runtime()?;
    let result = runtime.block_on(async {
        let client = cluster::connect(Some(&credentials), None).await.map_err(Failure::unreadable)?;
        let settings = Settings { is_repairing: options.repair };
        let mut daemon = Follower::new(client, name, Arc::clone(&host), settings, Rhythm::default());
        let quiet = daemon.quiet();
        let stopped = stopped();
        println!("{name}");
        let work = async {
            loop {
                daemon.run().await;
                if host.is_running() {
                    // The machine is about to boot, and ends us with everything else.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = stopped => quiet.await,
        }
        Ok(OK)
    });
    runtime.shutdown_background();
    result
}

fn open(root: &Path) -> Result<Arc<dyn Host>, Failure> {
    let is_ours = root.canonicalize().is_ok_and(|root| root == Path::new("/"));
    if is_ours {
        let host = LinuxHost::open().map_err(Failure::unreadable)?;
        return Ok(Arc::new(host));
    }
    let host = FolderHost::open(root).map_err(Failure::unreadable)?;
    paint::note(&format!("{}: a folder; no service is told, and no machine is booted", root.display()));
    Ok(Arc::new(host))
}

/// Completes the first boot.
fn complete(host: &dyn Host) -> Result<u8, Failure> {
    match first_boot(host).map_err(Failure::wrong)? {
        FirstBoot::Complete => println!("complete"),
        FirstBoot::Rebooting => println!("rebooting"),
    }
    Ok(OK)
}
