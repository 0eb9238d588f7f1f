//! How soon a fresh broker serves, and how much memory it holds.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use crate::compare::Bench;
use crate::compare::results::{Figures, Side};
use crate::compare::sides::{Broker, prepare};
use crate::compare::tool::Span;

/// Before memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// How long load is put on before.
const LOAD: Duration = Duration::from_secs(12);

/// From exec to the first acknowledgement on an empty directory, and the memory held then.
pub(super) fn start(bench: &Bench, side: Side) -> Result<Figures> {
    let mut broker = prepare(side, bench.folder(), bench.ports)?;
    let first_ack_ms = first_ack_ms(bench, broker.as_mut())?;
    sleep(SETTLE);
    Ok(Figures::from([("first_ack_ms".to_owned(), first_ack_ms), ("rss_mb".to_owned(), broker.process()?.rss_mb()?)]))
}

/// Starts a broker and waits for its first acknowledgement.
fn first_ack_ms(bench: &Bench, broker: &mut dyn Broker) -> Result<f64> {
    // The client is there first, and asks all the time.
    let waiting = bench.tool.await_ack(broker)?;
    let begun = broker.start()?;
    Ok((waiting.at_ns()? - begun) as f64 / 1e6)
}

/// The memory held after load at 100 MB/s over 100 partitions.
pub(super) fn load_memory(bench: &Bench, side: Side) -> Result<Figures> {
    let mut broker = prepare(side, bench.folder(), bench.ports)?;
    first_ack_ms(bench, broker.as_mut())?;
    let span = Span { measured: LOAD, warm_up: Duration::ZERO, settle: Duration::ZERO };
    bench.tool.measure(broker.as_ref(), "produce-100", &span, &[])
}

/// Topics of 1,000, 5,000 and 4,000 partitions: how long until they serve, and the memory held with all of them.
pub(super) fn partitions(bench: &Bench, side: Side) -> Result<Figures> {
    let mut broker = prepare(side, bench.folder(), bench.ports)?;
    first_ack_ms(bench, broker.as_mut())?;
    let broker = broker.as_ref();
    let create_1000_s = bench.tool.create(broker, "thousand", 1000)?;
    let create_5000_s = bench.tool.create(broker, "five-thousand", 5000)?;
    bench.tool.create(broker, "rest", 4000)?;
    sleep(SETTLE);
    Ok(Figures::from([
        ("create_1000_s".to_owned(), create_1000_s),
        ("create_5000_s".to_owned(), create_5000_s),
        ("rss_mb".to_owned(), broker.process()?.rss_mb()?),
    ]))
}
