//! `taffrail up`: a whole cluster in one process.
//!
//! The same roles as on many machines: one controller or several, a broker, and the operator; they speak gRPC with each
//! other through pipes in memory. There is no second, simplified path.

mod import;
mod summary;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{Either, select};
use taffrail_client::controller::ControllerClient;
use taffrail_core::ids::BrokerId;
use taffrail_operator::local::{self, LocalOperator};
use taffrail_operator::platform::PlatformError;
use taffrail_operator::platform::local::LocalPlatform;
use taffrail_operator::reconcile::Desired;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{open_files, signal, task, time};

use crate::cli::UpArgs;
use crate::exit::Exit;
use crate::http::{self, Health};
use crate::options::{MetricsAddress, Options};
use crate::roles::{self, BrokerRole, BrokerStart, DataDir, QuorumRole, RoleEnd};
use crate::sockets::listen;
use crate::telemetry::LogLevels;
pub(crate) use import::import;
use summary::Summary;

/// Number of the one broker.
const BROKER: BrokerId = BrokerId(1);

/// Threads for everything that is not on the data path.
const CONTROL_THREADS: usize = 2;

/// How long a change that the operator asks for may take.
const PROPOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long after the first signal another one means impatience.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_secs(1);

/// Runs until a signal, or until a role fails.
pub(crate) fn run(args: &UpArgs) -> anyhow::Result<Exit> {
    let started = time::monotonic();
    let mut given = args.settings.collect()?;
    given.set_for_one_node()?;
    let desired = local::load(&args.files)?;
    if let Some(cluster) = &desired.cluster {
        for (name, value) in &cluster.at_start {
            given.set_from_cluster(&cluster.name, name, value)?;
        }
    }
    let options = Options::resolve(&given)?;
    let loggers = crate::telemetry::start(&options)?;
    open_files::raise_limit();
    let dir = DataDir::take(&options)?;
    dir.check_whole()?;
    task::block_on(CONTROL_THREADS, up(args, &options, &dir, desired, loggers, started))?
}

/// What runs, in the order in which it is stopped last.
struct Running {
    quorum: QuorumRole,
    broker: BrokerRole,
    operator: task::JoinHandle<()>,
    /// Ends the operator and the metrics address.
    stop: Shutdown,
    /// Where clients connect.
    clients: SocketAddr,
    /// Where metrics are.
    metrics: Option<SocketAddr>,
}

impl Running {
    /// Waits for a signal, or for the end of what clients need.
    async fn end(
        &mut self,
        told: &mut task::JoinHandle<std::io::Result<&'static str>>,
    ) -> Result<&'static str, RoleEnd> {
        // A controller that has failed changes nothing any more, but records are served on: better than no service.
        let without_controller = async {
            let error = self.quorum.failed().await;
            tracing::error!(%error, "the controllers have failed: topics and settings cannot change until a restart");
            std::future::pending::<RoleEnd>().await
        };
        let failed = async { select(pin!(self.broker.failed()), pin!(without_controller)).await.factor_first().0 };
        match select(told, pin!(failed)).await {
            Either::Left((Ok(Ok(signal)), _)) => Ok(signal),
            Either::Left((told, _)) => Err(RoleEnd::Signals(format!("{told:?}"))),
            Either::Right((end, _)) => Err(end),
        }
    }
}

/// Starts everything, says so, and stops everything when told to.
async fn up(
    args: &UpArgs,
    options: &Options,
    dir: &DataDir,
    desired: Desired,
    loggers: Arc<LogLevels>,
    started: time::Instant,
) -> anyhow::Result<Exit> {
    // From the first moment on: a signal that comes early must not end the process without a clean stop.
    let mut told = task::spawn(signal::terminate());
    let health = Health::default();
    let (mut running, first) = match select(pin!(start(args, options, dir, desired, loggers, &health)), &mut told).await
    {
        Either::Left((running, _)) => running?,
        Either::Right(_) => bail!("told to stop while starting: the next start recovers what was not closed"),
    };
    let image = running.broker.metadata();
    let summary = Summary {
        cluster_id: running.quorum.cluster_id().await,
        clients: options.advertised(running.clients),
        metrics: running.metrics,
        data: dir,
        files: &args.files,
        pass: &first,
        image: &image,
        took: started.elapsed(),
    };
    crate::cli::write(&summary.to_string())?;
    let end = running.end(&mut told).await;
    health.set_ready(false);
    let stopping = time::monotonic();
    let stopped = stop_within(options.stop_timeout, running).await;
    // What ended it all explains more than what could not be done after that.
    let signal = end?;
    stopped?;
    tracing::info!(signal, took_ms = stopping.elapsed().as_millis() as u64, "stopped; everything is on disk");
    Ok(Exit::Done)
}

