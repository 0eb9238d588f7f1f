//! What metrics cost: broker CPU with `/metrics` served and read each second, beside a broker that serves none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use super::load::span;
use crate::compare::Bench;
use crate::compare::results::{Figures, Side};
use crate::compare::sides::{Broker, Metrics, taffrail};
use crate::compare::stats::Summary;

/// Far more often than the 15 to 60 seconds of a usual scrape.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);
const LOAD: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);

/// How many percent more CPU 100 MB/s over 100 partitions take with metrics than without.
pub(super) fn cost(bench: &Bench, _side: Side) -> Result<Figures> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for metrics in [Metrics::On, Metrics::Off, Metrics::Off, Metrics::On] {
        let cpu = produce(bench, metrics)?;
        if metrics == Metrics::On { with.push(cpu) } else { without.push(cpu) }
    }
    let median = |values| Summary::of(values).map_or(f64::NAN, |summary| summary.median);
    let (with, without) = (median(with), median(without));
    Ok(Figures::from([
        ("with_cpu_s_per_gb".to_owned(), with),
        ("without_cpu_s_per_gb".to_owned(), without),
        ("cost_percent".to_owned(), (with / without - 1.0) * 100.0),
    ]))
}

/// Broker CPU in seconds for each GB.
fn produce(bench: &Bench, metrics: Metrics) -> Result<f64> {
    let mut broker = taffrail(bench.folder(), bench.ports, metrics)?;
    let waiting = bench.tool.await_ack(&broker)?;
    broker.start()?;
    waiting.at_ns()?;
    let (stop, stopped) = channel::<()>();
    let address = broker.metrics();
    let scraping = thread::spawn(move || -> Result<()> {
        let Some(address) = address else { return Ok(()) };
        while stopped.recv_timeout(SCRAPE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            scrape(address)?;
        }
        Ok(())
    });
    let figures = bench.tool.measure(&broker, "produce-100", &span(bench, LOAD), &[]);
    drop(stop);
    scraping.join().map_err(|_| anyhow!("the scraping thread ended early"))??;
    figures?.get("cpu_s_per_gb").copied().ok_or_else(|| anyhow!("no CPU was measured"))
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
