//! The command line.

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

/// Keeps the machines of a Kubernetes fleet seaworthy: renders, explains, compares and checks what is on every node.
#[derive(Debug, Parser)]
#[command(name = "seaworthy", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The command line of this process. Ends the process when it cannot be understood, and for `--help`.
    pub fn from_arguments() -> Self {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        Cli::try_parse_from(&arguments).unwrap_or_else(|mut error| {
            if let Some(files) = bare_files(&error, &arguments) {
                let tip = StyledStr::from(format!("files and folders are given with -f: {files}"));
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            }
            if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
                && ["validate", "convert"].contains(&word.as_str())
            {
                let tip = StyledStr::from(format!("for an Ignition config there is `seaworthy ignition {word}`"));
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::None);
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            }
            error.exit()
        })
    }
}

/// The commands that read files.
const TAKE_FILES: [&str; 7] = ["render", "explain", "diff", "lint", "ignition", "rollout", "plan"];

/// The files that were given without `-f`, with it: where an argument is not understood, it and those behind it; where
/// `-f` is missing, the folders and manifests that exist.
fn bare_files(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let arguments: Vec<&str> = arguments.iter().skip(1).map_while(|argument| argument.to_str()).collect();
    let command = *arguments.first().filter(|command| TAKE_FILES.contains(command))?;
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
    /// Merge MachineConfigs into one rendered MachineConfig per pool
    ///
    /// Reads any mix of manifests (YAML streams or JSON, lists included, in any order) and prints one List with one
    /// rendered MachineConfig per pool. Names are those that the OpenShift machine-config operator gives, so the result
    /// can be compared with a running cluster.
    ///
    /// Remote content is fetched, or taken from the snapshot of an earlier run. A server that cannot be reached is given up
    /// after 5 attempts (3 seconds), one that is slow or answers with an error after a minute; standard error says what is
    /// waited for.
    ///
    /// Exit code: 0 when every pool is rendered; 1 when one cannot be (the others are printed all the same); 2 when the
    /// command line or an input cannot be understood.
    #[command(after_help = RENDER_EXAMPLES)]
    Render(Render),
    /// Show who set a value of a rendered MachineConfig, and whom they overrode
    ///
    /// Without a question: a table of everything. With one: a file's path, a unit, a drop-in, a user, a kernel argument, an
    /// extension or a field in full; files, units, drop-ins, users, a folder or a MachineConfig as a table; and
    /// kernelArguments, extensions, sshAuthorizedKeys or any other field for all that have it.
    ///
    /// Exit code: 0 when it is explained; 1 when the pool cannot be rendered; 2 when the command line or an input cannot be
    /// understood, or when there is no such thing in the result.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Compare what two sets of manifests, or two rendered MachineConfigs, put on a machine
    ///
    /// Each side is manifests, which are rendered first, or rendered MachineConfigs as a cluster has them. Where one side is
    /// manifests and the other is rendered, only the pools of the rendered side are compared.
    ///
    /// Exit code: 0 when there is no difference; 1 when there is one; 2 when the command line or an input cannot be understood,
    /// or when a pool cannot be rendered.
    #[command(after_help = DIFF_EXAMPLES, override_usage = DIFF_USAGE)]
    Diff(Diff),
    /// Check manifests: errors, conflicts between MachineConfigs, and other things worth knowing
    ///
    /// Remote content is not fetched: references to it are counted, and `seaworthy render` checks what is there.
    ///
    /// Exit code: 0 when there are no errors (with --strict: no findings at all), 1 otherwise, 2 when an input cannot be
    /// understood.
    #[command(after_help = LINT_EXAMPLES)]
    Lint(Lint),
    /// Say what would happen if manifests were applied: what changes on machines, who is disrupted, in which order
    ///
    /// Lays the manifests over what the cluster has, and lets the controllers decide about the result without writing
    /// anything: the MachineConfigs that come of KubeletConfigs and ContainerRuntimeConfigs, each pool's rendered
    /// MachineConfig and how it differs, for each node what the change does to it and the rule that says so, the waves in
    /// which nodes move, and what is in the way.
    ///
    /// With --server-less the manifests are all there is, nodes included.
    ///
    /// What is wrong with the manifests comes first, with its place: what the API would refuse, which is left out of what is
    /// foreseen; settings that cannot be applied; MachineConfigs that no pool selects.
    ///
    /// Exit code: 0 when nothing would change on machines and nothing is wrong; 1 when something would change, when a manifest
    /// would be refused, put back or without any effect, or when a pool cannot be rendered; 2 when the command line, an input
    /// (a kind that is misspelt, too) or the cluster cannot be understood.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Plan),
    /// Look at how a pool's nodes come to their configuration, stop it, let it go on, go back
    #[command(subcommand)]
    Rollout(Rollout),
    /// Run the controllers against a cluster
    ///
    /// They turn KubeletConfigs and ContainerRuntimeConfigs into MachineConfigs, render one MachineConfig for each pool, and
    /// roll it out. Of several such processes for one cluster one acts; the others are ready to take over.
    ///
    /// Ends by Ctrl-C. Exit code: 0 when it was told to end; 1 when it lost the lease, so that whoever watches it starts it
    /// again; 2 when it could not begin.
    #[command(after_help = CONTROLLERS_EXAMPLES)]
    Controllers(Controllers),
    /// Translate and validate single Ignition configs
    #[command(subcommand)]
    Ignition(Ignition),
    /// Print the CustomResourceDefinitions, ready for `kubectl apply`
    #[command(after_help = CRDS_EXAMPLES)]
    Crds(Crds),
    /// Print all that has to be in a cluster for Seaworthy to run there, ready for `kubectl apply`
    ///
    /// The namespace, the definitions, the rights of each component, admission policies, and the workloads. Nodes act as
    /// themselves: a daemon has its kubelet's credentials and no others.
    ///
    /// The endpoint needs two Secrets of yours in the namespace: seaworthy-server-tls, of the type kubernetes.io/tls, and
    /// seaworthy-bootstrap-token, with `token` and `ca.crt`, which new machines join with.
    #[command(after_help = MANIFESTS_EXAMPLES)]
    Manifests(Manifests),
    /// Run the embedded Kubernetes API server
    ///
    /// It speaks the Kubernetes API for the kinds that Seaworthy needs, custom resources included, and keeps everything in
    /// one folder. It is for machines without a cluster, for laboratories and for tests; where there is a cluster, use that.
    ///
    /// Prints its address, and writes a kubeconfig for an administrator. Ends by Ctrl-C.
    #[command(after_help = APISERVER_EXAMPLES)]
    Apiserver(Apiserver),
    /// Run the Ignition endpoint, from which new machines get their pool's configuration
    ///
    /// Serves `/config/<pool>` over TLS, in the version of Ignition that a machine understands. What is served has secrets in
    /// it, so a machine shows a token or a certificate: a bootstrap token of the cluster (Secrets of the type
    /// bootstrap.kubernetes.io/token in kube-system), one of --token-file, or a certificate of --client-ca. `seaworthy
    /// ignition stub` prints what a machine is started with.
    ///
    /// In a cluster it follows pools, MachineConfigs and the ControllerConfig. With --bootstrap it serves the pools master and
    /// arbiter from a folder, before there is a cluster.
    ///
    /// Prints its address. Ends by Ctrl-C.
    #[command(after_help = SERVER_EXAMPLES)]
    Server(Server),
    /// Run the node daemon, which brings its machine to the configuration that its node is ordered to run
    ///
    /// It follows the annotations of one Node, with the credentials of that node and no others: writes files, units, keys and
    /// what the next boot needs, with the least disruption that is correct, and says how it stands in annotations and events.
    /// After a power cut the machine is in the old configuration or in the new one, never between.
    ///
    /// With a --root other than / the machine is a folder: files are real, but no program is started, no service is told, and
    /// no machine is booted.
    ///
    /// Prints the node's name when it begins. Ends by Ctrl-C, after what is under way.
    #[command(after_help = DAEMON_EXAMPLES)]
    Daemon(Daemon),
    /// Run all of it on this machine: a control plane, the controllers, the Ignition endpoint, and simulated machines
    ///
    /// For trying things out: nothing else is needed, and nothing outside of one folder is touched. The machines are in
    /// memory, but the node daemon that runs on each is the real one. Prints where the kubeconfig is and what to try next.
    ///
    /// Started again on the same folder, it goes on where it stopped. Ends by Ctrl-C.
    ///
    /// Exit code: 0 when it was told to end, or when the story of --demo came out as told; 1 when it did not; 2 when it could
    /// not begin.
    #[command(after_help = UP_EXAMPLES)]
    Up(Up),
    /// Print the completion script for a shell
    ///
    /// Put it where the shell looks for such scripts (below), and open a new shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command into a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Write `seaworthy.1`, `seaworthy-render.1`, … here instead of printing one
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
        /// The command whose page is printed, such as `render` or `ignition convert` [default: the program itself]
        #[arg(conflicts_with = "dir")]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct Render {
    #[command(flatten)]
    pub input: Input,
    /// Render only this pool; may be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// How to print the result
    #[arg(short = 'o', long, value_enum, default_value_t = ObjectFormat::Yaml)]
    pub output: ObjectFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    pub input: Input,
    /// The pool [default: the only one]
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// What to explain: a file's path, a unit, a drop-in, a kernel argument, a user, a MachineConfig, or a field such as
    /// osImageURL [default: a table of everything]
    #[arg(value_name = "PATH|UNIT|KARG|…")]
    pub what: Option<String>,
    /// How to print the result
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// The old and the new side: a manifest, a folder of manifests, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-", required_unless_present = "sides", value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// The same without -f
    #[arg(value_name = "FILE|DIR|-", conflicts_with = "files", value_hint = ValueHint::AnyPath)]
    pub sides: Vec<PathBuf>,
    /// Look into the folders below a folder too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// How much to read at most, in MiB
    #[arg(long, value_name = "MIB", default_value_t = crate::manifest::DEFAULT_LIMIT_MIB)]
    pub max_input: u64,
    /// Compare only this pool; may be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// How to print the result
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct Lint {
    #[command(flatten)]
    pub input: Input,
    /// Check only this pool; may be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
    /// Fail on any finding, not on errors only, and where there is nothing to check
    #[arg(long)]
    pub strict: bool,
    /// Fetch nothing, as with render; lint never fetches, so this changes nothing
    #[arg(long)]
    pub offline: bool,
    /// Do not report findings with this code; may be repeated
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// How to print the result
    #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
}

#[derive(Debug, Args)]
pub struct Crds {
    /// Print only the definitions of this API group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// How to print the result
    #[arg(short = 'o', long, value_enum, default_value_t = DefinitionFormat::Yaml)]
    pub output: DefinitionFormat,
}

/// Options of `manifests`.
#[derive(Debug, Args)]
pub struct Manifests {
    /// The namespace of everything that is in one
    #[arg(long, value_name = "NAME", default_value = seaworthy_machineconfig::plane::NAMESPACE)]
    pub namespace: String,
    /// The image with the program, at /usr/bin/seaworthy
    #[arg(long, value_name = "IMAGE", default_value = concat!("seaworthy:", env!("CARGO_PKG_VERSION")))]
    pub image: String,
    /// Where new machines find the API server; without it the Ignition endpoint is left out
    #[arg(long, value_name = "URL", value_parser = machine::apiserver_url)]
    pub apiserver_url: Option<String>,
    /// Where each node has its kubelet's credentials
    #[arg(long, value_name = "FILE", default_value = "/var/lib/kubelet/kubeconfig")]
    pub node_kubeconfig: String,
    /// Print only what these need: controllers, server, daemon
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<Component>,
    /// How to print the result
    #[arg(short = 'o', long, value_enum, default_value_t = DefinitionFormat::Yaml)]
    pub output: DefinitionFormat,
}

/// Options of `apiserver`.
#[derive(Debug, Args)]
pub struct Apiserver {
    /// Where everything is kept; made if it is not there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: PathBuf,
    /// Where to listen; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443", value_parser = machine::socket_address)]
    pub listen: SocketAddr,
    /// Where to write the administrator's kubeconfig [default: admin.kubeconfig in the data folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig_out: Option<PathBuf>,
    /// Tokens in the format of kube-apiserver: token,user,uid,"group,group"
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_auth_file: Option<PathBuf>,
}
