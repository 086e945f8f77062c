//! Command line: commands, options and help texts.

mod examples;
mod format;
mod ignition;
mod input;
mod machine;
mod rollout;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueHint};
use seaworthy_deploy::Component;

use self::examples::*;
pub use self::format::{DefinitionFormat, LogFormat, ObjectFormat, ReportFormat};
pub use self::ignition::{Ignition, Stub};
pub use self::input::{Cluster, Input, Remote};
pub use self::machine::{Daemon, Server, TlsVersion, Up};
pub use self::rollout::{Controllers, Plan, PoolOf, PoolsOf, Rollout};

/// Configure the machines of a Kubernetes fleet: render, explain, preview and roll out what runs on every node
#[derive(Debug, Parser)]
#[command(name = "seaworthy", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the command line of this process; exits on invalid arguments and for `--help`.
    pub fn from_arguments() -> Self {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        Cli::try_parse_from(&arguments).unwrap_or_else(|mut error| {
            if let Some(files) = bare_files(&error, &arguments) {
                let tip = StyledStr::from(format!("pass files and folders with -f: {files}"));
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            }
            if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
                && let Some(tip) = subcommand_tip(word)
            {
                let tip = StyledStr::from(tip);
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::None);
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            }
            error.exit()
        })
    }
}

/// Where a word that is no command is one.
fn subcommand_tip(word: &str) -> Option<String> {
    match word {
        "validate" | "convert" => Some(format!("to process an Ignition config, use `seaworthy ignition {word}`")),
        "status" | "pause" | "resume" | "undo" | "history" => Some(format!("use `seaworthy rollout {word}`")),
        "rollback" | "roll-back" => Some("use `seaworthy rollout undo`".to_owned()),
        _ => None,
    }
}

/// The commands that read files.
const TAKE_FILES: [&str; 7] = ["render", "explain", "diff", "lint", "ignition", "rollout", "plan"];

