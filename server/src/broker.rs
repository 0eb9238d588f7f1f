//! `taffrail broker`: one broker as a process of its own.
//!
//! It may be started before its controllers, which tell it what cluster it is in. Until they do, it opens its partitions,
//! and clients that connect wait.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{Either, select};
use taffrail_client::controller::ControllerClient;
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{open_files, signal, task, time};

use crate::cli::BrokerArgs;
use crate::console::{self, Console, ConsoleParts};
use crate::exit::Exit;
use crate::http::{self, Health};
use crate::nodes;
use crate::options::{MetricsAddress, Options};
use crate::roles::{self, BrokerFiles, BrokerPlace, BrokerRole, BrokerStart, DataDir, ExtraListener, RoleEnd};
use crate::sockets::listen;
use crate::stopping::stop_within;
use crate::telemetry::LogLevels;

/// Threads for everything that is not on the data path.
const CONTROL_THREADS: usize = 2;

/// How long the controllers may take for one answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before controllers that know of no cluster yet are asked again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Pause before the file with the rack is looked at again.
const RACK_POLL: Duration = Duration::from_millis(100);

/// How often it is said that the controllers are waited for.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// What the process is to do.
struct Plan {
    options: Options,
    id: BrokerId,
    rack: Option<String>,
    /// File that says so, once somebody knows.
    rack_file: Option<PathBuf>,
    controllers: Vec<(String, Target)>,
    secret: Option<ClusterSecret>,
    /// Listeners beside that of `--listen`.
    extra: Vec<ExtraListener>,
    /// The cluster that it is to belong to, if it was told.
    cluster: Option<Uuid>,
}

/// Runs until a signal, or until the broker fails.
pub(crate) fn run(args: &BrokerArgs) -> anyhow::Result<Exit> {
    let plan = Plan::of(args)?;
    let loggers = crate::telemetry::start(&plan.options)?;
    open_files::raise_limit();
    let dir = DataDir::take(&plan.options)?;
    task::block_on(CONTROL_THREADS, run_until_told(&plan, &dir, loggers))?
}

impl Plan {
    fn of(args: &BrokerArgs) -> anyhow::Result<Self> {
        let options = Options::resolve(&args.settings.collect()?)?;
        let id = args.node_id.unwrap_or(-1);
        nodes::check(id, &args.controllers)?;
        let secret = nodes::cluster_secret(options.cluster_secret_file.as_deref())?;
        Ok(Self {
            options,
            id: BrokerId(id),
            rack: args.rack.clone(),
            rack_file: args.rack_file.clone(),
            controllers: args.controllers.iter().map(|it| nodes::controller(it, secret.as_ref())).collect(),
            cluster: nodes::cluster_id(args.cluster_id.as_deref())?,
            secret,
            extra: distinct(&args.listeners)?,
        })
    }
}

/// Listeners whose names differ: clients are told addresses by them.
fn distinct(listeners: &[ExtraListener]) -> anyhow::Result<Vec<ExtraListener>> {
    let mut names = BTreeSet::new();
    if let Some(twice) = listeners.iter().find(|listener| !names.insert(&listener.name)) {
        bail!("--listener {}: there are two of this name", twice.name);
    }
    Ok(listeners.to_vec())
}

async fn run_until_told(plan: &Plan, dir: &DataDir, loggers: Arc<LogLevels>) -> anyhow::Result<Exit> {
    let mut told = task::spawn(signal::terminate());
    let socket = listen(plan.options.listen, "--listen").await?;
    let bound = socket.local_addr()?;
    let mut extra = Vec::new();
    for ExtraListener { name, address, .. } in &plan.extra {
        extra.push((name.clone(), listen(*address, "--listener").await?));
    }
    let (health, stop) = (Health::new(plan.options.scrape.clone()), Shutdown::new());
    if let MetricsAddress::At(address) = plan.options.metrics {
        task::spawn(http::serve(listen(address, "--metrics").await?, health.clone(), stop.clone()));
    }
    let console_socket = console::socket_of_broker(plan.options.console).await?;
    let mut broker = match select(pin!(start(plan, dir, (socket, extra), &health, loggers)), &mut told).await {
        Either::Left((broker, _)) => broker?,
        Either::Right(_) => bail!("told to stop while starting: the next start recovers what was not closed"),
    };
    if let Some(socket) = console_socket {
        task::spawn(console_of(plan, &broker, bound)?.serve(socket, stop.clone()));
    }
    let end = match select(&mut told, pin!(broker.failed())).await {
        Either::Left((Ok(Ok(signal)), _)) => Ok(signal),
        Either::Left((told, _)) => Err(RoleEnd::Signals(format!("{told:?}"))),
        Either::Right((end, _)) => Err(end),
    };
    health.set_ready(false);
    let stopping = time::monotonic();
    let stopped = stop_within(plan.options.stop_timeout, broker.stop()).await;
    stop.trigger();
    // What ended it all explains more than what could not be done after that.
    let signal = end?;
    stopped?;
    tracing::info!(signal, took_ms = stopping.elapsed().as_millis() as u64, "stopped; everything is on disk");
    Ok(Exit::Done)
}

