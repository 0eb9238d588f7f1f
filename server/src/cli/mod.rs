//! The command line.

mod asked;
mod brokers;
mod bundle;
mod cluster;
mod completion;
mod config;
pub(crate) mod context;
mod group;
mod log;
mod metrics;
mod output;
mod position;
mod progress;
mod quorum;
mod resources;
mod selection;
mod topic;
mod validate;
mod version;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::Exit;
use crate::options::{Given, OptionsError, Sources};
use crate::roles::{BROKERS_MAX, ExtraListener};

pub(crate) use cluster::{Report, circumstances, ids, verdict_data};
pub(crate) use completion::answer as answer_shell;
pub(crate) use log::ImportArgs;
pub(crate) use output::{Format, print, table, tell, write};
pub(crate) use position::{GRAMMAR as PLACES, Place, Position};

/// A replicated log that Kafka clients speak to: broker, controller and operator in one binary.
#[derive(Parser, Debug)]
#[command(name = "taffrail", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Start with `taffrail up`, then point any Kafka client at localhost:9092.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Name of the program where it is a plugin of kubectl, and how people call it then.
const PLUGIN: (&str, &str) = ("kubectl-taffrail", "kubectl taffrail");

/// Reads arguments, the first of which is the name that the program was called by.
///
/// # Errors
/// What is wrong with them, or the help that they ask for.
pub(crate) fn parse(arguments: Vec<OsString>) -> clap::error::Result<Cli> {
    let mut command = Cli::command();
    let called = arguments.first().and_then(|name| Path::new(name).file_stem());
    if called.is_some_and(|called| called == PLUGIN.0) {
        command = command.bin_name(PLUGIN.1);
    }
    Cli::from_arg_matches_mut(&mut command.try_get_matches_from_mut(arguments)?)
        .map_err(|error| error.format(&mut command))
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a whole cluster in this process: brokers, controllers and operator
    Up(Box<UpArgs>),
    /// Run one broker: it keeps partitions, and serves Kafka clients
    Broker(Box<BrokerArgs>),
    /// Run one controller: it keeps the cluster's metadata, together with the other controllers
    Controller(Box<ControllerArgs>),
    /// Run the operator: it keeps Clusters and Topics on Kubernetes as their resources say
    Operator(Box<OperatorArgs>),
    /// Create, show, change and delete topics; write and read their records
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Show how far consumers are, and have them go on somewhere else
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Prepare a cluster, ask how it is, move its partitions, ask whether its brokers may be taken down
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Show who keeps the metadata, and how far each of them is
    #[command(subcommand)]
    Quorum(quorum::QuorumCommand),
    /// Make topics as files of resources say, in any cluster that speaks Kafka's protocol
    Apply(resources::FilesArgs),
    /// Say what `apply` would change; the exit code is 1 if there is anything, and 2 if it cannot be said
    Diff(resources::FilesArgs),
    /// Print topics, as resources with -o yaml
    Get(resources::GetArgs),
    /// Give clusters names, and say which one is meant
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// Print a process's metrics, as they are now
    Metrics(metrics::MetricsArgs),
    /// Collect what a helper needs to know of a cluster into an archive, without records and secrets
    Bundle(bundle::BundleArgs),
    /// Check files of resources, without a cluster
    Validate(ValidateArgs),
    /// Look into files of partitions, or adopt them, without a cluster
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Print what has a shell complete commands, with the names of topics and groups as they are
    Completion(completion::CompletionArgs),
    /// Show settings; document settings, metrics and commands
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the version
    Version(VersionArgs),
}