/// The files that were given without `-f`, with it: where an argument is not understood, it and those behind it; where
/// `-f` is missing, the folders and manifests that exist.
fn bare_files(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let arguments: Vec<&str> = arguments.iter().skip(1).map_while(|argument| argument.to_str()).collect();
    let command = *arguments.first().filter(|command| TAKE_FILES.contains(command))?;
    if command == "rollout" && arguments.get(1) != Some(&"decide") {
        return None;
    }
    let is_bare = |argument: &&&str| !argument.starts_with('-') || **argument == "-";
    let files: Vec<&str> = match error.kind() {
        // What is to be explained comes last.
        ErrorKind::UnknownArgument if command == "explain" => {
            arguments.iter().skip(1).take_while(is_bare).take(1).copied().collect()
        }
        ErrorKind::UnknownArgument => {
            let ContextValue::String(unknown) = error.get(ContextKind::InvalidArg)? else { return None };
            let start = arguments.iter().position(|argument| argument == unknown)?;
            arguments[start..].iter().take_while(is_bare).copied().collect()
        }
        ErrorKind::MissingRequiredArgument => {
            let ContextValue::Strings(missing) = error.get(ContextKind::InvalidArg)? else { return None };
            if !missing.iter().any(|argument| argument.contains("--filename")) {
                return None;
            }
            // What is to be explained is often the path of a file too, but not of a manifest.
            let is_manifest = |argument: &&&str| {
                let path = Path::new(argument);
                let extension = path.extension().and_then(|extension| extension.to_str());
                path.is_dir() || path.is_file() && matches!(extension, Some("yaml" | "yml" | "json"))
            };
            arguments.iter().skip(1).filter(is_bare).filter(is_manifest).copied().collect()
        }
        _ => return None,
    };
    let files: Vec<String> = files.into_iter().map(|file| format!("-f {file}")).collect();
    (!files.is_empty()).then(|| files.join(" "))
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Render the MachineConfigs of each pool into one
    ///
    /// Reads any mix of manifests (YAML streams or JSON, lists included, in any order) and prints one List with one
    /// rendered MachineConfig per pool. Names match those of the OpenShift machine-config operator, so the result can
    /// be compared with a running cluster.
    ///
    /// Remote content is fetched, or read from the snapshot of an earlier run. Fetching fails after 5 attempts (3
    /// seconds) if a server is unreachable, and after a minute if it is slow or returns errors; progress is reported on
    /// standard error.
    ///
    /// Exit code: 0 if every pool is rendered; 1 if a pool cannot be rendered (the others are still printed); 2 if the
    /// command line or an input is invalid.
    #[command(after_help = RENDER_EXAMPLES)]
    Render(Render),
    /// Show which MachineConfig set a value, and which ones it overrode
    ///
    /// Without an argument, prints a table of everything. A file path, unit, drop-in, user, kernel argument, extension
    /// or field is shown in full. The words files, units, drop-ins and users, a folder, or a MachineConfig print a
    /// table. kernelArguments, extensions, sshAuthorizedKeys or any other field name shows every entry that has it.
    ///
    /// Exit code: 0 on success; 1 if the pool cannot be rendered; 2 if the command line or an input is invalid, or if
    /// nothing in the result matches the argument.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Compare two sets of manifests or two rendered MachineConfigs
    ///
    /// Each side is either a set of manifests, which is rendered first, or rendered MachineConfigs from a cluster. If
    /// one side is manifests and the other is rendered, only the pools of the rendered side are compared.
    ///
    /// Exit code: 0 if there is no difference; 1 if there is one; 2 if the command line or an input is invalid, or if a
    /// pool cannot be rendered.
    #[command(after_help = DIFF_EXAMPLES, override_usage = DIFF_USAGE)]
    Diff(Diff),
    /// Check manifests for errors, conflicts and other findings
    ///
    /// Remote content is not fetched: references to it are counted, and `seaworthy render` checks the content.
    ///
    /// Exit code: 0 if there are no errors (with --strict: no findings); 1 otherwise; 2 if an input is invalid.
    #[command(after_help = LINT_EXAMPLES)]
    Lint(Lint),
    /// Preview applying manifests: changes, disruption and order of the roll-out
    ///
    /// Applies the manifests to an in-memory copy of the cluster's objects and runs the controllers' decisions on the
    /// result, without writing anything. Shows the MachineConfigs generated from KubeletConfigs and
    /// ContainerRuntimeConfigs, how each pool's rendered MachineConfig changes, what the change does to each node and
    /// the rule that decides it, the waves in which nodes are updated, and what blocks them.
    ///
    /// With --server-less, the manifests are the only input, nodes included.
    ///
    /// Problems with the manifests are listed first, with file and line: objects that the API would reject, which the
    /// preview leaves out; settings that cannot be applied; MachineConfigs that no pool selects.
    ///
    /// Exit code: 0 if nothing would change on machines and there are no problems; 1 if something would change, if a
    /// manifest would be rejected, reverted or have no effect, if a pool cannot be rendered, or if the preview is
    /// incomplete; 2 if the command line or an input is invalid (a misspelt kind included), or if the cluster cannot
    /// be read.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Plan),
    /// Show, pause, resume or roll back a pool's roll-out
    #[command(subcommand)]
    Rollout(Rollout),
    /// Run the controllers against a cluster
    ///
    /// Generates MachineConfigs from KubeletConfigs and ContainerRuntimeConfigs, renders one MachineConfig per pool,
    /// and rolls it out. With several replicas, one is the leader and the others stand by.
    ///
    /// Runs until interrupted. Exit code: 0 on a requested stop; 1 if a lease is lost, so that a supervisor restarts
    /// the process; 2 if it cannot start.
    #[command(after_help = CONTROLLERS_EXAMPLES)]
    Controllers(Controllers),
    /// Convert, validate and create Ignition configs
    #[command(subcommand)]
    Ignition(Ignition),
    /// Print the CustomResourceDefinitions, ready for `kubectl apply`
    #[command(after_help = CRDS_EXAMPLES)]
    Crds(Crds),
    /// Print the manifests that install Seaworthy in a cluster, ready for `kubectl apply`
    ///
    /// Prints the namespace, the CustomResourceDefinitions, RBAC rules, admission policies and workloads. Each node
    /// daemon uses only the credentials of its node's kubelet.
    ///
    /// The Ignition endpoint needs two Secrets in the namespace: seaworthy-server-tls, of type kubernetes.io/tls, and
    /// seaworthy-bootstrap-token, with the keys `token` and `ca.crt`, which new machines join with.
    #[command(after_help = MANIFESTS_EXAMPLES)]
    Manifests(Manifests),
    /// Run the embedded Kubernetes API server
    ///
    /// Serves the Kubernetes API for the kinds that Seaworthy needs, custom resources included, and stores everything
    /// in one folder. Intended for standalone machines, labs and tests; use a Kubernetes cluster where there is one.
    ///
    /// Prints its address and writes an administrator's kubeconfig. Runs until interrupted.
    #[command(after_help = APISERVER_EXAMPLES)]
    Apiserver(Apiserver),
    /// Run the Ignition endpoint, which serves new machines their pool's configuration
    ///
    /// Serves `/config/<pool>` over TLS, in the Ignition version that the machine requests. The config contains
    /// secrets, so machines authenticate: with a bootstrap token of the cluster (Secrets of type
    /// bootstrap.kubernetes.io/token in kube-system), with a token from --token-file, or with a certificate signed by
    /// --client-ca. `seaworthy ignition stub` prints the pointer config that a machine boots with.
    ///
    /// In a cluster it watches pools, MachineConfigs and the ControllerConfig. With --bootstrap it serves the pools
    /// master and arbiter from a folder, before the cluster exists.
    ///
    /// Prints its address. Runs until interrupted.
    #[command(after_help = SERVER_EXAMPLES)]
    Server(Server),
    /// Run the node daemon, which applies a node's desired configuration to its machine
    ///
    /// Watches the annotations of one Node, using only that node's credentials. Writes files, units, SSH keys and boot
    /// settings with the least disruption required, and reports its state in annotations and events. After a power cut
    /// the machine is in either the old or the new configuration, never in between.
    ///
    /// With a --root other than /, the machine is a folder: files are written, but no program is run, no service is
    /// reloaded or restarted, and no machine is rebooted.
    ///
    /// Prints the node's name on start. Runs until interrupted; a step in progress is completed first.
    #[command(after_help = DAEMON_EXAMPLES)]
    Daemon(Daemon),
    /// Run a complete local setup: control plane, controllers, Ignition endpoint, simulated machines
    ///
    /// For evaluation: it has no prerequisites and writes to one folder only. The machines are simulated in memory, but
    /// each runs the real node daemon. Prints the path of the kubeconfig and commands to try.
    ///
    /// Runs until interrupted. Starting again with the same folder continues from its state.
    ///
    /// Exit code: 0 on a requested stop, or if the --demo run succeeds; 1 on failure; 2 if it cannot start.
    #[command(after_help = UP_EXAMPLES)]
    Up(Up),
    /// Print a shell completion script
    ///
    /// Install it where the shell looks for completions (see below), and open a new shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Shell to generate the script for
        shell: clap_complete::Shell,
    },
    /// Print a manual page, or write all pages to a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Write `seaworthy.1`, `seaworthy-render.1`, … to this folder instead of printing a page
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
        /// Command to print the page of, such as `render` or `ignition convert` [default: seaworthy itself]
        #[arg(conflicts_with = "dir")]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct Render {
    #[command(flatten)]
    pub input: Input,
    /// Render only this pool; can be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = ObjectFormat::Yaml)]
    pub output: ObjectFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    pub input: Input,
    /// Name of the pool [default: the only one in the input]
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// What to explain: a file path, unit, drop-in, kernel argument, user, MachineConfig, or a field such as osImageURL
    /// [default: a table of everything]
    #[arg(value_name = "PATH|UNIT|KARG|…")]
    pub what: Option<String>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// Old side, then new side: a manifest, a folder of manifests, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-", required_unless_present = "sides", value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Old side and new side, without -f
    #[arg(value_name = "FILE|DIR|-", conflicts_with = "files", value_hint = ValueHint::AnyPath)]
    pub sides: Vec<PathBuf>,
    /// Process folders recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Maximum total size of the input, in MiB
    #[arg(long, value_name = "MIB", default_value_t = crate::manifest::DEFAULT_MAX_INPUT_MIB)]
    pub max_input: u64,
    /// Compare only this pool; can be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Lint {
    #[command(flatten)]
    pub input: Input,
    /// Check only this pool; can be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// Fail on any finding instead of on errors only, and if there is nothing to check
    #[arg(long)]
    pub strict: bool,
    /// Accepted for consistency with render; lint never fetches remote content
    #[arg(long)]
    pub offline: bool,
    /// Suppress findings with this code; can be repeated
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
}

