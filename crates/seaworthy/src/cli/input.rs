//! What many commands are given: manifests, remote content, a cluster.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use seaworthy_fetch::HostPattern;

/// Where manifests come from.
#[derive(Debug, Args)]
pub struct Input {
    /// A manifest, a folder of manifests (*.yaml, *.yml, *.json), or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-", required = true, value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Look into the folders below a folder too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// How much to read at most, in MiB
    #[arg(long, value_name = "MIB", default_value_t = crate::manifest::DEFAULT_LIMIT_MIB)]
    pub max_input: u64,
}

/// What to do about remote content.
#[derive(Debug, Args)]
pub struct Remote {
    /// Fetch nothing: remote content must have been fetched before (see --snapshots)
    #[arg(long)]
    pub offline: bool,
    /// Let remote content come from this host although its address is a loopback, link-local or metadata one; may be
    /// repeated (name, *.domain, address or network, with an optional port)
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<HostPattern>,
    /// Where fetched content is kept, so that the same manifests give the same result for ever [default: the user's cache
    /// folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub snapshots: Option<PathBuf>,
    /// Neither use nor keep snapshots: fetch everything now
    #[arg(long, conflicts_with_all = ["snapshots", "offline"])]
    pub no_snapshots: bool,
}

/// The cluster that a command is about.
#[derive(Debug, Args)]
pub struct Cluster {
    /// Leads to the cluster [default: what KUBECONFIG names, or ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}
