//! The command line.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, StringValueParser, StyledStr, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use seaworthy_controllers::plane::Part;
use seaworthy_fetch::HostPattern;
use seaworthy_ignition::Version;

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
    /// Exit code: 0 when nothing would change on machines; 1 when something would, or when a pool cannot be rendered; 2 when
    /// the command line, an input or the cluster cannot be understood.
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

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub cluster: Cluster,
    /// Ask no cluster: the manifests are all there is
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    pub server_less: bool,
    /// Tell only of this pool; may be repeated
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,
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
    #[arg(long, value_name = "NAME", default_value = seaworthy_controllers::plane::NAMESPACE)]
    pub namespace: String,
    /// Answer /metrics, /healthz and /readyz here [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
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

#[derive(Debug, Args)]
pub struct Daemon {
    /// The node that this machine is
    #[arg(long, value_name = "NAME", required_unless_present = "first_boot")]
    pub node_name: Option<String>,
    /// The root filesystem of the machine
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = ValueHint::DirPath)]
    pub root: PathBuf,
    /// The node's own credentials [default: var/lib/kubelet/kubeconfig below --root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Put right what somebody has changed on the machine, rather than only report it
    #[arg(long)]
    pub repair: bool,
    /// Before the kubelet starts: complete what Ignition could not do, and end
    #[arg(long, conflicts_with_all = ["node_name", "kubeconfig", "repair"])]
    pub first_boot: bool,
    /// How to log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// How a process logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// A pool of a cluster.
#[derive(Debug, Args)]
pub struct PoolOf {
    /// The pool
    pub pool: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Subcommand)]