/// Settings, from all their sources.
#[derive(Args, Debug, Default)]
pub(crate) struct SettingsArgs {
    /// File of settings: YAML, or Kafka's server.properties
    #[arg(long, value_name = "FILE", env = "TAFFRAIL_CONFIG")]
    config: Option<PathBuf>,
    /// Directory that holds everything that outlives the process [default: ./taffrail-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// File with the secret that all processes of the cluster share
    #[arg(long, value_name = "FILE")]
    cluster_secret_file: Option<String>,
    /// Address that Kafka clients connect to [default: 127.0.0.1:9092]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Host and port that clients are told, if they cannot reach the address of --listen
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Address of /metrics, /healthz and /readyz, or off [default: 127.0.0.1:9404]
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Address of the console, or off [default: 127.0.0.1:9405 for `up`, off for `broker`]; a controller has none
    #[arg(long, value_name = "ADDRESS")]
    console: Option<String>,
    /// Keep everything in a temporary directory that is removed at exit
    #[arg(long)]
    ephemeral: bool,
    /// What to log: a level, or directives such as info,taffrail_broker=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    /// How to log: auto, text or json [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Any other setting by its name, such as num.partitions=3; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl SettingsArgs {
    /// What file, environment and these flags give.
    pub(crate) fn collect(&self) -> Result<Given, OptionsError> {
        let named = [
            ("--data-dir", "data_dir", &self.data_dir),
            ("--cluster-secret-file", "cluster_secret_file", &self.cluster_secret_file),
            ("--listen", "listen", &self.listen),
            ("--advertise", "advertise", &self.advertise),
            ("--metrics", "metrics", &self.metrics),
            ("--console", "console", &self.console),
            ("--log-filter", "log_filter", &self.log_filter),
            ("--log-format", "log_format", &self.log_format),
        ];
        let mut flags: Vec<(String, String, String)> = Vec::new();
        for (flag, name, value) in named {
            if let Some(value) = value {
                flags.push((flag.to_owned(), name.to_owned(), value.clone()));
            }
        }
        if self.ephemeral {
            flags.push(("--ephemeral".to_owned(), "ephemeral".to_owned(), "true".to_owned()));
        }
        for pair in &self.set {
            let named = pair.split_once('=').filter(|(name, _)| !name.trim().is_empty());
            let Some((name, value)) = named else {
                let text = format!("--set {pair}: name=value is needed, such as num.partitions=3");
                return Err(OptionsError::Conflict(text));
            };
            flags.push((format!("--set {name}"), name.to_owned(), value.to_owned()));
        }
        // `vars_os`, because a variable that is not UTF-8 is nobody's setting and no reason to stop.
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let environment = std::env::vars_os().filter_map(text).collect();
        Given::collect(&Sources { file: self.config.clone(), environment, flags })
    }
}

/// Arguments of `up`.
#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// File of Cluster and Topic resources, the same as for Kubernetes; may be repeated. Edits are applied while it runs
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// How many brokers keep the partitions; the first listens at --listen, the others at the ports that follow. Once
    /// there are more, they stay [default: as the Cluster says, also when it changes, or 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..=i64::from(BROKERS_MAX)))]
    brokers: Option<i32>,
    /// How many controllers keep the metadata: 1, 3 or 5. Once there are more, they stay [default: as the Cluster says,
    /// or 1]
    #[arg(long, value_name = "COUNT", value_parser = ["1", "3", "5"])]
    controllers: Option<String>,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

impl UpArgs {
    /// How many brokers are asked for, if anybody asked.
    pub(crate) fn brokers(&self) -> Option<i32> {
        self.brokers
    }

    /// How many controllers are asked for, if anybody asked.
    pub(crate) fn controllers(&self) -> Option<i32> {
        self.controllers.as_ref().and_then(|count| count.parse().ok())
    }
}

/// Arguments of `broker`.
#[derive(Args, Debug)]
#[command(
    after_help = "Start it before or after its controllers: it waits for them, and learns from them which cluster it is in."
)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BrokerArgs {
    /// What to do to a running broker, instead of running one
    #[command(subcommand)]
    action: Option<cluster::BrokerCommand>,
    /// Number of this broker
    #[arg(long, value_name = "NUMBER", env = "TAFFRAIL_NODE_ID", required = true)]
    pub(crate) node_id: Option<i32>,
    /// Addresses of the controllers; names are looked up anew at each dial
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required = true, env = "TAFFRAIL_CONTROLLERS")]
    pub(crate) controllers: Vec<String>,
    /// Where it stands, such as a zone: replicas are spread over racks, and clients may read from their own
    #[arg(long, value_name = "NAME", env = "TAFFRAIL_RACK")]
    pub(crate) rack: Option<String>,
    /// File that has the name of the rack in it; one that is empty or missing is waited for
    #[arg(long, value_name = "FILE", env = "TAFFRAIL_RACK_FILE", conflicts_with = "rack")]
    pub(crate) rack_file: Option<PathBuf>,
    /// The cluster that it belongs to; controllers of another one are refused
    #[arg(long, value_name = "ID", env = "TAFFRAIL_CLUSTER_ID")]
    pub(crate) cluster_id: Option<String>,
    /// One more listener, for clients that reach this broker by another way: its name, where it listens, and what its clients
    /// are told, as in EXTERNAL=0.0.0.0:9094,kafka.example:30001; may be repeated
    #[arg(long = "listener", value_name = "NAME=ADDRESS,HOST:PORT")]
    pub(crate) listeners: Vec<ExtraListener>,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Arguments of `controller`.
