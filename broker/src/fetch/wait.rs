//! Waiting until a fetch has enough.

use std::sync::Arc;

use taffrail_runtime::blocking::Pool;
use taffrail_runtime::time;

use super::read::{Findings, Found, Item, Limits, read_all};
use crate::replica::waiters::Waiter;

/// A waiter that hears of its partitions for as long as this lives.
struct Entered<'a> {
    waiter: Arc<Waiter>,
    items: &'a [Item],
}

impl<'a> Entered<'a> {
    fn new(missing_bytes: i64, items: &'a [Item]) -> Self {
        let waiter = Waiter::new(missing_bytes);
        for partition in items.iter().filter_map(|item| item.partition.as_ref().ok()) {
            partition.waiters.enter(&waiter);
        }
        Self { waiter, items }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        for partition in self.items.iter().filter_map(|item| item.partition.as_ref().ok()) {
            partition.waiters.leave(&self.waiter);
        }
    }
}

/// Reads until there are `min_bytes`, or a reason to answer with less, or until `deadline`.
pub(crate) async fn read_enough(
    pool: &Pool,
    items: &Arc<Vec<Item>>,
    limits: Limits,
    min_bytes: u64,
    deadline: Option<time::Instant>,
) -> Findings {
    let min_bytes = min_bytes.min(limits.max_bytes);
    loop {
        let findings = look(pool, items, limits).await;
        let Some(deadline) = deadline else { return findings };
        if findings.is_urgent || findings.bytes >= min_bytes || items.is_empty() {
            return findings;
        }
        let missing = min_bytes - findings.bytes;
        let entered = Entered::new(i64::try_from(missing).unwrap_or(i64::MAX), items);
        // What was appended before the waiter was known did not count on it.
        if has_moved(items, &findings) {
            continue;
        }
        if time::timeout_at(deadline, entered.waiter.wait()).await.is_err() {
            return look(pool, items, limits).await;
        }
    }
}

/// Looks at all partitions: at once if all that is wanted is near the ends of their logs, else on the disk pool, because
/// finding a place further back reads indexes and headers.
async fn look(pool: &Pool, items: &Arc<Vec<Item>>, limits: Limits) -> Findings {
    if items.iter().all(Item::is_near_end) {
        return read_all(items, limits);
    }
    let shared = Arc::clone(items);
    match pool.run(move || read_all(&shared, limits)).await {
        Ok(findings) => findings,
        // The disk has too much to do: the client gets nothing now, and asks again.
        Err(error) => {
            tracing::debug!(%error, "a fetch was not looked up");
            Findings::nothing(items)
        }
    }
}

fn has_moved(items: &[Item], findings: &Findings) -> bool {
    items.iter().zip(&findings.found).any(|(item, found)| match (&item.partition, found) {
        (Ok(partition), Found::Readable { offsets, .. }) => {
            partition.offsets().high_watermark != offsets.high_watermark || !partition.leads()
        }
        _ => false,
    })
}