/// The console of this process.
fn console_of(plan: &Plan, broker: &BrokerRole, bound: SocketAddr) -> anyhow::Result<Console> {
    let (host, port) = plan.options.advertised(bound);
    Ok(Console::new(ConsoleParts {
        broker: broker.handle(),
        bootstrap: vec![nodes::address(&host, port)],
        controllers: plan.controllers.clone(),
        hosts: plan.options.console_hosts.clone(),
    })?)
}

/// Brings the broker into its cluster, and takes clients.
async fn start(
    plan: &Plan,
    dir: &DataDir,
    (socket, extra): (TcpListener, Vec<(String, TcpListener)>),
    health: &Health,
    loggers: Arc<LogLevels>,
) -> anyhow::Result<BrokerRole> {
    let bound = socket.local_addr()?;
    if plan.secret.is_none() {
        nodes::warn_if_open(bound);
    }
    let (logs, advertised) = (dir.logs(), plan.options.advertised(bound));
    let read = match &plan.rack_file {
        Some(file) => Some(read_rack(file).await),
        None => None,
    };
    let rack = plan.rack.as_deref().or(read.as_deref());
    let place = BrokerPlace {
        id: plan.id,
        roles: "broker",
        bound,
        advertised: &advertised,
        extra: &plan.extra,
        logs: &logs,
        rack,
    };
    let static_config = roles::static_config(&plan.options, &place);
    let config = roles::config(&static_config)?;
    let disks = roles::known_cluster(&logs)?;
    let (cluster_id, files) =
        futures::future::try_join(learn_cluster(plan, disks), BrokerFiles::open(logs, plan.id, &config, 1)).await?;
    let told = nodes::address(&advertised.0, advertised.1);
    let mut broker = BrokerRole::start(BrokerStart {
        id: plan.id,
        cluster_id,
        static_config,
        controllers: plan.controllers.clone(),
        files,
        advertised,
        extra: plan.extra.clone(),
        shards: roles::start_shards(&plan.options)?,
        loggers,
        secret: plan.secret.clone(),
        leave_timeout: plan.options.leave_timeout,
    })
    .await
    .with_context(|| format!("broker {} cannot be part of cluster {cluster_id}", plan.id))?;
    health.add(broker.handle(), broker.unfenced());
    broker.serve(socket);
    extra.into_iter().for_each(|(name, socket)| broker.serve_as(&name, socket));
    health.set_ready(true);
    crate::cli::write(&format!("broker {} of cluster {cluster_id} listens at {told}\n", plan.id))?;
    Ok(broker)
}

/// Waits until `file` says where this broker stands: whoever started it may hear of that after it was started.
async fn read_rack(file: &Path) -> String {
    let mut tell_at = time::monotonic() + STATUS_TIMEOUT;
    loop {
        let found = std::fs::read_to_string(file).unwrap_or_default();
        if !found.trim().is_empty() {
            return found.trim().to_owned();
        }
        if time::monotonic() >= tell_at {
            tracing::warn!(file = %file.display(), "nobody has said in which rack this broker is; waiting");
            tell_at = time::monotonic() + TELL_INTERVAL;
        }
        time::sleep(RACK_POLL).await;
    }
}

/// Waits until a controller answers and knows its cluster, and gives that. The controllers are told what cluster the disks
/// are of: it must not be founded again.
async fn learn_cluster(plan: &Plan, disks: Option<Uuid>) -> anyhow::Result<Uuid> {
    let client = ControllerClient::new(plan.controllers.clone())?;
    let names = || plan.controllers.iter().map(|(server, _)| server.as_str()).collect::<Vec<_>>().join(", ");
    let mut tell_at = time::monotonic() + STATUS_TIMEOUT;
    loop {
        let status = client.status_for(disks, STATUS_TIMEOUT).await;
        let reason = match status.map(|status| status.cluster_id) {
            Ok(Some(theirs)) => match plan.cluster {
                Some(ours) if ours != theirs => {
                    bail!(
                        "the controllers at {} are of cluster {theirs}, not of cluster {ours} (--cluster-id)",
                        names()
                    )
                }
                _ => return Ok(theirs),
            },
            Ok(None) => "they have not founded a cluster yet".to_owned(),
            Err(error) => error.to_string(),
        };
        if time::monotonic() >= tell_at {
            tracing::warn!(controllers = names(), reason, "waiting for the controllers");
            tell_at = time::monotonic() + TELL_INTERVAL;
        }
        time::sleep(ASK_AGAIN).await;
    }
}