pub enum Rollout {
    /// Show how far a pool is, how long it will take, and why nodes wait
    ///
    /// Exit code: 0 when every node runs the pool's target; 1 when not, or when the pool or a node has failed; 2 when the
    /// command line or the cluster cannot be understood.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        #[command(flatten)]
        of: PoolOf,
        /// Stay until every node runs the pool's target
        #[arg(short = 'w', long)]
        watch: bool,
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

#[derive(Debug, Subcommand)]
pub enum Ignition {
    /// Translate an Ignition config to another version
    ///
    /// Reads a config of version 2.0 to 2.2 or 3.0 to 3.5. What the wanted version cannot say is an error that names the
    /// place.
    ///
    /// Exit code: 0 when it is translated; 1 when it is not valid, or the wanted version cannot say the same; 2 when the
    /// command line or the config cannot be understood.
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert {
        /// The wanted version: 3.5.0, 3.4.0, 3.3.0, 3.2.0, 3.1.0 or 2.2.0
        #[arg(long, value_name = "VERSION", value_parser = TargetVersion, hide_possible_values = true)]
        to: String,
        /// The config, or - for standard input
        #[arg(short = 'f', long = "filename", value_name = "FILE|-", default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print the config that a new machine is started with: it leads to the endpoint
    ///
    /// Give it to the machine as user data, or write it into its image. With --token-file it has a secret in it.
    ///
    /// Exit code: 0 when it is printed; 2 when the command line or a file cannot be understood.
    #[command(after_help = STUB_EXAMPLES)]
    Stub(Stub),
    /// Check an Ignition config
    ///
    /// Exit code: 0 when it is valid, 1 when it is not, 2 when it cannot be read.
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate {
        /// The config, or - for standard input
        #[arg(short = 'f', long = "filename", value_name = "FILE|-", default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// How to print the result
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
}

/// Options of `ignition stub`.
#[derive(Debug, Args)]
pub struct Stub {
    /// The pool that the machine will belong to
    #[arg(long, value_name = "POOL")]
    pub pool: String,
    /// Where the endpoint is: a name or an address, with a port if it is not 22623
    #[arg(long, value_name = "HOST[:PORT]")]
    pub server: String,
    /// The authority that vouches for the endpoint [default: those that the machine knows]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// The token that the machine shows: the first of this file, or of - for standard input
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// The version to write the stub in: 3.1.0 is read by every Ignition that knows headers
    #[arg(long, value_name = "VERSION", default_value = "3.1.0", value_parser = TargetVersion, hide_possible_values = true)]
    pub ignition_version: String,
}

/// Takes any text for a version, as the command knows better words for a wrong one, and offers the right ones to shells.
#[derive(Clone)]
struct TargetVersion;

impl TypedValueParser for TargetVersion {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Version::WRITABLE.into_iter().rev().map(|version| PossibleValue::new(version.as_str()))))
    }
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

/// Options of `apiserver`.
#[derive(Debug, Args)]
pub struct Apiserver {
    /// Where everything is kept; made if it is not there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: PathBuf,
    /// Where to listen; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// Where to write the administrator's kubeconfig [default: admin.kubeconfig in the data folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig_out: Option<PathBuf>,
    /// Tokens in the format of kube-apiserver: token,user,uid,"group,group"
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_auth_file: Option<PathBuf>,
}

/// Options of `server`.
#[derive(Debug, Args)]
pub struct Server {
    /// Where to listen; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:22623")]
    pub listen: SocketAddr,
    /// The endpoint's certificate, with what leads from it to its authority; read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.crt", value_hint = ValueHint::FilePath)]
    pub cert: PathBuf,
    /// The certificate's key
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.key", value_hint = ValueHint::FilePath)]
    pub key: PathBuf,
    /// The oldest version of TLS that is spoken
    #[arg(long, value_enum, default_value_t = TlsVersion::Tls12)]
    pub tls_min_version: TlsVersion,
    /// Serve machines that show one of these tokens, one to a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Serve machines that show a certificate of this authority
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub client_ca: Option<PathBuf>,
    /// Serve everyone who reaches the port, secrets included
    #[arg(long, conflicts_with_all = ["token_file", "client_ca"])]
    pub open: bool,
    /// How many requests a second one address may make in the long run, with ten times as many at once, and a tenth of both
    /// where no right token is shown; 0 for any number
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub rate_limit: u32,
    /// Where new machines find the API server; required in a cluster
    #[arg(long, value_name = "URL", required_unless_present = "bootstrap", conflicts_with = "bootstrap")]
    pub apiserver_url: Option<String>,
    /// The folder with the token that new machines join with, `token`, and with `ca.crt`
    #[arg(
        long, value_name = "DIR", default_value = "/etc/mcs/bootstrap-token", conflicts_with = "bootstrap",
        value_hint = ValueHint::DirPath
    )]
    pub bootstrap_token: PathBuf,
    /// How to reach the cluster [default: KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the ConfigMap kubeconfig-data, which has the API server's newest authority
    #[arg(long, value_name = "NAME", default_value = "seaworthy-system", conflicts_with = "bootstrap")]
    pub namespace: String,
    /// Serve from this folder (machine-pools, machine-configs, controller-config) instead of a cluster
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub bootstrap: Option<PathBuf>,
    /// With --bootstrap: the kubeconfig that new machines join with
    #[arg(
        long, value_name = "FILE", default_value = "/etc/kubernetes/kubeconfig", requires = "bootstrap",
        value_hint = ValueHint::FilePath
    )]
    pub node_kubeconfig: PathBuf,
    /// With --bootstrap: a registry and the file of the authority that vouches for it; may be repeated
    #[arg(long, value_name = "REGISTRY=FILE", requires = "bootstrap")]
    pub registry_ca: Vec<String>,
}

/// Options of `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// How many machines to simulate: one is a master, with six and more three are; 0 for none [default: 9, or those that the
    /// folder has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub nodes: Option<u16>,
    /// Where everything is kept; made if it is not there [default: ./seaworthy-data; with --demo one that
    /// is removed at the end]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// Where the API server listens; port 0 takes any free one [default: 127.0.0.1:6443, any free one with --demo]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where the Ignition endpoint listens [default: 127.0.0.1:22623, any free one with --demo]
    #[arg(long, value_name = "ADDRESS")]
    pub ignition_listen: Option<SocketAddr>,
    /// Play a short story, and end: a change and its plan, its roll-out, a bad change that one node refuses, and the way back
    #[arg(long)]
    pub demo: bool,
}

