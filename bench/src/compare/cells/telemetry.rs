//! What metrics cost: the CPU of reading `/metrics`, as often as Prometheus does, beside that of the load it tells of.
//!
//! With and without metrics the same load differs by less than two runs of it do, so the cost of a read is measured by
//! itself, over many reads. What counting takes cannot be turned off; the profile in the notes tells it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::load::span;
use crate::compare::Bench;
use crate::compare::results::{Figures, Side};
use crate::compare::sides::{Broker, taffrail};

/// Prometheus's usual interval.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(15);
/// Reads over which the cost of one is measured.
const SCRAPES: u32 = 100;
/// Partitions that there are series of, beside those under load.
const PARTITIONS: u32 = 100;
const LOAD: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);

/// What part of the CPU that 100 MB/s over 100 partitions take goes into reading metrics.
pub(super) fn cost(bench: &Bench, _side: Side) -> Result<Figures> {
    let mut broker = taffrail(bench.folder(), bench.ports)?;
    let waiting = bench.tool.await_ack(&broker)?;
    broker.start()?;
    waiting.at_ns()?;
    let figures = bench.tool.measure(&broker, "produce-100", &span(bench, LOAD), &[])?;
    let cores = figures.get("server_cores").copied().context("no CPU was measured")?;
    bench.tool.create(&broker, "told", PARTITIONS)?;
    let before = broker.process()?.cpu_ns()?;
    for _ in 0..SCRAPES {
        scrape(broker.metrics())?;
    }
    let used = Duration::from_nanos(broker.process()?.cpu_ns()? - before) / SCRAPES;
    Ok(Figures::from([
        ("scrape_ms".to_owned(), used.as_secs_f64() * 1e3),
        ("cost_percent".to_owned(), percent(used, cores)),
    ]))
}

/// What percentage of `cores` a read of that much CPU takes, once in an interval.
fn percent(read: Duration, cores: f64) -> f64 {
    100.0 * read.as_secs_f64() / (cores * SCRAPE_INTERVAL.as_secs_f64())
}

/// Reads all metrics once.
fn scrape(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.1 200 "), "/metrics did not answer");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_reads_is_a_part_of_the_cpu_that_is_used() {
        assert_eq!(percent(Duration::from_millis(15), 0.1), 1.0);
    }
}