#[derive(Debug, Args)]
pub struct Crds {
    /// Print only the CustomResourceDefinitions of this API group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = DefinitionFormat::Yaml)]
    pub output: DefinitionFormat,
}

/// Options of `manifests`.
#[derive(Debug, Args)]
pub struct Manifests {
    /// Namespace of all namespaced objects
    #[arg(long, value_name = "NAME", default_value = seaworthy_runtime::NAMESPACE)]
    pub namespace: String,
    /// Container image with the program at /usr/bin/seaworthy
    #[arg(long, value_name = "IMAGE", default_value = concat!("seaworthy:", env!("CARGO_PKG_VERSION")))]
    pub image: String,
    /// URL of the API server that new machines connect to; without it the Ignition endpoint is left out
    #[arg(long, value_name = "URL", value_parser = machine::apiserver_url)]
    pub apiserver_url: Option<String>,
    /// Path of the kubelet's kubeconfig on each node
    #[arg(long, value_name = "FILE", default_value = "/var/lib/kubelet/kubeconfig")]
    pub node_kubeconfig: String,
    /// Print only the manifests of these components: controllers, server, daemon
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<Component>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = DefinitionFormat::Yaml)]
    pub output: DefinitionFormat,
}

/// Options of `apiserver`.
#[derive(Debug, Args)]
pub struct Apiserver {
    /// Data folder; created if missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: PathBuf,
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443", value_parser = machine::socket_address)]
    pub listen: SocketAddr,
    /// Path to write the administrator's kubeconfig to [default: admin.kubeconfig in the data folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig_out: Option<PathBuf>,
    /// File with static tokens in kube-apiserver's format: token,user,uid,"group,group"
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_auth_file: Option<PathBuf>,
}