/// A version of TLS, by the name that Kubernetes has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// 1.2 and 1.3
    #[value(name = "VersionTLS12")]
    Tls12,
    /// 1.3 alone
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// How objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
    /// The names of the rendered MachineConfigs, one a line
    Name,
}

/// How definitions are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DefinitionFormat {
    /// A stream of YAML documents
    Yaml,
    /// A JSON List
    Json,
}

/// How reports are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    #[value(alias = "table")]
    Text,
    /// For programs
    Json,
}

const RENDER_EXAMPLES: &str = "\
Examples:
  # What would the machines of each pool get?
  seaworthy render -f manifests/

  # The name that the worker pool's config will have
  seaworthy render -f manifests/ --pool worker -o name

  # From a cluster, without fetching anything
  oc get mc,mcp,controllerconfig -o json | seaworthy render -f - --offline -o json

  # Remote content from a server on this machine
  seaworthy render -f manifests/ --allow-host 127.0.0.1:8080";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # Everything in the worker pool's config, and who set it
  seaworthy explain -f manifests/ --pool worker

  # One file: who wrote it, who was overridden, with the difference
  seaworthy explain -f manifests/ --pool worker /etc/chrony.conf

  # A unit, a kernel argument, a field
  seaworthy explain -f manifests/ --pool worker kubelet.service
  seaworthy explain -f manifests/ --pool worker nosmt
  seaworthy explain -f manifests/ --pool worker osImageURL -o json

  # Everything that one MachineConfig has a word in, and all SSH keys
  seaworthy explain -f manifests/ --pool worker 50-worker-time
  seaworthy explain -f manifests/ --pool worker sshAuthorizedKeys";

const DIFF_USAGE: &str = "\
seaworthy diff [OPTIONS] -f <OLD> -f <NEW>
       seaworthy diff [OPTIONS] <OLD> <NEW>";

const DIFF_EXAMPLES: &str = "\
Examples:
  # What does the new version of the folder change on machines?
  seaworthy diff -f manifests.old/ -f manifests/

  # Two rendered MachineConfigs from a cluster
  seaworthy diff -f rendered-worker-a.yaml -f rendered-worker-b.yaml

  # Does the folder give what the cluster has?
  oc get mc rendered-worker-4e1fa5d9 -o json | seaworthy diff -f - -f manifests/";

const LINT_EXAMPLES: &str = "\
Examples:
  # In a pipeline: fail on mistakes
  seaworthy lint -f manifests/

  # Fail on anything worth knowing, but overriding the platform's files is fine
  seaworthy lint -f manifests/ --strict --allow conflict";

const DECIDE_EXAMPLES: &str = "\
Examples:
  # Which node is next, and why do the others wait?
  kubectl get mcp,nodes -o json | seaworthy rollout decide -f - --pool worker

  # For a program
  seaworthy rollout decide -f pool.yaml -f nodes.yaml -o json";

const PLAN_EXAMPLES: &str = "\
Examples:
  # What would this change do to the cluster?
  seaworthy plan -f 50-worker-time.yaml

  # The same without a cluster: everything is in the files
  kubectl get mc,mcp,mcn,kubeletconfig,ctrcfg,controllerconfig,nodes -o json > cluster.json
  seaworthy plan --server-less -f cluster.json -f 50-worker-time.yaml -o json";

const CONTROLLERS_EXAMPLES: &str = "\
Examples:
  # On a new cluster
  seaworthy controllers --install

  # Only render; probes for whoever watches
  seaworthy controllers --only render --metrics 127.0.0.1:9090";

