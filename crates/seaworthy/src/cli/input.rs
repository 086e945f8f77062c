//! Arguments shared by several commands: manifests, remote content, a cluster.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use seaworthy_fetch::HostPattern;

/// Manifests to read.
#[derive(Debug, Args)]
pub struct Input {
    /// Manifest, folder of manifests (*.yaml, *.yml, *.json), or - for standard input; can be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-", required = true, value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Process folders recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Maximum total size of the input, in MiB
    #[arg(long, value_name = "MIB", default_value_t = crate::manifest::DEFAULT_MAX_INPUT_MIB)]
    pub max_input: u64,
}

/// Handling of remote content.
#[derive(Debug, Args)]
pub struct Remote {
    /// Fetch nothing; use only remote content that is already in --snapshots
    #[arg(long)]
    pub offline: bool,
    /// Allow remote content from this host even if its address is loopback, link-local or a metadata service; can be
    /// repeated (name, *.domain, address or network, with an optional port)
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<HostPattern>,
    /// Folder for fetched content, so that the same manifests always render to the same result [default: the user's
    /// cache folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub snapshots: Option<PathBuf>,
    /// Do not read or write snapshots; fetch all remote content
    #[arg(long, conflicts_with_all = ["snapshots", "offline"])]
    pub no_snapshots: bool,
}

/// The cluster to connect to.
#[derive(Debug, Args)]
pub struct Cluster {
    /// Path to the kubeconfig file [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}
