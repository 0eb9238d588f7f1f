//! `taffrail up`: a whole cluster in one process.
//!
//! The same roles as on many machines: controllers, brokers, and the operator. They speak gRPC with each other through pipes
//! in memory, and brokers copy from each other over their ports. There is no second, simplified path.

mod brokers;
mod crew;
mod import;
mod summary;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{Either, select};
use taffrail_broker::Broker;
use taffrail_client::controller::ControllerClient;
use taffrail_operator::local::{self, LocalGroups, LocalOperator};
use taffrail_operator::platform::PlatformError;
use taffrail_operator::platform::local::LocalPlatform;
use taffrail_operator::reconcile::Desired;
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{open_files, signal, task, time};
use tokio::sync::watch;

use crate::cli::{UpArgs, context};
use crate::console::{self, Console, ConsoleParts};
use crate::exit::{self, Exit};
use crate::http::{self, Health};
use crate::nodes;
use crate::options::{MetricsAddress, Options};
use crate::roles::{self, DataDir, QuorumRole, RoleEnd};
use crate::sockets::listen;
use crate::stopping::stop_within;
use crate::telemetry::LogLevels;
use brokers::{Brokers, Common, Seat, check_not_lost};
use crew::{Crew, CrewParts};
pub(crate) use import::import;
use summary::Summary;

/// Threads for everything that is not on the data path.
const CONTROL_THREADS: usize = 2;

/// How long a change that the operator asks for may take.
const PROPOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// How many of each there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    brokers: i32,
    controllers: i32,
    /// How many brokers are asked for, which may be fewer than there are at the start.
    brokers_asked: i32,
}

impl Sizes {
    /// As the flags say, or the Cluster, or one; never fewer than there were. What was taken away would be missed: brokers
    /// that a Cluster does not want any more give their replicas away first, while the process runs.
    fn of(args: &UpArgs, desired: &Desired, dir: &DataDir) -> Self {
        let cluster = desired.cluster.as_ref();
        let asked = |flag: Option<i32>, resource: Option<i32>| flag.or(resource).unwrap_or(1);
        let brokers = asked(args.brokers(), cluster.and_then(|cluster| cluster.brokers));
        let controllers = asked(args.controllers(), cluster.and_then(|cluster| cluster.controllers));
        let leave = args.brokers().is_none() && cluster.is_some_and(|cluster| cluster.brokers.is_some());
        let present = brokers.max(dir.brokers());
        let brokers_asked = if leave { brokers } else { present };
        let sizes = Self { brokers: present, controllers: controllers.max(dir.controllers()), brokers_asked };
        if sizes.controllers != controllers || brokers_asked != brokers {
            tracing::warn!(
                brokers = brokers_asked,
                controllers = sizes.controllers,
                "there were more before, and they stay"
            );
        }
        sizes
    }
}

/// What there is to run.
struct Plan<'a> {
    args: &'a UpArgs,
    options: &'a Options,
    dir: &'a DataDir,
    sizes: Sizes,
    loggers: Arc<LogLevels>,
}

/// Runs until a signal, or until a role fails.
pub(crate) fn run(args: &UpArgs) -> anyhow::Result<Exit> {
    let started = time::monotonic();
    let mut given = args.settings.collect()?;
    let desired = local::load(&args.files)?;
    if let Some(cluster) = &desired.cluster {
        for (name, value) in &cluster.settings.at_start {
            given.set_from_cluster(&cluster.name, name, value)?;
        }
    }
    let options = Options::resolve(&given)?;
    let loggers = crate::telemetry::start(&options)?;
    open_files::raise_limit();
    let dir = DataDir::take(&options)?;
    dir.check_whole()?;
    let sizes = Sizes::of(args, &desired, &dir);
    given.set_for_brokers(sizes.brokers_asked)?;
    let options = Options::resolve(&given)?;
    let plan = Plan { args, options: &options, dir: &dir, sizes, loggers };
    task::block_on(CONTROL_THREADS, up(&plan, desired, started))?
}

/// What runs, in the order in which it is stopped last.
struct Running {
    quorum: QuorumRole,
    crew: Crew,
    operator: task::JoinHandle<()>,
    /// Ends the operator, the metrics address and the console.
    stop: Shutdown,
    /// Where metrics are.
    metrics: Option<SocketAddr>,
    /// Where the console is.
    console: Option<SocketAddr>,
}

impl Running {
    /// Waits for a signal, or for the end of what clients need. Brokers come and go meanwhile.
    async fn end(
        &mut self,
        plan: &Plan<'_>,
        told: &mut task::JoinHandle<std::io::Result<&'static str>>,
    ) -> Result<&'static str, RoleEnd> {
        // A controller that has failed changes nothing any more, but records are served on: better than no service.
        let without_controller = async {
            let error = self.quorum.failed().await;
            tracing::error!(%error, "the controllers have failed: topics and settings cannot change until a restart");
            std::future::pending::<RoleEnd>().await
        };
        let failed = async { select(pin!(self.crew.keep(plan)), pin!(without_controller)).await.factor_first().0 };
        match select(told, pin!(failed)).await {
            Either::Left((Ok(Ok(signal)), _)) => Ok(signal),
            Either::Left((told, _)) => Err(RoleEnd::Signals(format!("{told:?}"))),
            Either::Right((end, _)) => Err(end),
        }
    }
}

