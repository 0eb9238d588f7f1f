//! Bytes of partitions, as their leaders have them: from two looks the page tells how fast topics grow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use taffrail_client::kafka::{KafkaError, PartitionKey};
use taffrail_core::image::MetadataImage;
use taffrail_runtime::time;

use super::Console;

/// Partitions whose sizes are asked for; where a cluster has more, nobody is told of any.
const PARTITIONS_MAX: usize = 20_000;

/// How long all brokers together may take: the page waits for them, and can do without.
const TIMEOUT: Duration = Duration::from_secs(1);

/// One look.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    at_ms: i64,
    of: BTreeMap<PartitionKey, i64>,
}

impl Sizes {
    /// When it was.
    pub(super) fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// Bytes of a partition's log at its leader, if that has told.
    pub(super) fn of(&self, partition: &PartitionKey) -> Option<i64> {
        self.of.get(partition).copied()
    }
}

/// Asks the brokers that lead something, one after the other; those that the time does not suffice for are left out.
pub(super) async fn look(console: &Console) -> Sizes {
    let image = console.image();
    let mut sizes = Sizes { at_ms: time::unix_ms(), of: BTreeMap::new() };
    if image.topics().partition_count() > PARTITIONS_MAX {
        return sizes;
    }
    let deadline = time::monotonic() + TIMEOUT;
    for (leader, led) in by_leader(&image) {
        match time::timeout_at(deadline, told(console, leader)).await {
            Ok(Ok(told)) => sizes.of.extend(told.into_iter().filter(|(partition, _)| led.contains(partition))),
            Ok(Err(error)) => tracing::debug!(leader, %error, "sizes are not known"),
            Err(_) => break,
        }
    }
    sizes
}

/// The partitions that each broker leads.
fn by_leader(image: &MetadataImage) -> BTreeMap<i32, BTreeSet<PartitionKey>> {
    let mut led: BTreeMap<i32, BTreeSet<PartitionKey>> = BTreeMap::new();
    for topic in image.topics().iter() {
        for (number, state) in topic.numbered().filter(|(_, state)| state.has_leader()) {
            led.entry(state.leader.0).or_default().insert((topic.name.to_string(), number));
        }
    }
    led
}

async fn told(console: &Console, broker: i32) -> Result<Vec<(PartitionKey, i64)>, KafkaError> {
    let mut client = console.clients.take().await?;
    let dirs = client.log_dirs(broker, None).await?;
    console.clients.give_back(client);
    Ok(dirs.into_iter().flat_map(|dir| dir.sizes).collect())
}
