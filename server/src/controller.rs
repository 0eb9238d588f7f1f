//! `taffrail controller`: one controller as a process of its own.

use std::net::SocketAddr;
use std::pin::pin;

use anyhow::Context;
use futures::future::{Either, select};
use taffrail_controller::{Controller, ControllerError, ControllerOptions, Dialer, MetadataDir};
use taffrail_core::config::{BrokerConfig, BrokerLayers};
use taffrail_core::ids::Uuid;
use taffrail_runtime::grpc::Listener;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{open_files, random, signal, task, time};

use crate::cli::ControllerArgs;
use crate::exit::Exit;
use crate::http::{self, Health};
use crate::nodes;
use crate::options::{MetricsAddress, Options, OptionsError, Source};
use crate::roles::{self, DataDir};
use crate::sockets::listen;
use crate::stopping::stop_within;

/// Threads of the process beside those of the store.
const CONTROL_THREADS: usize = 2;

/// Where a controller listens unless told otherwise.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9093);

/// What the process is to do.
struct Plan {
    options: Options,
    id: i32,
    listen: SocketAddr,
    servers: Vec<String>,
    cluster: Option<Uuid>,
    bootstrap: Option<Uuid>,
}

/// Runs until a signal, or until the controller fails.
pub(crate) fn run(args: &ControllerArgs) -> anyhow::Result<Exit> {
    let plan = Plan::of(args)?;
    let _ = crate::telemetry::start(&plan.options)?;
    open_files::raise_limit();
    let dir = DataDir::take(&plan.options)?;
    task::block_on(CONTROL_THREADS, serve(&plan, &dir))?
}

impl Plan {
    fn of(args: &ControllerArgs) -> anyhow::Result<Self> {
        let given = args.settings.collect()?;
        let options = Options::resolve(&given)?;
        if let flag @ Source::Flag(_) = given.source("console") {
            let text = format!("{flag}: a controller has no console; `taffrail broker` and `taffrail up` have one");
            return Err(OptionsError::Conflict(text).into());
        }
        let listen = if given.source("listen") == Source::Default { LISTEN } else { options.listen };
        nodes::check(args.node_id, &args.controllers)?;
        let cluster = nodes::cluster_id(args.cluster_id.as_deref())?;
        if args.bootstrap && cluster.is_none() && args.controllers.len() > 1 {
            let text = "--bootstrap needs --cluster-id: all controllers must be granted the same cluster";
            return Err(OptionsError::Conflict(format!("{text}; {}", nodes::NEW_ID)).into());
        }
        let bootstrap = args.bootstrap.then(|| cluster.unwrap_or_else(random::uuid));
        Ok(Self { options, id: args.node_id, listen, servers: args.controllers.clone(), cluster, bootstrap })
    }
}

async fn serve(plan: &Plan, dir: &DataDir) -> anyhow::Result<Exit> {
    let mut told = task::spawn(signal::terminate());
    let socket = listen(plan.listen, "--listen").await?;
    let bound = socket.local_addr()?;
    let (host, port) = plan.options.advertised(bound);
    let advertised = nodes::address(&host, port);
    let health = Health::new(plan.options.scrape.clone());
    let stop = Shutdown::new();
    if let MetricsAddress::At(address) = plan.options.metrics {
        task::spawn(http::serve(listen(address, "--metrics").await?, health.clone(), stop.clone()));
    }
    let layers = BrokerLayers { static_broker: plan.options.broker.clone(), ..BrokerLayers::default() };
    let session_timeout = roles::session_timeout(&BrokerConfig::resolve(&layers)?);
    let memory = plan.options.ephemeral;
    let secret = nodes::cluster_secret(plan.options.cluster_secret_file.as_deref())?;
    let listener = match &secret {
        Some(secret) => Listener::Secured(socket, secret.clone()),
        None => {
            nodes::warn_if_open(bound);
            Listener::Tcp(socket)
        }
    };
    let controller = Controller::start(ControllerOptions {
        id: plan.id,
        metadata_dir: if memory { MetadataDir::Memory } else { MetadataDir::Folder(dir.metadata(1)) },
        bootstrap: plan.bootstrap,
        cluster: plan.cluster,
        servers: plan.servers.clone(),
        dialer: Dialer::default().with_secret(secret),
        listener,
        advertised: advertised.clone(),
        static_config: plan.options.broker.clone(),
        session_timeout,
    });
    let controller =
        controller.await.with_context(|| format!("the controller cannot start from {}", dir.metadata(1).display()))?;
    health.add_controllers(vec![controller.view(plan.id)])?;
    crate::cli::write(&format!("controller {} listens at {advertised}\n", plan.id))?;
    let end = {
        let ready = async {
            let cluster = controller.founded().await;
            tracing::info!(controller = plan.id, %cluster, "part of the cluster");
            health.set_ready(true);
            std::future::pending::<ControllerError>().await
        };
        let failed = async { select(pin!(controller.failed()), pin!(ready)).await.factor_first().0 };
        match select(&mut told, pin!(failed)).await {
            Either::Left((Ok(Ok(signal)), _)) => Ok(signal),
            Either::Left((told, _)) => Err(anyhow::anyhow!("signals cannot be received: {told:?}")),
            Either::Right((error, _)) => Err(error.into()),
        }
    };
    health.set_ready(false);
    stop.trigger();
    let stopping = time::monotonic();
    stop_within(plan.options.stop_timeout, async { Ok(controller.stop().await?) }).await?;
    let signal = end?;
    tracing::info!(signal, took_ms = stopping.elapsed().as_millis() as u64, "stopped");
    Ok(Exit::Done)
}