/// Starts everything, says so, and stops everything when told to.
async fn up(plan: &Plan<'_>, desired: Desired, started: time::Instant) -> anyhow::Result<Exit> {
    // From the first moment on: a signal that comes early must not end the process without a clean stop.
    let mut told = task::spawn(signal::terminate());
    let health = Health::new(plan.options.scrape.clone());
    let (mut running, first) = match select(pin!(start(plan, desired, &health)), &mut told).await {
        Either::Left((running, _)) => running?,
        Either::Right(_) => bail!("told to stop while starting: the next start recovers what was not closed"),
    };
    let brokers = &running.crew.brokers;
    let image = brokers.first().metadata.image();
    let summary = Summary {
        cluster_id: running.quorum.cluster_id().await,
        clients: &brokers.advertised,
        controllers: plan.sizes.controllers,
        metrics: running.metrics,
        console: running.console,
        data: plan.dir,
        files: &plan.args.files,
        pass: &first,
        image: &image,
        took: started.elapsed(),
    };
    running.keep_context();
    crate::cli::write(&summary.to_string())?;
    let end = running.end(plan, &mut told).await;
    health.set_ready(false);
    let stopping = time::monotonic();
    let stopped = stop_within(plan.options.stop_timeout, running.stop()).await;
    // What ended it all explains more than what could not be done after that.
    let signal = end?;
    stopped?;
    tracing::info!(signal, took_ms = stopping.elapsed().as_millis() as u64, "stopped; everything is on disk");
    Ok(Exit::Done)
}

/// Starts everything; gives what runs, and what the operator's first pass found.
async fn start(plan: &Plan<'_>, desired: Desired, health: &Health) -> anyhow::Result<(Running, local::Pass)> {
    let Plan { args, options, dir, sizes, loggers } = plan;
    // Addresses first: a port that is taken is the commonest mistake, and nothing has been touched yet.
    let zones = desired.cluster.as_ref().map(|cluster| cluster.zones.clone()).unwrap_or_default();
    let seats = Seat::take(options, dir, sizes.brokers, &zones).await?;
    let listener = match options.metrics {
        MetricsAddress::Off => None,
        MetricsAddress::At(address) => Some(listen(address, "--metrics").await?),
    };
    let metrics = listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let console_socket = console::socket_of_up(options.console).await?;
    let console = console_socket.as_ref().map(TcpListener::local_addr).transpose()?;
    let stop = Shutdown::new();
    if let Some(listener) = listener {
        task::spawn(http::serve(listener, health.clone(), stop.clone()));
    }

    let static_config = seats[0].static_config().clone();
    let session_timeout = roles::session_timeout(seats[0].config());
    let default_factor = seats[0].config().default_replication_factor;
    let (quorum, opened) = futures::future::join(
        QuorumRole::start(sizes.controllers, options, dir, &static_config, session_timeout, &stop),
        Seat::open(seats),
    )
    .await;
    let (quorum, opened) = (quorum?, opened?);
    health.add_controllers(quorum.views())?;
    check_not_lost(&opened, &quorum.image())?;
    let members = quorum.members();
    let common = Common {
        cluster_id: quorum.cluster_id().await,
        controllers: members.clone(),
        shards: roles::start_shards(options)?,
        loggers: Arc::clone(loggers) as _,
        secret: ClusterSecret::random(),
    };
    let mut brokers = Brokers::start(opened, common).await?;
    brokers.tell(health);

    let (wants, wanted) = watch::channel(None);
    let platform = platform(ControllerClient::new(members.clone())?, &brokers.first());
    let mut operator = LocalOperator::new(platform, args.files.clone(), desired);
    if args.brokers().is_none() {
        operator = operator.telling_brokers(wants);
    }
    let first = operator.pass().await?;
    first.log(&local::Pass::default());
    let places = watch::Sender::new(brokers.places().clone());
    let groups = LocalGroups::at(places.subscribe());
    brokers.serve();
    health.set_ready(true);
    if let Some(socket) = console_socket {
        let parts = ConsoleParts {
            broker: brokers.first(),
            bootstrap: brokers.places().values().cloned().collect(),
            controllers: members.clone(),
            hosts: options.console_hosts.clone(),
        };
        task::spawn(Console::new(parts)?.serve(socket, stop.clone()));
    }
    let operator = task::spawn(operator.run(first.clone(), groups, stop.clone()));
    let client = ControllerClient::new(members)?;
    let crew = Crew::new(CrewParts { brokers, client, health: health.clone(), zones, wanted, default_factor, places });
    Ok((Running { quorum, crew, operator, stop, metrics, console }, first))
}

impl Running {
    /// Has client commands find this cluster without being told where it is.
    fn keep_context(&self) {
        let brokers = self.crew.brokers.advertised.iter().map(|(host, port)| nodes::address(host, *port)).collect();
        let metrics = self.metrics.map(|address| address.to_string());
        let context = context::Context { brokers, metrics, ..context::Context::default() };
        if let Err(error) = context::keep_up(context) {
            tracing::debug!(error = exit::told(&error), "the context is not kept");
        }
    }

    /// Stops everything: first who asks, then who answers, last who decides.
    async fn stop(self) -> anyhow::Result<()> {
        self.stop.trigger();
        self.operator.await.context("the operator failed")?;
        // Whatever happened to the brokers, the controllers are stopped in order.
        let brokers = self.crew.stop().await;
        self.quorum.stop().await?;
        brokers
    }
}

/// The operator's view of this process.
fn platform(client: ControllerClient, broker: &Arc<Broker>) -> LocalPlatform {
    let client = Arc::new(client);
    let (reading, waiting) = (Arc::clone(broker), Arc::clone(broker));
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
