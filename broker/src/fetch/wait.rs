//! Waiting until a fetch has enough.

use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::time;

use super::read::{Findings, Item, Limits, read_all, read_all_from_memory};
use super::session::{PartitionKey, Session};
use crate::replica::news::News;
use crate::replica::{Partition, Reach, Refused, Subscribed};

/// Finds a partition.
pub(crate) type Find<'a> = &'a dyn Fn(&PartitionKey) -> Result<Arc<Partition>, Refused>;

/// Where the partitions of a fetch come from, each time that they are looked at.
pub(crate) enum Source<'a> {
    /// The request names them, once.
    Request(Named),
    /// The session knows which of them are worth a look.
    Session(&'a Mutex<Session>, Find<'a>),
}

/// Partitions that a request names, and what tells of them once it has to wait.
pub(crate) struct Named {
    items: Arc<Vec<Item>>,
    reach: Reach,
    news: Arc<News>,
    subscribed: Vec<Option<Subscribed>>,
}

impl Named {
    pub(crate) fn new(items: Vec<Item>, reach: Reach) -> Self {
        Self { items: Arc::new(items), reach, news: News::new(), subscribed: Vec::new() }
    }

    /// The partitions, for another look.
    fn items(&self) -> Arc<Vec<Item>> {
        self.news.drain(|number| {
            if let Some(Some(subscribed)) = self.subscribed.get(number as usize) {
                subscribed.looked_at();
            }
        });
        Arc::clone(&self.items)
    }

    /// Subscribes to all; tells whether that is new.
    fn subscribe(&mut self) -> bool {
        let is_new = self.subscribed.is_empty();
        if is_new {
            let subscribe = |item: &Item| {
                let partition = item.partition.as_ref().ok()?;
                Some(partition.subscribe(self.reach, &self.news, item.number))
            };
            self.subscribed = self.items.iter().map(subscribe).collect();
        }
        is_new
    }
}

impl Source<'_> {
    fn items(&self) -> Arc<Vec<Item>> {
        match self {
            Self::Request(named) => named.items(),
            Self::Session(session, find) => Arc::new(session.lock().due(find)),
        }
    }

    /// What tells when there are `missing_bytes` more; `None` = there may be already.
    fn expect(&mut self, missing_bytes: u64) -> Option<Arc<News>> {
        let news = match self {
            Self::Request(named) => {
                if named.subscribe() {
                    // What came before that was not heard.
                    return None;
                }
                Arc::clone(&named.news)
            }
            Self::Session(session, _) => Arc::clone(session.lock().news()),
        };
        news.expect(i64::try_from(missing_bytes).unwrap_or(i64::MAX));
        (!news.any()).then_some(news)
    }
}

/// Reads until there are `min_bytes`, or a reason to answer with less, or until `deadline`. Gives the partitions that were
/// looked at last, and what was found.
pub(crate) async fn read_enough(
    pool: &Pool,
    source: &mut Source<'_>,
    limits: &Limits,
    min_bytes: u64,
    deadline: Option<time::Instant>,
) -> (Arc<Vec<Item>>, Findings) {
    let min_bytes = min_bytes.min(limits.max_bytes);
    loop {
        let items = source.items();
        let findings = look(pool, &items, limits).await;
        let is_empty = matches!(source, Source::Request(_)) && items.is_empty();
        let Some(deadline) = deadline.filter(|_| !findings.is_urgent && findings.bytes < min_bytes && !is_empty) else {
            return (items, findings);
        };
        let Some(news) = source.expect(min_bytes - findings.bytes) else { continue };
        if time::timeout_at(deadline, news.woken()).await.is_err() {
            let items = source.items();
            let findings = look(pool, &items, limits).await;
            return (items, findings);
        }
    }
}

/// Looks at partitions: at once if that asks nothing of the disk, else on the disk pool.
async fn look(pool: &Pool, items: &Arc<Vec<Item>>, limits: &Limits) -> Findings {
    if let Some(findings) = read_all_from_memory(items, limits) {
        return findings;
    }
    let (shared, limits) = (Arc::clone(items), limits.clone());
    match pool.run(move || read_all(&shared, &limits)).await {
        Ok(findings) => findings,
        // The disk has too much to do: the client gets nothing now, and asks again.
        Err(error) => {
            tracing::debug!(%error, "a fetch was not looked up");
            Findings::nothing(items)
        }
    }
}
