//! `taffrail operator`: keeps Clusters and Topics on Kubernetes as their resources say.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use anyhow::bail;
use futures::future::{Either, select};
use serde_json::json;
use taffrail_operator::kubernetes::brought::Brought;
use taffrail_operator::kubernetes::operator::{Operator, OperatorOptions, connect};
use taffrail_operator::kubernetes::rules;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, signal, task, time};

use crate::cli::OperatorArgs;
use crate::exit::Exit;
use crate::http::{self, Health};
use crate::options::{MetricsAddress, Options, Source};
use crate::sockets::listen;

/// Threads of the process.
const THREADS: usize = 1;

/// Where metrics and health are unless told otherwise: probes come from another address.
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9404);

/// How often it is looked whether the operator knows all that there is.
const READY_POLL: Duration = Duration::from_millis(100);

/// Runs until a signal.
pub(crate) fn run(args: &OperatorArgs) -> anyhow::Result<Exit> {
    if args.print_rules {
        let rules = json!({ "rules": rules::rules(), "ownRules": rules::own_rules() });
        crate::cli::write(&serde_saphyr::to_string(&rules)?)?;
        return Ok(Exit::Done);
    }
    let given = args.collect()?;
    let mut options = Options::resolve(&given)?;
    if given.source("metrics") == Source::Default {
        options.metrics = MetricsAddress::At(METRICS);
    }
    let _ = crate::telemetry::start(&options)?;
    task::block_on(THREADS, serve(args, &options))?
}

async fn serve(args: &OperatorArgs, options: &Options) -> anyhow::Result<Exit> {
    let told = task::spawn(signal::terminate());
    let (health, stop) = (Health::new(options.scrape.clone()), Shutdown::new());
    if let MetricsAddress::At(address) = options.metrics {
        task::spawn(http::serve(listen(address, "--metrics").await?, health.clone(), stop.clone()));
    }
    let wanted = OperatorOptions {
        namespaces: args.namespaces.clone(),
        image: args.image.clone(),
        lease: args.lease.clone(),
        instance: args.instance.clone().unwrap_or_else(|| format!("taffrail-{}", random::uuid())),
    };
    let client = connect().await?;
    if let Some(file) = &args.apply {
        task::spawn(Brought::read(file.clone())?.create_missing(client.clone(), stop.clone()));
    }
    let operator = Operator::new(client, wanted)?;
    health.add_registry(operator.metrics().registry().clone());
    let is_synced = operator.synced();
    task::spawn_until(stop.clone(), async move {
        while !is_synced() {
            time::sleep(READY_POLL).await;
        }
        health.set_ready(true);
        std::future::pending::<()>().await;
    });
    let mut running = pin!(operator.run(stop.clone()));
    let signal = match select(running.as_mut(), told).await {
        Either::Left((ended, _)) => {
            ended?;
            bail!("the operator ended by itself");
        }
        Either::Right((Ok(Ok(signal)), _)) => signal,
        Either::Right((told, _)) => bail!("signals cannot be received: {told:?}"),
    };
    stop.trigger();
    running.await?;
    tracing::info!(signal, "stopped");
    Ok(Exit::Done)
}
