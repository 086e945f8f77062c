//! Options of `plan`, `controllers` and `rollout`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use seaworthy_controllers::{OperatorOptions, operator_selection, operators};
use seaworthy_fetch::HostPattern;

use super::examples::*;
use super::format::{LogFormat, ReportFormat};
use super::input::{Cluster, Input, Remote};

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub cluster: Cluster,
    /// Do not connect to a cluster; use only the given manifests
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    pub server_less: bool,
    /// Preview deleting these objects, as with `kubectl delete -f`
    #[arg(long, conflicts_with = "server_less")]
    pub delete: bool,
    /// Folder with base templates that replace the built-in ones, as for `controllers`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub templates: Option<PathBuf>,
    /// Show only this pool; can be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// List the files that change without their contents
    #[arg(long)]
    pub summary: bool,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Controllers {
    #[command(flatten)]
    pub cluster: Cluster,
    #[arg(long, value_name = "NAME", value_delimiter = ',', help = only_help())]
    pub only: Vec<String>,
    /// Folder with base templates that replace the built-in ones
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub templates: Option<PathBuf>,
    /// Allow remote content from this host even if its address is loopback, link-local or a metadata service; can be
    /// repeated
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<HostPattern>,
    /// Namespace of the leases and of fetched remote content; created if missing
    #[arg(long, value_name = "NAME", default_value = seaworthy_runtime::NAMESPACE)]
    pub namespace: String,
    /// Serve /metrics, /healthz and /readyz on this address [default: disabled]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = super::machine::socket_address)]
    pub metrics: Option<SocketAddr>,
    /// Run without leader election; safe only if no other replica can run
    #[arg(long)]
    pub no_leader_election: bool,
    /// Apply the CustomResourceDefinitions first, existing ones included
    #[arg(long)]
    pub install: bool,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// A pool of a cluster.
#[derive(Debug, Args)]
pub struct PoolOf {
    /// Name of the pool
    pub pool: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// A pool of a cluster, or all of them.
#[derive(Debug, Args)]
pub struct PoolsOf {
    /// Name of the pool [default: all pools]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Subcommand)]
pub enum Rollout {
    /// Show the progress of a pool's roll-out, its estimated duration, and why nodes wait
    ///
    /// Exit code: 0 if every node runs its pool's target; 1 if not, or if a pool or a node is degraded; 2 if the
    /// command line is invalid or the cluster cannot be read.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        #[command(flatten)]
        of: PoolsOf,
        /// Wait until every node runs the pool's target
        #[arg(short = 'w', long)]
        watch: bool,
        /// With --watch: maximum time to wait, such as 90s, 30m or 1h [default: no limit]
        #[arg(long, value_name = "TIME", requires = "watch", value_parser = duration)]
        timeout: Option<Duration>,
        /// Output format
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
    /// Pause a pool: start no further node updates; updates in progress complete
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(PoolOf),
    /// Resume a paused pool
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(PoolOf),
    /// Roll a pool back to its previous rendered MachineConfig
    ///
    /// Pins the pool to the earlier rendered MachineConfig and lists the MachineConfigs that made the difference. While
    /// pinned, the pool ignores changes to its MachineConfigs: fix them first, then run `--release` to remove the pin.
    /// Nothing is deleted. Nodes are rolled back in the order and within the budget of any roll-out; nodes that the new
    /// configuration broke go first.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo {
        #[command(flatten)]
        of: PoolOf,
        /// Rendered MachineConfig to roll back to (see `history`) [default: the previous one]
        #[arg(long, value_name = "NAME", conflicts_with = "release")]
        to: Option<String>,
        /// Remove the pin, so that the pool follows its MachineConfigs again
        #[arg(long)]
        release: bool,
        /// Only print what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// List a pool's previous targets and the MachineConfigs that changed between them
    #[command(after_help = HISTORY_EXAMPLES)]
    History {
        #[command(flatten)]
        of: PoolOf,
        /// Output format
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
    /// Compute which nodes of a pool are updated next, and why the others wait
    ///
    /// Reads a MachineConfigPool and Nodes from manifests and decides as the controller would. Other pools in the input
    /// determine which nodes belong to them; MachineConfigNodes show when a node's update began.
    ///
    /// Exit code: 0 on success, even if no node can be updated; 2 if the command line or an input is invalid.
    #[command(after_help = DECIDE_EXAMPLES)]
    Decide {
        #[command(flatten)]
        input: Input,
        /// Name of the pool [default: the only one in the input]
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        /// Output format
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
}

/// The help of `--only`, with the names of the operators of this build and of their controllers.
fn only_help() -> String {
    let names = operator_selection::accepted(&operators::all(OperatorOptions::default())).join(", ");
    format!(
        "Run only these operators or controllers: {names}. Each operator has a lease: of several processes that run it or \
         parts of it, one acts"
    )
}

/// Parses a duration such as 1h30m.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    parsed.filter(|time| !time.is_zero()).ok_or_else(|| "expected a duration such as 90s, 30m, 1h or 1h30m".to_owned())
}
