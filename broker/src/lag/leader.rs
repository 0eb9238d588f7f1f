//! What the leader of a partition knows of records that were not read: how old they are.

use std::sync::Arc;

use taffrail_core::ids::Offset;
use taffrail_protocol::unread::{Age, Answer};
use taffrail_runtime::time;

use crate::broker::Broker;
use crate::replica::Partition;

/// Where the log of `partition` begins, and how old the first record is that can be read from each of `offsets` on.
///
/// Appends of this process, and those that it followed, were noted; of older ones the batch's timestamp is looked up on the
/// disk pool.
pub(crate) async fn unread(broker: &Broker, partition: &Arc<Partition>, offsets: &[Offset]) -> Answer {
    let (known, now_ms) = (partition.offsets(), time::unix_ms());
    let age = |at_ms: i64| now_ms.saturating_sub(at_ms).max(0);
    let mut cold = Vec::new();
    let mut ages = Vec::with_capacity(offsets.len());
    for offset in offsets {
        let first = (*offset).max(known.log_start);
        ages.push(if first >= known.high_watermark {
            Age::Appended(0)
        } else if let Some(at_ms) = partition.appended_at(first, known.log_end) {
            Age::Appended(age(at_ms))
        } else {
            cold.push((ages.len(), first));
            Age::Unknown
        });
    }
    if !cold.is_empty() {
        let log = Arc::clone(partition.log());
        let look =
            move || cold.into_iter().map(|(at, first)| (at, log.batch_timestamp(first).ok().flatten())).collect();
        let found: Vec<(usize, Option<i64>)> = broker.disk_pool().run(look).await.unwrap_or_default();
        for (at, timestamp) in found {
            // Records without a timestamp have a negative one.
            ages[at] = timestamp.filter(|it| *it >= 0).map_or(Age::Unknown, |it| Age::Stamped(age(it)));
        }
    }
    Answer { log_start: known.log_start, ages }
}