const STATUS_EXAMPLES: &str = "\
Examples:
  seaworthy rollout status worker
  seaworthy rollout status worker -w
  seaworthy rollout status worker -o json";

const PAUSE_EXAMPLES: &str = "\
Examples:
  seaworthy rollout pause worker";

const RESUME_EXAMPLES: &str = "\
Examples:
  seaworthy rollout resume worker";

const UNDO_EXAMPLES: &str = "\
Examples:
  # Back to what was before; see first what that means
  seaworthy rollout undo worker --dry-run
  seaworthy rollout undo worker

  # The MachineConfigs are put right: follow them again
  seaworthy rollout undo worker --release";

const HISTORY_EXAMPLES: &str = "\
Examples:
  seaworthy rollout history worker";

const CONVERT_EXAMPLES: &str = "\
Examples:
  seaworthy ignition convert --to 3.2.0 -f config.ign
  seaworthy ignition convert --to 3.5.0 < old.ign > new.ign";

const VALIDATE_EXAMPLES: &str = "\
Examples:
  seaworthy ignition validate -f config.ign
  seaworthy ignition validate -o json < config.ign";

const STUB_EXAMPLES: &str = "\
Examples:
  # For a worker, with the token that the endpoint asks for
  seaworthy ignition stub --pool worker --server boot.example.org --ca ca.crt --token-file token > worker.ign

  # For an endpoint that asks for none
  seaworthy ignition stub --pool worker --server 10.0.0.2:22623 --ca ca.crt";

const DAEMON_EXAMPLES: &str = "\
Examples:
  # On a node
  seaworthy daemon --node-name $(hostname)

  # In a container that has the machine's root at /host
  chroot /host /usr/local/bin/seaworthy daemon --node-name $NODE_NAME

  # A machine that is only a folder
  seaworthy daemon --node-name w1 --root w1.root --kubeconfig w1.kubeconfig";

const SERVER_EXAMPLES: &str = "\
Examples:
  # In a cluster: machines show its bootstrap tokens
  seaworthy server --apiserver-url https://api.example.org:6443

  # Before there is one, from a folder
  seaworthy server --bootstrap /etc/mcs/bootstrap --token-file tokens

  # What does a worker get?
  curl --cacert ca.crt -H \"Authorization: Bearer $(cat token)\" \\
    -H 'Accept: application/vnd.coreos.ignition+json;version=3.5.0' https://boot.example.org:22623/config/worker";

const APISERVER_EXAMPLES: &str = "\
Examples:
  seaworthy apiserver --data ./data
  kubectl --kubeconfig ./data/admin.kubeconfig get namespaces
  seaworthy apiserver --data ./data --listen 127.0.0.1:0 --kubeconfig-out ./kubeconfig";

const UP_EXAMPLES: &str = "\
Examples:
  # Nine machines to play with
  seaworthy up
  kubectl --kubeconfig seaworthy-data/admin.kubeconfig get nodes,mcp

  # A story of half a minute
  seaworthy up --demo

  # A cluster without machines, beside another one
  seaworthy up --nodes 0 --data other --listen 127.0.0.1:0 --ignition-listen 127.0.0.1:0";

const CRDS_EXAMPLES: &str = "\
Examples:
  seaworthy crds | kubectl apply --server-side -f -
  seaworthy crds --group machineconfiguration.openshift.io -o json";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  # bash: for yourself, or for everyone on this machine
  seaworthy completions bash > ~/.local/share/bash-completion/completions/seaworthy
  seaworthy completions bash > /etc/bash_completion.d/seaworthy

  # zsh: a folder of $fpath, such as this one after `fpath+=~/.zfunc` before compinit in ~/.zshrc
  seaworthy completions zsh > ~/.zfunc/_seaworthy

  # fish
  seaworthy completions fish > ~/.config/fish/completions/seaworthy.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  # Read the page of a command
  seaworthy man render | man -l -

  # Install all pages
  seaworthy man --dir /usr/local/share/man/man1";
