//! The command lines of the configuration plane: `plan`, `controllers`, `rollout`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use seaworthy_fetch::HostPattern;
use seaworthy_machineconfig::plane::Part;

use super::examples::*;
use super::format::{LogFormat, ReportFormat};
use super::input::{Cluster, Input, Remote};

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub cluster: Cluster,
    /// Ask no cluster: the manifests are all there is
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    pub server_less: bool,
    /// Tell what would happen if these objects were deleted, as `kubectl delete -f` does
    #[arg(long, conflicts_with = "server_less")]
    pub delete: bool,
    /// Templates for the base that take the place of the built-in ones, as for `controllers`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub templates: Option<PathBuf>,
    /// Tell only of this pool; may be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// Name the files that change, and leave out their lines
    #[arg(long)]
    pub summary: bool,
    /// How to print the result
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Controllers {
    #[command(flatten)]
    pub cluster: Cluster,
    /// Run only these: base, kubelet, container-runtime, render, rollout, garbage
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Templates for the base that take the place of the built-in ones
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub templates: Option<PathBuf>,
    /// Let remote content come from this host although its address is a loopback, link-local or metadata one; may be repeated
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<HostPattern>,
    /// Where the lease and remote content are kept
    #[arg(long, value_name = "NAME", default_value = seaworthy_machineconfig::plane::NAMESPACE)]
    pub namespace: String,
    /// Answer /metrics, /healthz and /readyz here [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = super::machine::socket_address)]
    pub metrics: Option<SocketAddr>,
    /// Act without a lease: only where no other process of this kind can run
    #[arg(long)]
    pub no_leader_election: bool,
    /// Install missing definitions and the namespace first
    #[arg(long)]
    pub install: bool,
    /// How to log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// A pool of a cluster.
#[derive(Debug, Args)]
pub struct PoolOf {
    /// The pool
    pub pool: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// A pool of a cluster, or all of them.
#[derive(Debug, Args)]
pub struct PoolsOf {
    /// The pool [default: all]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Subcommand)]
pub enum Rollout {
    /// Show how far a pool is, how long it will take, and why nodes wait
    ///
    /// Without a pool, all of them are shown. Exit code: 0 when every node runs its pool's target; 1 when not, or when a pool or
    /// a node has failed; 2 when the command line or the cluster cannot be understood.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        #[command(flatten)]
        of: PoolsOf,
        /// Stay until every node runs the pool's target
        #[arg(short = 'w', long)]
        watch: bool,
        /// With --watch: how long at most, such as 90s, 30m or 1h; a pool that waits for somebody waits for ever otherwise
        #[arg(long, value_name = "TIME", requires = "watch", value_parser = duration)]
        timeout: Option<Duration>,
        /// How to print the result
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
    /// Give no node of a pool a new configuration until `resume`; nodes that are on their way arrive
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(PoolOf),
    /// Let a paused pool go on
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(PoolOf),
    /// Send a pool back to the rendered MachineConfig it had before
    ///
    /// Names the MachineConfigs that made the difference, and pins the pool: it targets the former one, whatever its
    /// MachineConfigs say, until `--release` removes the pin. So put those MachineConfigs right first, then release. Nothing
    /// is deleted. Nodes go back in the order and with the budget of any roll-out; those that the new configuration has
    /// broken go first.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo {
        #[command(flatten)]
        of: PoolOf,
        /// Go to this rendered MachineConfig (see `history`) [default: the one before]
        #[arg(long, value_name = "NAME", conflicts_with = "release")]
        to: Option<String>,
        /// Let the pool follow its MachineConfigs again
        #[arg(long)]
        release: bool,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// List what a pool targeted so far, and which MachineConfigs changed
    #[command(after_help = HISTORY_EXAMPLES)]
    History {
        #[command(flatten)]
        of: PoolOf,
        /// How to print the result
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
    /// Decide which nodes of a pool are given its configuration next, and say why the others wait
    ///
    /// Reads a MachineConfigPool and Nodes as a cluster has them, and decides as the controller would. Other pools among
    /// the manifests are asked which nodes are theirs; MachineConfigNodes tell since when a node is on its way.
    ///
    /// Exit code: 0 when it is decided, also where the decision is that nothing can move; 2 when the command line or an
    /// input cannot be understood.
    #[command(after_help = DECIDE_EXAMPLES)]
    Decide {
        #[command(flatten)]
        input: Input,
        /// The pool [default: the only one]
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        /// How to print the result
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
}

/// A time as people write it.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    parsed.filter(|time| !time.is_zero()).ok_or_else(|| "accepted is a time such as 90s, 30m, 1h or 1h30m".to_owned())
}