#[derive(Args, Debug)]
#[command(after_help = "Brokers and other controllers connect to the address of --listen [default: 127.0.0.1:9093].")]
pub(crate) struct ControllerArgs {
    /// Number of this controller
    #[arg(long, value_name = "NUMBER", env = "TAFFRAIL_NODE_ID")]
    pub(crate) node_id: i32,
    /// Addresses of all controllers, this one too; names are looked up anew at each dial
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', env = "TAFFRAIL_CONTROLLERS")]
    pub(crate) controllers: Vec<String>,
    /// The cluster that it belongs to; disks and controllers of another one are refused
    #[arg(long, value_name = "ID", env = "TAFFRAIL_CLUSTER_ID")]
    pub(crate) cluster_id: Option<String>,
    /// Found the cluster, once all controllers are there and were granted it; for the very first start only
    #[arg(long, env = "TAFFRAIL_BOOTSTRAP")]
    pub(crate) bootstrap: bool,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Arguments of `operator`.
#[derive(Args, Debug)]
#[command(after_help = "It finds Kubernetes by the service account of its pod, or by KUBECONFIG outside of one.")]
pub(crate) struct OperatorArgs {
    /// Namespaces whose resources are acted on, or * for all [default: its own]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', env = "TAFFRAIL_WATCH_NAMESPACES")]
    pub(crate) namespaces: Vec<String>,
    /// Image of brokers and controllers of Clusters that name none
    #[arg(long, value_name = "IMAGE", env = "TAFFRAIL_IMAGE")]
    pub(crate) image: Option<String>,
    /// File of resources that are created at the start where there are none of their names
    #[arg(long, value_name = "FILE", env = "TAFFRAIL_APPLY")]
    pub(crate) apply: Option<PathBuf>,
    /// Name of the Lease, in its own namespace, that tells which of several operators leads
    #[arg(long, value_name = "NAME", env = "TAFFRAIL_LEASE", default_value = "taffrail-operator")]
    pub(crate) lease: String,
    /// Print the rights that it needs as rules of a Role, and end: in watched namespaces, and besides in its own
    #[arg(long)]
    pub(crate) print_rules: bool,
    /// Name of this process among the operators [default: a random one]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub(crate) instance: Option<String>,
    /// Address of /metrics, /healthz and /readyz, or off [default: 0.0.0.0:9404]
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// What to log: a level, or directives such as info,taffrail_operator=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    /// How to log: auto, text or json [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl OperatorArgs {
    /// What environment and flags give.
    pub(crate) fn collect(&self) -> Result<Given, OptionsError> {
        let settings = SettingsArgs {
            metrics: self.metrics.clone(),
            log_filter: self.log_filter.clone(),
            log_format: self.log_format.clone(),
            ..SettingsArgs::default()
        };
        settings.collect()
    }
}

#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    /// File of resources; may be repeated
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Check them as the operator on Kubernetes would, and not as `taffrail up`, which acts on fewer fields
    #[arg(long)]
    pub(crate) kubernetes: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Print the settings in effect, and where each comes from
    Show(Box<ShowArgs>),
    /// Print the documentation of all settings, as Markdown
    Docs,
    /// Print the documentation of all metrics, as Markdown
    Metrics,
    /// Print the documentation of all commands, as Markdown
    Commands,
    /// Write manual pages of all commands into a folder
    Man(config::ManArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// File of resources whose Cluster gives settings too; may be repeated
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// Also settings that nobody gave
    #[arg(short, long)]
    pub(crate) all: bool,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

impl Cli {
    /// Does what the command line says.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Up(args) => crate::up::run(&args),
            Command::Broker(args) => match &args.action {
                Some(action) => cluster::change_duty(action),
                None => crate::broker::run(&args),
            },
            Command::Topic(command) => topic::run(&command),
            Command::Group(command) => group::run(&command),
            Command::Cluster(command) => cluster::run(&command),
            Command::Quorum(command) => quorum::run(&command),
            Command::Controller(args) => crate::controller::run(&args),
            Command::Operator(args) => crate::roles::operator(&args),
            Command::Log(command) => log::run(&command),
            Command::Apply(args) => resources::apply(&args),
            Command::Diff(args) => resources::diff(&args),
            Command::Get(args) => resources::get(&args),
            Command::Context(command) => context::run(&command),
            Command::Metrics(args) => metrics::run(&args),
            Command::Bundle(args) => bundle::run(&args),
            Command::Validate(args) => validate::run(&args),
            Command::Config(ConfigCommand::Show(args)) => config::show(&args),
            Command::Config(ConfigCommand::Docs) => config::docs(),
            Command::Config(ConfigCommand::Metrics) => config::metrics(),
            Command::Config(ConfigCommand::Commands) => config::commands(),
            Command::Config(ConfigCommand::Man(args)) => config::man(&args),
            Command::Completion(args) => completion::run(&args),
            Command::Version(args) => version::run(&args),
        }
    }
}
