//! Fresh clusters of three brokers and three controllers: how soon they serve, how soon they stop and are back, and how
//! much memory they hold.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::compare::Bench;
use crate::compare::results::{Figures, Side};
use crate::compare::sides::{BROKERS, CONTROLLERS, Cluster, NodeId, prepare_cluster};

/// Before memory is read, and before a cluster is stopped.
const SETTLE: Duration = Duration::from_secs(2);

/// Starts a fresh cluster; milliseconds to the first acknowledgement by all its brokers.
fn started(bench: &Bench, side: Side) -> Result<(Box<dyn Cluster>, f64)> {
    let mut cluster = prepare_cluster(side, bench.folder(), bench.ports)?;
    // The client is there first, and asks all the time.
    let waiting = bench.tool.await_ack_of(BROKERS.len(), cluster.as_ref())?;
    let begun = cluster.start()?;
    let first_ack_ms = (waiting.at_ns()? - begun) as f64 / 1e6;
    Ok((cluster, first_ack_ms))
}

/// From nothing to the first acknowledgement with acks=all by three brokers.
pub(super) fn start(bench: &Bench, side: Side) -> Result<Figures> {
    let (_cluster, first_ack_ms) = started(bench, side)?;
    Ok(Figures::from([("first_ack_s".to_owned(), first_ack_ms / 1e3)]))
}

/// A clean stop of all six, and a start of all six until every partition of a topic of 1,000 answers.
pub(super) fn restart(bench: &Bench, side: Side) -> Result<Figures> {
    let (mut cluster, _) = started(bench, side)?;
    bench.tool.fill(cluster.as_ref(), "left", &["-partitions", "1000", "-rounds", "2"])?;
    sleep(SETTLE);
    let told = Instant::now();
    cluster.stop()?;
    let stop_s = told.elapsed().as_secs_f64();
    let waiting = bench.tool.await_topic(cluster.as_ref(), "left")?;
    let begun = cluster.start()?;
    let ready_s = (waiting.at_ns()? - begun) as f64 / 1e9;
    Ok(Figures::from([("stop_s".to_owned(), stop_s), ("ready_s".to_owned(), ready_s)]))
}

/// Topics of 1,000, 5,000 and 4,000 partitions of three replicas: how long until they serve, and the memory of the broker
/// and the controller that hold most then.
pub(super) fn partitions(bench: &Bench, side: Side) -> Result<Figures> {
    let (cluster, _) = started(bench, side)?;
    let cluster = cluster.as_ref();
    let create_1000_s = bench.tool.create(cluster, "thousand", 1000)?;
    let create_5000_s = bench.tool.create(cluster, "five-thousand", 5000)?;
    bench.tool.create(cluster, "rest", 4000)?;
    sleep(SETTLE);
    Ok(Figures::from([
        ("create_1000_s".to_owned(), create_1000_s),
        ("create_5000_s".to_owned(), create_5000_s),
        ("broker_rss_mb".to_owned(), largest_rss_mb(cluster, &BROKERS)?),
        ("controller_rss_mb".to_owned(), largest_rss_mb(cluster, &CONTROLLERS)?),
    ]))
}

/// 100,000 partitions of one replica each: the memory of the controller that holds most.
pub(super) fn metadata(bench: &Bench, side: Side) -> Result<Figures> {
    let (cluster, _) = started(bench, side)?;
    let cluster = cluster.as_ref();
    for topic in 0..20 {
        bench.tool.create_with(cluster, &format!("many-{topic}"), 5000, 1)?;
    }
    sleep(SETTLE);
    Ok(Figures::from([
        ("controller_rss_mb".to_owned(), largest_rss_mb(cluster, &CONTROLLERS)?),
        ("broker_rss_mb".to_owned(), largest_rss_mb(cluster, &BROKERS)?),
    ]))
}

/// The most that any of these nodes holds.
fn largest_rss_mb(cluster: &dyn Cluster, nodes: &[NodeId]) -> Result<f64> {
    nodes.iter().try_fold(0.0, |largest: f64, node| Ok(largest.max(cluster.process(*node)?.rss_mb()?)))
}