/// Starts everything; gives what runs, and what the operator's first pass found.
async fn start(
    args: &UpArgs,
    options: &Options,
    dir: &DataDir,
    desired: Desired,
    loggers: Arc<LogLevels>,
    health: &Health,
) -> anyhow::Result<(Running, local::Pass)> {
    // Addresses first: a port that is taken is the commonest mistake, and nothing has been touched yet.
    let socket = listen(options.listen, "--listen").await?;
    let clients = socket.local_addr()?;
    let listener = match options.metrics {
        MetricsAddress::Off => None,
        MetricsAddress::At(address) => Some(listen(address, "--metrics").await?),
    };
    let metrics = listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let stop = Shutdown::new();
    if let Some(listener) = listener {
        task::spawn(http::serve(listener, health.clone(), stop.clone()));
    }

    let static_config = roles::static_config(options, BROKER, clients, &dir.logs());
    let config = roles::config(&static_config)?;
    let session_timeout = Duration::from_millis(u64::try_from(config.broker_session_timeout_ms).unwrap_or_default());
    let (quorum, storage) = futures::future::join(
        QuorumRole::start(args.controllers(), options, dir, &static_config, session_timeout, &stop),
        roles::open_storage(&dir.logs(), &config),
    )
    .await;
    let (quorum, storage) = (quorum?, storage?);
    roles::check_not_lost(&dir.logs(), BROKER, &storage, &quorum.image())?;
    let mut broker = BrokerRole::start(BrokerStart {
        id: BROKER,
        cluster_id: quorum.cluster_id().await,
        static_config,
        controllers: quorum.members(),
        storage,
        advertised: options.advertised(clients),
        logs: dir.logs(),
        shards: options.shards,
        loggers,
    })
    .await?;
    health.add(broker.registry());

    let platform = platform(ControllerClient::new(quorum.members())?, &broker);
    let mut operator = LocalOperator::new(platform, args.files.clone(), desired);
    let first = operator.pass().await?;
    first.log(&local::Pass::default());
    broker.serve(socket);
    health.set_ready(true);
    let operator = task::spawn(operator.run(first.clone(), stop.clone()));
    Ok((Running { quorum, broker, operator, stop, clients, metrics }, first))
}

/// Stops everything, unless that takes too long or somebody asks a second time.
async fn stop_within(timeout: Duration, running: Running) -> anyhow::Result<()> {
    let stopping = time::timeout(timeout, running.stop());
    let again = async {
        // Whoever wraps us may pass on a signal that the terminal has sent us already.
        time::sleep(SECOND_SIGNAL_AFTER).await;
        signal::terminate().await
    };
    match select(pin!(stopping), pin!(again)).await {
        Either::Left((Ok(result), _)) => result,
        Either::Left((Err(_), _)) => bail!("not stopped in time: the next start recovers what was not closed"),
        Either::Right(_) => bail!("told twice to stop: the next start recovers what was not closed"),
    }
}

impl Running {
    /// Stops everything: first who asks, then who answers, last who decides.
    async fn stop(self) -> anyhow::Result<()> {
        self.stop.trigger();
        self.operator.await.context("the operator failed")?;
        // Whatever happened to the broker, the controllers are stopped in order.
        let broker = self.broker.stop().await;
        self.quorum.stop().await?;
        broker
    }
}

/// The operator's view of this process.
fn platform(client: ControllerClient, broker: &BrokerRole) -> LocalPlatform {
    let client = Arc::new(client);
    let (reading, waiting) = (broker.handle(), broker.handle());
    LocalPlatform::new(
        move || reading.metadata.image(),
        move |command| {
            let (client, broker) = (Arc::clone(&client), Arc::clone(&waiting));
            async move {
                let committed = client.propose(&command, PROPOSE_TIMEOUT).await.map_err(PlatformError::Refused)?;
                let deadline = time::monotonic() + PROPOSE_TIMEOUT;
                if broker.metadata.wait_for(committed.offset, deadline).await {
                    Ok(committed.reply)
                } else {
                    Err(PlatformError::Unreachable("the broker does not follow the metadata".to_owned()))
                }
            }
        },
    )
}
